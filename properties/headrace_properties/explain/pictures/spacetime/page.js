// The page around the diagram: what the reader presses, the chosen event, the story, the signs, and the saved figure.

let plan = null;

function refresh({ scroll = false } = {}) {
  document.documentElement.dataset.theme = dark() ? "dark" : "light";
  const kept = plan && topEvent();
  plan = arrange(choose());
  const c = dark() ? DARK : LIGHT;
  for (const [id, height] of [["head", plan.head], ["body", plan.height]]) {
    $(id).setAttribute("width", plan.width);
    $(id).setAttribute("height", height);
    $(id).setAttribute("font-size", TEXT);
    $(id).setAttribute("font-family", FAMILY);
  }
  $("body").style.marginTop = `${-plan.head + 8}px`;
  $("head").innerHTML = head(plan, c);
  if (scroll && state.event !== null && plan.rows.has(state.event)) show(state.event);
  else if (kept !== null && kept !== undefined && plan.rows.has(kept)) $("figure").scrollTop = plan.rows.get(kept).y - plan.head - 20;
  repaint();
  $("count").textContent = `${plan.shown.length.toLocaleString("en")} of ${EVENTS.length.toLocaleString("en")} events`;
  const broken = verdict();
  $("caption").textContent = broken ? says(broken) : "";
  plan.begin = beginning();
  play.y = plan.rows.get(state.event)?.y ?? plan.begin;
  drawChart();
  drawStage();
  tell();
  tellStory();
  legend(c);
  $("witness").hidden = !witness().size;
  writeAddress();
  document.body.dataset.shown = plan.shown.length;
}

function repaint() {
  const view = $("figure"), c = dark() ? DARK : LIGHT;
  $("body").innerHTML = paint(plan, c, view.scrollTop - 600, view.scrollTop + view.clientHeight + 600);
}

