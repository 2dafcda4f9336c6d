// A picture that is shown smaller than it is becomes a link to itself.
addEventListener("load", () => {
  for (const image of document.querySelectorAll("article p > img")) {
    if (image.naturalWidth <= 1.1 * image.clientWidth) continue;
    const link = document.createElement("a");
    link.className = "whole";
    link.href = image.src;
    link.title = "the whole picture";
    image.replaceWith(link);
    link.append(image);
  }
});
