// The chart of low watermarks (MillWheel 4.3): event time up, the run's time across; steps, as the authority broadcast them.

const CHART_HEIGHT = 150, AXIS = 74, BOTTOM = 36;
let across = () => 0; // from a time of the run to pixels

function drawChart() {
  const c = dark() ? DARK : LIGHT, series = dark() ? SERIES.dark : SERIES.light, box = $("watermarks"), svg = box.querySelector("svg");
  const drawn = DATA.watermarks.filter((one) => one.steps.some(([, value]) => typeof value === "number"));
  box.hidden = !drawn.length;
  if (box.hidden) return;
  const width = Math.max(200, box.clientWidth - 28), right = width - 12, bottom = CHART_HEIGHT - BOTTOM, top = 20;
  const first = EVENTS[0].at, last = EVENTS.at(-1).at;
  const values = drawn.flatMap((one) => one.steps.map(([, value]) => value)).filter((value) => typeof value === "number");
  const low = Math.min(...values), high = Math.max(...values);
  const up = (value) => (value === "unknown" ? bottom : value === "end" ? top : low === high ? (top + bottom) / 2 : bottom - 14 - ((bottom - top - 28) * (value - low)) / (high - low));
  across = (at) => AXIS + ((right - AXIS) * (at - first)) / (last - first || 1);
  const small = 'font-size="12"', parts = [];
  for (const [value, text] of new Map([["unknown", "unknown"], [low, seconds(low)], [high, seconds(high)], ["end", "end"]])) {
    parts.push(line(AXIS, up(value), right, up(value), c.rule), words(AXIS - 6, up(value) + 4, text, c.faint, `${small} text-anchor="end"`));
  }
  const ticks = width < 500 ? 2 : 4;
  for (let i = 0; i <= ticks; i++) {
    const at = first + ((last - first) * i) / ticks, anchor = i === ticks ? "end" : i ? "middle" : "start";
    parts.push(line(across(at), bottom, across(at), bottom + 4, c.lane), words(across(at), bottom + 17, `${(at / 1e6).toFixed(1)} s`, c.faint, `${small} text-anchor="${anchor}"`));
  }
  parts.push(words((AXIS + right) / 2, bottom + 32, "time of the run", c.faint, `${small} text-anchor="middle"`));
  drawn.forEach((one, i) => {
    const shift = (i % series.length) * 2, colour = series[i % series.length];
    let path = "";
    for (const [number, value] of one.steps) {
      const x = (across(EVENTS[number].at) + shift).toFixed(1), y = (up(value) - shift).toFixed(1);
      path += path ? `H${x}V${y}` : `M${x} ${y}`;
    }
    parts.push(`<path d="${path}H${right}" fill="none" stroke="${colour}" stroke-width="2"><title>low watermark of ${escape(one.name)}</title></path>`);
  });
  parts.push(`<line id="moment" y1="${top - 4}" y2="${bottom}" stroke="${c.bad}" stroke-width="2"/>`);
  const names = drawn.map((one, i) => `<span style="color:${series[i % series.length]}">${escape(one.name)}</span>`).join(", ");
  box.querySelector("figcaption").innerHTML = `Low watermarks, in event time, of ${names}`;
  for (const [name, value] of [["width", width], ["height", CHART_HEIGHT], ["font-family", FAMILY]]) svg.setAttribute(name, value);
  svg.innerHTML = parts.join("");
}

// Mark a time of the run in the chart.
function markMoment(at) {
  const moment = $("moment");
  if (moment) for (const name of ["x1", "x2"]) moment.setAttribute(name, across(at).toFixed(1));
}
