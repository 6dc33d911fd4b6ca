"use strict";
/* The page of `trireme board`. It asks /api/list every two seconds, and for the curves of those runs alone that are shown
 * and have changed. Curves come as columns of pixels: least, greatest and middle of the steps of each. */

const PERIOD_MS = 2000, POINTS = 320, RUNS_AT_ONCE = 8, MOST_BANDS = 8, MOST_IN_TIP = 14, MOST_WORDS = 12, MOST_SAMPLES = 50, MOST_NAMED_CHARTS = 64;
const token = new URLSearchParams(location.search).get("token");
const $ = (id) => document.getElementById(id);

const state = {
  list: { runs: [], studies: [], timelines: [] },
  curves: new Map(), // id -> {key, version, data}
  hidden: new Set(), // ids of runs
  places: new Map(), // id of a run that is shown -> its place among the colours
  configs: new Map(), // id -> {version, keys}
  studies: new Map(), timelines: new Map(), samples: new Map(),
  axis: "step", smoothing: 1, log: false, usual: false, from: null, to: null, filter: "",
  sort: { by: "name", down: false }, answered: null, updates: 0,
};

/* ---- elements ---- */

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  return fill(element, attributes, children);
}

function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "color") element.style.color = value;
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/* ---- numbers ---- */

const known = (value) => typeof value === "number" && Number.isFinite(value);
const count_text = (value) => value.toLocaleString("en-US");
const round = (value, digits = 4) => (value === 0 ? "0" : Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3 ? value.toExponential(digits - 2).replace(/\.?0+e/, "e").replace("e+", "e") : String(Number(value.toPrecision(digits))));

function short(value, digits = 4) {
  for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(value) >= size) return round(value / (letter === "k" ? 1e3 : size), digits) + letter;
  }
  return round(value, digits);
}

