// The run as an animation: processes are boxes, messages are dots on their way. The clock of the animation is the height in the
// diagram: the line that runs down the diagram and the stage always show the same moment, and idle stretches pass quickly.

const SPEED = 55; // pixels of the diagram per second
const LONGEST = 15; // seconds that a run takes at 1x: a long one plays faster
const STEP_MS = 900; // between events, for readers who want no motion
const COLUMNS = [["injector"], ["worker"], ["master", "authority", "store", "outside"]];
const BOX = 52, BETWEEN = 10;
const play = { y: 0, on: false, last: null, waited: 0 };

// Where the boxes stand: a column for each group of roles, spread over the height.
function seats(plan, width) {
  const columnOf = ({ role }) => Math.max(0, COLUMNS.findIndex((roles) => roles.includes(role)));
  const columns = COLUMNS.map((_, i) => plan.used.filter((lane) => columnOf(DATA.lanes[lane]) === i)).filter((one) => one.length);
  const height = Math.max(1, ...columns.map((one) => one.length)) * (BOX + BETWEEN) + BETWEEN;
  const room = width / (columns.length || 1), box = Math.max(40, Math.min(128, room - 14)), at = new Map();
  columns.forEach((lanes, i) => lanes.forEach((lane, j) => at.set(lane, { x: room * (i + 0.5), y: (height * (j + 0.5)) / lanes.length })));
  return { at, box, height };
}

const eventAt = (plan, y) => plan.shown.findLast((n) => plan.rows.get(n).y <= y + 0.5) ?? null;

function stage(plan, y, width, c) {
  const { at, box, height } = seats(plan, width), parts = [], now = eventAt(plan, y);
  const flying = flights(plan).filter((one) => one.y1 <= y && y < one.y2);
  for (const one of flying) {
    const a = at.get(one.from), b = at.get(one.to);
    parts.push(line(a.x, a.y, b.x, b.y, colourOf(one, c), 'stroke-width="1" stroke-dasharray="2 4"'));
  }
  for (const one of flying) {
    const a = at.get(one.from), b = at.get(one.to), part = (y - one.y1) / (one.y2 - one.y1);
    parts.push(`<circle data-flight="${one.kind}" cx="${(a.x + (b.x - a.x) * part).toFixed(1)}" cy="${(a.y + (b.y - a.y) * part).toFixed(1)}" r="${
      one.bad ? 8 : 6}" fill="${colourOf(one, c)}" stroke="${c.page}" stroke-width="1.5"/>`);
  }
  for (const [lane, { x, y: middle }] of at) parts.push(seat(plan, lane, x, middle, box, y, now, c)); // over the dots, which leave from behind
  return { markup: parts.join(""), height, now };
}

function seat(plan, lane, x, y, box, moment, now, c) {
  const during = (from, to) => heightOf(plan, from) <= moment && (to === null || moment < heightOf(plan, to));
  const down = DATA.outages.filter((one) => one.lane === lane && during(one.begin, one.end)).map((one) => one.kind);
  const held = DATA.tenures.filter((one) => one.lane === lane && during(one.begin, one.end));
  const lost = held.filter((one) => one.replaced !== null && heightOf(plan, one.replaced) <= moment);
  const says = [...new Set(down)].join(", ") || (lost.length ? "zombie" : held.length === 1 ? `sequencer ${held[0].sequencer}` : held.length ? `${held.length} intervals` : "");
  const colour = down.length || lost.length ? c.bad : c.ownership, here = now !== null && EVENTS[now].lane === lane;
  const [title, address] = titleOf(lane), size = measure(title, 13, true) > box - 8 ? 11 : 13;
  const lines = [...wrap(title, box - 6, size, true, 2).map((text) => [text, c.ink, `font-size="${size}" font-weight="700"`]),
    ...wrap(says || (address ?? ""), box - 6, 11, false, 2).filter(Boolean).map((text) => [text, says ? colour : c.faint, 'font-size="11"'])];
  const edge = here ? (c[EVENTS[now].group] ?? c.ink) : lost.length ? c.zombie : c.lane;
  return `<g data-seat="${escape(DATA.lanes[lane].address)}"><title>${escape(`${DATA.lanes[lane].address} ${says}`)}</title>` +
    `<rect x="${x - box / 2}" y="${y - BOX / 2}" width="${box}" height="${BOX}" rx="6" fill="${down.length ? c.outage : here ? c.chosen : c.page}" stroke="${edge}" stroke-width="${
      here ? 3 : 1.5}" ${lost.length ? 'stroke-dasharray="4 3"' : ""}/>` +
    lines.map(([text, ink, more], i) => words(x, y + 4 + 14 * (i - (lines.length - 1) / 2), text, ink, `${more} text-anchor="middle"`)).join("") + "</g>";
}

function drawStage() {
  const c = dark() ? DARK : LIGHT, svg = $("stage"), width = Math.max(200, svg.parentElement.clientWidth - 20);
  const { markup, height, now } = stage(plan, play.y, width, c);
  for (const [name, value] of [["width", width], ["height", height], ["font-family", FAMILY]]) svg.setAttribute(name, value);
  svg.innerHTML = markup;
  const event = EVENTS[now];
  $("now").innerHTML = event ? `<b>${seconds(event.at)} ${escape(event.lane < 0 ? "" : titleOf(event.lane)[0])}</b> ${escape(event.label)}` : "the run starts";
  markMoment(event ? event.at : EVENTS[0]?.at ?? 0);
  $("playhead").style.top = `${play.y + 8}px`;
  $("playhead").style.left = `${plan.gutter}px`;
  $("playhead").style.width = `${plan.left - 4 - plan.gutter}px`;
  $("scrub").max = plan.height - 12;
  $("scrub").min = plan.start;
  $("scrub").value = play.y;
  return now;
}

// Move to a height; the event there becomes the chosen one.
function moveTo(y) {
  play.y = Math.min(plan.height - 12, Math.max(plan.start, y));
  const now = drawStage();
  if (play.on) $("figure").scrollTop = play.y - $("figure").clientHeight * 0.55;
  if (now !== state.event) { state.event = now; repaint(); tell(); }
}

function tick(time) {
  if (!play.on) return;
  const passed = play.last === null ? 0 : Math.min(100, time - play.last) * Number($("speed").value);
  play.last = time;
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    const rows = plan.shown.map((n) => plan.rows.get(n).y), before = rows.filter((y) => y <= play.y + 0.5).length;
    const wait = Math.min(STEP_MS, (LONGEST * 1000) / (rows.filter((y) => y > plan.begin).length + 1));
    play.waited += passed;
    const steps = Math.floor(play.waited / wait);
    play.waited -= steps * wait;
    if (steps) moveTo(rows[before + steps - 1] ?? Infinity);
  } else moveTo(play.y + (passed / 1000) * Math.max(SPEED, (plan.height - 12 - plan.begin) / LONGEST));
  if (play.y >= plan.height - 12) pause();
  else requestAnimationFrame(tick);
}

function start() {
  if (play.y >= plan.height - 12) moveTo(plan.begin);
  Object.assign(play, { on: true, last: null, waited: 0 });
  shape();
  requestAnimationFrame(tick);
}

function pause() {
  play.on = false;
  shape();
  writeAddress();
}

function shape() {
  $("play").textContent = play.on ? "❚❚" : "▶";
  $("play").setAttribute("aria-label", play.on ? "Pause" : "Play");
  $("now").setAttribute("aria-live", play.on ? "off" : "polite");
}
