// The space-time diagram of a run. The page's data says what happened and what led to what; here it is chosen and drawn.
//
// Events are known by their numbers in the History. `choose` says which are shown, `arrange` where, `paint` draws those that
// are in the window: a run of thousands of events is laid out whole, and drawn as the reader comes to it. All colours are
// attributes of the drawing, so that a saved figure needs no style sheet. What the reader does is page.js's affair.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const EVENTS = DATA.events;
const GROUPS = ["record", "run", "write", "ack", "ownership", "watermark", "fault", "chart"]; // of events, and the watermarks' chart
const MESSAGE_GROUP = { record: "record", ack: "ack", write: "write", reply: "write", ownership: "ownership", watermark: "watermark" };
const MANY = 400, MANY_REPORTS = 20;
const IDLE_US = 200_000;

const LIGHT = {
  page: "#ffffff", ink: "#1a1a1a", faint: "#6b6b6b", rule: "#d4d4d4", lane: "#8a8a8a", record: "#1f5fa8", run: "#1a1a1a",
  ack: "#7a7a7a", write: "#1c7c3c", bad: "#c0261c", ownership: "#b06400", watermark: "#7b3fa0", fault: "#c0261c",
  outage: "#f3d9d6", zombie: "#c0261c", chosen: "#ffe9a8",
};
const DARK = {
  page: "#17181a", ink: "#e8e6e3", faint: "#a09c96", rule: "#3a3c40", lane: "#77777a", record: "#7db4f0", run: "#e8e6e3",
  ack: "#a5a5a5", write: "#6fcf8a", bad: "#ff7a6e", ownership: "#f0a848", watermark: "#c99aec", fault: "#ff7a6e",
  outage: "#4a2523", zombie: "#ff7a6e", chosen: "#5a4a14",
};
const SERIES = { light: ["#7b3fa0", "#1f5fa8", "#1c7c3c", "#b06400", "#0f7f86", "#a3346b"],
  dark: ["#c99aec", "#7db4f0", "#6fcf8a", "#f0a848", "#62cfd6", "#f08ab8"] };

const LANE = 174, GUTTER = 84, LINE = 34, CHAR = 5.6, TEXT = 11, ROW = 13, PAD = 4, HEAD = 52, CHART = 190;
const FONT = 'font-family="Helvetica Neue, Helvetica, Arial, sans-serif"';

const $ = (id) => document.getElementById(id);
const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const dark = () => (state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);

// ---- What the reader has chosen; it is the page's address too, so that a view can be sent to somebody.

const first = DATA.verdicts.find((one) => one.name === DATA.told);
const DEFAULTS = () => ({
  scope: first ? first.name : "all", computation: "", key: "", zoom: 1, linear: false, theme: "", event: null,
  kinds: new Set(GROUPS.filter(tells)),
  hidden: new Set(),
});

// Every timer waits for watermarks: their reports are shown at first if they are few, or if the rule is about them.
function tells(group) {
  if (!first) return EVENTS.length <= MANY || (group !== "watermark" && group !== "ack");
  const isReport = (number) => EVENTS[number].group === "watermark";
  return group !== "watermark" || first.witness.some(isReport) || first.subject.filter(isReport).length <= MANY_REPORTS;
}
let state = DEFAULTS();

function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  state = DEFAULTS();
  if (asked.has("scope")) state.scope = asked.get("scope");
  if (asked.has("computation")) state.computation = asked.get("computation");
  if (asked.has("key")) state.key = asked.get("key");
  if (asked.has("zoom")) state.zoom = Math.min(8, Math.max(0.2, Number(asked.get("zoom")) || 1));
  if (asked.has("linear")) state.linear = asked.get("linear") === "1";
  if (asked.has("theme")) state.theme = asked.get("theme");
  if (asked.has("kinds")) state.kinds = new Set(asked.get("kinds").split(",").filter((one) => GROUPS.includes(one)));
  if (asked.has("hidden")) state.hidden = new Set(asked.get("hidden").split(","));
  if (EVENTS[asked.get("event")]) state.event = Number(asked.get("event"));
  if (state.scope !== "all" && !DATA.verdicts.some((one) => one.name === state.scope)) state.scope = "all";
}

