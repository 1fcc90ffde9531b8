// Draws the report from the document in #data.
"use strict";
const report = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const SIZE = [186, 44];
const GAP = [26, 36];
const MANY = 600;  // nodes from which drawing is made cheaper

// Elements and texts -------------------------------------------------------------------------------------------------

function element(tag, text = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  return made;
}

const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const short = (text, length = 26) => (text.length <= length ? text : `${text.slice(0, 8)}…${text.slice(9 - length)}`);
const milliseconds = (seconds) => `${(seconds * 1e3).toFixed(seconds < 0.01 ? 3 : 1)} ms`;
const exponent = (value) => (value === null ? "not finite" : value === 0 ? "0" : value.toExponential(1));

function bytes(count) {
  for (const unit of ["bytes", "kB", "MB", "GB"]) {
    if (count < 1000 || unit === "GB") return `${count < 10 && unit !== "bytes" ? count.toFixed(1) : Math.round(count)} ${unit}`;
    count /= 1000;
  }
}

function plainTable(headings, rows) {
  const scroll = element("div", "", "scroll");
  const table = scroll.appendChild(element("table", "", "plain"));
  const add = (cells, tag) => {
    const row = table.appendChild(element("tr"));
    for (const cell of cells) row.append(element(tag, String(cell), typeof cell === "number" ? "number" : ""));
  };
  add(headings, "th");
  rows.forEach((row) => add(row, "td"));
  return scroll;
}

// What is known of each node -----------------------------------------------------------------------------------------

const verification = report.verification;
const sides = report.times?.sides ?? {};
const outcome = new Map();  // value name -> comparison
for (const each of verification?.layers ?? []) outcome.set(each.name, each);
const key = (node) => JSON.stringify([node.op, node.node ?? node.name, node.id]);
const layersOf = new Map();
for (const each of verification?.layers ?? []) layersOf.set(key(each), [...(layersOf.get(key(each)) ?? []), each]);

for (const [side, network] of [["before", report.before], ["after", report.after]]) {
  const other = side === "before" ? report.after : report.before;
  for (const node of network.nodes) {
    node.layers = side === "before"
      ? layersOf.get(key(node)) ?? []
      : node.values.filter((name) => node.op !== "Input" && outcome.has(name)).map((name) => outcome.get(name));
    const timed = side === "after" ? [node] : node.twins.map((twin) => other.nodes[twin]);
    node.seconds = {};
    for (const [backend, { seconds }] of Object.entries(sides)) {
      const found = timed.map(({ name }) => seconds[name]).filter((each) => each !== undefined);
      if (found.length) node.seconds[backend] = found.reduce((sum, each) => sum + each, 0);
    }
  }
}
const share = (node) => {
  const backend = "native" in sides ? "native" : "none";
  return (node.seconds[backend] ?? 0) / (sides[backend]?.run || 1);
};
// How full the bar of an error is: the logarithm, from a ten thousandth of the tolerance on.
const heat = ({ max_rel, tolerance }) => {
  if (max_rel === 0) return 0;
  if (max_rel === null || !tolerance) return 1;
  return Math.min(1, Math.max(0.05, 1 + Math.log10(max_rel / tolerance) / 4));
};

// Colors -------------------------------------------------------------------------------------------------------------

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function mixed(fraction) {
  const [low, high] = [channels(color("heat-low")), channels(color("heat-high"))];
  const rgb = low.map((value, index) => Math.round(value + (high[index] - value) * fraction));
  const light = 0.3 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2] > 128;
  return { fill: `rgb(${rgb})`, text: light ? "#111820" : "#ffffff" };
}

const plain = () => ({ fill: color("plain"), text: color("plain-text") });
const folded = () => ({ fill: color("folded"), text: color("muted") });
const isEnd = ({ op, id }) => !id && (op === "Input" || op === "Output");

const MODES = {
  became: {
    title: "what became of it",
    paint: (node) => {
      if (node.refused) return { fill: color("bad"), text: "#ffffff" };
      if (node.ours) return { fill: color("ours"), text: color("ours-text") };
      return node.twins.length || isEnd(node) ? plain() : folded();
    },
    legend: () => [
      [color("ours"), "operator of org.ortconv"], [color("plain"), "standard ONNX"],
      [color("folded"), "no counterpart of its own: folded or fused"],
      ...(report.refused ? [[color("bad"), "refused"]] : []),
    ],
  },
  error: {
    title: "error per layer",
    paint: (node) => {
      if (!node.layers.length) return folded();
      if (node.layers.some(({ agrees }) => !agrees)) return { fill: color("bad"), text: "#ffffff" };
      return mixed(Math.max(...node.layers.map(heat)));
    },
    legend: () => [
      [mixed(0).fill, "exact"], [mixed(0.5).fill, "1 % of the tolerance"], [mixed(1).fill, "at the tolerance"],
      [color("bad"), "differs"], [color("folded"), "not compared by itself"],
    ],
  },
  time: {
    title: "time per node",
    paint: (node) => (isEnd(node) ? folded() : mixed(Math.min(1, Math.sqrt(share(node))))),
    legend: () => [0, 0.05, 0.25, 1].map((part) => [mixed(Math.sqrt(part)).fill, `${part * 100} % of the run`]),
  },
};

