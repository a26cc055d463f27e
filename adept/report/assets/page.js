// The page: tabs by task, the axis of the curves, which methods are shown, sorting of tables.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const hidden = new Set();
  const state = { task: data.curves[""] ? "" : data.tasks[1].id, axis: "steps", metric: "iqm" };
  const AXES = { steps: ["Steps", "environment steps", "steps"], f: ["FLOPs", "FLOPs", "FLOPs"], s: ["Seconds", "wall-clock seconds", "s"] };
  const METRICS = { iqm: "IQM", mean: "Mean", median: "Median", optimality_gap: "Optimality gap", improvement: "P(better)" };

  function segments(host, name, options, chosen, pick) {
    const set = make("fieldset", { class: "segments" }, make("legend", {}, name));
    for (const [value, label] of options) {
      const input = make("input", { type: "radio", name, value, checked: value === chosen });
      input.addEventListener("change", () => pick(value));
      set.append(make("label", {}, input, make("span", {}, label)));
    }
    host.replaceChildren(set);
  }

  function lineOf(line, x) {
    const method = data.methods[line.m];
    return { ...line, x, label: method.label, dash: method.dash, width: method.width };
  }

  function drawCurves() {
    const set = data.curves[state.task];
    byId("curves").hidden = !set;
    if (!set) return;
    const [, xLabel, xUnit] = AXES[state.axis];
    const lines = set.lines.filter((line) => !hidden.has(line.m))
      .map((line) => lineOf(line, state.axis === "steps" ? set.x : line[state.axis] || []))
      .filter((line) => line.x.length);
    if (state.axis !== "steps") lines.forEach((line) => { line.open = []; });
    const single = byId("seeds").checked && state.task !== "";
    lineChart(byId("curves"), { lines, xLabel, xUnit, yLabel: set.label, single, title: `Learning curves, ${labelOf(state.task)}` });
    const few = set.lines.filter((line) => line.n && line.n.split("/")[0] !== line.n.split("/")[1]);
    const none = data.methods.map((_, m) => m).filter((m) => !set.lines.some((line) => line.m === m && line.y.length));
    byId("curves-caption").textContent = "Mean over finished runs; " +
      (single ? "thin lines are single runs. " : "bands are pointwise 95 % bootstrap intervals of the mean over seeds. ") +
      (state.task === "" ? "Tasks count equally. " : "") +
      "The score is the mean of the last 100 training episodes; there is no other smoothing. " +
      (state.axis === "steps" ? "" : "A point is the mean at one step, drawn at the mean of what the runs had spent by then. ") +
      (few.length ? `Fewer runs than planned: ${few.map((line) => `${data.methods[line.m].label} ${line.n}`).join(", ")}. ` : "") +
      (none.length ? `No curve for ${none.map((m) => data.methods[m].label).join(", ")}. ` : "") +
      (set.lines.some((line) => (line.open || []).length) ? "Dotted lines are runs that are not finished; they are in no mean." : "");
  }

  const labelOf = (task) => data.tasks.find((entry) => entry.id === task).label;

  function drawLegends() {
    for (const id of ["legend", "profile-legend"]) {
      byId(id).replaceChildren(...data.methods.map((method, m) => {
        const mark = draw("svg", { width: 26, height: 10, "aria-hidden": "true" }, draw("line", { x1: 0, x2: 26, y1: 5, y2: 5,
          stroke: colour(m), "stroke-width": method.width + .6, "stroke-dasharray": method.dash.length ? method.dash.map((part) => part * method.width).join(" ") : null }));
        const button = make("button", { type: "button", "data-m": m, "aria-pressed": "true" }, mark, method.label);
        button.addEventListener("click", () => toggle(m));
        return button;
      }));
    }
  }

  function toggle(m) {
    hidden.has(m) ? hidden.delete(m) : hidden.add(m);
    document.querySelectorAll(`.legend button[data-m="${m}"]`).forEach((button) => button.setAttribute("aria-pressed", String(!hidden.has(m))));
    drawCurves();
    drawProfile();
  }

  function drawChoices() {
    const tables = data.choices[state.task] || [];
    byId("choices-block").hidden = !tables.length;
    const arms = [...new Set(tables.flatMap((table) => table.arms))].sort((a, b) => a - b);
    byId("arms").replaceChildren(...arms.map((arm) => make("span", { class: "swatch" },
      make("i", { style: { background: data.arms[arm] } }), `K=${arm}`)));
    const hosts = tables.map((table) => {
      const chart = make("div", { class: "chart", style: { "min-height": "118px" } });
      return [make("div", {}, make("h4", {}, data.methods[table.m].label), chart), chart, table];
    });
    byId("choices").replaceChildren(...hosts.map(([block]) => block));
    for (const [, chart, table] of hosts) {
      const last = table.shares.map((row, i) => `K=${table.arms[i]} ${row[row.length - 1]} %`).join(", ");
      stackChart(chart, table.arms, table.shares, data.arms, `${data.methods[table.m].label}: ${last}`);
    }
  }

  function drawCells() {
    const rows = data.cells[state.task];
    if (!rows) return byId("cells").replaceChildren();
    const best = Math.max(...rows.map((row) => row.score[0] ?? -Infinity));
    const tested = rows.some((row) => row.test[0] !== null);
    const value = (triple) => triple[0] === null ? "–" : trim(triple[0]);
    const bounds = (triple) => triple[1] === null ? null : make("small", {}, ` [${trim(triple[1])}, ${trim(triple[2])}]`);
    const heads = ["Method", "Runs", "Score [95 %]", ...(tested ? ["Test score [95 %]"] : []), "Compute", "Time per run", "Mean K", "Reached 90 %", "Median steps to 90 %"];
    const body = make("tbody", {}, ...rows.map((row) => make("tr", { class: row.m === data.baseline ? "base" : null },
      make("th", { scope: "row" }, make("i", { class: "dot", style: { background: colour(row.m) } }), data.methods[row.m].label),
      make("td", { class: row.n.split("/")[0] === row.n.split("/")[1] ? null : "few" }, row.n),
      make("td", { class: row.score[0] === best ? "best" : null, "data-v": row.score[0] }, value(row.score), bounds(row.score)),
      ...(tested ? [make("td", { "data-v": row.test[0] }, value(row.test), bounds(row.test))] : []),
      make("td", { "data-v": row.compute }, row.compute === null ? "–" : `${Math.round(100 * row.compute)} %`),
      make("td", { "data-v": row.seconds }, row.seconds === null ? "–" : duration(row.seconds)),
      make("td", { "data-v": row.epochs }, row.epochs === null ? "–" : trim(row.epochs)),
      make("td", {}, row.reached),
      make("td", { "data-v": row.reach ?? 1e300 }, row.reach === null ? "never" : readable(row.reach)))));
    const table = make("table", { "data-sortable": true }, make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))), body);
    byId("cells").replaceChildren(make("h3", {}, `${labelOf(state.task)} in numbers`), make("div", { class: "table" }, table),
      make("p", { class: "caption" }, "Reached 90 %: finished runs whose score came to 90 % of the baseline's final mean, and the median of the steps until then (never: half of them or more did not)."));
    sortable(table);
  }

  function duration(seconds) {
    if (seconds < 90) return `${trim(seconds)} s`;
    return seconds < 5400 ? `${trim(seconds / 60)} min` : `${trim(seconds / 3600)} h`;
  }

  function drawAggregates() {
    const [kind, metric] = state.metric.includes("/") ? state.metric.split("/") : ["train", state.metric];
    const values = metric === "improvement" ? data.aggregates.improvement : data.aggregates[kind][metric];
    const rows = values.map((value, m) => ({ m, value, label: data.methods[m].label })).filter((row) => row.value);
    byId("aggregates").closest("figure").hidden = !data.aggregates.train.iqm.some(Boolean);
    if (!rows.length) return byId("aggregates").replaceChildren();
    const chance = metric === "improvement";
    const relative = data.unit.startsWith("as mean") || metric === "optimality_gap" ? undefined : 1;
    dotChart(byId("aggregates"), rows, { title: METRICS[metric], line: chance ? 0.5 : relative, domain: chance ? [0, 1] : null,
      xLabel: chance ? "probability of beating the baseline" : metric === "optimality_gap" ? "shortfall from 1 (lower is better)" : `score, ${data.unit}` });
    byId("aggregates-caption").textContent = chance
      ? "Chance that a run beats one of the baseline on the same task, ties counting half, averaged over tasks; bars are 95 % stratified bootstrap intervals."
      : `${kind === "test" ? "Test levels. " : "Training. "}${METRICS[metric]} over tasks and seeds; bars are 95 % stratified bootstrap intervals (seeds resampled within each task).`;
  }

  function drawScatter() {
    byId("scatter").closest("figure").hidden = data.scatter.length < 2;
    if (data.scatter.length < 2) return;
    scatterChart(byId("scatter"), data.scatter.map((point) => ({ ...point, label: data.methods[point.m].label })),
      { title: "Score against compute", xLabel: "FLOPs relative to the baseline", yLabel: `IQM, ${data.unit}` });
  }

  function drawProfile() {
    byId("profile-section").hidden = !data.profile;
    if (!data.profile) return;
    const lines = data.profile.lines.filter((line) => !hidden.has(line.m)).map((line) => lineOf(line, data.profile.x));
    lineChart(byId("profile"), { lines, zero: false, names: false, xLabel: `score τ, ${data.unit}`, xUnit: "= τ", yLabel: "share of runs above τ", title: "Performance profile" });
  }

  function select(task, focus) {
    state.task = task;
    for (const tab of byId("tabs").children) {
      const chosen = tab.dataset.task === task;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) {
        byId("panel").setAttribute("aria-labelledby", tab.id);
        if (focus) { tab.focus(); tab.scrollIntoView({ block: "nearest", inline: "nearest" }); }
      }
    }
    byId("seeds-label").hidden = task === "";
    drawCurves();
    drawChoices();
    drawCells();
  }

  function makeTabs() {
    const tasks = data.tasks.filter((task) => data.curves[task.id]);
    byId("tabs").replaceChildren(...tasks.map((task, i) => {
      const tab = make("button", { type: "button", role: "tab", id: `tab-${i}`, "aria-controls": "panel" }, task.label);
      tab.dataset.task = task.id;
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

  function sortable(table) {
    table.querySelectorAll("thead th").forEach((head, column) => {
      const button = make("button", { type: "button" }, ...head.childNodes);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const body = table.tBodies[0];
        const key = (row) => {
          const cell = row.cells[column], text = cell.dataset.v ?? cell.textContent;
          const number = parseFloat(text);
          return Number.isNaN(number) ? text : number;
        };
        const rows = [...body.rows].sort((a, b) => {
          const x = key(a), y = key(b);
          const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
          return down ? -order : order;
        });
        body.append(...rows);
      });
    });
  }

  function drawAll() {
    drawAggregates();
    drawScatter();
    drawCurves();
    drawChoices();
    drawProfile();
  }

  const curves = Object.values(data.curves).flatMap((set) => set.lines);
  const known = Object.entries(AXES).filter(([key]) => key === "steps" || curves.some((line) => line[key]));
  segments(byId("axis"), "Horizontal axis", known.map(([key, [label]]) => [key, label]), "steps", (value) => { state.axis = value; drawCurves(); });
  const kinds = [["iqm", "IQM"], ["mean", "Mean"], ["median", "Median"], ["optimality_gap", "Gap"], ["improvement", "P(better)"]];
  if (data.aggregates.test) kinds.push(["test/iqm", "Test IQM"], ["test/mean", "Test mean"]);
  segments(byId("metric"), "Aggregate", kinds, "iqm", (value) => { state.metric = value; drawAggregates(); });
  byId("seeds").addEventListener("change", drawCurves);
  document.querySelectorAll("table[data-sortable]").forEach(sortable);
  drawLegends();
  makeTabs();
  select(state.task, false);
  drawAggregates();
  drawScatter();
  drawProfile();
  let width = document.body.clientWidth;
  new ResizeObserver(() => {
    if (document.body.clientWidth !== width) { width = document.body.clientWidth; drawAll(); }
  }).observe(document.body);
  addEventListener("beforeprint", drawAll);
  document.documentElement.dataset.ready = "true";
})();