function writeAddress() {
  const usual = DEFAULTS(), said = new URLSearchParams();
  for (const name of ["scope", "computation", "key", "zoom", "theme"]) if (state[name] !== usual[name]) said.set(name, state[name]);
  if (state.linear) said.set("linear", "1");
  if ([...state.kinds].sort().join() !== [...usual.kinds].sort().join()) said.set("kinds", [...state.kinds].join(","));
  if (state.hidden.size) said.set("hidden", [...state.hidden].join(","));
  if (state.event !== null) said.set("event", state.event);
  history.replaceState(null, "", `#${said}`);
}

const verdict = () => DATA.verdicts.find((one) => one.name === state.scope);
const witness = () => new Set((verdict() || { witness: DATA.verdicts.flatMap((one) => one.witness) }).witness);

// ---- Choosing

function computationsOf(event) {
  const found = [];
  if (event.fields.computation) found.push(event.fields.computation);
  for (const one of event.fields.productions || []) if (one.consumer) found.push(one.consumer);
  if (event.type === "Published") for (const [name] of event.fields.values) found.push(name);
  return found;
}

function keysOf(event) {
  const f = event.fields, found = [];
  if (f.key !== undefined) found.push(f.key);
  if (f.delta) found.push(f.delta.key);
  if (f.keys) found.push(...f.keys);
  if (f.production) found.push(f.production.key);
  for (const one of f.productions || []) if (one.key !== undefined) found.push(one.key);
  return found;
}

function choose() {
  const subject = verdict() ? new Set(verdict().subject) : null;
  const collapsed = struckAgain();
  const wanted = (number) => {
    const event = EVENTS[number];
    if (subject && !subject.has(number) && !(event.lane < 0 && number <= Math.max(...subject))) return false;
    if (number === state.event) return true;
    if (collapsed.has(number) || !state.kinds.has(event.group)) return false;
    if (event.lane >= 0 && state.hidden.has(DATA.lanes[event.lane].address)) return false;
    if (state.computation) {
      const about = computationsOf(event);
      if (about.length && !about.includes(state.computation)) return false;
    }
    return !state.key || keysOf(event).some((key) => key.includes(state.key));
  };
  return EVENTS.map((_, number) => number).filter(wanted);
}

// A partition strikes hundreds of messages: what is in a fault's band is not drawn again as an event.
function struckAgain() {
  const inside = new Set();
  for (const one of DATA.outages) {
    if (one.strikes < 2) continue;
    for (let n = one.begin + 1; n <= (one.end ?? EVENTS.length - 1); n++) {
      const event = EVENTS[n];
      if (event.type === "FaultStruck" && event.lane === one.lane && event.fields.kind === one.kind) inside.add(n);
    }
  }
  return inside;
}

// ---- Arranging: where each event is

