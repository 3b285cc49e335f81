/**
 * The client against a real service, and against a server with a script. Run by tests/clients/test_typescript_client.py:
 *
 *     DIST=folder-of-tsc ADDRESS=http://… KEY=… node client.test.mjs
 */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

const { Nearfield, NearfieldError } = await import(pathToFileURL(`${process.env.DIST}/index.js`).href);
const { ADDRESS, KEY } = process.env;
const nearfield = new Nearfield(ADDRESS, { key: KEY });
const ACCEPTED = { status: 202, document: { accepted: 1, rejected: [], stream_id: "7-0", took_ms: 1 } };
const POPULAR = { status: 200, document: { items: [], as_of: "7-0", warnings: [] } };
const BROKEN = { status: 0 };
const EVENT = { user: "ann", item: "i1", type: "view" };

const problem = (status, slug) => ({
  status,
  document: { type: `urn:nearfield:problem:${slug}`, title: slug, status, detail: "wait", request_id: "1" },
  headers: { "Retry-After": "0" },
});
const LIMITED = problem(429, "too-many-requests");
const BUSY = problem(503, "overloaded");
const LOST = problem(503, "stream-unavailable");

let script = [];
let asked = [];
const server = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  asked.push({ method: request.method, path: request.url, body });
  const { status, document, headers = {} } = script.shift();
  if (status === 0) request.socket.destroy();
  else response.writeHead(status, headers).end(JSON.stringify(document));
});
const willAnswer = (...answers) => ([script, asked] = [answers, []]);
const bodies = () => asked.map(({ body }) => JSON.parse(body));
let scripted;

before(async () => {
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  scripted = (options = {}) => new Nearfield(`http://127.0.0.1:${server.address().port}/`, { patienceS: 2, ...options });
  const ratings = Array.from({ length: 60 }, (_, n) => ({ user: `u${n % 20}`, item: `i${(7 * n) % 8}`, rating: 1 + (n % 5) }));
  assert.equal((await nearfield.postAll("/ratings", ratings)).accepted, 60);
});
after(() => {
  server.close();
  server.closeAllConnections();
});

async function collected(elements, n = Infinity) {
  const found = [];
  for await (const one of elements) if (found.push(one) === n) break;
  return found;
}

test("most programs need methods only", async () => {
  const written = [
    await nearfield.rate("mia", "i2", 5, { timestamp: 1.7e9 }),
    await nearfield.event("mia", "i3", "purchase"),
    await nearfield.putItem("film", { title: "A film", numbers: { year: 1947 } }),
    await nearfield.patchItems([{ item: "film", title: "Another" }]),
  ];
  assert.deepEqual(written.map(({ accepted }) => accepted), [1, 1, 1, 1]);
  assert.deepEqual((await nearfield.userEvents("mia")).events.map(({ item }) => item), ["i3"]);
  const film = await nearfield.get("/items/{item}", { path: { item: "film" } });
  assert.deepEqual([film.title, film.numbers], ["Another", { year: 1947 }]);
  const shown = (await nearfield.recommend("mia", { n: 3, exclude: ["i4"] })).items.map(({ item }) => item);
  assert.equal(shown.length, 3);
  assert.ok(!shown.some((item) => ["i2", "i3", "i4"].includes(item)));
  assert.equal((await nearfield.popular({ n: 2 })).items.length, 2);
  await assert.rejects(nearfield.similar("i2"), ({ slug }) => slug === "unknown-model");
});

test("what was written is read", async () => {
  const receipt = await nearfield.postAll("/ratings", [{ user: "ben", item: "new", rating: 5 }, { user: "ben" }]);
  assert.deepEqual([receipt.accepted, receipt.nRejected, receipt.rejected[0].position], [1, 1, 1]);
  assert.equal(nearfield.position.latest, receipt.streamId);
  const { ratings } = await nearfield.get("/users/{user}/ratings", { path: { user: "ben" } });
  assert.deepEqual(ratings.map(({ item, rating }) => [item, rating]), [["new", 5]]);
  const other = new Nearfield(ADDRESS, { key: KEY });
  other.waitFor(receipt.streamId);
  assert.equal((await other.get("/users/{user}/ratings", { path: { user: "ben" } })).n_ratings, 1);
});

test("any id but dots can be named", async () => {
  for (const user of ["a/b", "%2F", "x?y=1&z", "名前"]) {
    await nearfield.post("/ratings", { body: { user, item: "i1", rating: 3 } });
    assert.equal((await nearfield.get("/users/{user}/ratings", { path: { user } })).user, user);
  }
  await assert.rejects(nearfield.get("/recommend/{user}", { path: { user: ".." } }), /Invalid user: expected an id other/);
});

test("listings and lists are read page by page", async () => {
  const users = (await collected(nearfield.each("/users", { query: { n: 6 } }))).map(({ user }) => user);
  assert.equal(new Set(users).size, users.length);
  for (let n = 0; n < 20; n++) assert.ok(users.includes(`u${n}`));
  await nearfield.post("/items", { body: { item: "i0", tags: { genre: ["noir"] } } });
  const noir = await collected(nearfield.each("/items", { query: { n: 1, filter: { "tag.genre": "noir" } } }));
  assert.ok(noir.map(({ item }) => item).includes("i0"));
  const parts = { path: { item: "i1" }, query: { n: 2 } };
  const { n_ratings } = await nearfield.get("/items/{item}/ratings", parts);
  const raters = (await collected(nearfield.each("/items/{item}/ratings", parts))).map(({ user }) => user);
  assert.ok(n_ratings > 4);
  assert.equal(new Set(raters).size, n_ratings);
  const path = { user: "stranger" };
  const whole = (await nearfield.get("/recommend/{user}", { path, query: { n: 6 } })).items;
  const pages = await collected(nearfield.each("/recommend/{user}", { path, query: { n: 2 } }), 6);
  assert.deepEqual(pages.map(({ item }) => item), whole.map(({ item }) => item));
});