// Networks -----------------------------------------------------------------------------------------------------------

const views = {};

function style(many) {
  return [
    {
      selector: "node",
      style: {
        shape: "round-rectangle", width: SIZE[0], height: SIZE[1], label: "data(label)", "font-size": 12,
        "font-family": "system-ui, sans-serif", "text-valign": "center", "text-wrap": "wrap", "line-height": 1.25,
        "min-zoomed-font-size": 6, "background-color": "data(fill)", color: "data(text)",
        "border-width": 1, "border-color": color("edge"),
      },
    },
    { selector: "node[?warned]", style: { "border-width": 3, "border-color": color("warn") } },
    { selector: "node[?end]", style: { shape: "ellipse" } },
    {
      selector: "edge",
      style: {
        width: 1.5, "line-color": color("edge"), "curve-style": "straight", "target-arrow-color": color("edge"),
        "target-arrow-shape": many ? "none" : "triangle", "arrow-scale": 0.8,
      },
    },
    {
      selector: "edge[weights]",
      style: {
        "curve-style": "segments", "edge-distances": "node-position",
        "segment-weights": (edge) => edge.data("weights"), "segment-distances": (edge) => edge.data("distances"),
      },
    },
    { selector: "node.twin", style: { "border-width": 4, "border-color": color("select"), "border-style": "dashed" } },
    { selector: "node:selected", style: { "border-width": 4, "border-color": color("select") } },
  ];
}

// Returns where an edge bends, in coordinates of the line between its ends.
function bends(points) {
  const [[x, y], [endX, endY]] = [points[0], points.at(-1)];
  const [dx, dy] = [endX - x, endY - y];
  const length = Math.hypot(dx, dy) || 1;
  const inner = points.slice(1, -1).map(([px, py]) => ({
    weight: ((px - x) * dx + (py - y) * dy) / length ** 2, distance: ((py - y) * dx - (px - x) * dy) / length,
  }));
  if (!inner.some(({ distance }) => Math.abs(distance) > 1)) return {};
  return { weights: inner.map(({ weight }) => weight), distances: inner.map(({ distance }) => distance) };
}

function draw(side, network, { width, positions, routes }) {
  const box = byId(side);
  box.textContent = "";
  const many = network.nodes.length > MANY;
  const { paint } = MODES[byId("mode").value];
  const nodes = network.nodes.map((node, number) => ({
    data: {
      id: `n${number}`, number, label: `${short(node.op)}\n${short(node.name)}`, warned: node.warnings.length > 0,
      end: isEnd(node), ...paint(node),
    },
    position: positions[number],
  }));
  const edges = network.edges.map(([from, to], number) => ({
    data: { id: `e${number}`, source: `n${from}`, target: `n${to}`, ...bends(routes[number]) },
  }));
  const view = cytoscape({
    container: box, elements: [...nodes, ...edges], style: style(many), layout: { name: "preset" },
    minZoom: 0.01, maxZoom: 3, boxSelectionEnabled: false, autoungrabify: true, selectionType: "single",
    hideEdgesOnViewport: many, textureOnViewport: many, pixelRatio: many ? 1 : "auto",
  });
  const zoom = Math.min(1, Math.max(0.45, (box.clientWidth - 40) / (width || 1)));
  view.viewport({ zoom, pan: { x: box.clientWidth / 2 - positions[0].x * zoom, y: 20 } });
  view.on("tap", "node", ({ target }) => select(side, target.data("number"), false));
  views[side] = view;
  document.documentElement.dataset[side] = "drawn";
}

function lay(side, network, caption) {
  byId(`${side}-caption`).textContent = caption;
  if (!network.nodes.length) return;
  byId(side).append(element("div", `Placing ${counted(network.nodes.length, "node")} …`, "wait"));
  const program = new Blob([byId("layout-program").textContent], { type: "text/javascript" });
  const worker = new Worker(URL.createObjectURL(program));
  worker.onmessage = ({ data }) => {
    worker.terminate();
    draw(side, network, data);
  };
  worker.postMessage({ count: network.nodes.length, edges: network.edges, size: SIZE, gap: GAP });
}

