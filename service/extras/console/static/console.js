// The overview: draws the counts of the last hours, then asks for new ones every few seconds.
"use strict";

const EVERY_MS = 3000, SLOWLY_MS = 30000; // for curves of an hour, and of more

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

function take(now) {
  // After a restart the sums begin again: what lies between is unknown.
  const hasRestarted = last !== null && (count(now.reads) < count(last.reads) || now.learned < last.learned);
  if (last !== null && !hasRestarted && now.at_s > last.at_s) show(last, now);
  last = now;
}

// Takes all counts of an address; an address may answer with one.
async function poll(address) {
  const trouble = document.getElementById("trouble");
  try {
    const answer = await fetch(address, { headers: { accept: "application/json" } });
    if (answer.status === 401) {
      location.assign("login");
      return;
    }
    const counts = await answer.json();
    if (!answer.ok) throw new Error(`${counts.title}: ${counts.detail}`);
    [counts].flat().forEach(take);
    trouble.hidden = true;
  } catch (error) {
    trouble.textContent = error.message;
    trouble.hidden = false;
  }
}

async function begin() {
  const hours = Number(document.querySelector("[data-hours]").dataset.hours), seconds = hours * 3600;
  curves = {
    reads: new Curves("reads", [""], rate, seconds),
    readTimes: new Curves("read-p99", [""], milliseconds, seconds),
    freshness: new Curves("freshness", ["p50", "p99"], milliseconds, seconds),
    learned: new Curves("learned", [""], rate, seconds),
    memory: new Curves("memory", ["host", "GPU", "GPU, all processes"], megabytes, seconds),
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    Object.values(curves).forEach((one) => one.draw());
  });
  await poll(`history?hours=${hours}`);
  poll("counts");
  setInterval(() => document.hidden || poll("counts"), hours > 1 ? SLOWLY_MS : EVERY_MS);
}

document.addEventListener("DOMContentLoaded", begin);
