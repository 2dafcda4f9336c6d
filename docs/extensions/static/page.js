addEventListener("load", () => {
  // A picture that is shown smaller than it is becomes a link to itself.
  for (const image of document.querySelectorAll("article p > img")) {
    if (image.naturalWidth <= 1.1 * image.clientWidth) continue;
    const link = document.createElement("a");
    link.className = "whole";
    link.href = image.src;
    link.title = "the whole picture";
    image.replaceWith(link);
    link.append(image);
  }
  // What scrolls can be scrolled by the keyboard, the captions of the sidebar are headings of a level, the two
  // sidebars have names, each page has a heading, and a signature's arguments are no terms without definitions.
  for (const region of document.querySelectorAll("article :is(pre, .table-wrapper, .formula, p, picture)")) {
    if (region.scrollWidth > region.clientWidth && getComputedStyle(region).overflowX === "auto") region.tabIndex = 0;
  }
  const article = document.querySelector("article");
  if (article && !article.querySelector("h1")) {
    const heading = document.createElement("h1"); // the page of the search has none
    heading.textContent = document.title.split(" - ")[0];
    article.prepend(heading);
  }
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) caption.ariaLevel = "2";
  for (const [side, name] of [["sidebar", "pages"], ["toc", "on this page"]]) {
    for (const aside of document.querySelectorAll(`aside.${side}-drawer`)) aside.ariaLabel = name;
  }
  for (const part of document.querySelectorAll(".sig > dl, .sig > dl > dd")) {
    const plain = document.createElement("div");
    plain.className = "arguments";
    plain.append(...part.childNodes);
    part.replaceWith(plain);
  }
});