function recolor() {
  const mode = byId("mode").value;
  for (const [side, view] of Object.entries(views)) {
    view.batch(() => view.nodes().forEach((node) => node.data(MODES[mode].paint(report[side].nodes[node.data("number")]))));
  }
  const warned = [report.before, report.after].some(({ nodes }) => nodes.some(({ warnings }) => warnings.length));
  const entries = [...MODES[mode].legend(), ...(warned ? [["transparent", "warning", `3px solid ${color("warn")}`]] : [])];
  byId("legend").replaceChildren(...entries.map(([fill, text, border = `1px solid ${color("line")}`]) => {
    const entry = element("span");
    const swatch = entry.appendChild(element("i"));
    swatch.style.background = fill;
    swatch.style.border = border;
    entry.append(text);
    return entry;
  }));
}

function reveal(view, number) {
  const node = view.getElementById(`n${number}`);
  view.animate({ center: { eles: node }, zoom: Math.max(view.zoom(), 0.7) }, { duration: 250 });
}

function select(side, number, move = true) {
  const other = side === "before" ? "after" : "before";
  const node = report[side].nodes[number];
  for (const view of Object.values(views)) view.elements().unselect().removeClass("twin");
  views[side]?.getElementById(`n${number}`).select();
  if (move && views[side]) reveal(views[side], number);
  for (const twin of node.twins) views[other]?.getElementById(`n${twin}`).addClass("twin");
  if (node.twins.length && views[other]) reveal(views[other], node.twins[0]);
  describe(side, node);
}

// Details ------------------------------------------------------------------------------------------------------------

function describe(side, node) {
  const box = byId("details");
  const pairs = (entries) => {
    const list = element("dl");
    for (const [name, value] of entries) list.append(element("dt", name), element("dd", value));
    return list;
  };
  const add = (title, ...content) => box.append(element("h3", title), ...content);
  const listed = (texts, className = "") => {
    const list = element("ul");
    texts.forEach((text) => list.append(element("li", text, className)));
    return list;
  };
  box.replaceChildren(element("h3", `${node.domain ? `${node.domain}.` : ""}${node.op}`));
  box.append(pairs([["name", node.name], ...(node.id ? [["id", node.id]] : [])]));
  if (node.refused) add("Refused", element("p", node.refused, "problem"));
  if (node.warnings.length) add("Warnings", listed(node.warnings, "warning"));
  if (node.why.length) add("Why", listed(node.why));
  const other = side === "before" ? "after" : "before";
  if (node.twins.length) {
    const list = element("ul");
    for (const twin of node.twins) {
      const entry = report[other].nodes[twin];
      const button = element("button", `${entry.op} ${short(entry.name, 40)}`);
      button.onclick = () => select(other, twin);
      list.appendChild(element("li")).append(button);
    }
    add(side === "before" ? "Becomes" : "Made for", list);
  } else if (!node.refused && !isEnd(node) && side === "before" && report.after.nodes.length) {
    add("Becomes", element("p", "nothing of its own: constants are folded, and other nodes include it"));
  }
  for (const each of node.layers) {
    const worst = each.worst ? [["worst element", `[${each.worst.at}]: expected ${each.worst.expected}, found ${each.worst.found}`]] : [];
    add(`Error of ${each.name}`, pairs([
      ["verdict", each.agrees ? "agrees" : each.problem || `${counted(each.wrong, "element")} differ`],
      ["relative", `${exponent(each.max_rel)} (tolerance ${exponent(each.tolerance)})`],
      ["absolute", exponent(each.max_abs)], ...worst,
      ...(each.rounded ? [["rounding", `explains ${counted(each.rounded, "element")} beyond the tolerance`]] : []),
    ]));
  }
  const times = [["none", "native" in sides ? "without the plugin" : "a run"], ["native", "with it"]].filter(([backend]) => backend in node.seconds);
  if (times.length) add("Time", pairs(times.map(([backend, text]) => [text, milliseconds(node.seconds[backend])])));
  if (Object.keys(node.attributes).length) add("Attributes", pairs(Object.entries(node.attributes)));
  if (node.inputs.length) add("Inputs", listed(node.inputs));
  if (node.outputs.length) add("Outputs", listed(node.outputs));
}

// Tables -------------------------------------------------------------------------------------------------------------

function grid(id, layout, rows, columns, onRow) {
  const table = new Tabulator(byId(id), {
    data: rows, columns, layout, maxHeight: 480, placeholder: "nothing was measured",
    columnDefaults: { headerFilterPlaceholder: "filter", tooltip: true },
  });
  table.on("rowClick", (_, row) => {
    onRow(row.getData());
    byId("network-heading").scrollIntoView({ behavior: "smooth" });
  });
}