function wrap(text, width) {
  const lines = [""];
  for (const word of text.replace(/(\d) s\b/g, "$1\u00a0s").split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (longer.length <= width || !lines.at(-1)) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const cut = lines.map((line) => (line.length > width ? `${line.slice(0, width - 1)}…` : line));
  return cut.length > 4 ? [...cut.slice(0, 3), `${cut[3].slice(0, width - 1)}…`] : cut;
}

function arrange(shown) {
  const visible = new Set(shown);
  const links = DATA.links.filter(([cause, effect, kind]) => visible.has(cause) && visible.has(effect) && state.kinds.has(MESSAGE_GROUP[kind]));
  const used = [...new Set(shown.map((n) => EVENTS[n].lane).filter((lane) => lane >= 0))].sort((a, b) => a - b);
  const x = new Map(used.map((lane, index) => [lane, GUTTER + index * LANE + LINE]));
  const width = Math.floor((LANE - LINE - 4) / CHAR);
  const below = labelsBelow(links, x);
  const begun = new Map(DATA.outages.filter((one) => one.strikes > 1).map((one) => [one.begin, `${one.kind} begins`]));
  const rows = new Map(), bottoms = new Map(), gaps = [], order = [];
  let y = HEAD, last = null;
  for (const n of shown) {
    const event = EVENTS[n], lane = event.lane;
    const lines = lane < 0 ? [event.label] : wrap(begun.get(n) || event.label, width);
    const size = lines.length * ROW;
    const up = lane < 0 ? ROW : below.has(n) ? 6 : size + 1, down = lane < 0 ? 4 : below.has(n) ? size + 6 : 6;
    const passed = last === null ? 0 : event.at - last;
    const before = y;
    y += last === null ? 24 : distance(passed);
    const floor = lane < 0 ? Math.max(0, ...bottoms.values()) : Math.max(bottoms.get(lane) || 0, bottoms.get(-1) || 0);
    const idled = !state.linear && last !== null && passed > IDLE_US;
    y = Math.max(y, floor + up + PAD, idled ? before + 40 : HEAD + up + 6);
    if (idled) gaps.push({ y: (before + y) / 2 - 2, us: passed });
    rows.set(n, { y, lines, below: below.has(n) });
    order.push(n);
    bottoms.set(lane, y + down);
    last = event.at;
  }
  return { shown: order, rows, x, links, gaps, used, height: y + 40, width: GUTTER + used.length * LANE + (charted(shown).length ? CHART : 10) };
}

// The idle stretches of a run are much longer than its busy ones: a pause a thousand times as long is drawn a little longer.
const distance = (us) => (state.linear ? (us / 1e6) * 160 * state.zoom : (2 + 3.2 * Math.log2(1 + us / 200)) * state.zoom);

// An arrow to the right leaves below its label's place, one from the right arrives above it.
function labelsBelow(links, x) {
  const found = new Set(), leaving = new Set();
  for (const [cause, effect] of links) {
    const from = x.get(EVENTS[cause].lane), to = x.get(EVENTS[effect].lane);
    if (from < to) leaving.add(cause);
    if (from > to) found.add(effect);
  }
  for (const n of leaving) found.delete(n);
  return found;
}

// Where an event that is not shown would be: between its neighbours.
function heightOf(plan, number) {
  const known = plan.rows.get(number);
  if (known) return known.y;
  let low = 0, high = plan.shown.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (plan.shown[middle] < number) low = middle + 1; else high = middle;
  }
  const before = plan.shown[low - 1], after = plan.shown[low];
  if (before === undefined) return HEAD;
  if (after === undefined) return plan.height - 12;
  const a = plan.rows.get(before).y, b = plan.rows.get(after).y;
  const span = EVENTS[after].at - EVENTS[before].at;
  return a + (b - a) * (span ? (EVENTS[number].at - EVENTS[before].at) / span : 0.5);
}

// ---- Painting

const seconds = (us) => `${(us / 1e6).toFixed(6).replace(/000$/, "")} s`;

function line(x1, y1, x2, y2, colour, more = "") {
  return `<line x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" stroke="${colour}" ${more}/>`;
}

function words(x, y, text, colour, more = "") {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" fill="${colour}" ${more}>${escape(text)}</text>`;
}

const halo = (c) => `paint-order="stroke" stroke="${c.page}" stroke-width="3" stroke-linejoin="round"`;

function paint(plan, c, series, from, to) {
  const inside = (a, b) => Math.max(a, b) >= from && Math.min(a, b) <= to;
  const marked = witness(), parts = [];
  parts.push(...bands(plan, c, inside), ...lives(plan, c, from, to), ...owners(plan, c, inside));
  for (const gap of plan.gaps) if (inside(gap.y, gap.y)) parts.push(idle(gap, c));
  for (const link of plan.links) {
    const a = plan.rows.get(link[0]).y, b = plan.rows.get(link[1]).y;
    if (inside(a, b)) parts.push(arrow(plan, link, c));
  }
  parts.push(chart(plan, c, series, inside, marked));
  let time = -99;
  for (const n of plan.shown) {
    const row = plan.rows.get(n);
    if (!inside(row.y - 40, row.y + 40)) continue;
    if (row.y - time >= ROW) {
      parts.push(words(GUTTER - 12, row.y + 4, seconds(EVENTS[n].at), c.faint, 'text-anchor="end" font-size="10"'));
      time = row.y;
    }
    parts.push(mark(plan, n, row, c, marked));
  }
  return parts.join("");
}

