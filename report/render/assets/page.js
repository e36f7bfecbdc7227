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

  // clipped runs f on the canvas, inside the plot's area.
  const clipped = (u, f) => {
    const c = u.ctx, b = u.bbox;
    c.save();
    c.beginPath(); c.rect(b.left, b.top, b.width, b.height); c.clip();
    f(c, b, devicePixelRatio);
    c.restore();
  };
  const line = (c, x1, y1, x2, y2) => { c.beginPath(); c.moveTo(x1, y1); c.lineTo(x2, y2); c.stroke(); };

  // background draws bands and limits below the series.
  const background = (chart) => (u) => clipped(u, (c, b, px) => {
    for (const k of chart.bands) {
      const from = u.valToPos(k.from, "x", true), to = u.valToPos(k.to, "x", true);
      c.fillStyle = color(k.color); c.globalAlpha = 0.13;
      c.fillRect(from, b.top, Math.max(to - from, 0), b.height);
      c.globalAlpha = 1;
      if (k.at == null) continue;
      const at = u.valToPos(k.at, "x", true);
      c.strokeStyle = color(k.color); c.lineWidth = 1.5 * px; c.setLineDash([6 * px, 4 * px]);
      line(c, at, b.top, at, b.top + b.height);
    }
    c.setLineDash([3 * px, 3 * px]); c.strokeStyle = color(8); c.lineWidth = px;
    for (const l of chart.limits) {
      const y = u.valToPos(l.y, "y", true);
      line(c, b.left, y, b.left + b.width, y);
    }
  });

  // nearest is how close the lines of a chart come to a height between two
  // places across, in pixels.
  const nearest = (chart, u, from, to, height) => {
    let near = Infinity;
    for (const s of chart.series) s.x.forEach((x, i) => {
      const j = Math.min(i + 1, s.x.length - 1);
      const [x1, y1, x2, y2] = [u.valToPos(x, "x", true), u.valToPos(s.y[i], "y", true), u.valToPos(s.x[j], "x", true), u.valToPos(s.y[j], "y", true)];
      for (let k = 0; k <= 8; k++) {
        const px = x1 + (x2 - x1) * k / 8;
        if (px >= from && px <= to) near = Math.min(near, Math.abs(y1 + (y2 - y1) * k / 8 - height));
      }
    });
    return near;
  };

  // labels writes the names of bands and limits above the series; a limit's at
  // the end where the lines are further from it.
  const labels = (chart) => (u) => clipped(u, (c, b, px) => {
    c.font = 11 * px + "px system-ui, sans-serif"; c.textBaseline = "middle"; c.textAlign = "left";
    const text = (s, x, y, ink) => {
      const w = c.measureText(s).width;
      c.fillStyle = css("--card"); c.globalAlpha = 0.85;
      c.fillRect(x - 3 * px, y - 7 * px, w + 6 * px, 14 * px);
      c.globalAlpha = 1; c.fillStyle = ink;
      c.fillText(s, x, y);
    };
    chart.bands.forEach((k, i) => {
      const at = u.valToPos(k.at == null ? k.from : k.at, "x", true), w = c.measureText(k.label).width;
      const x = at + 8 * px + w < b.left + b.width ? Math.max(at, b.left) + 8 * px : at - 8 * px - w;
      text(k.label, x, b.top + (10 + 15 * i) * px, css("--soft"));
    });
    for (const l of chart.limits) {
      const w = c.measureText(l.label).width, y = u.valToPos(l.y, "y", true) - 9 * px;
      const ends = [b.left + b.width - w - 6 * px, b.left + 6 * px].map((x) => [x, nearest(chart, u, x, x + w, y)]);
      text(l.label, ends[ends[1][1] > ends[0][1] ? 1 : 0][0], y, color(8));
    }
  });

  // ladder joins the points of a rung series in the order of its ladder; a
  // rung that is not valid is hollow.
  const ladder = (chart) => (u, si) => clipped(u, (c, b, px) => {
    const s = chart.series[si - 1];
    if (!s || s.kind !== "rungs") return;
    const at = s.x.map((x, i) => [u.valToPos(x, "x", true), u.valToPos(s.y[i], "y", true)]);
    c.strokeStyle = color(s.color); c.lineWidth = 2 * px; c.lineJoin = "round";
    if (s.dash) c.setLineDash([5 * px, 4 * px]);
    c.beginPath();
    at.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
    c.stroke();
    c.setLineDash([]);
    at.forEach(([x, y], i) => {
      c.beginPath(); c.arc(x, y, 4.5 * px, 0, 2 * Math.PI);
      c.fillStyle = s.doubt[i] ? css("--card") : color(s.color);
      c.fill();
      c.strokeStyle = s.doubt[i] ? color(s.color) : css("--card"); c.lineWidth = 1.5 * px;
      c.stroke();
    });
    if (!chart.named) return;
    c.font = 11 * px + "px system-ui, sans-serif"; c.fillStyle = css("--soft"); c.textAlign = "left";
    at.forEach(([x, y], i) => c.fillText(s.names[i].replace("load ", "").replace(/ \(.*/, ""), x + 7 * px, y - 7 * px));
  });

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
    const gap = chart.x.fit ? (xhi - xlo || xhi || 1) * 0.12 : 0;
    const xr = chart.x.log ? [xlo / 1.25, xhi * 1.25] : chart.x.max ? [0, chart.x.max] :
      chart.x.fit ? [Math.max(0, xlo - gap), xhi + gap] : [Math.min(0, xlo), xhi * 1.04 || 1];
    const yr = chart.y.log ? [ylo / 1.5, ymax * 1.5] : [Math.min(0, ylo), ymax * (chart.bands.length ? 1.18 : 1.08) || 1];
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
        points: { show: s.kind === "dots", size: 5, width: 0, fill: () => color(s.color), stroke: () => color(s.color) },
      }))),
      hooks: { drawAxes: [background(chart)], drawSeries: [ladder(chart)], draw: [labels(chart), (u) => { figure.dataset.points = drawn(chart, u); }] },
    };
  };

  const keys = (box, chart) => {
    box.textContent = "";
    if (chart.series.length < 2) return;
    for (const s of chart.series.filter((s) => s.x.length)) {
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
    const u = new uPlot(options(figure, chart, Math.max(plot.clientWidth, 240), figure.dataset.low ? 200 : 290), rows(chart), plot);
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
      draw(figure, t.charts[i]);
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
