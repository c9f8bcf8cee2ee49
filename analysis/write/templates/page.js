"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const make = (name, properties) => Object.assign(document.createElement(name), properties);

// A click on the head of a column sorts a table: numbers by data-sort, unknown values last.
for (const table of all("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const key = ({ dataset, textContent }) => {
    if (dataset.sort === undefined) return textContent.trim();
    return dataset.sort === "" ? NaN : Number(dataset.sort);
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  heads.forEach((head, at) => {
    if (head.classList.contains("bar")) return;
    const button = make("button", { type: "button" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map((row) => [key(row.cells[at]), row]);
      const missing = (value) => Number.isNaN(value) || value === "";
      rows.sort(([a], [b]) => missing(a) - missing(b) || (missing(a) ? 0 : (down ? -1 : 1) * compare(a, b)));
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  });
}

// A table that is too wide scrolls, and a line says so. On a narrow page, rows with verdicts or sentences are lists instead.
const narrow = matchMedia("(max-width: 40rem)"), boxes = all(".box");
for (const box of boxes) {
  const labels = all("th", box).map((head) => `${head.textContent.trim()}: `);
  for (const cell of all("td:not(:first-child, .bar, .bar + td)", box)) if (cell.textContent.trim()) cell.dataset.label = labels[cell.cellIndex];
  box.hint = make("p", { className: "hint", textContent: "Scroll the table sideways for more columns." });
  box.before(box.hint);
}
const fit = () => boxes.forEach((box) => {
  box.firstElementChild.classList.remove("list");
  const wide = box.scrollWidth > box.clientWidth + 1, list = wide && narrow.matches && box.querySelector(".verdict, .long") !== null && !box.querySelector(".forest");
  box.firstElementChild.classList.toggle("list", list);
  box.hint.hidden = list || !wide;
});
addEventListener("resize", fit);
addEventListener("toggle", fit, true); // a folded table has no width
fit();

// The mark nearest to the pointer shows its value.
const tip = make("div", { className: "tip", hidden: true });
document.body.append(tip);
const NEAR = 24; // pixels
for (const svg of all("figure svg")) {
  let marks = [];
  const measure = () => {
    const origin = svg.getBoundingClientRect();
    marks = all("[data-tips]", svg).filter((group) => !group.classList.contains("off")).flatMap((group) => {
      const texts = JSON.parse(group.dataset.tips);
      return all("use", group).slice(0, texts.length).map((use, at) => {
        const box = use.getBoundingClientRect();
        return { x: box.x + box.width / 2 - origin.x, y: box.y + box.height / 2 - origin.y, text: texts[at] };
      });
    });
  };
  const show = (event) => {
    const origin = svg.getBoundingClientRect(), x = event.clientX - origin.x, y = event.clientY - origin.y;
    const away = (mark) => Math.hypot(mark.x - x, mark.y - y);
    const nearest = marks.reduce((best, mark) => (away(mark) < away(best) ? mark : best), { x: Infinity, y: 0 });
    tip.hidden = !(away(nearest) < NEAR);
    if (tip.hidden) return;
    tip.textContent = nearest.text;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(4, event.clientY - tip.offsetHeight - 10)}px`;
  };
  svg.addEventListener("pointerenter", measure);
  svg.addEventListener("pointerdown", (event) => { measure(); show(event); });
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
}

// A name in a legend hides and shows its variant.
for (const figure of all("figure")) {
  const names = all("[id*='-legend-'][data-variant]", figure);
  for (const name of names) {
    const press = () => {
      const on = name.getAttribute("aria-pressed") === "false", same = `[data-variant="${name.dataset.variant}"]`;
      for (const part of all(same, figure)) {
        if (names.includes(part)) part.setAttribute("aria-pressed", on);
        else part.classList.toggle("off", !on);
      }
    };
    for (const [key, value] of [["role", "button"], ["tabindex", "0"], ["aria-pressed", "true"]]) name.setAttribute(key, value);
    name.classList.add("switch");
    name.addEventListener("click", press);
    name.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); press(); } });
  }
  const hint = "Click a name in the legend to hide or show it.";
  if (names.length) figure.querySelector("svg").setAttribute("role", "group"); // a picture holds no buttons
  if (names.length) figure.querySelector("figcaption").before(make("p", { className: "hint", textContent: hint }));
}

// A link to folded content unfolds it, and marks all runs of a variant.
const unfold = () => {
  const id = location.hash.slice(1), target = id && document.getElementById(id);
  all("tr[data-group]").forEach((row) => row.classList.toggle("target", row.dataset.group === id));
  if (!target) return;
  for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
  target.scrollIntoView();
};
addEventListener("hashchange", unfold);
unfold();

// What is folded is printed, but wide columns and long tables, of which a line says that the page has them.
addEventListener("beforeprint", () => all("details:not(.more, .folded)").forEach((part) => { part.open = true; }));
