"use strict";
// What moves: curves to zoom and pick, tabs, sortable tables. All choices are one state, which the address keeps:
// #task=…&axis=f&hide=a,b&runs=1&zoom=0.2,0.5. Everything from the records enters the document as text, never as markup.
(() => {
  const byId = (id) => document.getElementById(id), each = (selector, act) => document.querySelectorAll(selector).forEach(act);
  const data = JSON.parse(byId("data").textContent), { methods } = data;
  const tasks = data.tasks.filter((task) => data.curves[task.id]);
  const AXES = { steps: ["Steps", "environment steps", "steps"], f: ["FLOPs", "FLOPs", "FLOPs"] };
  const BANDS = 7; // with more methods than this, bands hide each other
  const START = { task: tasks.length ? tasks[0].id : "", axis: "steps", hide: "", runs: "", zoom: "" };
  const state = { ...START };

  function make(tag, attributes = {}, ...children) {
    const svg = ["svg", "path", "line", "text", "rect"].includes(tag);
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "style") Object.entries(value).forEach(([key, item]) => element.style.setProperty(key, item));
      else if (typeof value === "function") element.addEventListener(name, value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  }
  const colour = (m) => `var(--m${m})`;
  const dashes = ({ dash, width }) => (dash.length ? dash.map((part) => part * width).join(" ") : null);
  const trim = (value) => String(Number(value.toPrecision(3))).replace("-", "−");
  function readable(value) {
    const found = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([limit]) => Math.abs(value) >= limit);
    return found ? trim(value / found[0]) + found[1] : trim(value);
  }

  // --- the state: what is chosen, shown everywhere and kept in the address
  const hidden = () => new Set(methods.flatMap(({ name }, m) => (state.hide.split(",").includes(name) ? [m] : [])));
  const hide = (set) => change({ hide: methods.filter((_, m) => set.has(m)).map(({ name }) => name).join(",") });
  function change(choice) {
    Object.assign(state, choice);
    const words = Object.entries(state).filter(([key, value]) => value !== START[key]), away = hidden();
    const text = new URLSearchParams(words).toString();
    if (text || location.hash.includes("=")) history.replaceState(null, "", text ? `#${text}` : "#");
    each("#legend button[data-m]", (button) => button.setAttribute("aria-pressed", String(!away.has(Number(button.dataset.m)))));
    methods.forEach((_, m) => each(`svg .m${m}, tr[data-m="${m}"]`, (part) => part.classList.toggle("away", away.has(m))));
    each("#tabs button", (tab) => {
      const chosen = tab.dataset.task === state.task;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) byId("panel").setAttribute("aria-labelledby", tab.id);
    });
    each(".cells", (block) => { block.hidden = block.dataset.task !== state.task; });
    each("#axis input", (input) => { input.checked = input.value === state.axis; });
    byId("seeds").checked = state.runs === "1";
    byId("seeds-label").hidden = state.task === "";
    byId("unzoom").hidden = !state.zoom;
    drawCurves();
  }
  function recall() {
    const words = location.hash.includes("=") ? { ...START, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) } : state;
    const choice = Object.fromEntries(Object.keys(START).map((key) => [key, words[key]]));
    if (!tasks.some((task) => task.id === choice.task)) choice.task = START.task;
    if (!(choice.axis in AXES)) choice.axis = START.axis;
    const [from, to, ...more] = choice.zoom.split(",").map(Number);
    if (!(from < to) || more.length) choice.zoom = "";
    change(choice);
  }

  // --- which methods are shown: a click hides or shows, "only" shows alone, a group's name switches its methods
  function entry(m) {
    const { label, width } = methods[m], button = (attributes, ...children) => make("button", { type: "button", ...attributes }, ...children);
    const stroke = { stroke: colour(m), "stroke-width": width + .6, "stroke-dasharray": dashes(methods[m]) };
    const mark = make("svg", { width: 26, height: 10, "aria-hidden": "true" }, make("line", { x1: 0, x2: 26, y1: 5, y2: 5, ...stroke }));
    const others = new Set(methods.keys());
    others.delete(m);
    const alone = (away) => away.size === others.size && !away.has(m);
    return make("span", { class: "entry" },
      button({ "data-m": m, click: () => hide(hidden().symmetricDifference(new Set([m]))) }, mark, label),
      button({ class: "only", "aria-label": `Only ${label}`, click: () => hide(alone(hidden()) ? new Set() : others) }, "only"));
  }
  function drawLegend() {
    byId("legend").replaceChildren(...[...new Set(methods.map(({ family }) => family))].map((family) => {
      const members = new Set(methods.flatMap((method, m) => (method.family === family ? [m] : [])));
      const click = () => hide(members.isSubsetOf(hidden()) ? hidden().difference(members) : hidden().union(members));
      const name = make("button", { type: "button", class: "group", title: "Hide or show the group", click }, family);
      return make("div", { class: "legend" }, name, ...[...members].map(entry));
    }));
  }

  // --- curves
  function ticks(low, high, count) {
    const rough = (high - low || 1) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999), found = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-6; at++) found.push(at * step);
    return found;
  }
  // Keep the order of places but move them apart: down as far as needed, then up again from the end.
  function spread(places, gap, low, high) {
    const order = places.map((_, index) => index).sort((a, b) => places[a] - places[b]), found = [...places];
    order.reduce((least, index) => (found[index] = Math.max(found[index], least)) + gap, low);
    order.reduceRight((most, index) => (found[index] = Math.min(found[index], most)) - gap, high);
    return found;
  }
  const point = (x, y, box) => `${box.sx(x).toFixed(1)} ${box.sy(y).toFixed(1)}`;
  function path(x, y, box) {
    let pen = "M";
    return y.map((value, i) => {
      const known = value !== null && x[i] !== null, text = known ? pen + point(x[i], value, box) : "";
      pen = known ? "L" : "M";
      return text;
    }).join("");
  }
  function band(line, box) {
    const known = [...line.lo.keys()].filter((i) => line.lo[i] !== null && line.hi[i] !== null && line.x[i] !== null);
    const sides = [...known.map((i) => [i, line.hi]), ...known.reverse().map((i) => [i, line.lo])];
    return known.length > 1 ? `M${sides.map(([i, values]) => point(line.x[i], values[i], box)).join("L")}Z` : "";
  }

  function drawCurves() {
    const set = data.curves[state.task], host = byId("curves"), single = state.runs === "1" && state.task !== "", away = hidden();
    host.hidden = !set;
    if (!set) return;
    const lines = set.lines.filter((line) => !away.has(line.m)).map((line) => ({ ...methods[line.m], ...line,
      x: state.axis === "steps" ? set.x : line[state.axis] || [], seeds: single ? line.seeds : [],
      open: state.axis === "steps" ? line.open : [] })).filter((line) => line.x.length);
    const width = host.clientWidth || 320, height = Math.round(Math.max(280, Math.min(440, width * 0.5)));
    const gap = 14 * Math.max(1, ...lines.map((line) => wrapped(line.label).length)), top = 26, bottom = height - 44, named = width >= 700 && lines.length * gap <= bottom - top;
    const left = 48, right = width - (named ? 190 : 14), most = Math.max(1, ...lines.flatMap((line) => line.x));
    const [from, to] = state.zoom ? state.zoom.split(",").map((share) => share * most) : [0, most];
    const inside = lines.flatMap((line) => [line.y, line.lo || [], line.hi || [], ...line.seeds, ...line.open]
      .flatMap((values) => values.filter((value, i) => value !== null && line.x[i] >= from && line.x[i] <= to)));
    let [low, high] = inside.length ? [Math.min(...inside), Math.max(...inside)] : [0, 1];
    const pad = 0.04 * (high - low || 1);
    high += pad;
    low = low >= 0 && low < 0.35 * high ? 0 : low - pad;
    const sx = (value) => left + (value - from) / (to - from || 1) * (right - left);
    const sy = (value) => bottom - (value - low) / (high - low || 1) * (bottom - top);
    const box = { left, right, top, bottom, from, to, most, sx, sy, gap };
    const text = (x, y, words, anchor = "middle") => make("text", { x, y, "text-anchor": anchor }, words);
    const task = data.tasks.find((one) => one.id === state.task).label;
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", tabindex: 0,
      "aria-label": `Learning curves, ${task}; arrow keys read values, drag to zoom` });
    for (const value of ticks(low, high, 5)) {
      svg.append(make("line", { class: "grid", x1: left, x2: right, y1: sy(value), y2: sy(value) }),
        text(left - 8, sy(value) + 4, readable(value), "end"));
    }
    svg.append(...ticks(from, to, width < 500 ? 3 : 6).map((value) => text(sx(value), bottom + 18, readable(value))),
      text((left + right) / 2, bottom + 37, AXES[state.axis][1]), text(0, 12, set.label, "start"));
    const plot = make("svg", { x: left, y: 0, width: right - left, height: bottom, viewBox: `${left} 0 ${right - left} ${bottom}` });
    const draw = (kind, line, d, more) => plot.append(make("path", { class: kind, stroke: colour(line.m), d, ...more }));
    for (const line of single || lines.length > BANDS ? [] : lines.filter((one) => one.lo)) draw("band", line, band(line, box), { fill: colour(line.m) });
    for (const line of lines) {
      line.seeds.forEach((run) => draw("thin", line, path(line.x, run, box)));
      line.open.forEach((run) => draw("open", line, path(line.x, run, box)));
      draw("line", line, path(line.x, line.y, box), { "stroke-width": line.width, "stroke-dasharray": dashes(line) });
    }
    svg.append(plot);
    if (named) label(svg, lines, box);
    host.replaceChildren(svg);
    listen(host, svg, lines, box);
    byId("curves-caption").textContent = caption(set, single);
  }
  function wrapped(words) {
    return (words.match(/.{1,27}(?:\s|$)|.{27}/g) || [words]).map((row) => row.trim());
  }
  function label(svg, lines, { to, top, bottom, right, sx, sy, gap }) {
    const ends = lines.map((line) => ({ line, i: line.y.findLastIndex((value, i) => value !== null && line.x[i] <= to) })).filter(({ i }) => i >= 0);
    const places = spread(ends.map(({ line, i }) => sy(line.y[i])), gap, top + 6, bottom);
    ends.forEach(({ line, i }, place) => {
      const rows = wrapped(line.label), stroke = colour(line.m), first = places[place] + 4 - 7 * (rows.length - 1);
      const lead = `M${Math.min(sx(line.x[i]), right)} ${sy(line.y[i])}L${right + 8} ${places[place]}`;
      svg.append(make("path", { class: "lead", stroke, d: lead }),
        ...rows.map((words, row) => make("text", { class: "name", x: right + 11, y: first + 14 * row, style: { fill: stroke } }, words)));
    });
  }
  function caption(set, single) {
    const few = set.lines.filter(({ n }) => n && n.split("/")[0] !== n.split("/")[1]).map(({ m, n }) => `${methods[m].label} ${n}`);
    const none = methods.filter((_, m) => !set.lines.some((line) => line.m === m && line.y.length)).map((method) => method.label);
    return [
      "Drag over the curves to zoom. Mean over finished runs;",
      single ? "thin lines are single runs."
        : `bands (drawn for ${BANDS} methods or fewer: pick some) are pointwise 95 % bootstrap intervals of the mean over seeds.`,
      state.task === "" && "Tasks count equally.",
      "The score is the mean of the last 100 training episodes; there is no other smoothing.",
      state.axis !== "steps" && "A point is the mean at one step, drawn at the mean of what the runs had spent by then.",
      few.length && `Fewer runs than planned: ${few.join(", ")}.`,
      none.length && `No curve for ${none.join(", ")}.`,
      set.lines.some(({ open }) => open.length) && "Dotted lines are runs that are not finished; they are in no mean.",
    ].filter(Boolean).join(" ");
  }

  // --- values under the pointer or by arrow keys; a drag zooms
  function listen(host, svg, lines, box) {
    const cross = make("line", { class: "cross", y1: box.top, y2: box.bottom, visibility: "hidden" });
    const shade = make("rect", { class: "shade", y: box.top, height: box.bottom - box.top, width: 0 });
    const tip = make("div", { class: "tip", hidden: true, role: "status" });
    svg.append(shade, cross);
    host.append(tip);
    const axis = [...new Set(lines.flatMap((line) => line.x))].filter((x) => x !== null && x >= box.from && x <= box.to).sort((a, b) => a - b);
    const near = (values, x) => values.reduce((best, value, i) => (value !== null && Math.abs(value - x) < Math.abs(values[best] - x) ? i : best), 0);
    let at = axis.length - 1, start = null;
    const away = () => { tip.hidden = true; cross.setAttribute("visibility", "hidden"); };
    const show = (index) => {
      at = Math.max(0, Math.min(axis.length - 1, index));
      const x = axis[at], place = box.sx(x);
      const rows = lines.filter((line) => line.y.length && x <= line.x[line.x.length - 1] * 1.02)
        .map((line) => ({ line, value: line.y[near(line.x, x)] })).filter((row) => row.value !== null).sort((a, b) => b.value - a.value);
      if (!rows.length) return away();
      for (const side of ["x1", "x2"]) cross.setAttribute(side, place);
      cross.setAttribute("visibility", "visible");
      tip.replaceChildren(make("b", {}, `${readable(x)} ${AXES[state.axis][2]}`), ...rows.map(({ line, value }) =>
        make("div", {}, make("i", { class: "dot", style: { background: colour(line.m), margin: 0 } }),
          make("span", {}, line.label + (line.n ? ` (${line.n})` : "")), make("em", {}, trim(value)))));
      tip.hidden = false;
      tip.style.left = `${place > host.clientWidth / 2 ? Math.max(0, place - tip.offsetWidth - 14) : place + 14}px`;
      tip.style.top = `${box.top}px`;
    };
    const clamp = (event) => Math.min(box.right, Math.max(box.left, event.clientX - svg.getBoundingClientRect().left));
    const value = (place) => box.from + (place - box.left) / (box.right - box.left) * (box.to - box.from);
    const on = (name, act) => svg.addEventListener(name, act);
    on("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      start = clamp(event);
      event.preventDefault();
      svg.setPointerCapture(event.pointerId);
    });
    on("pointermove", (event) => {
      const x = clamp(event);
      if (axis.length) show(near(axis, value(x)));
      if (start === null) return;
      shade.setAttribute("x", Math.min(start, x));
      shade.setAttribute("width", Math.abs(x - start));
    });
    on("pointerup", (event) => {
      const ends = start === null ? [] : [start, clamp(event)].sort((a, b) => a - b);
      start = null;
      if (ends.length && ends[1] - ends[0] > 8) change({ zoom: ends.map((place) => Number((value(place) / box.most).toPrecision(4))).join(",") });
    });
    on("dblclick", () => change({ zoom: "" }));
    on("pointerleave", away);
    on("blur", away);
    on("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !axis.length) return;
      event.preventDefault();
      show(at + step * Math.max(1, Math.round(axis.length / 50)));
    });
  }

  // --- tabs, the axis, tables
  function makeTabs() {
    byId("tabs").replaceChildren(...tasks.map(({ id, label }, i) => make("button", { type: "button", role: "tab", id: `tab-${i}`,
      "aria-controls": "panel", "data-task": id, click: () => change({ task: id, zoom: id === state.task ? state.zoom : "" }) }, label)));
    byId("tabs").addEventListener("keydown", (event) => {
      const at = tasks.findIndex((task) => task.id === state.task), count = tasks.length;
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: count - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const tab = byId("tabs").children[(to + count) % count];
      tab.click();
      tab.focus();
      tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
  }
  function makeAxis() {
    const lines = Object.values(data.curves).flatMap((set) => set.lines);
    const known = Object.keys(AXES).filter((key) => key === "steps" || lines.some((line) => line[key]));
    byId("axis").replaceChildren(make("fieldset", { class: "segments" }, make("legend", {}, "Horizontal axis"), ...known.map((value) =>
      make("label", {}, make("input", { type: "radio", name: "axis", value, change: () => change({ axis: value, zoom: "" }) }),
        make("span", {}, AXES[value][0])))));
  }
  function sortable(table) {
    const key = (row, column) => {
      const text = row.cells[column].dataset.v ?? row.cells[column].textContent, number = parseFloat(text);
      return Number.isNaN(number) ? text : number;
    };
    const heads = table.querySelectorAll("thead th");
    heads.forEach((head, column) => {
      const click = () => {
        const sign = head.getAttribute("aria-sort") !== "descending" ? -1 : 1;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
        table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => {
          const [x, y] = [key(a, column), key(b, column)];
          return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
        }));
      };
      head.replaceChildren(make("button", { type: "button", click }, ...head.childNodes));
    });
  }

  each("table[data-sortable]", sortable);
  byId("seeds").addEventListener("change", () => change({ runs: byId("seeds").checked ? "1" : "" }));
  byId("unzoom").addEventListener("click", () => change({ zoom: "" }));
  drawLegend();
  makeTabs();
  makeAxis();
  recall();
  addEventListener("hashchange", recall);
  let width = document.body.clientWidth;
  new ResizeObserver(() => { if (document.body.clientWidth !== width) { width = document.body.clientWidth; drawCurves(); } }).observe(document.body);
  addEventListener("beforeprint", drawCurves);
  document.documentElement.dataset.ready = "true";
})();
