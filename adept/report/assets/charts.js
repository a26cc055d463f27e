"use strict";
// Small SVG charts: lines with bands, dots with intervals, points with a front, stacked shares.
// Everything that comes from the records enters the document as text, never as markup.

const NS = "http://www.w3.org/2000/svg";

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  return fill(element, attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(NS, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") Object.entries(value).forEach(([key, item]) => element.style.setProperty(key, item));
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const colour = (method) => `var(--m${method})`;

function readable(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  for (const [limit, letter] of [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= limit) return trim(value / limit) + letter;
  }
  return trim(value);
}

const measure = (() => {
  const pen = document.createElement("canvas").getContext("2d");
  return (text, font) => { pen.font = `${font} ${getComputedStyle(document.body).fontFamily}`; return pen.measureText(text).width; };
})();

function trim(value) {
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

function ticks(low, high, count) {
  const span = high - low || 1;
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-6; value += step) {
    found.push(Math.abs(value) < step * 1e-9 ? 0 : value);
  }
  return found;
}

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value === null || value === undefined || !Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [0, 1];
}

function scale(low, high, from, to) {
  const width = high - low || 1;
  return (value) => from + ((value - low) / width) * (to - from);
}

// Keep the order of places but move them apart; then keep them inside.
function spread(places, gap, low, high) {
  const order = places.map((_, index) => index).sort((a, b) => places[a] - places[b]);
  const moved = order.map((index) => places[index]);
  for (let round = 0; round < 120; round++) {
    for (let i = 0; i + 1 < moved.length; i++) {
      const lack = gap - (moved[i + 1] - moved[i]);
      if (lack > 0.01) { moved[i] -= lack / 2; moved[i + 1] += lack / 2; }
    }
    if (moved.length && moved[0] < low) moved[0] = low;
    if (moved.length && moved[moved.length - 1] > high) moved[moved.length - 1] = high;
  }
  const result = [];
  order.forEach((index, place) => { result[index] = moved[place]; });
  return result;
}

function path(x, y, sx, sy) {
  let text = "", pen = "M";
  for (let i = 0; i < y.length; i++) {
    if (y[i] === null || x[i] === null || x[i] === undefined) { pen = "M"; continue; }
    text += `${pen}${sx(x[i]).toFixed(1)} ${sy(y[i]).toFixed(1)}`;
    pen = "L";
  }
  return text;
}

function band(x, low, high, sx, sy) {
  const there = [], back = [];
  for (let i = 0; i < low.length; i++) {
    if (low[i] === null || high[i] === null || x[i] === null) continue;
    there.push(`${sx(x[i]).toFixed(1)} ${sy(high[i]).toFixed(1)}`);
    back.unshift(`${sx(x[i]).toFixed(1)} ${sy(low[i]).toFixed(1)}`);
  }
  return there.length > 1 ? `M${there.join("L")}L${back.join("L")}Z` : "";
}

function frame(width, height, label) {
  return draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
}

function axes(svg, box, xs, ys, sx, sy, xLabel, yLabel, formats = {}) {
  const fx = formats.x || readable, fy = formats.y || readable;
  for (const value of ys) {
    const y = sy(value);
    svg.append(draw("line", { class: "grid", x1: box.left, x2: box.right, y1: y, y2: y }),
      draw("text", { x: box.left - 8, y: y + 4, "text-anchor": "end" }, fy(value)));
  }
  for (const value of xs) {
    svg.append(draw("text", { x: sx(value), y: box.bottom + 18, "text-anchor": "middle" }, fx(value)));
  }
  svg.append(draw("line", { class: "grid", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  if (xLabel) svg.append(draw("text", { x: (box.left + box.right) / 2, y: box.bottom + 37, "text-anchor": "middle" }, xLabel));
  if (yLabel) svg.append(draw("text", { x: 0, y: 12 }, yLabel));
}

// lines: [{m, label, dash, width, x, y, lo, hi, seeds, open}], all optional but m, label, x and y.
function lineChart(host, spec) {
  const width = host.clientWidth || 320;
  const height = Math.round(Math.max(270, Math.min(430, width * 0.5)));
  const named = spec.names !== false && width >= 700 && spec.lines.length <= 16;
  const box = { left: 46, right: width - (named ? 178 : 14), top: 26, bottom: height - 44 };
  const shown = spec.lines.filter((line) => line.y.length || (line.open || []).length);
  const [xLow, xHigh] = range(shown.flatMap((line) => line.x));
  let [yLow, yHigh] = range(shown.flatMap((line) => [...line.y, ...(line.lo || []), ...(line.hi || []),
    ...(line.open || []).flat(), ...(spec.single ? (line.seeds || []).flat() : [])]));
  if (yLow > 0 && yLow < 0.35 * yHigh) yLow = 0;
  const pad = 0.04 * (yHigh - yLow || 1);
  yHigh += pad;
  if (yLow !== 0) yLow -= pad;
  const xStart = spec.zero === false ? xLow : 0;
  const sx = scale(xStart, xHigh, box.left, box.right), sy = scale(yLow, yHigh, box.bottom, box.top);
  const svg = frame(width, height, spec.title);
  axes(svg, box, ticks(xStart, xHigh, width < 500 ? 3 : 6), ticks(yLow, yHigh, 5), sx, sy, spec.xLabel, spec.yLabel);
  for (const line of shown) {
    if (line.lo && !spec.single) svg.append(draw("path", { class: "band", fill: colour(line.m), d: band(line.x, line.lo, line.hi, sx, sy) }));
  }
  for (const line of shown) {
    if (spec.single) for (const seed of line.seeds || []) {
      svg.append(draw("path", { class: "thin", stroke: colour(line.m), d: path(line.x, seed, sx, sy) }));
    }
    for (const run of line.open || []) {
      svg.append(draw("path", { class: "open", stroke: colour(line.m), d: path(line.x, run, sx, sy) }));
    }
    svg.append(draw("path", { class: "line", stroke: colour(line.m), "stroke-width": line.width,
      "stroke-dasharray": line.dash.length ? line.dash.map((part) => part * line.width).join(" ") : null,
      d: path(line.x, line.y, sx, sy) }));
  }
  if (named) {
    const ends = shown.filter((line) => line.y.length);
    const last = ends.map((line) => { let i = line.y.length - 1; while (i > 0 && line.y[i] === null) i--; return i; });
    const places = spread(ends.map((line, i) => sy(line.y[last[i]])), 15, box.top, box.bottom);
    ends.forEach((line, i) => {
      const x = sx(line.x[last[i]]), y = sy(line.y[last[i]]);
      svg.append(draw("path", { class: "line", stroke: colour(line.m), "stroke-width": .7, opacity: .4, d: `M${x} ${y}L${box.right + 8} ${places[i]}` }),
        draw("text", { class: "name", x: box.right + 11, y: places[i] + 4, style: { fill: colour(line.m) } }, fit(line.label, 165, "600 12px")));
    });
  }
  host.replaceChildren(svg);
  hover(host, svg, shown, box, sx, sy, spec);
}

function fit(text, width, font) {
  if (measure(text, font) <= width) return text;
  let most = text.length;
  while (most > 3 && measure(clip(text, most), font) > width) most--;
  return clip(text, most);
}

function clip(text, most) {
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

function hover(host, svg, lines, box, sx, sy, spec) {
  const cross = draw("line", { class: "cross", y1: box.top, y2: box.bottom, visibility: "hidden" });
  const tip = make("div", { class: "tip", hidden: true, role: "status" });
  svg.append(cross);
  host.append(tip);
  svg.setAttribute("tabindex", "0");
  const axis = [...new Set(lines.flatMap((line) => line.x.filter((value) => value !== null)))].sort((a, b) => a - b);
  let at = axis.length - 1;
  const nearest = (values, x) => {
    let best = 0;
    values.forEach((value, i) => { if (value !== null && Math.abs(value - x) < Math.abs(values[best] - x)) best = i; });
    return best;
  };
  const show = (x) => {
    const rows = lines.filter((line) => line.y.length && x <= line.x[line.x.length - 1] * 1.02)
      .map((line) => ({ line, value: line.y[nearest(line.x, x)] }))
      .filter((row) => row.value !== null).sort((a, b) => b.value - a.value);
    if (!rows.length) return hide();
    cross.setAttribute("x1", sx(x)); cross.setAttribute("x2", sx(x)); cross.setAttribute("visibility", "visible");
    tip.replaceChildren(make("b", {}, `${readable(x)} ${spec.xUnit || ""}`), ...rows.map(({ line, value }) =>
      make("div", {}, make("i", { class: "dot", style: { background: colour(line.m), margin: 0 } }),
        make("span", {}, line.label + (line.n ? ` (${line.n})` : "")), make("em", {}, trim(value)))));
    tip.hidden = false;
    const left = sx(x) * (host.clientWidth / svg.viewBox.baseVal.width);
    tip.style.left = `${left > host.clientWidth / 2 ? Math.max(0, left - tip.offsetWidth - 14) : left + 14}px`;
    tip.style.top = `${box.top}px`;
  };
  const hide = () => { tip.hidden = true; cross.setAttribute("visibility", "hidden"); };
  svg.addEventListener("pointermove", (event) => {
    const place = svg.getBoundingClientRect();
    const x = (event.clientX - place.left) * (svg.viewBox.baseVal.width / place.width);
    if (x < box.left - 4 || x > box.right + 4) return hide();
    at = nearest(axis, sx.invert ? sx.invert(x) : axisValue(axis, sx, x));
    show(axis[at]);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    at = Math.max(0, Math.min(axis.length - 1, at + step * Math.max(1, Math.round(axis.length / 50))));
    show(axis[at]);
  });
}

function axisValue(axis, sx, x) {
  const low = sx(axis[0]), high = sx(axis[axis.length - 1]);
  return axis[0] + ((x - low) / (high - low || 1)) * (axis[axis.length - 1] - axis[0]);
}

// rows: [{m, label, value: [v, lo, hi]}]
function dotChart(host, rows, options) {
  const width = host.clientWidth || 320, line = 25;
  const longest = Math.max(40, ...rows.map((row) => measure(row.label, "12px")));
  const left = Math.min(0.42 * width, 14 + longest);
  const height = rows.length * line + 50;
  const box = { left, right: width - 12, top: 4, bottom: rows.length * line + 8 };
  let [low, high] = range(rows.flatMap((row) => row.value).concat(options.line === undefined ? [] : [options.line]));
  if (options.domain) [low, high] = options.domain;
  const pad = options.domain ? 0 : 0.06 * (high - low || 1);
  const sx = scale(low - pad, high + pad, box.left, box.right);
  const svg = frame(width, height, options.title);
  for (const value of ticks(low - pad, high + pad, 5)) {
    svg.append(draw("line", { class: "grid", x1: sx(value), x2: sx(value), y1: box.top, y2: box.bottom }),
      draw("text", { x: sx(value), y: box.bottom + 16, "text-anchor": "middle" }, trim(value)));
  }
  if (options.line !== undefined) svg.append(draw("line", { class: "zero", x1: sx(options.line), x2: sx(options.line), y1: box.top, y2: box.bottom }));
  rows.forEach((row, i) => {
    const y = box.top + line * (i + 0.5), [value, lo, hi] = row.value;
    const text = `${row.label}: ${trim(value)}` + (lo === null ? "" : ` [${trim(lo)}, ${trim(hi)}]`);
    const group = draw("g", {}, draw("title", {}, text), draw("text", { x: 0, y: y + 4, style: { fill: "var(--ink)" } }, fit(row.label, left - 10, "12px")));
    if (lo !== null) group.append(draw("rect", { x: sx(lo), width: Math.max(1, sx(hi) - sx(lo)), y: y - 4, height: 8, rx: 2, fill: colour(row.m), opacity: .35 }));
    group.append(draw("circle", { cx: sx(value), cy: y, r: 4.5, fill: colour(row.m) }));
    svg.append(group);
  });
  svg.append(draw("text", { x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" }, options.xLabel));
  host.replaceChildren(svg);
}

// points: [{m, label, x, y: [v, lo, hi], front}]
function scatterChart(host, points, options) {
  const width = host.clientWidth || 320, height = Math.round(Math.max(300, Math.min(400, width * 0.72)));
  const box = { left: 42, right: width - 10, top: 26, bottom: height - 44 };
  const [yLow, yHigh] = range(points.flatMap((point) => point.y));
  const pad = 0.06 * (yHigh - yLow || 1), xHigh = Math.max(...points.map((point) => point.x)) * 1.12;
  const sx = scale(0, xHigh, box.left, box.right), sy = scale(yLow - pad, yHigh + pad, box.bottom, box.top);
  const svg = frame(width, height, options.title);
  axes(svg, box, ticks(0, xHigh, width < 420 ? 4 : 5), ticks(yLow, yHigh, 5), sx, sy, options.xLabel, options.yLabel,
    { x: (value) => `${Math.round(100 * value)} %`, y: trim });
  const front = points.filter((point) => point.front !== null).sort((a, b) => a.front - b.front);
  let steps = "";
  front.forEach((point, i) => { steps += i ? `H${sx(point.x)}V${sy(point.y[0])}` : `M${sx(point.x)} ${sy(point.y[0])}`; });
  if (front.length > 1) svg.append(draw("path", { class: "zero", fill: "none", d: steps }));
  for (const point of points) {
    const [value, lo, hi] = point.y;
    const text = `${point.label}: ${trim(value)}` + (lo === null ? "" : ` [${trim(lo)}, ${trim(hi)}]`) + ` at ${Math.round(100 * point.x)} % of the compute`;
    const group = draw("g", {}, draw("title", {}, text));
    if (lo !== null) group.append(draw("line", { x1: sx(point.x), x2: sx(point.x), y1: sy(lo), y2: sy(hi), stroke: colour(point.m), "stroke-width": 2.5, opacity: .35 }));
    group.append(draw("circle", { cx: sx(point.x), cy: sy(value), r: 5.5, fill: colour(point.m) }));
    svg.append(group);
  }
  for (const { point, x, y, width: wide } of placeLabels(points, sx, sy, box)) {
    const cx = sx(point.x), cy = sy(point.y[0]);
    svg.append(draw("path", { class: "line", stroke: colour(point.m), "stroke-width": .7, opacity: .6, d: `M${cx} ${cy}L${cx < x ? x - 2 : x + wide + 2} ${y}` }),
      draw("text", { class: "name", x, y: y + 4, style: { fill: colour(point.m), "font-size": "11.5px" } }, clip(point.label, 24)));
  }
  host.replaceChildren(svg);
}

// Put each name where it covers no point and no other name; one that fits nowhere is left to the pointer.
function placeLabels(points, sx, sy, box) {
  const taken = points.map((point) => [sx(point.x) - 6, sy(point.y[0]) - 6, sx(point.x) + 6, sy(point.y[0]) + 6]);
  const rank = (point) => (point.front !== null ? 0 : 1);
  const placed = [];
  for (const point of [...points].sort((a, b) => rank(a) - rank(b) || b.y[0] - a.y[0])) {
    const width = measure(clip(point.label, 24), "600 11.5px") + 2, cx = sx(point.x), cy = sy(point.y[0]);
    const spots = [];
    for (const lift of [0, -14, 14, -28, 28, -42, 42]) {
      spots.push([cx + 11, cy + lift], [cx - 11 - width, cy + lift]);
    }
    const free = spots.find(([x, y]) => x >= box.left && x + width <= box.right + 8 && y >= box.top - 4 && y <= box.bottom - 4 &&
      !taken.some(([left, top, right, bottom]) => x < right && x + width > left && y - 7 < bottom && y + 7 > top));
    if (!free) continue;
    taken.push([free[0], free[1] - 7, free[0] + width, free[1] + 7]);
    placed.push({ point, x: free[0], y: free[1], width });
  }
  return placed;
}

// shares: one row of percentages per arm, largest arm first; drawn with the smallest at the bottom.
function stackChart(host, arms, shares, colours, title) {
  const width = host.clientWidth || 200, height = 118;
  const box = { left: 30, right: width - 4, top: 6, bottom: height - 22 };
  const svg = frame(width, height, title);
  const count = shares[0].length;
  const sx = scale(0, count - 1, box.left, box.right), sy = scale(0, 100, box.bottom, box.top);
  let floor = new Array(count).fill(0);
  for (let i = arms.length - 1; i >= 0; i--) {
    const top = floor.map((value, point) => Math.min(100, value + shares[i][point]));
    if (i === 0) top.fill(100);
    const there = top.map((value, point) => `${sx(point).toFixed(1)} ${sy(value).toFixed(1)}`);
    const back = floor.map((value, point) => `${sx(point).toFixed(1)} ${sy(value).toFixed(1)}`).reverse();
    const end = shares[i][count - 1];
    svg.append(draw("path", { class: "area", fill: colours[arms[i]], d: `M${there.join("L")}L${back.join("L")}Z` },
      draw("title", {}, `K=${arms[i]}: ${end} % of all choices`)));
    floor = top;
  }
  for (const value of [0, 50, 100]) svg.append(draw("text", { x: box.left - 5, y: sy(value) + 4, "text-anchor": "end" }, value));
  svg.append(draw("text", { x: box.left, y: height - 5 }, "start"), draw("text", { x: box.right, y: height - 5, "text-anchor": "end" }, "end of training"));
  host.replaceChildren(svg);
}
