// Tables of four rows or more are sorted by a column when its header is pressed; once more turns them round.
for (const table of document.querySelectorAll("article table")) {
  const body = table.tBodies[0];
  if (!table.tHead || body.rows.length < 4 || table.querySelector("[rowspan],[colspan]")) continue;
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const button = document.createElement("button");
    button.className = "sort";
    button.title = "sort";
    button.append(...cell.childNodes);
    cell.append(button);
    button.onclick = () => {
      const down = cell.ariaSort === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      cell.ariaSort = down ? "descending" : "ascending";
      const text = (row) => row.cells[column].innerText.trim();
      const number = (row) => parseFloat(text(row).replaceAll(",", "").replace("−", "-"));
      const compared = (a, b) =>
        isNaN(number(a)) - isNaN(number(b)) || number(a) - number(b) || text(a).localeCompare(text(b));
      body.append(...[...body.rows].sort((a, b) => (down ? compared(b, a) : compared(a, b))));
    };
  });
}