function lives(plan, c, from, to) {
  const end = Math.min(to, plan.height - 8);
  return plan.used.map((lane) => line(plan.x.get(lane), Math.max(from, 0), plan.x.get(lane), end, c.lane, 'stroke-width="1"'));
}

function bands(plan, c, inside) {
  const end = plan.shown.at(-1) ?? -1;
  return DATA.outages.filter((one) => plan.x.has(one.lane) && one.begin <= end).map((one) => {
    const a = heightOf(plan, one.begin), b = one.end === null ? plan.height - 8 : heightOf(plan, one.end);
    if (!inside(a, b) || b - a < 3) return "";
    const x = plan.x.get(one.lane), solid = one.kind === "crash" || one.kind === "pause";
    const label = one.strikes > 1 ? `${one.kind}, ${one.strikes} strikes` : one.kind;
    return `<rect x="${x - 7}" y="${a.toFixed(1)}" width="14" height="${(b - a).toFixed(1)}" fill="${c.outage}" ${solid ? "" : 'opacity="0.6"'}/>` +
      (solid ? line(x - 7, b, x + 7, b, c.bad, 'stroke-width="1"') : "") +
      `<text transform="translate(${x - 10},${((a + b) / 2).toFixed(1)}) rotate(-90)" text-anchor="middle" font-size="9" fill="${c.bad}" ${halo(c)}>${
        b - a > label.length * 4.6 ? escape(label) : ""}</text>`;
  });
}

// An owner's bar is solid as long as it is the owner, and dashed red as long as it only believes so.
function owners(plan, c, inside) {
  const taken = new Map(), parts = [];
  const about = new Set(plan.shown.flatMap((n) => computationsOf(EVENTS[n])));
  for (const one of DATA.tenures) {
    if (!plan.x.has(one.lane) || !state.kinds.has("ownership") || one.begin > plan.shown.at(-1)) continue;
    if (state.computation ? one.computation !== state.computation : !about.has(one.computation)) continue;
    const a = heightOf(plan, one.begin), end = one.end === null ? plan.height - 8 : heightOf(plan, one.end);
    const slot = (taken.get(one.lane) || 0) % 3;
    taken.set(one.lane, slot + 1);
    if (!inside(a, end)) continue;
    const x = plan.x.get(one.lane) - 20 + slot * -5, lost = one.replaced === null ? end : Math.min(end, Math.max(a, heightOf(plan, one.replaced)));
    const what = `${one.computation} ${one.interval}, sequencer ${one.sequencer}`;
    parts.push(`<g><title>${escape(what)}</title>`, line(x, a, x, lost, c.ownership, 'stroke-width="3"'));
    if (end > lost + 1) parts.push(line(x, lost, x, end, c.zombie, 'stroke-width="3" stroke-dasharray="3 2"'));
    parts.push("</g>");
  }
  return parts;
}

function idle(gap, c) {
  const x = GUTTER - 40;
  return `<path d="M${x - 10} ${gap.y - 1} q5 -5 10 0 t10 0" fill="none" stroke="${c.faint}"/>` +
    words(x, gap.y + 11, `+${(gap.us / 1e6).toFixed(gap.us < 1e6 ? 2 : 1)} s`, c.faint, 'font-size="9" text-anchor="middle"');
}