function clock(seconds) {
  if (seconds < 60) return round(seconds, 3) + " s";
  const days = Math.floor(seconds / 86400), hours = Math.floor((seconds % 86400) / 3600), minutes = Math.floor((seconds % 3600) / 60);
  if (days > 0) return `${days} d ${hours} h`;
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${Math.floor(seconds % 60)} s`;
}

const UNITS = {
  bytes: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "bytes"]],
  seconds: [[86400, "days"], [3600, "hours"], [60, "min"], [1, "s"]],
  time: [[60, "min"], [1, "s"], [1e-3, "ms"]],
  share: [[0.01, "%"]],
};

/* The largest unit in which the greatest value is at least 1 (for hours and days: 2). */
function unit_of(kind, most) {
  const units = UNITS[kind];
  if (!units) return [1, ""];
  return units.find(([size]) => most >= size * (kind === "seconds" && size > 1 ? 2 : 1)) || units[units.length - 1];
}

function value_text(kind, value) {
  if (!known(value)) return "–";
  if (kind === "count") return short(value);
  if (kind === "loss") return round(value, 5);
  const [size, name] = unit_of(kind, Math.abs(value));
  return round(value / size, kind === "" || kind === undefined ? 6 : 4) + (name ? " " + name : "");
}

/* 1, 2 or 5 times a power of ten. */
function even_ticks(low, high, wanted) {
  const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough)), lead = rough / power;
  const distance = power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10), ticks = [];
  for (let i = Math.ceil(low / distance - 1e-9); i * distance <= high + distance * 1e-9; i++) ticks.push(i * distance);
  return ticks;
}

function log_ticks(low, high) {
  const leads = high / low > 1000 ? [1] : [1, 2, 3, 5], ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const lead of leads) {
      const value = lead * 10 ** power;
      if (value >= low && value <= high) ticks.push(value);
    }
  }
  return ticks.length >= 2 ? ticks : even_ticks(low, high, 4);
}

/* ---- colours: of a run by its place among those shown, which stays its own as long as it is shown ---- */

/* Each at least 3:1 against its background, and no two alike. */
const COLOURS = {
  light: ["#1f6fd6", "#d95f02", "#178a3c", "#d6268f", "#6a3fc4", "#00838f", "#c62828", "#6f7300", "#8d5524", "#5b6470", "#4f9d00", "#a321b8", "#1a2a80", "#b8860b"],
  dark: ["#5aa0ff", "#ff9a3d", "#3fc46c", "#ff6fc0", "#9c7bff", "#2fd0dd", "#ff5f57", "#c3c93a", "#c28a56", "#b4bcc6", "#8be000", "#dd86ff", "#b9d4ff", "#ffd95a"],
};

/* A run that is shown now takes the first place that is free. */
function give_places() {
  const shown = state.list.runs.filter((run) => !state.hidden.has(run.id)).map((run) => run.id), taken = new Set(state.places.values());
  for (const id of [...state.places.keys()]) {
    if (shown.includes(id)) continue;
    taken.delete(state.places.get(id));
    state.places.delete(id);
  }
  let place = 0;
  for (const id of shown) {
    if (state.places.has(id)) continue;
    while (taken.has(place)) place++;
    taken.add(place);
    state.places.set(id, place);
  }
}

/* Behind the last of the palette, further hues. */
function colour(id) {
  const dark = document.documentElement.dataset.theme === "dark", palette = COLOURS[dark ? "dark" : "light"], place = state.places.get(id);
  if (place === undefined) return "var(--quiet)";
  return palette[place] ?? `hsl(${((place * 137.508) % 360).toFixed(0)} 70% ${dark ? 66 : 40}%)`;
}

const KINDS = new Map(Object.entries({ compute: 212, optimizer: 275, sampling: 55, bubble: 40, tensor: 350, pipeline: 25, data: 135, context_inner: 185, context_outer: 165, expert: 320, all: 95, node: 60 }));
function kind_colour(kind) {
  const hue = KINDS.get(kind) ?? [...kind].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 360, 7);
  return kind === "bubble" ? "hsl(0 0% 62%)" : `hsl(${hue} 58% 54%)`;
}

/* ---- charts ---- */

const CHARTS = [
  { key: "loss", title: "Loss", kind: "", wide: true, marks: true, by_objective: true },
  { key: "tokens_per_s", title: "Throughput", kind: "count", unit: "tokens/s", zero: true },
  { key: "mfu", title: "Share of the peak (MFU)", kind: "share", zero: true },
  { key: "peak_bytes", title: "Memory of a rank", kind: "bytes", zero: true },
  { key: "grad_norm", title: "Gradient norm", kind: "", may_log: true, marks: true },
  { key: "validation_loss", title: "Validation loss", kind: "", sparse: true, by_objective: true },
  { key: "lr", title: "Learning rate", kind: "", zero: true },
  { key: "step_s", title: "Time of a step", kind: "time", zero: true },
  { key: "bad_steps", title: "Bad steps so far", kind: "", zero: true, whole: true },
  { key: "sources", parts: [1, 2, 3, 4, 5, 6, 7, 8].map((i) => "source_" + i), title: "Shares of sources so far", kind: "share", zero: true },
  { key: "expert_load", title: "Busiest expert's load", kind: "", unit: "times an even share" },
  { key: "expert_evenness", title: "Evenness of experts' loads", kind: "", unit: "1: all are equal" },
  { key: "router_loss", title: "Router loss", kind: "" },
  { key: "kl", title: "KL to the reference", kind: "" },
];

/* What is known of numbers under names such as "rewards/chosen"; of others the name is the title. */
const NAMED_TITLES = new Map(Object.entries({ rewards: "Rewards", "rewards/accuracies": "Accuracy of rewards", logps: "Log-probabilities of answers" }));
const HELD_OUT = "validation/", HELD_OUT_ACCURACY = "validation/rewards/accuracies";

/* How the curves of one run differ from one another. */
const DASHES = ["none", "7 3", "2 2", "9 3 2 3", "4 2 1 2", "12 4", "1 3", "9 2 2 2 2 2"];

const MARGIN = { left: 54, right: 10, top: 8, bottom: 22 };

const shown_runs = () => state.list.runs.filter((run) => !state.hidden.has(run.id) && state.curves.has(run.id));
const low_of = (value) => (Array.isArray(value) ? value[0] : value);
const high_of = (value) => (Array.isArray(value) ? value[1] : value);
const middle_of = (value) => (Array.isArray(value) ? value[2] : value);

const objective_of = (run) => run.objective ?? "";

/* Losses of different objectives have different scales: if the runs that are shown have several objectives, each has charts of its own. The first
 * one has the charts that are always there; further ones are added behind them. */
function find_objective_charts() {
  const objectives = [...new Set(shown_runs().map(objective_of))].sort();
  for (const base of charts.filter(({ spec }) => spec.by_objective && !spec.place)) {
    base.spec.objective = objectives.length > 1 ? objectives[0] : null;
    objectives.slice(1).forEach((objective, i) => {
      const id = `${base.spec.key}:${i + 2}`;
      let chart = charts.find(({ spec }) => spec.id === id);
      if (!chart) {
        charts.push((chart = chart_card({ ...base.spec, id, place: i + 1 })));
        (charts.find(({ spec }) => spec.id === `${base.spec.key}:${i + 1}`) ?? base).card.after(chart.card);
      }
      chart.spec.objective = objective;
    });
    for (const { spec } of charts) if (spec.key === base.spec.key && spec.place >= Math.max(1, objectives.length)) spec.objective = "none";
  }
}

/* "Loss (dpo)" if the chart is of one objective among several. */
const title_of = (spec) => (typeof spec.objective === "string" ? `${spec.title} (${spec.objective || "next token"})` : spec.title);

/* The curves of a chart that have any value: of each run one, or one of each part. */
function curves_of(spec) {
  return shown_runs().filter((run) => typeof spec.objective !== "string" || objective_of(run) === spec.objective).flatMap((run) => (spec.parts ?? [spec.key]).map((key, part) => ({ run, key, part, data: state.curves.get(run.id).data }))).filter(({ key, data }) => data[key]);
}

/* The chart of a named number: names with the same first part share it, but for accuracies and ratios, which have a scale of their own. */
function named_place(name) {
  const held = name.startsWith(HELD_OUT), own = held ? name.slice(HELD_OUT.length) : name, cut = own.indexOf("/");
  const accuracy = /(^|[/_])(accurac(y|ies)|ratio)$/.test(own), group = accuracy || cut < 0 ? own : own.slice(0, cut);
  return { held, accuracy, group, leaf: accuracy ? own.slice(own.lastIndexOf("/") + 1) : own.slice(cut + 1) };
}

/* Adds to the charts what curves of runs that are shown have under such names: a chart of a group has up to as many as there are dashes, the next has the others. */
function find_named_charts() {
  for (const { id, named } of shown_runs()) {
    for (const name of Object.keys(named ?? {}).filter((key) => state.curves.get(id).data[key])) {
      const { held, accuracy, group, leaf } = named_place(name), of_group = charts.filter(({ spec }) => spec.named && spec.group === group);
      let chart = of_group.find(({ spec }) => spec.leaves.includes(leaf) || spec.leaves.length < DASHES.length);
      if (!chart && named_charts() >= MOST_NAMED_CHARTS) continue;
      const [key, title] = of_group.length === 0 ? ["", ""] : [`:${of_group.length + 1}`, ` (${of_group.length + 1})`];
      if (!chart) charts.push((chart = chart_card({ key: "named-" + group + key, group, named: [], leaves: [], parts: [], title: (NAMED_TITLES.get(group) ?? group) + title, kind: accuracy ? "share" : "", zero: accuracy })));
      const { spec } = chart;
      if (spec.parts.includes(name)) continue;
      if (!spec.leaves.includes(leaf)) spec.leaves.push(leaf);
      spec.parts.push(name);
      spec.named.push({ held, dash: spec.leaves.indexOf(leaf), text: held ? leaf + ", held out" : leaf });
    }
  }
}

const named_charts = () => charts.filter(({ spec }) => spec.named).length;
const is_held_out = (spec, part) => Boolean(spec.named?.[part].held);
const dash_of = (spec, part) => DASHES[spec.named ? spec.named[part].dash : part];

/* What a curve of several of one run is called. */
const part_name = (spec, run, part) => (spec.named ? spec.named[part].text : source_name(run, part));

/* The corpus by its file's name, as data.train has it. */
function source_name(run, part) {
  const keys = state.configs.get(run.id)?.keys, path = keys?.get(`data.train.${part + 1}.path`) ?? keys?.get(`data.train.${part + 1}`);
  return path?.replace(/^"|"$/g, "").split("/").slice(-2).join("/") || `source ${part + 1}`;
}

function x_range(curves) {
  if (state.from !== null) return [state.from, state.to];
  let low = Infinity, high = -Infinity;
  for (const { data } of curves) {
    if (data.range.length === 0) continue;
    low = Math.min(low, data.range[0]);
    high = Math.max(high, data.range[1]);
  }
  return low < high ? [low, high] : low === high ? [low - 1, high + 1] : [0, 1];
}

const middle_at = (sorted, part) => sorted[Math.round(part * (sorted.length - 1))];

/* Without outliers: the curves whose last values are near those of the others (within eight times the median distance from the median, or half of the
 * median), if there are four or more. */
function usual_curves(curves) {
  if (!state.usual || curves.length < 4) return curves;
  const last = ({ key, data }) => data[key].map(middle_of).filter(known).at(-1), lasts = curves.map(last).filter(known).sort((a, b) => a - b);
  if (lasts.length < 4) return curves;
  const middle = middle_at(lasts, 0.5), far = middle_at(lasts.map((value) => Math.abs(value - middle)).sort((a, b) => a - b), 0.5);
  const usual = curves.filter((curve) => known(last(curve)) && Math.abs(last(curve) - middle) <= Math.max(8 * far, Math.abs(middle) / 2));
  return usual.length > 0 ? usual : curves;
}

/* The range of 98 in 100 values, to which the scale without outliers is limited. */
function usual_range(curves, low, high) {
  const values = curves.flatMap(({ key, data }) => data[key].map(middle_of).filter(known)).sort((a, b) => a - b);
  return state.usual && values.length >= 50 ? [Math.max(low, middle_at(values, 0.01)), Math.min(high, middle_at(values, 0.99))] : [low, high];
}

/* All middles, and what was measured where it is not far away: one spike does not flatten the rest. */
function y_range(spec, all_curves, logarithmic) {
  const curves = usual_curves(all_curves);
  let low = Infinity, high = -Infinity;
  for (const { key: own, data } of curves) {
    for (const key of own === "loss" && data.validation_loss ? ["loss", "validation_loss"] : [own]) {
      for (const value of data[key]) {
        const middle = middle_of(value);
        if (!known(middle) || (logarithmic && middle <= 0)) continue;
        low = Math.min(low, middle);
        high = Math.max(high, middle);
      }
    }
  }
  if (low > high) return [logarithmic ? 0.1 : 0, 1];
  if (!logarithmic || low > 0) [low, high] = usual_range(curves, low, high);
  if (logarithmic) return [low / 1.06, high * 1.06 + (low === high ? low : 0)];
  if (spec.zero && low >= 0) return [0, high > 0 ? high * 1.06 : 1];
  const room = high > low ? (high - low) * 0.06 : Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

function scales(spec, curves, width, height) {
  const [x0, x1] = x_range(curves);
  const [first] = y_range(spec, curves, false), spans = spec.may_log && first > 0;
  let logarithmic = spec.key === "loss" || spec.key === "validation_loss" ? state.log : false;
  let [y0, y1] = y_range(spec, curves, logarithmic);
  if (spans && y1 / Math.max(y0, 1e-30) > 20) { logarithmic = true; [y0, y1] = y_range(spec, curves, true); }
  const wide = width - MARGIN.left - MARGIN.right, tall = height - MARGIN.top - MARGIN.bottom;
  const at = logarithmic ? (y) => Math.log(y / y0) / Math.log(y1 / y0) : (y) => (y - y0) / (y1 - y0);
  return {
    x0, x1, y0, y1, logarithmic, wide, tall,
    x: (x) => MARGIN.left + ((x - x0) / (x1 - x0)) * wide,
    y: (y) => MARGIN.top + (1 - at(logarithmic && y <= 0 ? y0 : y)) * tall,
    back: (pixel) => x0 + ((pixel - MARGIN.left) / wide) * (x1 - x0),
  };
}

/* ---- what is below the curves ---- */

function axis_unit(kind, low, high, ticks) {
  const [size, name] = unit_of(kind, Math.max(Math.abs(low), Math.abs(high)));
  return { name, list: ticks(low / size, high / size).map((tick) => [tick * size, tick]) };
}

function draw_axes(svg, spec, s) {
  const across = axis_unit(state.axis === "time" ? "seconds" : "", s.x0, s.x1, (a, b) => even_ticks(a, b, Math.max(3, s.wide / 110)));
  const up = axis_unit(spec.kind, s.y0, s.y1, (a, b) => (s.logarithmic ? log_ticks(a, b) : even_ticks(a, b, Math.max(3, s.tall / 45))));
  for (const [value, label] of up.list) {
    if (spec.whole && !Number.isInteger(Number(label.toPrecision(9)))) continue;
    svg.append(draw("line", { class: "grid", x1: MARGIN.left, x2: MARGIN.left + s.wide, y1: s.y(value), y2: s.y(value) }),
      draw("text", { x: MARGIN.left - 6, y: s.y(value) + 4, "text-anchor": "end" }, short(label)));
  }
  for (const [value, label] of across.list) {
    const x = s.x(value);
    svg.append(draw("line", { class: "grid", x1: x, x2: x, y1: MARGIN.top, y2: MARGIN.top + s.tall }));
    const at_end = x > MARGIN.left + s.wide - 16;
    svg.append(draw("text", { x: at_end ? MARGIN.left + s.wide : x, y: MARGIN.top + s.tall + 15, "text-anchor": at_end ? "end" : "middle" }, short(label)));
  }
  svg.append(draw("line", { class: "frame", x1: MARGIN.left, x2: MARGIN.left + s.wide, y1: MARGIN.top + s.tall, y2: MARGIN.top + s.tall }));
  return { across: state.axis === "time" ? across.name : state.axis === "step" ? "steps" : "tokens", up: spec.unit || up.name };
}

/* ---- curves ---- */

function line_path(data, key, s, sparse) {
  let path = "", pen = "M";
  data[key].forEach((value, i) => {
    const y = middle_of(value);
    if (!known(y)) { if (!sparse) pen = "M"; return; }
    path += pen + s.x(data.x[i]).toFixed(1) + " " + s.y(y).toFixed(1);
    pen = "L";
  });
  return path;
}

function band_path(data, key, s) {
  const up = [], down = [];
  data[key].forEach((value, i) => {
    if (!known(middle_of(value))) return;
    const x = s.x(data.x[i]).toFixed(1);
    up.push(x + " " + s.y(high_of(value)).toFixed(1));
    down.push(x + " " + s.y(low_of(value)).toFixed(1));
  });
  return up.length > 1 ? "M" + up.join("L") + "L" + down.reverse().join("L") + "Z" : "";
}

function draw_points(svg, data, key, s, paint) {
  data[key].forEach((value, i) => {
    if (known(middle_of(value))) svg.append(draw("circle", { class: "mark", cx: s.x(data.x[i]), cy: s.y(middle_of(value)), r: 2.6, fill: paint }));
  });
}

/* On the lower edge: a triangle for a checkpoint (filled: the best so far), a cross for a step that was bad. */
function draw_marks(svg, data, s, paint) {
  const floor = MARGIN.top + s.tall, inside = (x) => x >= s.x0 && x <= s.x1;
  for (const [step, x, best] of data.checkpoints) {
    if (!inside(x)) continue;
    const at = s.x(x);
    svg.append(draw("path", { class: "mark checkpoint", d: `M${at - 4} ${floor}L${at + 4} ${floor}L${at} ${floor - 7}Z`, fill: paint, "fill-opacity": best ? 1 : 0.45 },
      draw("title", {}, `checkpoint of step ${step}${best ? ", the best so far" : ""}`)));
  }
  for (const [step, x] of data.bad) {
    if (!inside(x)) continue;
    const at = s.x(x), y = MARGIN.top + 6;
    svg.append(draw("path", { class: "bad", d: `M${at - 3} ${y - 3}L${at + 3} ${y + 3}M${at - 3} ${y + 3}L${at + 3} ${y - 3}` }, draw("title", {}, `bad step ${step}`)));
  }
}

function draw_curve(svg, spec, curve, s, banded) {
  const { run, key, part, data } = curve, paint = colour(run.id), sparse = spec.sparse || is_held_out(spec, part), dash = spec.parts ? dash_of(spec, part) : "none";
  if (banded && !spec.sparse && !spec.parts) svg.append(draw("path", { class: "band", d: band_path(data, key, s), fill: paint }));
  svg.append(draw("path", { class: "curve", "data-run": run.id, d: line_path(data, key, s, sparse), stroke: paint, "stroke-dasharray": dash === "none" ? null : dash }));
  if (sparse || data.x.length === 1) draw_points(svg, data, key, s, paint);
  if (spec.key === "loss" && data.validation_loss && banded) {
    svg.append(draw("path", { class: "validation", d: line_path(data, "validation_loss", s, true), stroke: paint }));
    draw_points(svg, data, "validation_loss", s, paint);
  }
}

function chart_card(spec) {
  const title = make("h3", {}, spec.title), note = make("span", { class: "note" });
  const svg = draw("svg", { class: "chart", tabindex: 0, role: "img", "aria-label": spec.title }), keys = make("div", { class: "keys", hidden: true });
  const card = make("div", { class: spec.wide ? "card wide" : "card", id: "chart-" + (spec.id ?? spec.key), hidden: true }, make("div", { class: "head" }, title, note), svg, keys);
  const chart = { spec, card, svg, title, note, keys, scale: null, curves: [] };
  listen(chart);
  $("charts").append(card);
  return chart;
}

/* Which dashes are which part; runs may have other sources under the same number. */
function show_parts(chart) {
  const names = new Map();
  for (const { run, part } of chart.curves) names.set(part, new Set([...(names.get(part) ?? []), part_name(chart.spec, run, part)]));
  chart.keys.hidden = !chart.spec.parts;
  replace_if_other(chart.keys, JSON.stringify([...names].map(([part, of_runs]) => [part, ...of_runs])), () => [...names].sort(([a], [b]) => a - b).map(([part, of_runs]) => make("span", {},
    draw("svg", { class: "dash", viewBox: "0 0 34 8", width: 34, height: 8, "aria-hidden": "true" }, draw("path", { d: "M0 4H34", "stroke-dasharray": dash_of(chart.spec, part) }), is_held_out(chart.spec, part) ? draw("circle", { cx: 17, cy: 4, r: 2.6, fill: "currentColor" }) : null), " " + [...of_runs].join(", "))));
}

function draw_chart(chart) {
  const { spec, svg } = chart, curves = curves_of(spec);
  chart.card.hidden = curves.length === 0 || (spec.key === "bad_steps" && !curves.some(({ data }) => data.bad_steps.some((value) => high_of(value) > 0)));
  if (chart.card.hidden) return;
  const width = Math.max(260, svg.clientWidth || 600), height = spec.wide ? 330 : 190, s = scales(spec, curves, width, height);
  const clip = "clip-" + (spec.id ?? spec.key), banded = curves.length <= MOST_BANDS;
  svg.replaceChildren(draw("defs", {}, draw("clipPath", { id: clip }, draw("rect", { x: MARGIN.left, y: MARGIN.top, width: s.wide, height: s.tall + 1 }))));
  svg.setAttribute("height", height);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const names = draw_axes(svg, spec, s), plot = draw("g", { "clip-path": `url(#${clip})` });
  for (const curve of curves) draw_curve(plot, spec, curve, s, banded);
  if (spec.marks && banded) for (const { run, data } of curves) draw_marks(plot, data, s, colour(run.id));
  svg.append(plot);
  const outside = curves.length - usual_curves(curves).length;
  chart.title.textContent = title_of(spec);
  chart.note.textContent = [names.up, s.logarithmic ? "logarithmic" : "", outside > 0 ? `${outside} run${outside === 1 ? "" : "s"} outside of the scale` : "", "over " + names.across, spec.key === "loss" && banded && curves.some(({ data }) => data.validation_loss) ? "dashed: validation" : ""].filter(Boolean).join(" · ");
  svg.setAttribute("aria-label", `${title_of(spec)} of ${curves.length} runs over ${names.across}, from ${short(s.y0)} to ${short(s.y1)}`);
  chart.scale = s;
  chart.curves = curves;
  if (spec.parts) show_parts(chart);
}

/* ---- reading values, looking closer ---- */

function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle; else high = middle;
  }
  return high < 0 ? -1 : Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
}

