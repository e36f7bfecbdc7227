(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const color = (i) => getComputedStyle(root).getPropertyValue("--c" + i).trim();
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const add = (parent, tag, text, cls) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (cls) e.className = cls;
    parent.appendChild(e);
    return e;
  };
  const number = (v) => {
    const a = Math.abs(v);
    if (a === 0) return "0";
    if (a >= 100) return v.toFixed(0);
    return String(+v.toPrecision(3));
  };
  const tick = (v) => {
    if (v == null) return "";
    const a = Math.abs(v);
    if (a >= 1e6) return +(v / 1e6).toPrecision(3) + "M";
    if (a >= 1e4) return +(v / 1e3).toPrecision(3) + "k";
    return String(+v.toPrecision(6));
  };

  // Ticks of a log axis: powers of two on x, 1-2-5 on y.
  const logTicks = (lo, hi, steps, base) => {
    const out = [];
    for (let k = Math.floor(Math.log(lo) / Math.log(base)); Math.pow(base, k) <= hi; k++)
      for (const s of steps) {
        const v = Math.pow(base, k) * s;
        if (v >= lo && v <= hi) out.push(v);
      }
    return out;
  };

  const extent = (chart, key) => {
    let lo = Infinity, hi = -Infinity;
    for (const s of chart.series) for (const v of s[key]) { if (v < lo) lo = v; if (v > hi) hi = v; }
    return lo <= hi ? [lo, hi] : [0, 1];
  };

  // rows puts all points on one sorted x column, a row a point.
  const rows = (chart) => {
    const all = [];
    chart.series.forEach((s, si) => s.x.forEach((x, i) => {
      if (chart.x.log && x <= 0 || chart.y.log && s.y[i] <= 0) return;
      all.push([x, si, s.y[i]]);
    }));
    all.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const cols = [all.map((r) => r[0])];
    chart.series.forEach((_, si) => cols.push(all.map((r) => (r[1] === si ? r[2] : null))));
    return cols;
  };

  // background draws bands and limits below the series.
  const background = (chart) => (u) => {
    const c = u.ctx, b = u.bbox;
    c.save();
    c.beginPath(); c.rect(b.left, b.top, b.width, b.height); c.clip();
    c.font = 11 * devicePixelRatio + "px system-ui, sans-serif";
    chart.bands.forEach((k, i) => {
      const from = u.valToPos(k.from, "x", true), to = u.valToPos(k.to, "x", true);
      c.fillStyle = color(k.color); c.globalAlpha = 0.13;
      c.fillRect(from, b.top, Math.max(to - from, 0), b.height);
      c.globalAlpha = 1;
      const at = k.at == null ? from : u.valToPos(k.at, "x", true);
      if (k.at != null) {
        c.strokeStyle = color(k.color); c.lineWidth = 1.5 * devicePixelRatio; c.setLineDash([6, 4]);
        c.beginPath(); c.moveTo(at, b.top); c.lineTo(at, b.top + b.height); c.stroke();
      }
      c.fillStyle = css("--soft");
      const w = c.measureText(k.label).width, pad = 5 * devicePixelRatio;
      const right = at + pad + w < b.left + b.width;
      c.textAlign = right ? "left" : "right";
      c.fillText(k.label, right ? Math.max(at, b.left) + pad : at - pad, b.top + (13 + 13 * i) * devicePixelRatio);
    });
    c.setLineDash([3, 3]);
    for (const l of chart.limits) {
      const y = u.valToPos(l.y, "y", true);
      c.strokeStyle = color(8); c.lineWidth = devicePixelRatio;
      c.beginPath(); c.moveTo(b.left, y); c.lineTo(b.left + b.width, y); c.stroke();
      c.fillStyle = color(8); c.textAlign = "right";
      c.fillText(l.label, b.left + b.width - 4, y - 4);
    }
    c.restore();
  };

  // ladder joins the points of a rung series in the order of its ladder.
  const ladder = (chart) => (u, si) => {
    const s = chart.series[si - 1];
    if (!s || s.kind !== "rungs" || s.x.length < 2) return;
    const c = u.ctx, b = u.bbox;
    c.save();
    c.beginPath(); c.rect(b.left, b.top, b.width, b.height); c.clip();
    c.strokeStyle = color(s.color); c.lineWidth = 2 * devicePixelRatio; c.lineJoin = "round";
    c.beginPath();
    s.x.forEach((x, i) => {
      const px = u.valToPos(x, "x", true), py = u.valToPos(s.y[i], "y", true);
      if (i) c.lineTo(px, py); else c.moveTo(px, py);
    });
    c.stroke();
    c.restore();
  };

  // drawn counts the rung points that lie inside the plot.
  const drawn = (chart, u) => {
    let n = 0;
    for (const s of chart.series) {
      if (s.kind !== "rungs") continue;
      s.x.forEach((x, i) => {
        const px = u.valToPos(x, "x"), py = u.valToPos(s.y[i], "y");
        if (px >= -1 && py >= -1 && px <= u.over.clientWidth + 1 && py <= u.over.clientHeight + 1) n++;
      });
    }
    return n;
  };

  const paths = { line: undefined, rungs: () => null, dots: () => null };

  const options = (figure, chart, width, height) => {
    const [xlo, xhi] = extent(chart, "x"), [ylo, yhi] = extent(chart, "y");
    const ymax = Math.max(yhi, ...chart.limits.filter((l) => l.y < 3 * yhi).map((l) => l.y));
    const over = chart.kind === "time";
    const xr = chart.x.log ? [xlo / 1.25, xhi * 1.25] : over ? [0, xhi] : [Math.min(0, xlo), xhi * 1.04 || 1];
    const yr = chart.y.log ? [ylo / 1.5, ymax * 1.5] : [Math.min(0, ylo), ymax * 1.08 || 1];
    const stroke = () => css("--soft"), grid = { stroke: () => css("--grid"), width: 1 };
    const font = "12px system-ui, sans-serif";
    const axis = (a, log, steps, base, size) => ({
      label: a.label, labelSize: 20, labelFont: font, font, stroke, grid, ticks: { show: false }, size, gap: 6,
      splits: log ? (u, i, lo, hi) => logTicks(lo, hi, steps, base) : undefined,
      filter: log ? (u, s) => s : undefined,
      values: (u, s) => s.map(tick),
    });
    return {
      width, height, legend: { show: false }, padding: [8, 12, 0, 0],
      cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
      scales: {
        x: { time: false, distr: chart.x.log ? 3 : 1, log: chart.x.log ? 2 : 10, range: () => xr },
        y: { distr: chart.y.log ? 3 : 1, log: 10, range: () => yr },
      },
      axes: [axis(chart.x, chart.x.log, [1], xhi / xlo > 4096 ? 4 : 2, 36), axis(chart.y, chart.y.log, yhi / ylo > 300 ? [1] : [1, 2, 5], 10, 52)],
      series: [{}].concat(chart.series.map((s) => ({
        label: s.label, stroke: () => color(s.color), width: s.dash ? 1.25 : 2, dash: s.dash ? [5, 4] : undefined,
        spanGaps: true, paths: paths[s.kind],
        points: { show: s.kind !== "line", size: s.kind === "dots" ? 4 : 8, width: s.kind === "dots" ? 0 : 1.5,
          fill: () => color(s.color), stroke: () => (s.kind === "dots" ? color(s.color) : css("--card")) },
      }))),
      hooks: { drawClear: [background(chart)], drawSeries: [ladder(chart)], draw: [(u) => { figure.dataset.points = drawn(chart, u); }] },
    };
  };

  const keys = (box, chart) => {
    box.textContent = "";
    if (chart.series.length < 2) return;
    for (const s of chart.series) {
      const k = add(box, "span"), i = add(k, "i", undefined, s.dash ? "dash" : s.kind === "dots" ? "dot" : "");
      i.style.borderColor = color(s.color);
      if (s.kind === "dots") i.style.background = color(s.color);
      add(k, "bdi", s.label);
    }
  };

  // read makes the points of a chart readable by pointer and by arrow keys.
  const read = (figure, chart, u) => {
    const plot = figure.querySelector(".plot"), out = figure.querySelector("output");
    const points = chart.series.flatMap((s, si) => (s.kind === "line" && s.dash ? [] : s.x.map((x, i) => [s, i])));
    const ring = add(u.over, "div", undefined, "ring");
    ring.hidden = true;
    let at = -1;
    const show = (n) => {
      at = n;
      ring.hidden = n < 0;
      if (n < 0) { out.textContent = ""; return; }
      const [s, i] = points[n];
      ring.style.left = u.valToPos(s.x[i], "x") + "px";
      ring.style.top = u.valToPos(s.y[i], "y") + "px";
      const name = s.names && s.names[i] ? ", " + s.names[i] : "";
      out.textContent = s.label + name + ": " + number(s.y[i]) + " " + chart.y.label + " at " + number(s.x[i]) + " " + chart.x.label;
    };
    u.over.addEventListener("mousemove", (e) => {
      const r = u.over.getBoundingClientRect(), mx = e.clientX - r.left, my = e.clientY - r.top;
      let best = -1, near = Infinity;
      points.forEach(([s, i], n) => {
        const d = Math.hypot(u.valToPos(s.x[i], "x") - mx, u.valToPos(s.y[i], "y") - my);
        if (d < near) { near = d; best = n; }
      });
      show(near < 60 ? best : -1);
    });
    u.over.addEventListener("mouseleave", () => show(-1));
    plot.onkeydown = (e) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      if (e.key === "Escape") show(-1);
      if (!step || !points.length) return;
      e.preventDefault();
      show((at + step + points.length) % points.length);
    };
    plot.onblur = () => show(-1);
  };

  const live = new Map();
  const draw = (figure, chart) => {
    const plot = figure.querySelector(".plot");
    const old = live.get(figure);
    if (old) old.destroy();
    chart.bands = chart.bands || []; chart.limits = chart.limits || [];
    const u = new uPlot(options(figure, chart, Math.max(plot.clientWidth, 240), figure.dataset.low ? 170 : 290), rows(chart), plot);
    live.set(figure, u);
    keys(figure.querySelector(".keys"), chart);
    read(figure, chart, u);
  };

  const all = () => {
    for (const figure of document.querySelectorAll("figure[data-chart]")) draw(figure, data.charts[+figure.dataset.chart]);
    const pick = document.getElementById("rung");
    if (!pick) return;
    const t = data.timelines[+pick.value];
    document.querySelectorAll("figure[data-time]").forEach((figure, i) => {
      const c = t.charts[i];
      c.kind = "time";
      draw(figure, c);
    });
  };

  // Theme: the system's, until the button says otherwise.
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = "";
  const theme = (name) => { root.dataset.theme = name; all(); };
  const current = () => chosen || (system.matches ? "dark" : "light");
  document.getElementById("theme").onclick = () => { chosen = current() === "dark" ? "light" : "dark"; theme(chosen); };
  system.addEventListener("change", () => theme(current()));
  addEventListener("beforeprint", () => theme("light"));
  addEventListener("afterprint", () => theme(current()));
  const pick = document.getElementById("rung");
  if (pick) pick.onchange = all;
  let width = innerWidth, timer = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(timer);
    timer = setTimeout(all, 120);
  });
  theme(current());
  root.dataset.resources = performance.getEntriesByType("resource").length;
  root.dataset.ready = "true";
})();