function arrow(plan, [cause, effect, kind], c) {
  const x1 = plan.x.get(EVENTS[cause].lane), x2 = plan.x.get(EVENTS[effect].lane);
  if (x1 === undefined || x2 === undefined || x1 === x2) return "";
  const y1 = plan.rows.get(cause).y, y2 = plan.rows.get(effect).y;
  const bad = ["stale", "refused"].includes(EVENTS[effect].mark) && kind === "write";
  const colour = bad ? c.bad : c[MESSAGE_GROUP[kind]];
  const dash = kind === "ack" || kind === "reply" ? 'stroke-dasharray="5 3"' : kind === "watermark" ? 'stroke-dasharray="1.5 3"' : "";
  const length = Math.hypot(x2 - x1, y2 - y1), dx = (x2 - x1) / length, dy = (y2 - y1) / length;
  const tx = x2 - dx * 6, ty = y2 - dy * 6;
  const tip = [[tx, ty], [tx - dx * 8 - dy * 3.2, ty - dy * 8 + dx * 3.2], [tx - dx * 8 + dy * 3.2, ty - dy * 8 - dx * 3.2]];
  const strong = state.event === cause || state.event === effect ? 2.4 : bad ? 1.8 : 1.2;
  return line(x1 + dx * 5, y1 + dy * 5, tx - dx * 6, ty - dy * 6, colour, `stroke-width="${strong}" ${dash}`) +
    `<polygon points="${tip.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(" ")}" fill="${colour}"/>`;
}

function sign(event, x, y, c) {
  const colour = c[event.group];
  switch (event.mark || event.group) {
    case "stale": return `<rect x="${x - 5}" y="${y - 5}" width="10" height="10" fill="${c.bad}"/>`;
    case "refused": return `<rect x="${x - 5}" y="${y - 5}" width="10" height="10" fill="${c.page}" stroke="${c.bad}" stroke-width="1.6"/>` +
      `<path d="M${x - 5} ${y - 5} l10 10 m0 -10 l-10 10" stroke="${c.bad}" stroke-width="1.6"/>`;
    case "timer": case "sets timer": {
      const set = event.mark === "sets timer";
      return `<circle cx="${x}" cy="${y}" r="5.5" fill="${set ? c.write : c.page}" stroke="${set ? c.write : c.run}" stroke-width="1.5"/>` +
        `<path d="M${x} ${y - 3.4} v3.4 l2.4 1.6" fill="none" stroke="${set ? c.page : c.run}" stroke-width="1.3"/>`;
    }
    case "write": return `<rect x="${x - 4.5}" y="${y - 4.5}" width="9" height="9" fill="${colour}"/>`;
    case "run": return `<circle cx="${x}" cy="${y}" r="4" fill="${colour}"/>`;
    case "record": return `<circle cx="${x}" cy="${y}" r="4" fill="${c.page}" stroke="${colour}" stroke-width="1.8"/>`;
    case "ack": return `<circle cx="${x}" cy="${y}" r="2.6" fill="${colour}"/>`;
    case "ownership": return `<path d="M${x} ${y - 5.5} l5.5 5.5 l-5.5 5.5 l-5.5 -5.5 z" fill="${colour}"/>`;
    case "watermark": return `<rect x="${x - 6}" y="${y - 1.8}" width="12" height="3.6" fill="${colour}"/>`;
    default: return `<path d="M${x - 4.5} ${y - 4.5} l9 9 m0 -9 l-9 9" stroke="${colour}" stroke-width="2.2"/>`;
  }
}

function mark(plan, n, row, c, marked) {
  const event = EVENTS[n];
  if (event.lane < 0) {
    const width = GUTTER + plan.used.length * LANE;
    return `<g data-event="${n}">${line(GUTTER - 6, row.y, width, row.y, c.faint, 'stroke-dasharray="6 4"')}${
      words(width - 6, row.y - 3, event.label, c.faint, `font-size="10" text-anchor="end" ${halo(c)}`)}</g>`;
  }
  const x = plan.x.get(event.lane), proof = marked.has(n), bad = event.mark === "stale" || event.mark === "refused";
  const colour = proof || bad || event.group === "fault" ? c.bad : event.group === "ack" || event.group === "watermark" ? c.faint : c.ink;
  const top = row.below ? row.y + ROW + 1 : row.y - (row.lines.length - 1) * ROW - 4;
  const text = row.lines.map((one, i) => words(x + (proof ? 14 : 9), top + i * ROW, one, colour, `${halo(c)} ${proof ? 'font-weight="700"' : ""}`)).join("");
  const chosen = n === state.event
    ? `<rect x="${x - 9}" y="${Math.min(row.y - 9, top - 11)}" width="${LANE - LINE + 5}" height="${row.lines.length * ROW + 10}" rx="3" fill="${c.chosen}"/>` : "";
  const ring = proof ? `<circle cx="${x}" cy="${row.y}" r="10" fill="none" stroke="${c.bad}" stroke-width="2"/>` : "";
  return `<g data-event="${n}">${chosen}<title>${escape(`${n}: ${event.type} at ${seconds(event.at)}`)}</title>${text}${sign(event, x, row.y, c)}${ring}</g>`;
}

