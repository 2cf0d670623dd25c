// Adds to tables what a page without scripts does not have: sorting, a filter by task, and a hint where they scroll.
"use strict";
const tables = [...document.querySelectorAll(".wide")];

function showHints() {
  for (const frame of document.querySelectorAll(".wide, .drawing")) {
    frame.previousElementSibling.hidden = frame.scrollWidth <= frame.clientWidth + 1;
  }
}

function sortBy(head, index) {
  const table = head.closest("table"), body = table.tBodies[0], rows = [...body.rows];
  const first = head.textContent.includes("\u2191") ? "descending" : "ascending";
  const other = first === "ascending" ? "descending" : "ascending";
  const order = head.getAttribute("aria-sort") === first ? other : first;
  const text = row => row.cells[index].textContent.trim();
  const known = row => !["", "\u2013"].includes(text(row));
  const numeric = rows.filter(known).every(row => !Number.isNaN(parseFloat(text(row))));
  const compare = numeric ? (a, b) => parseFloat(text(a)) - parseFloat(text(b))
    : (a, b) => text(a).localeCompare(text(b), undefined, { numeric: true });
  const sign = order === "ascending" ? 1 : -1;
  rows.sort((a, b) => known(b) - known(a) || (known(a) ? sign * compare(a, b) : 0));
  body.append(...rows);
  for (const cell of head.parentNode.cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", order);
}

function addSorting(table) {
  if (table.tBodies[0].rows.length < 2) return;
  [...table.tHead.rows[0].cells].forEach((head, index) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    button.type = "button";
    button.addEventListener("click", () => sortBy(head, index));
    head.append(button);
  });
}

function showTask(task) {
  for (const frame of tables) {
    const table = frame.querySelector("table");
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      const hidden = task !== null && head.dataset.task !== undefined && head.dataset.task !== task;
      for (const row of table.rows) row.cells[index].hidden = hidden;
    });
  }
  showHints();
}

function addFilter() {
  const heads = [...document.querySelectorAll("th[data-task]")];
  const tasks = [...new Set(heads.map(head => head.dataset.task))];
  if (tasks.length < 2) return;
  const select = document.createElement("select"), label = document.createElement("label");
  select.append(new Option("all", ""), ...tasks.map((task, index) => new Option(task, String(index))));
  select.addEventListener("change", () => showTask(select.value === "" ? null : tasks[Number(select.value)]));
  label.append("Columns of tasks: ", select);
  const place = heads[0].closest("section").querySelector("h2");
  label.className = "filter";
  place.after(label);
}

for (const frame of tables) addSorting(frame.querySelector("table"));
addFilter();
showHints();
addEventListener("resize", showHints);
