// The tables behind each step, and both outcomes at the end, for a page whose data has them (`compared_runs`).

const MARKS = { new: "+", gone: "−", wrong: "!", missing: "?" };
const MEANING = { new: "has come", gone: "is gone", wrong: "should not be there", missing: "is missing" };

function table({ name, columns, rows, more }) {
  const heads = columns.map((column) => `<th scope="col">${escape(column)}</th>`).join("");
  const body = rows.map(({ mark, cells }) => `<tr${mark ? ` class="${mark}"` : ""}><td>${
    mark ? `<abbr title="${MEANING[mark]}">${MARKS[mark]}</abbr>` : ""}</td>${cells.map((cell) => `<td>${escape(cell)}</td>`).join("")}</tr>`).join("");
  const none = rows.length ? "" : "<p>empty</p>", rest = more ? `<p>and ${more} more rows</p>` : "";
  return `<figure><figcaption>${escape(name)}</figcaption>${rows.length ? `<table><thead><tr><td></td>${heads}</tr></thead><tbody>${body}</tbody></table>` : none}${rest}</figure>`;
}

// What is there behind the chosen step: after the latest step of its run behind which somebody looked.
function tablesBehind(number) {
  const lane = EVENTS[number]?.lane, mine = (n) => (DATA.lanes[lane].address === "undisturbed") === (DATA.lanes[EVENTS[n].lane].address === "undisturbed");
  for (let n = number; n >= 0; n--) if (DATA.tables[n] && mine(n)) return DATA.tables[n];
  return [];
}

function tellTables() {
  if (state.event === null || !DATA.tables) return;
  const behind = tablesBehind(state.event);
  $("event").insertAdjacentHTML("beforeend", behind.length ? `<h2>What is there behind it</h2><div class="tables">${behind.map(table).join("")}</div>` : "");
}

function tellOutcomes() {
  if (!DATA.outcomes?.length) return;
  const keys = Object.keys(MARKS).filter((mark) => DATA.outcomes.some((one) => one.tables.some(({ rows }) => rows.some((row) => row.mark === mark))));
  const sides = DATA.outcomes.map(({ title, text, tables }) => `<section><h3>${escape(title)}</h3>${text.map((one) => `<p>${escape(one)}</p>`).join("")}${
    tables.map(table).join("")}</section>`).join("");
  $("figure").insertAdjacentHTML("beforeend", `<section id="outcomes" class="tables" aria-labelledby="both"><h2 id="both">What is left in the end</h2><p>${
    keys.map((mark) => `<b>${MARKS[mark]}</b> ${MEANING[mark]}`).join(", ")}</p><div>${sides}</div></section>`);
}

tellOutcomes();