// The computations of which a low watermark was known until the last event that is shown.
function charted(shown) {
  const end = shown.at(-1) ?? -1;
  const known = (one) => one.steps.some(([number, value]) => number <= end && typeof value === "number");
  return state.kinds.has("chart") ? DATA.watermarks.filter((one) => (!state.computation || one.name === state.computation) && known(one)) : [];
}

// The low watermarks as they were broadcast: event time across, in the same time down.
function chart(plan, c, series, inside, marked) {
  const left = GUTTER + plan.used.length * LANE + 24, right = left + CHART - 60;
  const shown = charted(plan.shown);
  const values = shown.flatMap((one) => one.steps.filter(([number]) => number <= plan.shown.at(-1)).map(([, v]) => v)).filter((v) => typeof v === "number");
  if (!values.length) return "";
  const low = Math.min(...values), high = Math.max(...values);
  const at = (v) => (v === "unknown" ? left : v === "end" ? right : left + 14 + ((right - left - 34) * (v - low)) / (high - low || 1));
  const parts = [line(left, HEAD, left, plan.height - 8, c.rule), line(right, HEAD, right, plan.height - 8, c.rule)];
  const said = [];
  for (const one of shown) {
    const index = DATA.watermarks.indexOf(one);
    const colour = series[index % series.length], shift = (index % series.length) * 1.6;
    let path = "", x = 0;
    for (const [number, value] of one.steps) {
      const y = heightOf(plan, number), to = at(value) + shift;
      if (number > plan.shown.at(-1)) break;
      if (typeof value === "number" && inside(y, y) && said.every((other) => Math.abs(y - other) > ROW)) {
        parts.push(words(to + 4, y - 3, seconds(value), colour, `font-size="9" ${halo(c)}`));
        said.push(y);
      }
      path += path ? `V${y.toFixed(1)}H${to.toFixed(1)}` : `M${to.toFixed(1)} ${y.toFixed(1)}`;
      if (marked.has(number) && inside(y, y)) parts.push(`<circle cx="${to}" cy="${y}" r="5" fill="none" stroke="${c.bad}" stroke-width="2"/>`);
      x = to;
    }
    if (path) parts.push(`<path d="${path}V${plan.height - 8}" fill="none" stroke="${colour}" stroke-width="1.6"><title>low watermark of ${escape(one.name)}</title></path>`);
  }
  return parts.join("");
}

function head(plan, c, series) {
  const parts = [words(GUTTER - 12, 14, "time", c.faint, 'text-anchor="end" font-size="10"')];
  for (const lane of plan.used) {
    const x = plan.x.get(lane), { address, role } = DATA.lanes[lane];
    parts.push(words(x - 6, 14, address, c.ink, 'font-weight="700" font-size="12"'));
    if (role !== address) parts.push(words(x - 6, 25, role, c.faint, 'font-size="9"'));
  }
  const drawn = charted(plan.shown);
  if (drawn.length) {
    const left = GUTTER + plan.used.length * LANE + 24;
    parts.push(words(left, 14, "low watermarks", c.ink, 'font-weight="700" font-size="12"'));
    let x = left, y = 25;
    for (const one of drawn) {
      const name = one.name.length > 18 ? `${one.name.slice(0, 17)}…` : one.name;
      if (x > left && x + name.length * 4.8 > left + CHART - 20) [x, y] = [left, y + 10];
      if (y > HEAD) break;
      parts.push(words(x, y, name, series[DATA.watermarks.indexOf(one) % series.length], 'font-size="9"'));
      x += name.length * 4.8 + 9;
    }
  }
  return parts.join("") + line(0, HEAD - 4, plan.width, HEAD - 4, c.rule);
}