function x_text(x) {
  return state.axis === "time" ? clock(x) : state.axis === "step" ? "step " + Math.round(x) : short(x, 5) + " tokens";
}

function values_at(chart, x, y) {
  const { spec, scale } = chart, rows = [];
  for (const { run, key, part, data } of chart.curves) {
    const i = nearest(data.x, x), value = i < 0 ? null : data[key][i], name = spec.parts ? `${run.name}: ${part_name(spec, run, part)}` : run.name;
    if (!known(middle_of(value)) || Math.abs(data.x[i] - x) > (scale.x1 - scale.x0) / 40) continue;
    rows.push({ run, name, value, steps: data.steps[i], far: y === null ? 0 : Math.abs(scale.y(middle_of(value)) - y) });
  }
  return rows.sort((a, b) => a.far - b.far).slice(0, MOST_IN_TIP).sort((a, b) => middle_of(b.value) - middle_of(a.value));
}

function tip_row({ run, name, value, steps }, kind) {
  const range = steps > 1 && low_of(value) !== high_of(value) ? `${value_text(kind, low_of(value))} … ${value_text(kind, high_of(value))} in ${steps} steps` : "";
  return make("tr", {}, make("td", {}, make("span", { class: "swatch", color: colour(run.id) })), make("td", {}, name),
    make("td", {}, value_text(kind, middle_of(value))), make("td", { class: "at" }, range));
}

