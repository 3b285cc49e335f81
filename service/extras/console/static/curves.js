// What curves are drawn from: rates and quantiles of the difference of two counts, and plots of them.
"use strict";

const COLORS = ["--first", "--second", "--third"];
const SHORTEST_S = 60; // seconds that a plot shows at least

// The quantile q of a histogram, in its unit: linear within a bucket, as Prometheus has it. Null without values.
function quantile(q, before, now) {
  const earlier = new Map(before);
  const counts = now.map(([bound, sum]) => [bound, sum - (earlier.get(bound) ?? 0)]);
  const all = counts.length ? counts[counts.length - 1][1] : 0;
  if (all <= 0) return null;
  let low = 0, passed = 0;
  for (const [bound, sum] of counts) {
    if (sum >= q * all) return bound === null ? low : low + ((bound - low) * (q * all - passed)) / (sum - passed);
    low = bound;
    passed = sum;
  }
  return null;
}

function count(buckets) {
  return buckets.length ? buckets[buckets.length - 1][1] : 0;
}

// The time of day in UTC, with its day if the curves have several.
function time(seconds, ofDays) {
  const text = new Date(seconds * 1000).toISOString();
  return ofDays ? `${text.slice(5, 10)} ${text.slice(11, 16)}` : text.slice(11, 19);
}

// `light-dark(...)` resolved to the color of the present scheme: a canvas knows no such function.
function color(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const resolved = getComputedStyle(probe).color;
  probe.remove();
  return resolved;
}

// One plot of several series over the same times.
class Curves {
  constructor(id, names, text, seconds) {
    this.figure = document.getElementById(id);
    this.seconds = seconds; // older points go
    this.names = names;
    this.text = text;
    this.data = [[], ...names.map(() => [])];
    this.draw();
    new ResizeObserver(() => this.plot.setSize(this.size())).observe(this.figure);
  }

  size() {
    return { width: this.figure.querySelector(".plot").clientWidth, height: 160 };
  }

  draw() {
    this.plot?.destroy();
    const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
    const series = this.names.map((name, place) => ({
      label: name,
      stroke: color(COLORS[place]),
      width: 2,
      points: { show: (plot, _, from, to) => to - from < 3 },
    }));
    const options = {
      ...this.size(),
      padding: [null, 28, null, null], // half of a time
      cursor: { show: false },
      legend: { show: false },
      scales: {
        x: { range: () => { // of the points: uPlot would make years of a single one
          const times = this.data[0], end = times[times.length - 1] ?? Date.now() / 1000;
          return [Math.min(times[0] ?? end, end - SHORTEST_S), end];
        } },
        y: { range: (plot, low, high) => [0, high > 0 ? high * 1.15 : 1] },
      },
      axes: [{ ...axis, size: 28, space: 80, values: (plot, ticks) => ticks.map((tick) => time(tick, this.seconds > 86400)) }, { ...axis, size: 64, values: (plot, ticks) => ticks.map((tick) => this.text(tick)) }],
      series: [{}, ...series],
    };
    this.plot = new uPlot(options, this.data, this.figure.querySelector(".plot"));
  }

  // The newest values as text, each in the color of its curve if there are several.
  shown(values) {
    const parts = values.flatMap((value, place) => {
      if (value === undefined) return [];
      const part = document.createElement("span"), text = value === null ? "—" : this.text(value);
      part.textContent = this.names[place] ? `${this.names[place]} ${text}` : text;
      if (this.names.length > 1) part.style.color = `var(${COLORS[place]})`;
      return [" · ", part];
    });
    return parts.slice(1);
  }

  // Adds a point to each series: null where nothing was measured, undefined where there is nothing to measure.
  add(at, ...values) {
    [at, ...values].forEach((value, place) => {
      this.data[place].push(value ?? null);
    });
    while (this.data[0][0] < at - this.seconds) this.data.forEach((one) => one.shift());
    this.plot.setData(this.data);
    this.figure.querySelector("output").replaceChildren(...this.shown(values));
  }
}
