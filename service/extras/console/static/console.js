// The overview: asks for counts every few seconds, and draws what has changed since.
"use strict";

const EVERY_MS = 3000;

function figures(value) {
  return value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

const rate = (value) => figures(value);
const milliseconds = (value) => `${figures(value)} ms`;
const megabytes = (value) => `${figures(value)} MB`;

let curves = {}, last = null;

function show(before, now) {
  const seconds = now.at_s - before.at_s;
  const ms = (q, name) => {
    const found = quantile(q, before[name], now[name]);
    return found === null ? null : found * 1000;
  };
  const { arrays, taken } = now.device_bytes; // of the service, and of all processes on the GPU
  const mb = (bytes) => (bytes === undefined ? undefined : bytes / 1e6);
  curves.reads.add(now.at_s, (count(now.reads) - count(before.reads)) / seconds);
  curves.readTimes.add(now.at_s, ms(0.99, "reads"));
  curves.freshness.add(now.at_s, ms(0.5, "freshness"), ms(0.99, "freshness"));
  curves.learned.add(now.at_s, (now.learned - before.learned) / seconds);
  curves.memory.add(now.at_s, mb(now.host_bytes), mb(arrays), mb(taken));
}

async function poll() {
  const trouble = document.getElementById("trouble");
  try {
    const answer = await fetch("counts", { headers: { accept: "application/json" } });
    if (answer.status === 401) {
      location.assign("login");
      return;
    }
    const now = await answer.json();
    if (!answer.ok) throw new Error(`${now.title}: ${now.detail}`);
    // After a restart the sums begin anew: what lies between is unknown.
    const hasRestarted = last !== null && (count(now.reads) < count(last.reads) || now.learned < last.learned);
    if (last !== null && !hasRestarted && now.at_s > last.at_s) show(last, now);
    last = now;
    trouble.hidden = true;
  } catch (error) {
    trouble.textContent = error.message;
    trouble.hidden = false;
  }
}

function begin() {
  curves = {
    reads: new Curves("reads", [""], rate),
    readTimes: new Curves("read-p99", [""], milliseconds),
    freshness: new Curves("freshness", ["p50", "p99"], milliseconds),
    learned: new Curves("learned", [""], rate),
    memory: new Curves("memory", ["host", "GPU", "GPU, all processes"], megabytes),
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    Object.values(curves).forEach((one) => one.draw());
  });
  poll();
  setInterval(() => document.hidden || poll(), EVERY_MS);
}

document.addEventListener("DOMContentLoaded", begin);
