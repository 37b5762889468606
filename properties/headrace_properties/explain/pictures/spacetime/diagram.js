// The space-time diagram of a run. The page's data says what happened and what led to what; here it is chosen and drawn.
//
// Events are known by their numbers in the History. `choose` says which are shown, `arrange` where, `paint` draws those that
// are in the window: a run of thousands of events is laid out whole, and drawn as the reader comes to it. All colours are
// attributes of the drawing, so that a saved figure needs no style sheet. `stage.js` plays the run; `page.js` handles input;
// with `still.js` before it, this file draws the figure without a browser.
"use strict";

const DATA = { links: [], stubs: [], tenures: [], outages: [], watermarks: [], rates: [], verdicts: [], told: "", jump: null, story: { sentences: [], moral: [] },
  ...JSON.parse(document.getElementById("data").textContent) };
const EVENTS = DATA.events;
const GROUPS = ["record", "run", "write", "ack", "ownership", "watermark", "fault"];
const MESSAGE_GROUP = { record: "record", ack: "ack", write: "write", reply: "write", ownership: "ownership", watermark: "watermark",
  asked: "ownership", answered: "write", acks: "ack", writes: "write" };
const MANY = 400, MANY_REPORTS = 20;
const IDLE_US = 200_000;
const USUAL = ["ProcessStarted", "RoleClaimed", "CheckpointsDeleted", "IdsCollected"]; // not in a still picture that explains nothing

const LIGHT = {
  page: "#ffffff", ink: "#1a1a1a", faint: "#5f5f5f", rule: "#d4d4d4", lane: "#8a8a8a", record: "#1f5fa8", run: "#1a1a1a",
  ack: "#7a7a7a", write: "#1c7c3c", bad: "#b3241b", ownership: "#8f5000", watermark: "#7b3fa0", fault: "#b3241b",
  outage: "#f3d9d6", zombie: "#b3241b", rate: "#e58a82", chosen: "#ffe9a8",
};
const DARK = {
  page: "#17181a", ink: "#e8e6e3", faint: "#aca8a2", rule: "#3a3c40", lane: "#77777a", record: "#7db4f0", run: "#e8e6e3",
  ack: "#a5a5a5", write: "#6fcf8a", bad: "#ff7a6e", ownership: "#f0a848", watermark: "#c99aec", fault: "#ff7a6e",
  outage: "#4a2523", zombie: "#ff7a6e", rate: "#8f3a33", chosen: "#42370f",
};
const SERIES = { light: ["#7b3fa0", "#1f5fa8", "#1c7c3c", "#8f5000", "#0f7f86", "#a3346b"],
  dark: ["#c99aec", "#7db4f0", "#6fcf8a", "#f0a848", "#62cfd6", "#f08ab8"] };

const TEXT = 14, SMALL = 12, ROW = 19, STUB = 13, STRIP = 30, SLANT = 35, STEEP = 60; // degrees of names over wide and narrow lanes
const FAMILY = "Helvetica Neue, Helvetica, Arial, sans-serif", FONT = `font-family="${FAMILY}"`;