function show_tip(chart, x, y, left, top) {
  const rows = values_at(chart, x, y), tip = $("tip");
  chart.svg.querySelector(".cross")?.remove();
  chart.svg.append(draw("line", { class: "cross", x1: chart.scale.x(x), x2: chart.scale.x(x), y1: MARGIN.top, y2: MARGIN.top + chart.scale.tall }));
  tip.replaceChildren(make("div", { class: "at" }, `${chart.spec.title} at ${x_text(x)}`), make("table", {}, ...rows.map((row) => tip_row(row, chart.spec.kind))));
  tip.hidden = rows.length === 0;
  tip.style.left = Math.max(4, Math.min(left + 14, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(top + 14, innerHeight - tip.offsetHeight - 8)) + "px";
}

function hide_tip(chart) {
  $("tip").hidden = true;
  chart.svg.querySelector(".cross")?.remove();
}

function look_at(from, to) {
  state.from = from;
  state.to = to;
  $("whole").hidden = from === null;
  refresh();
}

function place_of(chart, event) {
  const box = chart.svg.getBoundingClientRect();
  const pixel = Math.min(Math.max(event.clientX - box.left, MARGIN.left), MARGIN.left + chart.scale.wide);
  return { pixel, x: chart.scale.back(pixel), y: event.clientY - box.top };
}

function drag(chart, event, begin) {
  const at = place_of(chart, event);
  chart.svg.querySelector(".select")?.remove();
  chart.svg.append(draw("rect", { class: "select", x: Math.min(begin.pixel, at.pixel), width: Math.abs(at.pixel - begin.pixel), y: MARGIN.top, height: chart.scale.tall }));
  return at;
}

function listen(chart) {
  const { svg } = chart;
  let begin = null, at = null;
  svg.addEventListener("pointerdown", (event) => { begin = place_of(chart, event); svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointermove", (event) => {
    if (!chart.scale) return;
    if (begin) { drag(chart, event, begin); return; }
    at = place_of(chart, event);
    show_tip(chart, at.x, at.y, event.clientX, event.clientY);
  });
  svg.addEventListener("pointerup", (event) => {
    const end = begin && place_of(chart, event), from = begin;
    begin = null;
    svg.querySelector(".select")?.remove();
    if (from && Math.abs(end.pixel - from.pixel) > 6) look_at(Math.min(from.x, end.x), Math.max(from.x, end.x));
  });
  svg.addEventListener("pointerleave", () => hide_tip(chart));
  svg.addEventListener("blur", () => hide_tip(chart));
  svg.addEventListener("dblclick", () => look_at(null, null));
  svg.addEventListener("keydown", (event) => {
    const s = chart.scale, way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") { hide_tip(chart); look_at(null, null); }
    if (!way || !s) return;
    event.preventDefault();
    const x = Math.min(Math.max((at ? at.x : (s.x0 + s.x1) / 2) + way * ((s.x1 - s.x0) / (event.shiftKey ? 20 : 200)), s.x0), s.x1), box = svg.getBoundingClientRect();
    at = { x };
    show_tip(chart, x, null, box.left + s.x(x), box.top + 20);
  });
}

/* ---- the list of runs, the table ---- */

/* In words: "running at 20 of 1,500". */
function state_text(run) {
  const at = known(run.planned_steps) ? `${count_text(run.step)} of ${count_text(run.planned_steps)}` : `step ${count_text(run.step)}`;
  switch (run.state) {
    case "finished": return `finished, ${count_text(run.step)} step${run.step === 1 ? "" : "s"}`;
    case "diverged": case "failed": return `${run.state} at step ${count_text(run.step)}${run.reason ? ": " + run.reason : ""}`;
    default: return `${run.state} at ${at}`; // running, interrupted, ended early
  }
}

const STATE_CLASSES = { running: "running-word", diverged: "failed-word", failed: "failed-word" };

function toggle(id) {
  if (state.hidden.has(id)) state.hidden.delete(id); else state.hidden.add(id);
  refresh();
}

const matches = (run) => run.name.toLowerCase().includes(state.filter.toLowerCase());

function legend_entry(run) {
  const entry = make("li", {}, make("button", { type: "button", title: run.name, "aria-pressed": "true", onclick: () => toggle(run.id) },
    make("span", { class: "swatch" }), make("span", { class: "name" }, make("bdi", {}, run.name)), make("span", { class: "value" })));
  entry.dataset.id = run.id;
  return entry;
}

/* Entries stay what they are, so that who walks through them by keys is not thrown out. */
function show_legend() {
  const entries = new Map([...$("runs").children].map((entry) => [Number(entry.dataset.id), entry]));
  for (const run of state.list.runs) {
    const entry = entries.get(run.id) || legend_entry(run);
    entries.delete(run.id);
    if (!entry.parentNode) $("runs").append(entry);
    entry.hidden = !matches(run);
    entry.firstChild.title = `${run.name}: ${state_text(run)}`;
    entry.firstChild.setAttribute("aria-pressed", String(!state.hidden.has(run.id)));
    const swatch = entry.querySelector(".swatch");
    swatch.style.color = colour(run.id);
    swatch.classList.toggle("running", run.state === "running");
    entry.querySelector(".value").textContent = known(run.loss) ? run.loss.toFixed(3) : "–";
  }
  for (const entry of entries.values()) entry.remove();
}

const COLUMNS = [
  ["run", (r) => r.name, (r) => make("td", { class: "name" }, make("span", { class: "swatch", color: colour(r.id) }), "\u00a0" + r.name)],
  ["state", state_text, (r) => make("td", { class: "text state " + (STATE_CLASSES[r.state] ?? ""), title: state_text(r) }, state_text(r))],
  ["step", (r) => r.step],
  ["objective", (r) => r.objective ?? "", (r) => make("td", { class: "text" }, r.objective ?? "")],
  ["tokens", (r) => r.tokens, (r) => short(r.tokens)],
  ["time", (r) => r.seconds, (r) => clock(r.seconds)],
  ["loss", (r) => r.loss, (r) => value_text("loss", r.loss)],
  ["val. loss", (r) => r.validation_loss, (r) => value_text("loss", r.validation_loss)],
  ["best val. loss", (r) => r.best_validation_loss, (r) => value_text("loss", r.best_validation_loss)],
  ["val. accuracy", (r) => r.named?.[HELD_OUT_ACCURACY], (r) => value_text("share", r.named?.[HELD_OUT_ACCURACY])],
  ["tokens/s", (r) => r.tokens_per_s, (r) => value_text("count", r.tokens_per_s)],
  ["step time", (r) => r.step_s, (r) => value_text("time", r.step_s)],
  ["MFU", (r) => r.mfu, (r) => (known(r.mfu) ? (100 * r.mfu).toFixed(1) + " %" : "–")],
  ["memory", (r) => r.peak_bytes, (r) => value_text("bytes", r.peak_bytes)],
  ["bad steps", (r) => r.bad_steps, (r) => make("td", { class: r.bad_steps > 0 ? "bad-word" : "" }, value_text("count", r.bad_steps))],
  ["saved", (r) => r.checkpoints.length && r.checkpoints[r.checkpoints.length - 1].step, (r) => (r.checkpoints.length ? String(r.checkpoints[r.checkpoints.length - 1].step) : "–")],
  ["ranks", (r) => (r.summary ? r.summary.ranks : null), (r) => make("td", { class: "wrapped" }, r.summary ? `${r.summary.ranks} × ${r.summary.device} ${r.summary.precision}` : "–")],
];

/* A column that no run has anything for takes no room. */
const columns_of = (runs) => COLUMNS.filter(([, value], i) => i < 3 || runs.some((run) => (known(value(run)) && (value(run) !== 0 || COLUMNS[i][0] !== "saved")) || (typeof value(run) === "string" && value(run) !== "")));

function compare(a, b) {
  if (typeof a === "string" || typeof b === "string") return String(a).localeCompare(String(b), undefined, { numeric: true });
  return (known(a) ? a : Infinity) - (known(b) ? b : Infinity);
}

function sort_by(name) {
  state.sort = { by: name, down: state.sort.by === name && !state.sort.down };
  show_table();
}

function show_table() {
  const column = COLUMNS.find(([name]) => name === state.sort.by) || COLUMNS[0];
  const runs = state.list.runs.filter(matches).sort((a, b) => compare(column[1](a), column[1](b)) * (state.sort.down ? -1 : 1));
  const columns = columns_of(state.list.runs);
  replace_if_other($("table"), columns.map(([name]) => name).join(), () => [make("thead", {}, make("tr", {}, ...columns.map(([name], i) => make("th", { scope: "col", class: i < 2 || name === "objective" ? "text" : null }, make("button", { type: "button", onclick: () => sort_by(name) }, name))))), make("tbody")]);
  $("table").tHead.querySelectorAll("th").forEach((th, i) => th.setAttribute("aria-sort", columns[i] !== column ? "none" : state.sort.down ? "descending" : "ascending"));
  $("table").tBodies[0].replaceChildren(...runs.map((run) => make("tr", {}, ...columns.map(([, value, cell]) => {
    const shown = cell ? cell(run) : String(value(run));
    return shown instanceof Node ? shown : make("td", {}, shown);
  }))));
}

/* ---- what differs ---- */

/* A value as config.yaml has it, without the comment behind it. */
const value_of = (text) => /^\s*((?:"(?:\\.|[^"\\])*"|[^"#\s]#|[^"#])*)/.exec(text)[1].trim();

/* Of a config.yaml as runs write it: `optimizer.steps` and the like with their values; entries of lists by their number.
 * What follows from another key stands there as a comment. */
function config_keys(text) {
  const keys = new Map(), path = [];
  const enter = (indent, name) => {
    while (path.length && path[path.length - 1].indent >= indent) path.pop();
    path.push({ indent, name, entries: 0 });
  };
  for (const line of text.split("\n")) {
    const [, blanks, comment, dash, key, rest] = /^( *)(# )?(- )?(?:([A-Za-z_]\w*):(?= |$))?(.*)$/.exec(line);
    if ((comment && (blanks === "" || !key)) || (!dash && !key)) continue;
    const value = value_of(rest);
    if (dash) {
      while (path.length && path[path.length - 1].indent >= blanks.length) path.pop();
      enter(blanks.length, String(path.length ? ++path[path.length - 1].entries : 1));
    }
    if (key) enter(blanks.length + (dash ? 2 : 0), key);
    if (value !== "") keys.set(path.map(({ name }) => name).join("."), value);
  }
  return keys;
}

async function ask_configs(runs) {
  for (const run of runs) {
    if (state.configs.get(run.id)?.version === run.config) continue;
    try {
      const text = (await ask("api/run", { id: run.id })).config;
      state.configs.set(run.id, { version: run.config, keys: config_keys(text ?? "") });
    } catch { /* it is gone, or asked for again two seconds later */
      state.configs.set(run.id, { version: null, keys: new Map() });
    }
  }
}

const differing_keys = (maps) => [...new Set(maps.flatMap((keys) => [...keys.keys()]))].filter((key) => maps.some((keys) => keys.get(key) !== maps[0].get(key)));

function differences_table(runs) {
  const maps = runs.map((run) => state.configs.get(run.id).keys);
  const head = runs.map((run) => make("th", { scope: "col", class: "text wrapped" }, make("span", { class: "swatch", color: colour(run.id) }), " " + run.name));
  const row = (key) => make("tr", {}, make("th", { scope: "row", class: "text" }, key), ...maps.map((keys) => make("td", { class: "text wrapped" }, keys.get(key) ?? "–")));
  return make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col", class: "text" }, "key"), ...head)), make("tbody", {}, ...differing_keys(maps).map(row)));
}

async function show_differences() {
  const all = state.list.runs.filter((run) => run.config && !state.hidden.has(run.id) && matches(run)), runs = all.slice(0, MOST_WORDS);
  await ask_configs(runs);
  const key = JSON.stringify([document.documentElement.dataset.theme, all.length, ...runs.map((run) => [run.id, run.name, state.configs.get(run.id).version, state.places.get(run.id)])]);
  replace_if_other($("differences"), key, () => (runs.length < 2 ? [] : [make("h2", {}, "What differs"), make("div", { class: "scroll" }, differences_table(runs)),
    make("p", { class: "note" }, `Keys of config.yaml whose values are not the same in all of ${all.length > runs.length ? `the first ${runs.length} of the ${all.length}` : "these"} runs.`)]));
}

/* ---- where time goes, and words ---- */

function bar(parts, whole, title) {
  const svg = draw("svg", { viewBox: "0 0 1000 20", preserveAspectRatio: "none", role: "img", "aria-label": title });
  let from = 0;
  for (const [kind, value] of parts) {
    svg.append(draw("rect", { x: (1000 * from) / whole, width: (1000 * value) / whole, y: 0, height: 20, fill: kind_colour(kind) }, draw("title", {}, `${kind}: ${((100 * value) / whole).toFixed(1)} %`)));
    from += value;
  }
  return svg;
}

const keys_of = (kinds) => make("div", { class: "keys" }, ...kinds.map((kind) => make("span", {}, make("span", { class: "swatch", color: kind_colour(kind) }), " " + kind)));

/* Nothing is replaced that has not changed: who reads it is not disturbed. */
function replace_if_other(element, key, build) {
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  element.replaceChildren(...build());
}

function parts_of(share) {
  return Object.entries(share).filter(([kind, value]) => known(value) && kind !== "steps" && kind !== "step_s" && value > 0.0005);
}

function show_shares() {
  const runs = state.list.runs.filter((run) => !state.hidden.has(run.id) && run.share);
  replace_if_other($("shares"), JSON.stringify(runs.map((run) => [run.id, run.share])), () => {
    if (runs.length === 0) return [];
    const kinds = [...new Set(runs.flatMap((run) => parts_of(run.share).map(([kind]) => kind)))];
    const rows = runs.flatMap((run) => [make("span", { class: "label", title: run.name }, run.name), bar(parts_of(run.share), 1, "where the time of " + run.name + " went")]);
    return [make("h2", {}, "Where time goes"), make("div", { class: "card" }, make("div", { class: "bars" }, ...rows), keys_of(kinds),
      make("p", { class: "note" }, "Of a few steps that were timed, in the mean over the ranks; axes are communication that nothing hides, bubble is waiting for other ranks."))];
  });
}

function words_of(run) {
  const body = make("div"), details = make("details", {}, make("summary", {}, run.name, run.failed ? make("span", { class: run.reason ? "failed-word" : "note" }, run.reason ? " · failures" : " · failures before") : null), body);
  details.addEventListener("toggle", async () => {
    if (!details.open) return;
    const words = await ask("api/run", { id: run.id });
    body.replaceChildren(make("p", { class: "note" }, words.path),
      ...(words.failures ? [make("h3", {}, "failures.txt"), make("pre", {}, words.failures)] : []),
      ...(words.config ? [make("h3", {}, "config.yaml"), make("pre", {}, words.config)] : []));
  });
  return details;
}

function show_words() {
  const runs = state.list.runs.filter((run) => !state.hidden.has(run.id) && matches(run)).sort((a, b) => b.failed - a.failed).slice(0, MOST_WORDS);
  replace_if_other($("words"), JSON.stringify(runs.map((run) => [run.id, run.failed, run.reason])), () => (runs.length ? [make("h2", {}, "Settings and failures"), ...runs.map(words_of)] : []));
}

/* ---- samples: lines of `trireme generate --json` in samples.jsonl ---- */

/* Whole lines that are texts: prompts in their order, the texts of each from the newest on. */
function samples_of(lines) {
  const prompts = new Map();
  for (const line of lines.split("\n")) {
    let sample = null;
    try { sample = JSON.parse(line); } catch { continue; }
    if (typeof sample?.text !== "string" || typeof sample.prompt !== "string") continue;
    if (!prompts.has(sample.prompt)) prompts.set(sample.prompt, []);
    prompts.get(sample.prompt).unshift(sample);
  }
  return [...prompts.values()].slice(-MOST_SAMPLES);
}

const sample_step = (sample) => (known(sample.step) ? "step " + sample.step : "");

/* Of a chat its message, and not what the template makes of it. */
function sample_text(sample) {
  if (typeof sample.message !== "string") return make("blockquote", { class: "sample" }, make("b", {}, sample.prompt), sample.text);
  return make("blockquote", { class: "sample chat" }, make("div", { class: "message" }, make("b", {}, sample.message)), make("div", { class: "answer" }, sample.text));
}

function samples_of_prompt(samples) {
  const [newest, ...older] = samples;
  const steps = older.slice(0, MOST_SAMPLES).flatMap((sample) => [make("p", { class: "note" }, sample_step(sample)), sample_text(sample)]);
  return make("div", {}, make("p", { class: "note" }, sample_step(newest)), sample_text(newest),
    ...(older.length ? [make("details", {}, make("summary", {}, `${older.length} before`), ...steps)] : []));
}

async function samples_card(run) {
  const lines = (await ask("api/run", { id: run.id })).samples, prompts = samples_of(lines ?? "");
  return [make("div", { class: "card" }, make("div", { class: "head" }, make("h3", {}, run.name)), ...prompts.map(samples_of_prompt))];
}

function show_samples() {
  const runs = state.list.runs.filter((run) => run.samples && !state.hidden.has(run.id) && matches(run)).slice(0, MOST_WORDS);
  $("samples-part").hidden = runs.length === 0;
  return show_items(runs.map((run) => ({ id: run.id, name: run.name, version: run.samples })), $("samples"), state.samples, samples_card);
}

/* ---- studies ---- */

/* Rounds of a study by halving (src/tune/halving.h): the last one ends with all steps of a run, and each one before it with half as many. */
const HALVING_ROUNDS = 4;
const steps_of_round = (study, round) => Math.max(1, Math.round(study.steps / 2 ** (HALVING_ROUNDS - round)));

/* The members of a study by halving, which are its trials: each goes on from its own last round with the same values. Null for other studies. */
function halving_of(study) {
  const members = new Map();
  for (const row of study.members) members.set(row.member, [...(members.get(row.member) ?? []), row]);
  const goes_on = ([number, rows]) => rows.every((row) => row.params === rows[0].params && (row.parent === 0 || row.parent === number) && row.round <= HALVING_ROUNDS);
  return known(study.steps) && members.size > 0 && [...members].every(goes_on) ? members : null;
}

/* A row of the table for each trial of a study by halving: what its last round came to. */
function halving_trials(study, members) {
  return [...members].map(([number, rows]) => {
    const ended = rows.filter((row) => row.state === "done" && known(row.loss)), last = rows[rows.length - 1];
    return { number, point: last.params ?? "", state: last.state, value: ended.length ? ended[ended.length - 1].loss : null, steps: steps_of_round(study, last.round), reason: last.reason, seconds: rows.reduce((sum, row) => sum + (known(row.seconds) ? row.seconds : 0), 0), memory: null };
  });
}

/* A population's stretches are judged by their loss, of which less is better. */
function trials_of(study) {
  const members = halving_of(study);
  if (members) return { better: -1, unit: study.unit, members, trials: halving_trials(study, members) };
  const loss = study.members.length > 0;
  return { better: loss || study.lower_is_better ? -1 : 1, unit: loss ? "validation loss" : study.unit,
    trials: loss ? study.members.map((m, i) => ({ number: i + 1, point: `member ${m.member}, round ${m.round}: ${m.params ?? ""}`, state: m.state, value: m.state === "done" ? m.loss : null, reason: m.reason, seconds: m.seconds, memory: null })) : study.trials };
}

function study_range(values) {
  const sorted = [...values].sort((a, b) => a - b), room = ((sorted[sorted.length - 1] - sorted[0]) || Math.abs(sorted[0]) || 1) * 0.08;
  return values.length ? [sorted[0] - room, sorted[sorted.length - 1] + room] : [0, 1];
}

/* The loss of each trial at the ends of its rounds, over the steps. */
function halving_chart(study, members) {
  const width = Math.max(520, ($("studies").clientWidth || 900) - 24), height = 250, wide = width - MARGIN.left - MARGIN.right, tall = height - MARGIN.top - MARGIN.bottom - 10;
  const rows = study.members.filter((row) => row.state === "done" && known(row.loss)), [low, high] = study_range(rows.map((row) => row.loss)), floor = MARGIN.top + tall;
  const x = (round) => MARGIN.left + 8 + ((round - 1) / (HALVING_ROUNDS - 1)) * (wide - 40), y = (value) => floor - ((value - low) / (high - low)) * tall;
  const svg = draw("svg", { class: "chart halving", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${members.size} trials of ${study.study} over their steps, ${study.unit}` });
  for (const tick of even_ticks(low, high, 5)) {
    svg.append(draw("line", { class: "grid", x1: MARGIN.left, x2: MARGIN.left + wide, y1: y(tick), y2: y(tick) }), draw("text", { x: MARGIN.left - 6, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
  }
  for (let round = 1; round <= HALVING_ROUNDS; round++) svg.append(draw("text", { x: x(round), y: height - 3, "text-anchor": "middle" }, `${count_text(steps_of_round(study, round))}${round === 1 ? " steps" : ""}`));
  const palette = COLOURS[document.documentElement.dataset.theme === "dark" ? "dark" : "light"];
  [...members].forEach(([number, all], i) => {
    const ended = all.filter((row) => row.state === "done" && known(row.loss)), paint = palette[i % palette.length];
    svg.append(draw("path", { class: "curve trial", stroke: paint, d: ended.map((row, at) => `${at ? "L" : "M"}${x(row.round)} ${y(row.loss)}`).join("") }));
    for (const row of ended) svg.append(draw("circle", { class: "mark done", cx: x(row.round), cy: y(row.loss), r: 3.2, fill: paint }, draw("title", {}, `${number}: ${row.params}\nstep ${steps_of_round(study, row.round)}: ${round(row.loss, 6)}`)));
    if (ended.length) svg.append(draw("text", { x: x(ended[ended.length - 1].round) + 7, y: y(ended[ended.length - 1].loss) + 4 }, String(number)));
  });
  return svg;
}

function study_chart(study) {
  const { members } = trials_of(study);
  if (members) return halving_chart(study, members);
  const { trials, better, unit } = trials_of(study), done = trials.filter((t) => t.state === "done" && known(t.value));
  const width = Math.max(520, ($("studies").clientWidth || 900) - 24), height = 250, wide = width - MARGIN.left - MARGIN.right, tall = height - MARGIN.top - MARGIN.bottom - 10;
  const [low, high] = study_range(done.map((t) => t.value)), last = Math.max(2, trials.length), floor = MARGIN.top + tall;
  const x = (i) => MARGIN.left + 8 + (i / (last - 1)) * (wide - 16), y = (value) => floor - ((value - low) / (high - low)) * tall;
  const svg = draw("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${done.length} trials of ${study.study}, ${unit}` });
  for (const tick of even_ticks(low, high, 5)) {
    svg.append(draw("line", { class: "grid", x1: MARGIN.left, x2: MARGIN.left + wide, y1: y(tick), y2: y(tick) }), draw("text", { x: MARGIN.left - 6, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
  }
  let best = null, path = "";
  trials.forEach((trial, i) => {
    const title = draw("title", {}, `${trial.number}: ${trial.point}\n${trial.state}${known(trial.value) ? " " + round(trial.value, 6) : ""} ${trial.reason ?? ""}`);
    if (trial.state === "done" && known(trial.value)) {
      best = best === null || better * trial.value > better * best ? trial.value : best;
      svg.append(draw("circle", { class: "mark done", cx: x(i), cy: y(trial.value), r: 3.2, fill: "hsl(212 70% 50%)" }, title));
    } else if (trial.state === "failed") {
      svg.append(draw("path", { class: "bad failed", d: `M${x(i) - 3} ${floor + 5}l6 6M${x(i) - 3} ${floor + 11}l6 -6` }, title));
    } else {
      svg.append(draw("circle", { class: "trial-running", cx: x(i), cy: floor + 8, r: 3.2, fill: "none", stroke: "hsl(135 60% 40%)", "stroke-width": 1.6 }, title));
    }
    if (best !== null) path += (path ? `H${x(i)}V${y(best)}` : `M${x(i)} ${y(best)}`);
  });
  svg.append(draw("path", { class: "curve best", d: path, stroke: "hsl(25 85% 50%)" }), draw("text", { x: MARGIN.left + wide, y: height - 3, "text-anchor": "end" }, "trials, in their order (× failed, ○ running)"));
  return svg;
}

function study_table(study) {
  const { trials, better, members } = trials_of(study), memory = trials.some((t) => known(t.memory));
  const order = [...trials].sort((a, b) => (members ? b.steps - a.steps : 0) || (known(b.value) ? better * b.value : -Infinity) - (known(a.value) ? better * a.value : -Infinity) || b.number - a.number).slice(0, 100);
  const row = (t) => make("tr", {}, make("td", {}, String(t.number)), make("td", { class: "text long", title: t.point }, t.point), make("td", { class: "text " + (t.state === "failed" ? "failed-word" : t.state === "running" ? "running-word" : "") }, t.state),
    ...(members ? [make("td", {}, count_text(t.steps))] : []), make("td", {}, known(t.value) ? round(t.value, 6) : "–"), ...(memory ? [make("td", {}, known(t.memory) && t.memory > 0 ? (100 * t.memory).toFixed(1) + " %" : "–")] : []), make("td", {}, known(t.seconds) ? value_text("time", t.seconds) : "–"), make("td", { class: "text long", title: t.reason ?? "" }, t.reason ?? ""));
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...["trial", "point", "state", ...(members ? ["steps"] : []), "value", ...(memory ? ["memory"] : []), "took", "why"].map((name) => make("th", { class: ["point", "state", "why"].includes(name) ? "text" : null }, name)))), make("tbody", {}, ...order.map(row))));
}

function study_card(name, study) {
  const { trials, unit } = trials_of(study), count = (word) => trials.filter((t) => t.state === word).length;
  const title = `${count("done")} done, ${count("failed")} failed${count("running") ? `, ${count("running")} running` : ""}`;
  return [make("div", { class: "card" }, make("div", { class: "head" }, make("h3", {}, name), make("span", { class: "note counts" }, title), make("span", { class: "note" }, [study.model, unit].filter(Boolean).join(" · "))), study_chart(study)), study_table(study)];
}

/* Cards of things that have numbers: made once, filled when their version is another. */
async function show_items(list, box, held, build) {
  for (const [id, entry] of held) {
    if (!list.some((item) => item.id === id)) { entry.box.remove(); held.delete(id); }
  }
  for (const item of list) {
    if (!held.has(item.id)) {
      held.set(item.id, { version: null, box: make("div", { class: "stack" }) });
      box.append(held.get(item.id).box);
    }
    const entry = held.get(item.id);
    if (entry.version === item.version) continue;
    try {
      entry.box.replaceChildren(...(await build(item)));
      entry.version = item.version;
    } catch (fault) {
      if (entry.version === null) entry.box.replaceChildren(make("p", { class: "note" }, `${item.name}: ${fault.message}`));
    }
  }
}

/* ---- timelines ---- */

function waits_bars(found) {
  const kinds = [...new Set(found.ranks.flatMap((rank) => Object.keys(rank.waits_s)))];
  if (kinds.length === 0 || !(found.seconds > 0)) return [];
  const rows = found.ranks.slice(0, 256).flatMap((rank) => [make("span", { class: "label", title: rank.label }, rank.label), bar(Object.entries(rank.waits_s), found.seconds, "what " + rank.label + " waited for")]);
  return [make("h3", {}, "Who waits"), make("div", { class: "bars" }, ...rows), keys_of(kinds),
    make("p", { class: "note" }, `The share of ${clock(found.seconds)} (steps ${found.first_step} to ${found.last_step}) in which a rank could not go on, since another had not come yet, by what they were to do together.`)];
}

async function timeline_card(item) {
  const found = await ask("api/timeline", { id: item.id });
  const picture = make("img", { class: "picture", alt: "timeline " + item.name, src: address("api/picture", { id: item.id, version: item.version }) });
  return [make("details", { open: true }, make("summary", {}, item.name), picture, ...waits_bars(found))];
}

/* ---- asking ---- */

function address(path, values) {
  const query = new URLSearchParams(values);
  if (token) query.set("token", token);
  return path + "?" + query;
}

async function ask(path, values = {}) {
  const answer = await fetch(address(path, values), { cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim() || "error " + answer.status);
  return answer.json();
}

const curve_key = () => [state.axis, state.smoothing, state.from, state.to].join("|");

async function ask_curves() {
  const key = curve_key(), wanted = state.list.runs.filter((run) => {
    const held = state.curves.get(run.id);
    return !state.hidden.has(run.id) && run.step > 0 && (!held || held.key !== key || held.version !== run.version);
  });
  const values = { x: state.axis, smoothing: state.smoothing, points: wanted.length > 12 ? POINTS / 2 : POINTS };
  if (state.from !== null) Object.assign(values, { from: state.from, to: state.to });
  for (let i = 0; i < wanted.length && key === curve_key(); i += RUNS_AT_ONCE) {
    const answer = await ask("api/series", { ...values, runs: wanted.slice(i, i + RUNS_AT_ONCE).map((run) => run.id).join(",") });
    if (key !== curve_key()) return false;
    for (const data of answer.runs) state.curves.set(data.id, { key, version: data.version, data });
  }
  return key === curve_key();
}

/* ---- showing ---- */

const charts = CHARTS.map(chart_card);

function show_status() {
  const { runs, studies, timelines } = state.list, running = runs.filter((run) => run.state === "running").length;
  const unread = runs.reduce((sum, run) => sum + run.unread_bytes, 0);
  const parts = [`${runs.length} run${runs.length === 1 ? "" : "s"}${running ? `, ${running} running` : ""}`];
  if (studies.length) parts.push(`${studies.length} stud${studies.length === 1 ? "y" : "ies"}`);
  if (timelines.length) parts.push(`${timelines.length} timeline${timelines.length === 1 ? "" : "s"}`);
  if (unread > 1 << 20) parts.push(`${value_text("bytes", unread)} to be read`);
  parts.push("as of " + new Date().toLocaleTimeString());
  $("status").textContent = parts.join(" · ");
  $("status").className = "";
}

function show_charts() {
  find_objective_charts();
  find_named_charts();
  for (const chart of charts) draw_chart(chart);
}

function show_runs() {
  $("run-section").hidden = state.list.runs.length === 0;
  $("legend").hidden = state.list.runs.length === 0;
  show_legend();
  show_table();
  show_shares();
  show_words();
}

function show_all() {
  const { list } = state;
  $("study-section").hidden = list.studies.length === 0;
  $("timeline-section").hidden = list.timelines.length === 0;
  $("empty").hidden = list.runs.length + list.studies.length + list.timelines.length > 0;
  give_places();
  show_runs();
  show_status();
}

let busy = false, again = false;

/* One at a time; who asks meanwhile is answered by one more. */
async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    do {
      again = false;
      const list = await ask("api/list");
      const by_name = (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true });
      for (const items of [list.runs, list.studies, list.timelines]) items.sort(by_name);
      state.list = list;
      show_all();
      await ask_curves();
      show_charts();
      await show_differences();
      await show_samples();
      await show_items(list.studies, $("studies"), state.studies, async (item) => study_card(item.name, await ask("api/study", { id: item.id })));
      await show_items(list.timelines, $("timelines"), state.timelines, timeline_card);
      document.documentElement.dataset.updates = String(++state.updates);
    } while (again);
  } catch (fault) {
    $("status").textContent = fault instanceof TypeError ? "the board does not answer; start it again: trireme board" : fault.message;
    $("status").className = "away";
  }
  busy = false;
}