// A bar leaves room for its text, which is readable on the card's color only.
const bar = (fill, most, text) => ({
  formatter: "progress", hozAlign: "left", sorter: "number", minWidth: 190,
  formatterParams: { min: 0, max: text ? 1.7 * most : most, color: () => color(fill), legend: text, legendAlign: "right", legendColor: () => color("text") },
});

function showErrors() {
  if (!verification) {
    byId("errors").hidden = true;
    return;
  }
  const backend = { native: "plugin", none: "no plugin" };
  byId("outputs").append(plainTable(
    ["output", "run by", "largest absolute error", "largest relative error", "tolerance", "verdict"],
    verification.outputs.map((each) => [
      each.name, backend[each.backend], exponent(each.max_abs), exponent(each.max_rel), exponent(each.tolerance),
      each.agrees ? "agrees" : verification.agrees ? "differs by rounding alone" : "differs",
    ])));
  const numbers = new Map(report.before.nodes.map((node, number) => [key(node), number]));
  const rows = verification.layers.map((each) => ({
    number: numbers.get(key(each)), op: each.op, node: each.node, value: each.name, heat: heat(each),
    relative: each.max_rel ?? Infinity, tolerance: exponent(each.tolerance), verdict: each.agrees ? "agrees" : "differs",
    shape: `${each.dtype} [${each.shape.join(", ")}]`,
    worst: each.worst ? `[${each.worst.at}]` : "", expected: each.worst?.expected ?? "", found: each.worst?.found ?? each.problem,
  })).sort((a, b) => (a.verdict < b.verdict ? 1 : a.verdict > b.verdict ? -1 : b.heat - a.heat));
  grid("layers", "fitDataStretch", rows, [
    { title: "operation", field: "op", headerFilter: "input" },
    { title: "node", field: "node", headerFilter: "input", maxWidth: 320 },
    { title: "error", field: "heat", ...bar("heat-high", 1), minWidth: 140, width: 140 },
    { title: "relative error", field: "relative", sorter: "number", hozAlign: "right", formatter: (cell) => exponent(Number.isFinite(cell.getValue()) ? cell.getValue() : null) },
    { title: "tolerance", field: "tolerance", hozAlign: "right" },
    { title: "verdict", field: "verdict" },
    { title: "worst element", field: "worst" },
    { title: "expected", field: "expected", hozAlign: "right" },
    { title: "found", field: "found", hozAlign: "right" },
    { title: "result", field: "shape" },
  ], ({ number }) => number !== undefined && select("before", number));
}

function showTimes() {
  if (!report.times) {
    byId("times").hidden = true;
    return;
  }
  const { none, native } = sides;
  const threads = report.times.threads ? counted(report.times.threads, "thread") : "ONNX Runtime's own number of threads";
  const rest = Math.max(none.other, native?.other ?? 0);
  byId("times-note").textContent =
    `Medians of ${counted(report.times.runs, "run")} under ONNX Runtime's profiler with ${threads}, one run at a time. ` +
    "A node that ONNX Runtime fuses with others counts where the fused node's result is computed." +
    (rest ? ` Up to ${milliseconds(rest)} belong to none of these nodes.` : "") +
    (native ? "" : " The model holds no operators of org.ortconv: it runs the same with the plugin.");
  const rows = report.after.nodes.map((node, number) => ({
    number, op: node.op, node: node.name, none: node.seconds.none, native: node.seconds.native,
    ratio: node.seconds.none && node.seconds.native ? node.seconds.none / node.seconds.native : undefined,
  })).filter((row) => row.none !== undefined || row.native !== undefined)
    .sort((a, b) => Math.max(b.none ?? 0, b.native ?? 0) - Math.max(a.none ?? 0, a.native ?? 0));
  const most = rows.length ? Math.max(rows[0].none ?? 0, rows[0].native ?? 0) : 1;
  grid("nodes", "fitColumns", rows, [
    { title: "operation", field: "op", headerFilter: "input", minWidth: 120, widthGrow: 2 },
    { title: "node", field: "node", headerFilter: "input", minWidth: 160, widthGrow: 2 },
    { title: native ? "without the plugin" : "time", field: "none", ...bar("without", most, milliseconds), widthGrow: 2 },
    ...(native ? [
      { title: "with the plugin", field: "native", ...bar("with", most, milliseconds), widthGrow: 2 },
      { title: "times as fast", field: "ratio", sorter: "number", hozAlign: "right", width: 140, formatter: (cell) => cell.getValue()?.toFixed(2) ?? "" },
    ] : []),
  ], ({ number }) => select("after", number));
}

