"use strict";
// What moves: curves to zoom and pick, tabs, sortable tables. The address keeps the choice.
// Everything that comes from the records enters the document as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const tasks = data.tasks.filter((task) => data.curves[task.id]);
  const AXES = { steps: ["Steps", "environment steps", "steps"], f: ["FLOPs", "FLOPs", "FLOPs"] };
  const BANDS = 7; // with more methods than this, bands hide each other
  const hidden = new Set();
  const state = { task: tasks.length ? tasks[0].id : "", axis: "steps", seeds: false, zoom: null };

  function make(tag, attributes = {}, ...children) {
    const svg = ["svg", "path", "line", "text", "rect"].includes(tag);
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "style") Object.entries(value).forEach(([key, item]) => element.style.setProperty(key, item));
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  }
  const colour = (m) => `var(--m${m})`;
  const trim = (value) => String(Number(value.toPrecision(3))).replace("-", "−");
  function readable(value) {
    const found = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([limit]) => Math.abs(value) >= limit);
    return found ? trim(value / found[0]) + found[1] : trim(value);
  }

  // --- which methods are shown: a click hides or shows, "only" shows alone, a group's name switches its methods
  const everyone = data.methods.map((_, m) => m);
  const hide = (methods, away) => methods.forEach((m) => (away ? hidden.add(m) : hidden.delete(m)));
  function picked() {
    document.querySelectorAll("#legend button[data-m]").forEach((button) => button.setAttribute("aria-pressed", String(!hidden.has(Number(button.dataset.m)))));
    everyone.forEach((m) => document.querySelectorAll(`svg .m${m}, tr[data-m="${m}"]`).forEach((part) => part.classList.toggle("away", hidden.has(m))));
    drawCurves();
    remember();
  }
  function dashes(method) {
    return method.dash.length ? method.dash.map((part) => part * method.width).join(" ") : null;
  }
  function drawLegend() {
    const groups = new Map();
    data.methods.forEach((method, m) => groups.set(method.family, [...(groups.get(method.family) || []), m]));
    const entry = (m) => {
      const method = data.methods[m];
      const mark = make("svg", { width: 26, height: 10, "aria-hidden": "true" }, make("line", { x1: 0, x2: 26, y1: 5, y2: 5,
        stroke: colour(m), "stroke-width": method.width + .6, "stroke-dasharray": dashes(method) }));
      const button = make("button", { type: "button", "data-m": m }, mark, method.label);
      const only = make("button", { type: "button", class: "only", "aria-label": `Only ${method.label}` }, "only");
      button.addEventListener("click", () => { hide([m], !hidden.has(m)); picked(); });
      only.addEventListener("click", () => {
        const alone = hidden.size === everyone.length - 1 && !hidden.has(m);
        hide(everyone, !alone);
        hidden.delete(m);
        picked();
      });
      return make("span", { class: "entry" }, button, only);
    };
    byId("legend").replaceChildren(...[...groups].map(([family, members]) => {
      const name = make("button", { type: "button", class: "group", title: "Hide or show the group" }, family);
      name.addEventListener("click", () => { hide(members, !members.every((m) => hidden.has(m))); picked(); });
      return make("div", { class: "legend" }, name, ...members.map(entry));
    }));
  }

  // --- the address: #task=…&axis=f&hide=a,b&runs=1&zoom=0.2,0.5
  function remember() {
    const words = new URLSearchParams();
    if (state.task !== (tasks[0] || {}).id) words.set("task", state.task);
    if (state.axis !== "steps") words.set("axis", state.axis);
    if (hidden.size) words.set("hide", [...hidden].sort((a, b) => a - b).map((m) => data.methods[m].name).join(","));
    if (state.seeds) words.set("runs", "1");
    if (state.zoom) words.set("zoom", state.zoom.map((value) => Number(value.toPrecision(4))).join(","));
    const text = words.toString();
    if (text || location.hash.includes("=")) history.replaceState(null, "", text ? `#${text}` : "#");
  }
  function recall() {
    if (!location.hash.includes("=")) return;
    const words = new URLSearchParams(location.hash.slice(1));
    if (tasks.some((task) => task.id === words.get("task"))) state.task = words.get("task");
    if (words.get("axis") in AXES) state.axis = words.get("axis");
    state.seeds = words.get("runs") === "1";
    const zoom = (words.get("zoom") || "").split(",").map(Number);
    state.zoom = zoom.length === 2 && zoom.every(Number.isFinite) && zoom[0] < zoom[1] ? zoom : null;
    const names = (words.get("hide") || "").split(",");
    hidden.clear();
    hide(everyone.filter((m) => names.includes(data.methods[m].name)), true);
  }

  // --- curves
  function ticks(low, high, count) {
    const rough = (high - low || 1) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9), found = [];
    for (let at = first; at * step <= high + step * 1e-6; at++) found.push(at * step);
    return found;
  }
  // Keep the order of places but move them apart; those that touch stand around the middle of where they were.
  function spread(places, gap, low, high) {
    const order = places.map((_, index) => index).sort((a, b) => places[a] - places[b]), groups = [];
    const clamp = (group) => { const half = gap * (group.members.length - 1) / 2; group.at = Math.min(Math.max(group.sum / group.members.length, low + half), high - half); };
    for (const index of order) {
      groups.push({ sum: places[index], members: [index] });
      clamp(groups[groups.length - 1]);
      for (let last = groups.length - 1; last > 0; last--) {
        const [one, two] = [groups[last - 1], groups[last]];
        if (two.at - one.at >= gap * (one.members.length + two.members.length) / 2 - 1e-6) break;
        groups.splice(last - 1, 2, { sum: one.sum + two.sum, members: [...one.members, ...two.members] });
        clamp(groups[last - 1]);
      }
    }
    const result = [];
    for (const group of groups) group.members.forEach((index, i) => { result[index] = group.at + gap * (i - (group.members.length - 1) / 2); });
    return result;
  }
  function path(x, y, sx, sy) {
    let text = "", pen = "M";
    y.forEach((value, i) => {
      if (value === null || x[i] === null) { pen = "M"; return; }
      text += `${pen}${sx(x[i]).toFixed(1)} ${sy(value).toFixed(1)}`;
      pen = "L";
    });
    return text;
  }
  function band(line, sx, sy) {
    const known = line.lo.map((_, i) => i).filter((i) => line.lo[i] !== null && line.hi[i] !== null && line.x[i] !== null);
    const side = (values, order) => order.map((i) => `${sx(line.x[i]).toFixed(1)} ${sy(values[i]).toFixed(1)}`).join("L");
    return known.length > 1 ? `M${side(line.hi, known)}L${side(line.lo, [...known].reverse())}Z` : "";
  }

  function drawCurves() {
    const set = data.curves[state.task], host = byId("curves");
    host.hidden = !set;
    if (!set) return;
    const [, xLabel, xUnit] = AXES[state.axis], single = state.seeds && state.task !== "";
    const lines = set.lines.filter((line) => !hidden.has(line.m)).map((line) => ({ ...data.methods[line.m], ...line,
      x: state.axis === "steps" ? set.x : line[state.axis] || [], seeds: (single && line.seeds) || [],
      open: (state.axis === "steps" && line.open) || [] })).filter((line) => line.x.length);
    const width = host.clientWidth || 320, height = Math.round(Math.max(280, Math.min(440, width * 0.5)));
    const gap = 14, top = 26, bottom = height - 44, named = width >= 700 && lines.length * gap <= bottom - top;
    const left = 48, right = width - (named ? 190 : 14);
    const most = Math.max(1, ...lines.flatMap((line) => line.x));
    const [from, to] = state.zoom ? state.zoom.map((share) => share * most) : [0, most];
    const inside = lines.flatMap((line) => [line.y, line.lo || [], line.hi || [], ...line.seeds, ...line.open]
      .flatMap((values) => values.filter((value, i) => value !== null && line.x[i] >= from && line.x[i] <= to)));
    let low = Math.min(...inside), high = Math.max(...inside);
    if (!inside.length) [low, high] = [0, 1];
    const pad = 0.04 * (high - low || 1);
    high += pad;
    low = low >= 0 && low < 0.35 * high ? 0 : low - pad;
    const sx = (value) => left + (value - from) / (to - from || 1) * (right - left);
    const sy = (value) => bottom - (value - low) / (high - low || 1) * (bottom - top);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", tabindex: 0,
      "aria-label": `Learning curves, ${labelOf(state.task)}; arrow keys read values, drag to zoom` });
    for (const value of ticks(low, high, 5)) {
      svg.append(make("line", { class: "grid", x1: left, x2: right, y1: sy(value), y2: sy(value) }),
        make("text", { x: left - 8, y: sy(value) + 4, "text-anchor": "end" }, readable(value)));
    }
    for (const value of ticks(from, to, width < 500 ? 3 : 6)) svg.append(make("text", { x: sx(value), y: bottom + 18, "text-anchor": "middle" }, readable(value)));
    svg.append(make("text", { x: (left + right) / 2, y: bottom + 37, "text-anchor": "middle" }, xLabel), make("text", { x: 0, y: 12 }, set.label));
    const plot = make("svg", { x: left, y: 0, width: right - left, height: bottom, viewBox: `${left} 0 ${right - left} ${bottom}` });
    if (!single && lines.length <= BANDS) lines.forEach((line) => line.lo && plot.append(make("path", { class: "band", fill: colour(line.m), d: band(line, sx, sy) })));
    for (const line of lines) {
      line.seeds.forEach((seed) => plot.append(make("path", { class: "thin", stroke: colour(line.m), d: path(line.x, seed, sx, sy) })));
      line.open.forEach((run) => plot.append(make("path", { class: "open", stroke: colour(line.m), d: path(line.x, run, sx, sy) })));
      plot.append(make("path", { class: "line", stroke: colour(line.m), "stroke-width": line.width, "stroke-dasharray": dashes(line), d: path(line.x, line.y, sx, sy) }));
    }
    svg.append(plot);
    if (named) label(svg, lines, { from, to, top: top + 6, bottom, right, sx, sy, gap });
    host.replaceChildren(svg);
    listen(host, svg, lines, { left, right, top, bottom, from, to, most, sx, xUnit });
    byId("unzoom").hidden = !state.zoom;
    caption(set, single);
  }
  function label(svg, lines, box) {
    const ends = lines.map((line) => ({ line, i: line.y.findLastIndex((value, i) => value !== null && line.x[i] <= box.to) })).filter((end) => end.i >= 0);
    const places = spread(ends.map(({ line, i }) => box.sy(line.y[i])), box.gap, box.top, box.bottom);
    ends.forEach(({ line, i }, place) => {
      const text = make("text", { class: "name", x: box.right + 11, y: places[place] + 4, style: { fill: colour(line.m) } }, line.label.length > 27 ? line.label.slice(0, 26) + "…" : line.label);
      svg.append(make("path", { class: "lead", stroke: colour(line.m), d: `M${Math.min(box.sx(line.x[i]), box.right)} ${box.sy(line.y[i])}L${box.right + 8} ${places[place]}` }), text);
    });
  }
  function caption(set, single) {
    const few = set.lines.filter((line) => line.n && line.n.split("/")[0] !== line.n.split("/")[1]);
    const none = everyone.filter((m) => !set.lines.some((line) => line.m === m && line.y.length));
    byId("curves-caption").textContent = "Drag over the curves to zoom. Mean over finished runs; " +
      (single ? "thin lines are single runs. " : `bands (drawn for ${BANDS} methods or fewer: pick some) are pointwise 95 % bootstrap intervals of the mean over seeds. `) +
      (state.task === "" ? "Tasks count equally. " : "") + "The score is the mean of the last 100 training episodes; there is no other smoothing. " +
      (state.axis === "steps" ? "" : "A point is the mean at one step, drawn at the mean of what the runs had spent by then. ") +
      (few.length ? `Fewer runs than planned: ${few.map((line) => `${data.methods[line.m].label} ${line.n}`).join(", ")}. ` : "") +
      (none.length ? `No curve for ${none.map((m) => data.methods[m].label).join(", ")}. ` : "") +
      (set.lines.some((line) => (line.open || []).length) ? "Dotted lines are runs that are not finished; they are in no mean." : "");
  }
  const labelOf = (task) => data.tasks.find((entry) => entry.id === task).label;

  // --- values under the pointer or by arrow keys; a drag zooms
  function listen(host, svg, lines, box) {
    const cross = make("line", { class: "cross", y1: box.top, y2: box.bottom, visibility: "hidden" });
    const shade = make("rect", { class: "shade", y: box.top, height: box.bottom - box.top, visibility: "hidden" });
    const tip = make("div", { class: "tip", hidden: true, role: "status" });
    svg.append(shade, cross);
    host.append(tip);
    const axis = [...new Set(lines.flatMap((line) => line.x))].filter((x) => x !== null && x >= box.from && x <= box.to).sort((a, b) => a - b);
    const near = (values, x) => values.reduce((best, value, i) => (value !== null && Math.abs(value - x) < Math.abs(values[best] - x) ? i : best), 0);
    const away = () => { tip.hidden = true; cross.setAttribute("visibility", "hidden"); };
    let at = axis.length - 1, start = null;
    const show = (x) => {
      const rows = lines.filter((line) => line.y.length && x <= line.x[line.x.length - 1] * 1.02)
        .map((line) => ({ line, value: line.y[near(line.x, x)] })).filter((row) => row.value !== null).sort((a, b) => b.value - a.value);
      if (!rows.length) return away();
      for (const side of ["x1", "x2"]) cross.setAttribute(side, box.sx(x));
      cross.setAttribute("visibility", "visible");
      tip.replaceChildren(make("b", {}, `${readable(x)} ${box.xUnit}`), ...rows.map(({ line, value }) =>
        make("div", {}, make("i", { class: "dot", style: { background: colour(line.m), margin: 0 } }),
          make("span", {}, line.label + (line.n ? ` (${line.n})` : "")), make("em", {}, trim(value)))));
      tip.hidden = false;
      const place = box.sx(x);
      tip.style.left = `${place > host.clientWidth / 2 ? Math.max(0, place - tip.offsetWidth - 14) : place + 14}px`;
      tip.style.top = `${box.top}px`;
    };
    const clamp = (event) => Math.min(box.right, Math.max(box.left, event.clientX - svg.getBoundingClientRect().left));
    const value = (place) => box.from + (place - box.left) / (box.right - box.left) * (box.to - box.from);
    svg.addEventListener("pointerdown", (event) => { if (event.button === 0 && event.pointerType !== "touch") { start = clamp(event); event.preventDefault(); svg.setPointerCapture(event.pointerId); } });
    svg.addEventListener("pointermove", (event) => {
      const x = clamp(event);
      if (axis.length) { at = near(axis, value(x)); show(axis[at]); }
      if (start === null) return;
      shade.setAttribute("x", Math.min(start, x));
      shade.setAttribute("width", Math.abs(x - start));
      shade.setAttribute("visibility", "visible");
    });
    svg.addEventListener("pointerup", (event) => {
      const ends = start === null ? [] : [start, clamp(event)].sort((a, b) => a - b);
      start = null;
      if (ends.length && ends[1] - ends[0] > 8) zoom(ends.map((place) => value(place) / box.most));
    });
    svg.addEventListener("dblclick", () => zoom(null));
    svg.addEventListener("pointerleave", away);
    svg.addEventListener("blur", away);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !axis.length) return;
      event.preventDefault();
      at = Math.max(0, Math.min(axis.length - 1, at + step * Math.max(1, Math.round(axis.length / 50))));
      show(axis[at]);
    });
  }
  function zoom(range) {
    state.zoom = range;
    drawCurves();
    remember();
  }

  // --- tabs, the axis, tables
  function select(task, focus) {
    if (task !== state.task) state.zoom = null;
    state.task = task;
    for (const tab of byId("tabs").children) {
      const chosen = tab.dataset.task === task;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) byId("panel").setAttribute("aria-labelledby", tab.id);
      if (chosen && focus) { tab.focus(); tab.scrollIntoView({ block: "nearest", inline: "nearest" }); }
    }
    document.querySelectorAll(".cells").forEach((block) => { block.hidden = block.dataset.task !== task; });
    byId("seeds-label").hidden = task === "";
    drawCurves();
    remember();
  }
  function makeTabs() {
    byId("tabs").replaceChildren(...tasks.map((task, i) => {
      const tab = make("button", { type: "button", role: "tab", id: `tab-${i}`, "aria-controls": "panel", "data-task": task.id }, task.label);
      tab.addEventListener("click", () => select(task.id, false));
      return tab;
    }));
    byId("tabs").addEventListener("keydown", (event) => {
      const ids = tasks.map((task) => task.id), at = ids.indexOf(state.task);
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: ids.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      select(ids[(to + ids.length) % ids.length], true);
    });
  }
  function makeAxis() {
    const curves = Object.values(data.curves).flatMap((set) => set.lines);
    const known = Object.keys(AXES).filter((key) => key === "steps" || curves.some((line) => line[key]));
    const set = make("fieldset", { class: "segments" }, make("legend", {}, "Horizontal axis"));
    for (const value of known) {
      const input = make("input", { type: "radio", name: "axis", value, checked: value === state.axis });
      input.addEventListener("change", () => { state.axis = value; zoom(null); });
      set.append(make("label", {}, input, make("span", {}, AXES[value][0])));
    }
    byId("axis").replaceChildren(set);
  }
  function sortable(table) {
    const key = (row, column) => {
      const text = row.cells[column].dataset.v ?? row.cells[column].textContent, number = parseFloat(text);
      return Number.isNaN(number) ? text : number;
    };
    table.querySelectorAll("thead th").forEach((head, column) => {
      const button = make("button", { type: "button" }, ...head.childNodes);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const sign = head.getAttribute("aria-sort") !== "descending" ? -1 : 1;
        table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
        table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => {
          const [x, y] = [key(a, column), key(b, column)];
          return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
        }));
      });
    });
  }

  function restore() {
    recall();
    makeAxis();
    byId("seeds").checked = state.seeds;
    const keep = state.zoom;
    select(state.task, false);
    state.zoom = keep;
    picked();
  }
  document.querySelectorAll("table[data-sortable]").forEach(sortable);
  byId("seeds").addEventListener("change", () => { state.seeds = byId("seeds").checked; zoom(state.zoom); });
  byId("unzoom").addEventListener("click", () => zoom(null));
  drawLegend();
  makeTabs();
  restore();
  addEventListener("hashchange", restore);
  let width = document.body.clientWidth;
  new ResizeObserver(() => { if (document.body.clientWidth !== width) { width = document.body.clientWidth; drawCurves(); } }).observe(document.body);
  addEventListener("beforeprint", drawCurves);
  document.documentElement.dataset.ready = "true";
})();
