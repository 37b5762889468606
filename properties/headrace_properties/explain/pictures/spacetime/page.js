// The page around the diagram: what the reader presses, the chosen event, the story, the signs, and the saved figure.

let plan = null;

function refresh({ scroll = false } = {}) {
  document.documentElement.dataset.theme = dark() ? "dark" : "light";
  const kept = plan && topEvent();
  plan = arrange(choose());
  const c = dark() ? DARK : LIGHT, series = dark() ? SERIES.dark : SERIES.light;
  for (const [id, height] of [["head", plan.head], ["body", plan.height]]) {
    $(id).setAttribute("width", plan.width);
    $(id).setAttribute("height", height);
    $(id).setAttribute("font-size", TEXT);
    $(id).setAttribute("font-family", "Helvetica Neue, Helvetica, Arial, sans-serif");
  }
  $("body").style.marginTop = `${-plan.head + 8}px`;
  $("head").innerHTML = head(plan, c, series);
  if (scroll && state.event !== null && plan.rows.has(state.event)) show(state.event);
  else if (kept !== null && kept !== undefined && plan.rows.has(kept)) $("figure").scrollTop = plan.rows.get(kept).y - plan.head - 20;
  repaint();
  $("count").textContent = `${plan.shown.length.toLocaleString("en")} of ${EVENTS.length.toLocaleString("en")} events`;
  const broken = verdict();
  $("caption").textContent = broken ? `${broken.name} violated: ${says(broken)}` : "";
  play.y = plan.rows.get(state.event)?.y ?? Math.min(Math.max(play.y, plan.start), plan.height - 12);
  drawStage();
  tell();
  legend(c);
  writeAddress();
  document.body.dataset.shown = plan.shown.length;
}

function repaint() {
  const view = $("figure"), c = dark() ? DARK : LIGHT, series = dark() ? SERIES.dark : SERIES.light;
  $("body").innerHTML = paint(plan, c, series, view.scrollTop - 600, view.scrollTop + view.clientHeight + 600);
}

const topEvent = () => plan.shown.find((n) => plan.rows.get(n).y >= $("figure").scrollTop + plan.head) ?? null;

function show(number) {
  const row = plan.rows.get(number), view = $("figure");
  if (row.y < view.scrollTop + plan.head + 20 || row.y > view.scrollTop + view.clientHeight - 60) view.scrollTop = row.y - view.clientHeight / 2;
}

function select(number) {
  state.event = number;
  if (number !== null && !plan.rows.has(number)) { refresh({ scroll: true }); return; }
  if (number !== null) { show(number); play.y = plan.rows.get(number).y; }
  drawStage();
  repaint();
  tell();
  writeAddress();
}

function step(by) {
  if (play.on) pause();
  const at = plan.shown.indexOf(state.event);
  const next = state.event === null ? (by > 0 ? 0 : plan.shown.length - 1) : Math.min(plan.shown.length - 1, Math.max(0, at + by));
  if (plan.shown.length) select(plan.shown[next]);
}

function stepWitness() {
  const numbers = [...witness()].filter((n) => plan.rows.has(n)).sort((a, b) => a - b);
  if (numbers.length) select(numbers.find((n) => n > (state.event ?? -1)) ?? numbers[0]);
}

function zoom(by) {
  state.zoom = Math.min(8, Math.max(0.2, Math.round(state.zoom * by * 100) / 100));
  refresh();
}

const reference = (n) => `<a data-go="${n}">${n}</a> ${escape(EVENTS[n].label)}`;

function tell() {
  const event = EVENTS[state.event];
  if (!event) {
    $("event").innerHTML = "<h2>No event chosen</h2><p>Tap or click one, or play the run.</p>";
  } else {
    const fields = Object.entries(event.fields).map(([name, value]) => `<dt>${escape(name)}</dt><dd>${escape(
      typeof value === "string" ? value : JSON.stringify(value, null, 1))}</dd>`).join("");
    const causes = DATA.links.filter(([, effect]) => effect === state.event).map(([cause]) => reference(cause));
    const effects = DATA.links.filter(([cause]) => cause === state.event).map(([, effect]) => reference(effect));
    const row = (name, list) => (list.length ? `<dt>${name}</dt><dd>${list.join("<br>")}</dd>` : "");
    $("event").innerHTML = `<h2>${state.event}: ${escape(event.type)}</h2><div>${seconds(event.at)}, ${
      escape(event.lane < 0 ? "the run" : DATA.lanes[event.lane].address)}</div><dl>${fields}${row("because of", causes)}${row("led to", effects)}</dl>`;
  }
  const { story, moral } = verdict() || first || { story: [], moral: [] };
  const told = story.map((one) => `<li><a data-go="${one.event}">${escape(one.text)}</a></li>`).join("");
  $("story").innerHTML = told ? `<h2>What happened</h2><ol>${told}</ol>${moral.map((one) => `<p>${escape(one)}</p>`).join("")}` : "";
}