const $ = (id) => document.getElementById(id);
const visible = (text) => String(text).replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff]/g, (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`);
const escape = (text) => visible(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const dark = () => (state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);

// ---- What the reader has chosen; it is the page's address too, so that a view can be sent to somebody.

const first = DATA.verdicts.find((one) => one.name === DATA.told);
// Processes that did nothing but start, or only met faults, are left out at first.
const atWork = new Set(DATA.stubs.map(([, lane]) => lane));
for (const { group, type, lane } of EVENTS) if (group !== "fault" && !USUAL.includes(type)) atWork.add(lane);
const IDLE = DATA.lanes.filter((_, lane) => !DATA.steps && !atWork.has(lane)).map(({ address }) => address);

const DEFAULTS = () => ({
  scope: first ? first.name : "all", computation: "", key: "", zoom: 1, linear: false, theme: "", event: null,
  kinds: new Set(GROUPS.filter(tells)),
  hidden: new Set(IDLE), still: false,
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
  if ([...state.hidden].sort().join() !== [...IDLE].sort().join()) said.set("hidden", [...state.hidden].join(","));
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
  // An ACK goes to where it is received, a write comes from user code.
  if (subject) for (const [cause, effect, kind] of DATA.links) {
    if (kind === "ack" && subject.has(cause)) subject.add(effect);
    if (kind === "write" && subject.has(effect)) subject.add(cause);
  }
  const wanted = (number) => {
    const event = EVENTS[number];
    if (subject && !subject.has(number) && !(DATA.jump && number === DATA.jump.event) && !(event.lane < 0 && number <= Math.max(...subject))) return false;
    if (number === state.event || (DATA.jump && number === DATA.jump.event)) return true;
    if (collapsed.has(number) || !state.kinds.has(event.group)) return false;
    if (event.lane >= 0 && state.hidden.has(DATA.lanes[event.lane].address)) return false;
    if (state.computation) {
      const about = computationsOf(event);
      if (about.length && !about.includes(state.computation)) return false;
    }
    return !state.key || keysOf(event).some((key) => key.includes(state.key));
  };
  const shown = EVENTS.map((_, number) => number).filter(wanted);
  return state.still ? striking(shown.filter((number) => subject || !USUAL.includes(EVENTS[number].type))) : shown;
}

// Without the lanes on which there are only faults.
function striking(shown) {
  const busy = new Set(shown.filter((number) => EVENTS[number].group !== "fault").map((number) => EVENTS[number].lane));
  for (const [number, lane] of DATA.stubs) if (shown.includes(number)) busy.add(lane);
  return shown.filter((number) => busy.has(EVENTS[number].lane));
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

// What a process is called: by the paper if it is drawn there, and its address.
const titleOf = (lane) => [...new Set([DATA.lanes[lane].name ?? DATA.lanes[lane].address, DATA.lanes[lane].address])];

// ---- Arranging: every event has a row of its own, and its text stands to the right of all processes

const pen = document.createElement("canvas").getContext("2d");

function measure(text, size, bold = false) {
  pen.font = `${bold ? "700 " : ""}${size}px ${FAMILY}`;
  return pen.measureText(text).width;
}

function wrap(text, width, size, bold = false, most = 6) {
  const lines = [""];
  for (let word of visible(String(text).replace(/\s+/g, " ")).split(/(?= )|(?<=,)/)) {
    while (measure(lines.at(-1) + word, size, bold) > width) {
      const room = width - measure(lines.at(-1), size, bold), fits = measure(word, size, bold) <= width;
      if (lines.at(-1) && (fits || room < 40)) { lines.push(""); word = word.trimStart(); continue; }
      if (lines.length > most || word.length < 2) break;
      let cut = word.length - 1; // a word that no line can hold is broken
      while (cut > 1 && measure(lines.at(-1) + word.slice(0, cut), size, bold) > width) cut -= 1;
      lines[lines.length - 1] += word.slice(0, cut);
      lines.push("");
      word = word.slice(cut);
    }
    lines[lines.length - 1] += word;
    if (lines.length > most) break;
  }
  return lines.length > most ? [...lines.slice(0, most - 1), `${lines[most - 1].slice(0, -2)}…`] : lines;
}

// `above`: pixels for a heading.
function arrange(shown, above = 0) {
  const visible = new Set(shown), marked = witness();
  const links = DATA.links.filter(([cause, effect, kind]) => visible.has(cause) && visible.has(effect) && state.kinds.has(MESSAGE_GROUP[kind]));
  const hidden = (lane) => state.hidden.has(DATA.lanes[lane].address);
  const stubs = DATA.stubs.filter(([number, lane, kind]) => visible.has(number) && state.kinds.has(MESSAGE_GROUP[kind]) && !hidden(lane));
  const lanes = [...shown.map((n) => EVENTS[n].lane), ...stubs.map(([, lane]) => lane)].filter((lane) => lane >= 0);
  const used = [...new Set(lanes)].sort((a, b) => a - b);
  const view = $("figure").clientWidth || 900, small = view < 560;
  const strip = (small ? 84 : 100) - 4, gutter = strip + 4 + (DATA.rates.length ? STRIP + 10 : 0), size = small ? 13 : TEXT, least = view < 440 ? 130 : view < 900 ? 260 : 340;
  const lane = Math.max(view < 900 ? 18 : 24, Math.min(76, (view - gutter - least - 24) / (used.length || 1)));
  const x = new Map(used.map((one, index) => [one, gutter + (index + 0.5) * lane]));
  const left = gutter + used.length * lane + 6, wide = Math.max(least, view - left - 16);
  const names = Math.max(0, ...used.map((one) => measure(titleOf(one).join(" "), 13, true))), slanted = names > lane - 8;
  const slant = lane < 24 ? STEEP : SLANT, head = above + (slanted ? Math.ceil(names * Math.sin((slant * Math.PI) / 180)) + 30 : 42);
  const begun = new Map(DATA.outages.filter((one) => one.strikes > 1).map((one) => [one.begin, `${one.kind} begins`]));
  const rows = new Map(), gaps = [], start = head + 12;
  let bottom = start + 14, mark = start, last = null;
  for (const n of shown) {
    const event = EVENTS[n], name = event.lane < 0 ? "" : titleOf(event.lane)[0];
    const passed = last === null ? 0 : event.at - last;
    if (!state.linear && passed > IDLE_US) { gaps.push({ y: bottom + 8, us: passed }); bottom += 26 * Math.max(1, state.zoom); }
    const top = Math.max(bottom, last === null ? 0 : mark + distance(passed) - ROW / 2);
    const lines = wrap(`${name} ${begun.get(n) || event.label}`.trim(), wide, size, marked.has(n)).map((text) => ({ text, size, detail: false }));
    if (DATA.jump && DATA.jump.event === n) lines.push(...wrap(DATA.jump.text, wide, SMALL).map((text) => ({ text, size: SMALL, detail: true })));
    if (event.detail) lines.push(...wrap(event.detail, wide, SMALL, false, 3).map((text) => ({ text, size: SMALL, detail: true })));
    mark = top + ROW / 2;
    bottom = top + lines.length * ROW + 7;
    rows.set(n, { y: mark, top: top - 3, bottom: bottom - 4, lines, name });
    last = event.at;
  }
  return { shown, rows, x, links, stubs, gaps, used, gutter, strip, left, wide, above, head, start, slanted, slant, size, height: bottom + 20,
    right: left + wide + 12, width: Math.max(left + wide + 12, small ? 0 : view) };
}

// The idle stretches of a run are much longer than its busy ones: a pause a thousand times as long is drawn a little longer.
const distance = (us) => (state.linear ? (us / 1e6) * 160 : us > IDLE_US ? 0 : 3.2 * Math.log2(1 + us / 200)) * state.zoom;

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
  if (before === undefined) return plan.start;
  if (after === undefined) return plan.height - 12;
  const a = plan.rows.get(before).y, b = plan.rows.get(after).y;
  const span = EVENTS[after].at - EVENTS[before].at;
  return a + (b - a) * (span ? (EVENTS[number].at - EVENTS[before].at) / span : 0.5);
}

// The ends of what travels between processes: {lanes, heights, kind, bad, events}.
function flights(plan) {
  if (plan.flights) return plan.flights;
  plan.flights = plan.links.map(([cause, effect, kind]) => ({ from: EVENTS[cause].lane, to: EVENTS[effect].lane, kind, cause, effect,
    y1: plan.rows.get(cause).y, y2: plan.rows.get(effect).y, bad: kind === "write" && ["stale", "refused"].includes(EVENTS[effect].mark) }));
  for (const [number, lane, kind] of plan.stubs) {
    const own = EVENTS[number].lane, y = plan.rows.get(number).y, asked = !["acks", "writes"].includes(kind);
    plan.flights.push({ from: asked ? lane : own, to: asked ? own : lane, kind, cause: asked ? null : number, effect: asked ? number : null,
      y1: asked ? y - STUB : y, y2: asked ? y : y + STUB, bad: false });
  }
  plan.flights = plan.flights.filter((one) => one.from !== one.to && plan.x.has(one.from) && plan.x.has(one.to));
  return plan.flights;
}

// ---- Painting

const seconds = (us) => DATA.steps ? `step ${us + 1}` : `${(us / 1e6).toFixed(6).replace(/000$/, "")} s`;

function line(x1, y1, x2, y2, colour, more = "") {
  return `<line x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" stroke="${colour}" ${more}/>`;
}

