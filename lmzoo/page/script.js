() => {
  // The description of the word that is pointed at, touched or focused: one box within the window.
  const box = document.createElement("div");
  box.id = "tip-box";
  box.setAttribute("role", "status");
  box.hidden = true;
  document.body.append(box);
  let current = null;
  const tell = (target) => {
    if (target === current) return;
    current = target;
    box.hidden = !target;
    if (!target) return;
    box.replaceChildren(...[...target.querySelector(".tip").childNodes].map((node) => node.cloneNode(true)));
    const place = target.getClientRects()[0], own = box.getBoundingClientRect(), room = document.documentElement;
    const left = Math.min(Math.max(8, place.left + place.width / 2 - own.width / 2), room.clientWidth - own.width - 8);
    const above = place.top - own.height - 8, below = place.bottom + 8;
    box.style.left = `${Math.max(8, left)}px`;
    box.style.top = `${below + own.height < window.innerHeight || above < 0 ? below : above}px`;
  };
  const described = (event) => event.target.closest?.(".word[tabindex], .segment[tabindex]");
  document.addEventListener("pointerover", (event) => tell(described(event)));
  document.addEventListener("focusin", (event) => tell(described(event)));
  document.addEventListener("focusout", () => tell(null));
  document.addEventListener("scroll", () => tell(null), true);
  document.addEventListener("keydown", (event) => event.key === "Escape" && tell(null));

  // A click on a next word types it.
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button[data-type-into]");
    const field = button && document.querySelector(`#${button.dataset.typeInto} textarea, #${button.dataset.typeInto} input`);
    if (!field) return;
    const before = field.value.replace(/\S+$/, "");
    field.value = `${before}${button.dataset.word} `;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.focus();
  });

  // The address carries the tab and its text, so that a link opens them.
  const shown = () => [...document.querySelectorAll("textarea, input[type=text]")].find((field) => field.offsetParent);
  const selected = () => document.querySelector("button[role=tab][aria-selected=true]");
  const record = () => setTimeout(() => {
    const field = shown();
    if (!selected()) return;
    const address = { tab: selected().innerText.trim(), ...(field && { text: field.value }) };
    history.replaceState(null, "", `#${new URLSearchParams(address)}`);
  }, 100);
  const wanted = new URLSearchParams(location.hash.slice(1));
  const open = (tries) => {
    const tab = [...document.querySelectorAll("button[role=tab]")].find((button) => button.innerText.trim() === wanted.get("tab"));
    const field = tab && tab === selected() && shown();
    if (tab && tab !== selected()) tab.click();
    if (field && wanted.has("text") && field.value !== wanted.get("text")) {
      field.value = wanted.get("text");
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }
    if (tries && !field) setTimeout(open, 100, tries - 1);
  };
  if (wanted.has("tab")) open(100);
  document.addEventListener("input", record);
  document.addEventListener("click", record);

  // Words with their colours and numbers, as they stand on the page, become a picture.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-picture]");
    if (!button) return;
    const cards = button.closest(".lm").querySelector(".cards"), frame = cards.getBoundingClientRect(), drawn = [];
    const svg = (name, text, values) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(values)) made.setAttribute(key, value);
      made.textContent = text;
      drawn.push(made);
      return made;
    };
    const ground = getComputedStyle(cards.querySelector(".card")).backgroundColor;
    const all = { x: 0, y: 0, width: frame.width, height: frame.height, fill: ground };
    svg("rect", "", all);
    for (const part of cards.querySelectorAll("h2, header span, .word, .line small")) {
      const box = part.getBoundingClientRect(), style = getComputedStyle(part), size = parseFloat(style.fontSize);
      const x = box.left - frame.left, y = box.top - frame.top, bits = part.dataset.bits && part.closest(".lines");
      const letters = { x: x + box.width / 2, "text-anchor": "middle", "font-family": "system-ui, sans-serif", fill: style.color };
      if (bits) svg("rect", "", { x, y, width: box.width, height: box.height, rx: 5, fill: style.backgroundColor });
      const text = bits ? part.firstChild.data : part.textContent, middle = y + (bits ? box.height * 0.36 : box.height / 2);
      svg("text", text, { ...letters, y: middle + size * 0.35, "font-size": size, "font-weight": style.fontWeight });
      if (bits) svg("text", part.dataset.bits, { ...letters, y: y + box.height * 0.88, "font-size": size * 0.72 });
    }
    const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    picture.setAttribute("width", frame.width);
    picture.setAttribute("height", frame.height);
    picture.append(...drawn);
    const image = new Image(), canvas = document.createElement("canvas"), scale = 2;
    image.onload = () => {
      canvas.width = scale * frame.width;
      canvas.height = scale * frame.height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      const link = document.createElement("a");
      link.download = button.dataset.picture;
      link.href = canvas.toDataURL("image/png");
      link.click();
    };
    image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(picture))}`;
  });
}