// Where the animation begins: shortly before the first event that the story tells, or the first record.
function beginning() {
  const told = new Set(story().sentences.map((one) => one.event)), work = ["record", "run"];
  const at = plan.shown.find((n) => told.has(n)) ?? plan.shown.find((n) => work.includes(EVENTS[n].group)) ?? plan.shown[0];
  return at === undefined ? plan.start : Math.max(plan.start, plan.rows.get(at).y - STUB - 5);
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

const linked = (n, text) => `<a href="#event=${n}" data-go="${n}">${escape(text)}</a>`;
const reference = (n) => `${linked(n, n)} ${escape(EVENTS[n].label)}`;

function tell() {
  const event = EVENTS[state.event];
  for (const link of $("story").querySelectorAll("a")) {
    if (Number(link.dataset.go) === state.event) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
  }
  if (!event) {
    $("event").innerHTML = "Choose an event in the diagram, or play the run.";
  } else {
    const fields = Object.entries(event.fields).map(([name, value]) => `<dt>${escape(name)}</dt><dd>${escape(
      typeof value === "string" ? value : JSON.stringify(value, null, 1))}</dd>`).join("");
    const causes = DATA.links.filter(([, effect]) => effect === state.event).map(([cause]) => reference(cause));
    const effects = DATA.links.filter(([cause]) => cause === state.event).map(([, effect]) => reference(effect));
    const row = (name, list) => (list.length ? `<dt>${name}</dt><dd>${list.join("<br>")}</dd>` : "");
    $("event").innerHTML = `<h2>${DATA.steps ? "" : `${state.event}: `}${escape(event.type)}</h2><div>${seconds(event.at)}, ${
      escape(event.lane < 0 ? "the run" : DATA.lanes[event.lane].address)}</div><dl>${fields}${row("because of", causes)}${row("led to", effects)}</dl>`;
    tellTables();
  }
}

const story = () => verdict() || first || DATA.story;

function tellStory() {
  const { sentences, moral } = story();
  const told = sentences.map((one) => `<li>${linked(one.event, one.text)}</li>`).join("");
  $("story").innerHTML = `<h2 id="told">What happened</h2><ol>${told}</ol>${moral.map((one) => `<p>${escape(one)}</p>`).join("")}`;
}

function legend(c) {
  const items = [["record", "", "record sent, received"], ["run", "", "user code runs"], ["run", "timer", "a timer fires"], ["write", "", "write applied"],
    ["write", "sets timer", "write applied, sets a timer"], ["write", "stale", "write of a dead sequencer applied"], ["write", "refused", "write refused"],
    ["ack", "", "ACK"], ["ownership", "", "ownership, recovery scan"], ["watermark", "", "watermark"], ["fault", "", "fault"]]
    .filter(([group, mark]) => EVENTS.some((event) => event.group === group && (!mark || event.mark === mark)));
  const rows = items.map(([group, mark, text], i) => sign({ group, mark }, 14, 14 + i * 20, c) + words(30, 18 + i * 20, DATA.signs?.[mark || group] ?? text, c.ink));
  const more = [
    [DATA.tenures.length, (y) => line(14, y - 7, 14, y + 7, c.ownership, 'stroke-width="3"'), "owns an interval"],
    [DATA.tenures.length, (y) => line(14, y - 7, 14, y + 7, c.zombie, 'stroke-width="3" stroke-dasharray="3 2"'), "only believes so: a zombie"],
    [DATA.outages.length, (y) => `<rect x="7" y="${y - 7}" width="14" height="14" fill="${c.outage}"/>`, "down, paused or cut off"],
    [DATA.verdicts.length, (y) => `<circle cx="14" cy="${y}" r="8" fill="none" stroke="${c.bad}" stroke-width="2"/>`, "witness: an event that proves the violation"],
  ];
  for (const [, draw, text] of more.filter(([is]) => is)) {
    const y = 14 + rows.length * 20;
    rows.push(draw(y) + words(30, y + 4, text, c.ink));
  }
  const keys = [["space", "play and pause"], ["j k ← →", "next and previous event"], ["Home", "to the start"], ["w", "next proof"], ["+ −", "zoom"],
    ["c", "even time"], ["t", "light or dark"], ["s", "save as SVG"], ["Esc", "choose no event"]];
  $("legend").innerHTML = `<svg width="300" height="${20 * rows.length + 8}" ${FONT} font-size="12">${rows.join("")}</svg><table>${
    keys.map(([key, text]) => `<tr><th scope="row">${key}</th><td>${text}</td></tr>`).join("")}</table>`;
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
  $("subtitle").textContent = DATA.subtitle;
  if (DATA.steps) for (const id of ["computation", "key", "linear"]) $(id).closest("label").hidden = true;
  $("scope").innerHTML = DATA.verdicts.map((one) => option(one.name, DATA.steps ? one.name : `what led to ${one.name}`)).join("") + (DATA.steps ? "" : option("all", "all events"));
  const names = [...new Set(EVENTS.map((one) => one.fields.computation).filter(Boolean))].sort();
  $("computation").innerHTML = option("", "any") + names.map((one) => option(one, one)).join("");
  $("kinds").innerHTML = GROUPS.map((one) => `<label><input type="checkbox" value="${one}"> ${one}</label>`).join("");
  $("lanes").innerHTML = DATA.lanes.map(({ address }, lane) => `<label><input type="checkbox" value="${escape(address)}"> ${escape(titleOf(lane).join(" "))}</label>`).join("");
  $("scope").onchange = () => { state.scope = $("scope").value; refresh(); };
  $("computation").onchange = () => { state.computation = $("computation").value; refresh(); };
  $("key").oninput = () => { state.key = $("key").value; refresh(); };
  $("linear").onchange = () => { state.linear = $("linear").checked; refresh(); };
  $("kinds").onchange = ({ target }) => { state.kinds[target.checked ? "add" : "delete"](target.value); refresh(); };
  $("lanes").onchange = ({ target }) => { state.hidden[target.checked ? "delete" : "add"](target.value); refresh(); };
  const press = { in: () => zoom(1.25), out: () => zoom(0.8), svg: save, prev: () => step(-1), next: () => step(1), witness: stepWitness,
    play: () => (play.on ? pause() : start()), rewind: () => { pause(); moveTo(plan.begin); $("figure").scrollTop = plan.begin - plan.start; },
    theme: () => { state.theme = dark() ? "light" : "dark"; refresh(); } };
  for (const [id, act] of Object.entries(press)) $(id).onclick = act;
  const keys = { j: press.next, ArrowDown: press.next, k: press.prev, ArrowUp: press.prev, ArrowRight: press.next, ArrowLeft: press.prev,
    " ": press.play, Home: press.rewind, w: press.witness, "+": press.in, "=": press.in, "-": press.out,
    s: save, t: press.theme, c: () => { state.linear = !state.linear; adopt(); refresh(); }, Escape: () => select(null) };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT"].includes(event.target.tagName)) return;
    if (event.key === " " && ["BUTTON", "SUMMARY"].includes(event.target.tagName)) return; // it presses the button
    if (/^Arrow(Up|Down)$/.test(event.key) && event.target.closest?.("#story, #event, details")) return; // it scrolls
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
  addEventListener("click", (press) => {
    const link = press.target.closest("[data-go]"), event = press.target.closest("[data-event]");
    if (link) {
      press.preventDefault(); // the address keeps the rest of the view
      select(Number(link.dataset.go));
      if (innerWidth <= 900) $("picture").scrollIntoView();
    } else if (event) select(Number(event.dataset.event));
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
refresh({ scroll: true });
if (state.event === null) $("figure").scrollTop = plan.begin - plan.start;
shape();
document.body.dataset.ready = "yes";