function words(x, y, text, colour, more = "") {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" fill="${colour}" ${more}>${escape(text)}</text>`;
}

function paint(plan, c, from, to) {
  const inside = (a, b) => Math.max(a, b) >= from && Math.min(a, b) <= to;
  const marked = witness(), parts = [], seen = plan.shown.filter((n) => inside(plan.rows.get(n).top, plan.rows.get(n).bottom));
  if (seen.includes(state.event)) {
    const row = plan.rows.get(state.event);
    parts.push(`<rect x="0" y="${row.top}" width="${plan.right}" height="${row.bottom - row.top}" fill="${c.chosen}"/>`);
  }
  for (const n of seen) {
    const row = plan.rows.get(n), lane = EVENTS[n].lane;
    parts.push(line(lane < 0 ? plan.gutter : plan.x.get(lane), row.y, plan.left - 4, row.y, c.rule, `class="guide" ${lane < 0 ? 'stroke-dasharray="6 4"' : ""}`));
  }
  parts.push(...bands(plan, c, inside), ...lives(plan, c, from, to), ...owners(plan, c, inside));
  const late = 'text-anchor="end" font-size="12"';
  for (const gap of plan.gaps) if (inside(gap.y, gap.y)) parts.push(words(plan.strip - 6, gap.y + 6, `+${(gap.us / 1e6).toFixed(1)} s ⋮`, c.faint, late));
  for (const one of flights(plan)) if (inside(one.y1, one.y2)) parts.push(arrow(plan, one, c));
  parts.push(...rates(plan, c, inside));
  if (plan.used.length && inside(plan.start, plan.start)) {
    parts.push(words(plan.strip - 6, plan.start + 4, DATA.steps ? "" : seconds(EVENTS[0].at), c.faint, late), words(plan.left, plan.start + 5, "start of the run", c.faint));
  }
  for (const n of seen) {
    const row = plan.rows.get(n);
    parts.push(words(plan.strip - 6, row.y + 4, seconds(EVENTS[n].at), c.faint, late), mark(plan, n, row, c, marked));
  }
  return parts.join("");
}

