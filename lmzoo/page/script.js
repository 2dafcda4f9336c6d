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
}