function showSummary() {
  document.title = `${report.source}: ortconv report`;
  byId("title").textContent = report.source;
  byId("subtitle").textContent =
    `${report.format}, converted by ortconv ${report.ortconv}: ${report.options.semantics} semantics, target ${report.options.target}`;
  const card = (value, text, className = "") => {
    const made = byId("cards").appendChild(element("div", "", `card ${className}`));
    made.append(element("b", value), element("span", text));
  };
  const inner = (network) => network.nodes.filter((node) => !isEnd(node));
  const ours = inner(report.after).filter((node) => node.ours).length;
  const warnings = report.before.nodes.reduce((sum, node) => sum + node.warnings.length, 0);
  if (report.refused) card("refused", counted(report.refused.length, "node"), "bad");
  else if (!verification) card("not verified", "see below", "bad");
  else {
    const errors = verification.outputs.map(({ max_rel }) => max_rel ?? Infinity);
    const largest = Math.max(0, ...errors);
    const close = verification.outputs.every(({ agrees }) => agrees);
    const unbroken = exponent(Number.isFinite(largest) ? largest : null).replace("-", "-\u2060");
    const found = `largest relative error of an output ${unbroken}`;
    card(verification.agrees ? "agrees" : "differs",
      `${verification.oracle}; ${verification.agrees && !close ? "each layer agrees, the outputs differ by rounding alone" : found}`,
      verification.agrees ? "good" : "bad");
  }
  card(`${inner(report.before).length.toLocaleString("en")} → ${inner(report.after).length.toLocaleString("en")}`,
    `nodes, ${ours} of them of org.ortconv${warnings ? `; ${counted(warnings, "warning")}` : ""}`);
  const { none, native } = sides;
  if (native) card(`${(none.run / native.run).toFixed(2)} times`, `as fast with the plugin: ${milliseconds(none.run)} → ${milliseconds(native.run)} a run`);
  else if (none) card(milliseconds(none.run), "a run");
  const size = (word) => report.files.filter(({ what }) => what.endsWith(word)).reduce((sum, each) => sum + each.bytes, 0);
  card(size("model") ? `${bytes(size("source"))} → ${bytes(size("model"))}` : bytes(size("source")), "files");
  const problems = [...(report.refused ?? []), ...(report.failed ? [report.failed] : []), ...(verification?.warnings ?? [])];
  byId("problems").hidden = !problems.length;
  problems.forEach((text) => byId("problems").append(element("p", text)));
  byId("files").append(plainTable(["file", "what it is", "bytes"], report.files.map((each) => [each.name, each.what, each.bytes])));
  if (verification) {
    byId("inputs").append(plainTable(["input", "type", "shape", "data"],
      verification.inputs.map((each) => [each.name, each.type, `[${each.shape.join(", ")}]`, each.data === "random" ? `random, seed ${verification.seed}` : each.data])));
  }
  byId("footer").textContent =
    `Drawn with cytoscape.js ${cytoscape.version}, d3-dag and Tabulator. The page holds all of its data and fetches nothing.`;
}

// Start --------------------------------------------------------------------------------------------------------------

function find() {
  const text = byId("find").value.trim().toLowerCase();
  const matches = ["before", "after"].flatMap((side) => report[side].nodes
    .map((node, number) => ({ side, number, node }))
    .filter(({ node }) => `${node.op}\n${node.name}\n${node.id}`.toLowerCase().includes(text)));
  if (!text || !matches.length) {
    byId("found").textContent = text ? "nothing found" : "";
    return;
  }
  const at = find.text === text ? (find.at + 1) % matches.length : 0;
  Object.assign(find, { text, at });
  byId("found").textContent = `${at + 1} of ${matches.length}, Enter for the next`;
  select(matches[at].side, matches[at].number);
}

for (const [name, { title }] of Object.entries(MODES)) {
  if ((name !== "error" || verification) && (name !== "time" || report.times)) byId("mode").append(new Option(title, name));
}
byId("mode").onchange = recolor;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const [side, view] of Object.entries(views)) view.style(style(report[side].nodes.length > MANY));
  recolor();
});
byId("find").addEventListener("search", find);
byId("find").addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); find(); } });
byId("details").append(element("p", "Click a node for its attributes, why it became what it is, warnings, errors and times.", "note"));
showSummary();
showErrors();
showTimes();
recolor();
lay("before", report.before, `Before: ${report.format}`);
lay("after", report.after, report.after.nodes.length ? "After: ONNX" : "After: nothing, as the source is refused");