// Beside the time, how often the run fails if it continues in another way from there: the wider, the more often.
function rates(plan, c, inside) {
  if (!DATA.rates.length || !plan.shown.length) return [];
  const last = EVENTS[plan.shown.at(-1)].at, parts = [];
  const heightAt = (us) => {
    let y = plan.start, before = EVENTS[0].at;
    for (const n of plan.shown) {
      const after = EVENTS[n].at, to = plan.rows.get(n).y;
      if (after > us) return y + (to - y) * Math.max(0, after > before ? (us - before) / (after - before) : 0);
      [y, before] = [to, after];
    }
    return y;
  };
  plan.rates ??= DATA.rates.map(([at], i) => [at, DATA.rates[i + 1]?.[0] ?? last].map((us) => heightAt(Math.min(last, us))));
  DATA.rates.forEach(([at, rate], i) => {
    const [a, b] = plan.rates[i];
    if (at <= last && inside(a, b)) parts.push(`<rect data-rate="${rate}" x="${plan.strip}" y="${a.toFixed(1)}" width="${(STRIP * rate).toFixed(1)}" height="${
      (b - a).toFixed(1)}" fill="${c.rate}"><title>${(rate * 100).toFixed(0)} % fail</title></rect>`);
  });
  for (const x of [plan.strip, plan.strip + STRIP]) parts.push(line(x, plan.start, x, plan.height - 8, c.rule));
  return parts;
}