test("refusals are errors", async () => {
  await assert.rejects(nearfield.get("/items/{item}", { path: { item: "nothing" } }), (error) => {
    assert.ok(error instanceof NearfieldError);
    assert.deepEqual([error.status, error.slug], [404, "unknown-item"]);
    assert.deepEqual([error.title, error.problem.status, error.retryAfter], ["Unknown item", 404, null]);
    return /^404 Unknown item: item 'nothing'/.test(error.message);
  });
  const nobody = new Nearfield(ADDRESS);
  assert.equal((await nobody.get("/health/ready")).status, "ready");
  await assert.rejects(nobody.get("/popular"), { status: 401 });
  assert.match(await (await nearfield.raw("/metrics")).text(), /nearfield_ready 1.0/);
});

test("what was not applied is sent again", async () => {
  for (const refusal of [LIMITED, BUSY]) {
    willAnswer(refusal, ACCEPTED);
    assert.equal((await scripted().post("/events", { body: EVENT })).accepted, 1);
    assert.deepEqual(asked[0], asked[1]);
  }
});

test("what may have been applied is sent again if that changes nothing", async () => {
  for (const unknown of [LOST, BROKEN]) {
    willAnswer(unknown, ACCEPTED, unknown, ACCEPTED, unknown, POPULAR);
    const client = scripted();
    await client.post("/ratings", { body: { user: "ann", item: "i1", rating: 4 } });
    await client.postAll("/events", [EVENT]);
    await client.get("/popular");
    assert.equal(asked.length, 6);
    assert.equal(asked[2].body, asked[3].body);
    assert.ok(JSON.parse(asked[2].body)[0].event_id);
  }
  willAnswer(LOST, ACCEPTED);
  await assert.rejects(scripted().post("/events", { body: EVENT }), { slug: "stream-unavailable" });
  willAnswer(BROKEN, ACCEPTED);
  await assert.rejects(scripted().post("/events", { body: EVENT }), { name: "NearfieldError", status: null, title: "No answer" });
  assert.equal(asked.length, 1);
  willAnswer({ status: 418, document: { title: "no problem" } });
  await assert.rejects(scripted().get("/popular"), /418 I'm a Teapot: expected a problem document .* got "\{/);
});

test("patience bounds the pauses", async () => {
  willAnswer(LIMITED, LIMITED, LIMITED, LIMITED);
  await assert.rejects(scripted({ patienceS: 0.6 }).get("/popular"), { status: 429 });
  assert.equal(asked.length, 3);
  willAnswer({ ...BUSY, headers: { "Retry-After": new Date(4e12).toUTCString() } });
  await assert.rejects(scripted().get("/popular"), { status: 503 });
  const nobody = new Nearfield("http://127.0.0.1:9", { patienceS: 0.3 });
  await assert.rejects(nobody.post("/events", { body: EVENT }), /^NearfieldError: No answer: /);
});

test("reads wait for the newest position of writes", async () => {
  willAnswer(POPULAR, ACCEPTED, POPULAR, POPULAR, POPULAR, POPULAR);
  const client = scripted();
  await client.get("/popular");
  await client.post("/ratings", { body: { user: "ann", item: "i1", rating: 4 } });
  client.waitFor("6-9");
  await client.get("/popular", { query: { n: 2 } });
  client.waitFor("10-0");
  await client.get("/popular");
  await client.get("/popular", { query: { wait_for: "8-0" } });
  await client.post("/recommend", { body: { users: ["ann"] } });
  const reads = asked.filter(({ method }) => method === "GET").map(({ path }) => path);
  assert.deepEqual(reads, ["/popular", "/popular?n=2&wait_for=7-0", "/popular?wait_for=10-0", "/popular?wait_for=8-0"]);
  assert.deepEqual(JSON.parse(asked.at(-1).body), { wait_for: "10-0", users: ["ann"] });
});

test("a job is waited for", async () => {
  const job = (state, error = null) => ({ status: 200, document: { id: "j1", state, error, reason: null } });
  const begun = job("queued").document;
  willAnswer(job("running"), job("succeeded"));
  assert.equal((await scripted().wait(begun)).state, "succeeded");
  assert.deepEqual(asked.map(({ path }) => path), ["/admin/jobs/j1", "/admin/jobs/j1"]);
  willAnswer(job("failed", "no ratings"), job("cancelled"));
  await assert.rejects(scripted().wait(begun), /^NearfieldError: Job failed: no ratings$/);
  await assert.rejects(scripted().wait(begun), /^NearfieldError: Job cancelled: j1$/);
});

test("bodies are bounded", async () => {
  willAnswer(ACCEPTED, ACCEPTED, ACCEPTED);
  await scripted().postAll("/ratings", Array.from({ length: 2500 }, (_, n) => ({ user: "ann", item: `i${n}`, rating: 1 })));
  assert.deepEqual(bodies().map(({ length }) => length), [1000, 1000, 500]);
  willAnswer(ACCEPTED, ACCEPTED);
  await scripted().postAll("/items", Array.from({ length: 4 }, (_, n) => ({ item: `i${n}`, tags: { text: ["é".repeat(200_000)] } })));
  assert.deepEqual(asked.map(({ body }) => Buffer.byteLength(body) < 900_000), [true, true]);
  willAnswer(ACCEPTED, ACCEPTED, ACCEPTED);
  await scripted().postAll("/events", Array.from({ length: 130 }, () => EVENT));
  assert.deepEqual(bodies().map(({ length }) => length), [64, 64, 2]);
});