function set_theme(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("theme", theme); } catch { /* kept for this time alone */ }
}

function start() {
  let theme = null;
  try { theme = localStorage.getItem("theme"); } catch { /* none is kept */ }
  document.documentElement.dataset.theme = theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  $("theme").addEventListener("click", () => { set_theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); show_all(); show_charts(); show_differences(); });
  $("axis").addEventListener("change", (event) => { state.axis = event.target.value; look_at(null, null); });
  $("smoothing").addEventListener("change", (event) => { state.smoothing = Number(event.target.value); refresh(); });
  $("log").addEventListener("change", (event) => { state.log = event.target.checked; show_charts(); });
  $("usual").addEventListener("change", (event) => { state.usual = event.target.checked; show_charts(); });
  $("whole").addEventListener("click", () => look_at(null, null));
  $("filter").addEventListener("input", (event) => { state.filter = event.target.value; show_runs(); });
  $("all").addEventListener("click", () => { for (const run of state.list.runs.filter(matches)) state.hidden.delete(run.id); refresh(); });
  $("none").addEventListener("click", () => { for (const run of state.list.runs.filter(matches)) state.hidden.add(run.id); refresh(); });
  addEventListener("resize", show_charts);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  setInterval(() => { if (!document.hidden) refresh(); }, PERIOD_MS);
  refresh();
}

start();