function lives(plan, c, from, to) {
  const end = Math.min(to, plan.height - 8), x = (lane) => plan.x.get(lane);
  return plan.used.map((lane) => line(x(lane), Math.max(from, plan.start), x(lane), end, c.lane) +
    line(x(lane) - 6, plan.start, x(lane) + 6, plan.start, c.ink, 'stroke-width="2.5"'));
}

function bands(plan, c, inside) {
  const end = plan.shown.at(-1) ?? -1;
  return DATA.outages.filter((one) => plan.x.has(one.lane) && one.begin <= end).map((one) => {
    const a = heightOf(plan, one.begin), b = one.end === null ? plan.height - 8 : heightOf(plan, one.end);
    if (!inside(a, b) || b - a < 3) return "";
    const title = one.strikes > 1 ? `${one.kind}, ${one.strikes} strikes` : one.kind;
    return `<rect x="${plan.x.get(one.lane) - 8}" y="${a.toFixed(1)}" width="16" height="${(b - a).toFixed(1)}" fill="${c.outage}"><title>${escape(title)}</title></rect>`;
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
    const slot = (taken.get(one.lane) || 0) % 2;
    taken.set(one.lane, slot + 1);
    if (!inside(a, end)) continue;
    const x = plan.x.get(one.lane) - 11 + slot * -5, lost = one.replaced === null ? end : Math.min(end, Math.max(a, heightOf(plan, one.replaced)));
    const what = `${one.computation} ${one.interval}, sequencer ${one.sequencer}`;
    parts.push(`<g><title>${escape(what)}</title>`, line(x, a, x, lost, c.ownership, 'stroke-width="4"'));
    if (end > lost + 1) parts.push(line(x, lost, x, end, c.zombie, 'stroke-width="4" stroke-dasharray="3 2"'));
    parts.push("</g>");
  }
  return parts;
}

const colourOf = (one, c) => (one.bad ? c.bad : c[MESSAGE_GROUP[one.kind]]);

function arrow(plan, one, c) {
  const x1 = plan.x.get(one.from), x2 = plan.x.get(one.to), { y1, y2, kind } = one, colour = colourOf(one, c);
  const dash = ["ack", "acks", "reply", "answered"].includes(kind) ? 'stroke-dasharray="5 3"' : kind === "watermark" ? 'stroke-dasharray="1.5 3"' : "";
  const length = Math.hypot(x2 - x1, y2 - y1), dx = (x2 - x1) / length, dy = (y2 - y1) / length;
  const tx = x2 - dx * 6, ty = y2 - dy * 6;
  const tip = [[tx, ty], [tx - dx * 9 - dy * 3.6, ty - dy * 9 + dx * 3.6], [tx - dx * 9 + dy * 3.6, ty - dy * 9 - dx * 3.6]];
  const strong = state.event !== null && (state.event === one.cause || state.event === one.effect) ? 2.8 : one.bad ? 2.2 : 1.5;
  return line(x1 + dx * 5, y1 + dy * 5, tx - dx * 7, ty - dy * 7, colour, `class="${kind}" stroke-width="${strong}" ${dash}`) +
    (["asked", "answered"].includes(kind) ? `<circle cx="${x1}" cy="${y1}" r="3" fill="${colour}"/>` : "") +
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
  const event = EVENTS[n], proof = marked.has(n), bad = proof || ["stale", "refused"].includes(event.mark) || event.group === "fault";
  const colour = event.lane < 0 ? c.faint : bad ? c.bad : c.ink, bold = proof ? 'font-weight="700"' : "";
  const text = row.lines.map(({ text, size, detail }, i) => {
    const at = row.y + 5 + i * ROW;
    if (detail) return words(plan.left, at, text, c.faint, `font-size="${size}"`);
    if (i || !row.name || !text.startsWith(row.name)) return words(plan.left, at, text, colour, `font-size="${size}" ${bold}`);
    return `<text x="${plan.left}" y="${at}" fill="${colour}" font-size="${size}" ${bold}><tspan font-weight="700">${escape(row.name)}</tspan>${escape(text.slice(row.name.length))}</text>`;
  }).join("");
  const x = plan.x.get(event.lane), ring = proof ? `<circle cx="${x}" cy="${row.y}" r="10" fill="none" stroke="${c.bad}" stroke-width="2"/>` : "";
  const area = `<rect x="0" y="${row.top}" width="${plan.right}" height="${row.bottom - row.top}" fill="transparent"/>`;
  return `<g data-event="${n}"><title>${escape(`${n}: ${event.type} at ${seconds(event.at)}`)}</title>${area}${text}${event.lane < 0 ? "" : sign(event, x, row.y, c)}${ring}</g>`;
}

function head(plan, c) {
  const parts = [];
  for (const lane of plan.used) {
    const x = plan.x.get(lane), y = plan.head - 12, [name, address] = titleOf(lane);
    const where = plan.slanted ? `transform="rotate(-${plan.slant} ${x} ${y})"` : 'text-anchor="middle"';
    parts.push(`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" fill="${c.ink}" font-size="13" font-weight="700" ${where}>${escape(name)}${
      address ? `<tspan fill="${c.faint}" font-weight="400"> ${escape(address)}</tspan>` : ""}</text>`);
  }
  if (DATA.rates.length) parts.push(words(plan.strip + STRIP / 2, plan.head - 10, "fails", c.bad, 'font-size="12" text-anchor="middle"'));
  return parts.join("") + line(0, plan.head - 3, plan.width, plan.head - 3, c.rule);
}

// ---- The whole figure as a file, always on white: it goes into a paper

const says = ({ name, title, message, caption }) => caption ??
  `${name} violated: ${title === message ? `${message}.` : `${title}. ${message[0].toUpperCase()}${message.slice(1)}.`}`;

// A still picture of a run that violates nothing shows only what is about records and ownership.
function STILL() {
  const left = first ? [] : ["ack", "watermark"];
  return { ...DEFAULTS(), kinds: new Set(GROUPS.filter((group) => tells(group) && !left.includes(group))), still: true };
}

function figure() {
  const c = LIGHT, chosen = state.event, broken = verdict();
  state.event = null;
  const shown = choose(), wide = arrange(shown).width - 28;
  const heading = [
    ...wrap(DATA.title, wide, 18, true).map((text) => [text, c.ink, 'font-size="18" font-weight="700"']),
    ...(DATA.subtitle ? wrap(DATA.subtitle, wide, TEXT) : []).map((text) => [text, c.faint, ""]),
    ...(broken ? wrap(broken.caption ?? `${broken.name} violated: ${broken.title}`, wide, TEXT, true) : []).map((text) => [text, c.bad, 'font-weight="700"']),
  ].map(([text, colour, more], i) => words(14, 26 + 22 * i, text, colour, more));
  const plan = arrange(shown, 14 + 22 * heading.length), body = paint(plan, c, -Infinity, Infinity);
  state.event = chosen;
  const described = broken ? `${DATA.title}. ${says(broken)}` : DATA.title;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${plan.width}" height="${plan.height}" viewBox="0 0 ${plan.width} ${plan.height}" ${FONT} font-size="${TEXT}">` +
    `<title>${escape(DATA.title)}</title><desc>${escape(described)}</desc><rect width="100%" height="100%" fill="${c.page}"/>${heading.join("")}` +
    `${body}${head(plan, c)}</svg>`;
}