function legend(c) {
  const items = [["record", "", "record sent, received"], ["run", "", "user code runs"], ["run", "timer", "a timer fires"], ["write", "", "write applied"],
    ["write", "sets timer", "write applied, sets a timer"], ["write", "stale", "write of a dead sequencer applied"], ["write", "refused", "write refused"],
    ["ack", "", "ACK"], ["ownership", "", "ownership, recovery scan"], ["watermark", "", "watermark"], ["fault", "", "fault"]];
  const rows = items.map(([group, mark, text], i) => sign({ group, mark }, 14, 14 + i * 20, c) + words(30, 18 + i * 20, text, c.ink));
  const y = 14 + items.length * 20;
  rows.push(line(14, y - 7, 14, y + 7, c.ownership, 'stroke-width="3"'), words(30, y + 4, "owns an interval", c.ink));
  rows.push(line(14, y + 13, 14, y + 27, c.zombie, 'stroke-width="3" stroke-dasharray="3 2"'), words(30, y + 24, "only believes so: a zombie", c.ink));
  rows.push(`<rect x="7" y="${y + 33}" width="14" height="14" fill="${c.outage}"/>`, words(30, y + 44, "down, paused or cut off", c.ink));
  rows.push(`<circle cx="14" cy="${y + 60}" r="8" fill="none" stroke="${c.bad}" stroke-width="2"/>`, words(30, y + 64, "witness of the violation", c.ink));
  $("legend").innerHTML = `<h2>Signs</h2><svg width="300" height="${y + 76}" ${FONT} font-size="12">${rows.join("")}</svg>`;
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([figure()], { type: "image/svg+xml" }));
  link.download = `${DATA.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60)}.svg`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function controls() {
  const option = (value, text) => `<option value="${escape(value)}">${escape(text)}</option>`;
  $("title").textContent = DATA.title;
  $("subtitle").textContent = DATA.subtitle;
  $("scope").innerHTML = DATA.verdicts.map((one) => option(one.name, `what led to ${one.name}`)).join("") + option("all", "all events");
  const names = [...new Set(EVENTS.map((one) => one.fields.computation).filter(Boolean))].sort();
  $("computation").innerHTML = option("", "any") + names.map((one) => option(one, one)).join("");
  $("kinds").innerHTML = GROUPS.map((one) => `<label><input type="checkbox" value="${one}"> ${one}</label>`).join("");
  $("lanes").querySelector("div").innerHTML = DATA.lanes.map(({ address }) => `<label><input type="checkbox" value="${escape(address)}"> ${escape(address)}</label>`).join("");
  $("scope").onchange = () => { state.scope = $("scope").value; refresh(); };
  $("computation").onchange = () => { state.computation = $("computation").value; refresh(); };
  $("key").oninput = () => { state.key = $("key").value; refresh(); };
  $("linear").onchange = () => { state.linear = $("linear").checked; refresh(); };
  $("kinds").onchange = ({ target }) => { state.kinds[target.checked ? "add" : "delete"](target.value); refresh(); };
  $("lanes").onchange = ({ target }) => { state.hidden[target.checked ? "delete" : "add"](target.value); refresh(); };
  const press = { in: () => zoom(1.25), out: () => zoom(0.8), svg: save, prev: () => step(-1), next: () => step(1), witness: stepWitness,
    play: () => (play.on ? pause() : start()), rewind: () => { pause(); moveTo(plan.start); $("figure").scrollTop = 0; },     theme: () => { state.theme = dark() ? "light" : "dark"; refresh(); } };
  for (const [id, act] of Object.entries(press)) $(id).onclick = act;
  const keys = { j: press.next, ArrowDown: press.next, k: press.prev, ArrowUp: press.prev, ArrowRight: press.next, ArrowLeft: press.prev,
    " ": press.play, Home: press.rewind, w: press.witness, "+": press.in, "=": press.in, "-": press.out,
    s: save, t: press.theme, c: () => { state.linear = !state.linear; adopt(); refresh(); }, Escape: () => select(null) };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT"].includes(event.target.tagName)) return;
    if (event.key === " " && ["BUTTON", "SUMMARY"].includes(event.target.tagName)) return; // it presses the button
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  $("scrub").oninput = () => { if (play.on) pause(); moveTo(Number($("scrub").value)); if (state.event !== null) show(state.event); };
  $("figure").addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.12 : 0.89);
  }, { passive: false });
  let due = false;
  $("figure").addEventListener("scroll", () => {
    if (!due) requestAnimationFrame(() => { due = false; repaint(); });
    due = true;
  });
  addEventListener("click", ({ target }) => {
    const link = target.closest("[data-go]"), event = target.closest("[data-event]");
    if (link) select(Number(link.dataset.go));
    else if (event) select(Number(event.dataset.event));
  });
  let width = innerWidth; // a phone's address bar changes only the height
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; refresh({ scroll: true }); } else repaint(); });
  addEventListener("hashchange", () => { readAddress(); adopt(); refresh({ scroll: true }); });
}

// Show in the controls what the address asks for.
function adopt() {
  for (const name of ["scope", "computation", "key"]) $(name).value = state[name];
  $("linear").checked = state.linear;
  for (const box of $("kinds").querySelectorAll("input")) box.checked = state.kinds.has(box.value);
  for (const box of $("lanes").querySelectorAll("input")) box.checked = !state.hidden.has(box.value);
}

readAddress();
controls();
adopt();
$("filters").open = innerWidth > 900;
refresh({ scroll: true });
shape();
document.body.dataset.ready = "yes";
