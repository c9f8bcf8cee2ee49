"use strict";
// A click on the head of a column sorts a table: numbers by data-sort, unknown values last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, at) => {
    const cell = row.cells[at], given = cell.dataset.sort;
    if (given === undefined) return cell.textContent.trim();
    return given === "" ? NaN : Number(given);
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map((row) => [key(row, at), row]);
      const missing = (value) => Number.isNaN(value) || value === "";
      rows.sort(([a], [b]) => missing(a) - missing(b) || (missing(a) ? 0 : (down ? -1 : 1) * compare(a, b)));
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  });
}
// A link to folded runs unfolds them.
const unfold = () => {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  if (!target) return;
  for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
  target.scrollIntoView();
};
addEventListener("hashchange", unfold);
unfold();
