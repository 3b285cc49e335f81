/** `Nearfield`: one service, or one of its data sets. */

import { bodies, Receipt } from "./batches.js";
import type { components } from "./generated/openapi.js";
import { Position } from "./positions.js";
import { NearfieldError, noAnswer, refusal } from "./problems.js";
import { Attempts, isRepeatable, pausesS, sleep } from "./retries.js";
import type { Answer, Arguments, ElementOf, Method, More, PagedPath, Parts, PathOf, Posted, Query } from "./types.js";

export interface Options {
  /** The key, sent as X-API-Key. */
  key?: string;
  /** Seconds to wait at most, for all attempts of one request together; 0: no second attempt. Default: 30. */
  patienceS?: number;
  /** Seconds for the head of an answer. Default: 60. */
  timeoutS?: number;
}

type Job = components["schemas"]["Job"];

interface AnyParts {
  path?: object;
  query?: object;
  body?: unknown;
}

export class Nearfield {
  /** The newest position that writes have answered; reads wait for it. */
  readonly position = new Position();
  private readonly address: string;
  private readonly headers: Record<string, string>;
  private readonly patienceS: number;
  private readonly timeoutS: number;

  /** `url` is the address of the service; that of a data set ends with `/d/NAME`. */
  constructor(url: string, options: Options = {}) {
    this.address = url.replace(/\/+$/, "");
    this.headers = options.key === undefined ? {} : { "X-API-Key": options.key };
    this.patienceS = options.patienceS ?? 30;
    this.timeoutS = options.timeoutS ?? 60;
  }

  /** Let all later reads wait for a position, for example one that another client got for a write. */
  waitFor(streamId: string): void {
    this.position.note(streamId);
  }

  /** Post a rating, which replaces the user's earlier one. */
  rate(user: string, item: string, rating: number, more: More<"/ratings"> = {}): Promise<Answer<"/ratings", "post">> {
    return this.post("/ratings", { body: { user, item, rating, ...more } });
  }

  /** Post an event of a type such as `view`. */
  event(user: string, item: string, type: string, more: More<"/events"> = {}): Promise<Answer<"/events", "post">> {
    return this.post("/events", { body: { user, item, type, ...more } });
  }

  /** The best items for a user. */
  recommend(user: string, query: Query<"/recommend/{user}"> = {}): Promise<Answer<"/recommend/{user}", "get">> {
    return this.get("/recommend/{user}", { path: { user }, query });
  }

  /** The items most similar to an item. */
  similar(item: string, query: Query<"/items/{item}/neighbors"> = {}): Promise<Answer<"/items/{item}/neighbors", "get">> {
    return this.get("/items/{item}/neighbors", { path: { item }, query });
  }

  /** The most popular items. */
  popular(query: Query<"/popular"> = {}): Promise<Answer<"/popular", "get">> {
    return this.get("/popular", { query });
  }

  /** Put an item with these attributes; others that it had are removed. */
  putItem(item: string, attributes: More<"/items"> = {}): Promise<Answer<"/items", "post">> {
    return this.post("/items", { body: { item, ...attributes } });
  }

  /** Change some attributes of at most 1,000 items; null removes an attribute. */
  patchItems(items: components["schemas"]["PatchedItem"][]): Promise<Answer<"/items", "patch">> {
    return this.patch("/items", { body: items });
  }

  /** What the events of a user add up to, item by item. */
  userEvents(user: string, query: Query<"/users/{user}/events"> = {}): Promise<Answer<"/users/{user}/events", "get">> {
    return this.get("/users/{user}/events", { path: { user }, query });
  }

  /** The job when it has succeeded, asked for again and again. Throws a `NearfieldError` if it fails or is cancelled. */
  async wait(job: Job): Promise<Job> {
    for (const pauseS of pausesS()) {
      if (job.state === "succeeded") break;
      if (job.state === "failed" || job.state === "cancelled") {
        throw new NearfieldError(null, `Job ${job.state}`, job.error ?? job.reason ?? job.id);
      }
      await sleep(pauseS);
      job = await this.get("/admin/jobs/{job}", { path: { job: job.id } });
    }
    return job;
  }

  get<P extends PathOf<"get">>(path: P, ...parts: Arguments<Parts<P, "get">>): Promise<Answer<P, "get">> {
    return this.answer("get", path, parts[0]);
  }

  post<P extends PathOf<"post">>(path: P, ...parts: Arguments<Parts<P, "post">>): Promise<Answer<P, "post">> {
    return this.answer("post", path, parts[0]);
  }

  put<P extends PathOf<"put">>(path: P, ...parts: Arguments<Parts<P, "put">>): Promise<Answer<P, "put">> {
    return this.answer("put", path, parts[0]);
  }

  patch<P extends PathOf<"patch">>(path: P, ...parts: Arguments<Parts<P, "patch">>): Promise<Answer<P, "patch">> {
    return this.answer("patch", path, parts[0]);
  }

  delete<P extends PathOf<"delete">>(path: P, ...parts: Arguments<Parts<P, "delete">>): Promise<Answer<P, "delete">> {
    return this.answer("delete", path, parts[0]);
  }

  /** The answer itself, for what is no JSON, such as `/metrics` and `/admin/export`. Throws `NearfieldError` too. */
  raw<P extends PathOf<"get">>(path: P, ...parts: Arguments<Parts<P, "get">>): Promise<Response> {
    return this.response("GET", path, parts[0]);
  }

  /** Post elements in order, in bodies of bounded size. Those that the service rejects do not stop it. */
  async postAll<P extends keyof Posted>(path: P, elements: Iterable<Posted[P]> | AsyncIterable<Posted[P]>): Promise<Receipt> {
    const receipt = new Receipt();
    for await (const body of bodies(elements, path === "/events")) {
      const response = await this.sent("POST", new URL(this.address + path), body.text, true);
      const answer = (await this.json("POST", response)) as components["schemas"]["Accepted"];
      receipt.add(answer, body.n);
    }
    return receipt;
  }

  /** All elements of a listing, or of a list until the model has no more; reads a page, of `n`, when it needs one. */
  async *each<P extends PagedPath>(path: P, ...parts: Arguments<Parts<P, "get">>): AsyncGenerator<ElementOf<Answer<P, "get">>> {
    const given: AnyParts = parts[0] ?? {};
    // Ratings of a user or an item have no cursor. One that is given meanwhile moves later ones, so one may come twice.
    const hasOffset = /^\/(users|items)\/.*\/ratings$/.test(path);
    let place: object | null = hasOffset ? { offset: 0 } : { cursor: "" };
    for (let nRead = 0; place !== null; ) {
      const page = await this.json("GET", await this.response("GET", path, { ...given, query: { ...given.query, ...place } }));
      const listed = listOf(page) as ElementOf<Answer<P, "get">>[];
      yield* listed;
      nRead += listed.length;
      place = placeAfter(page, nRead, listed.length);
    }
  }

  private async answer<P extends PathOf<M>, M extends Method>(method: M, path: P, parts?: AnyParts): Promise<Answer<P, M>> {
    const name = method.toUpperCase();
    return (await this.json(name, await this.response(name, path, parts))) as Answer<P, M>;
  }

  private async json(method: string, response: Response): Promise<unknown> {
    const document: unknown = await response.json();
    this.position.noteAnswer(method, document);
    return document;
  }

  private response(method: string, template: string, parts: AnyParts = {}): Promise<Response> {
    const path = filled(template, parts.path ?? {});
    const url = new URL(this.address + path);
    url.search = queryOf(parts.query ?? {}).toString();
    this.position.addTo(method, path, url.searchParams);
    const body = this.position.added(method, path, parts.body);
    return this.sent(method, url, body === undefined ? undefined : JSON.stringify(body), isRepeatable(method, url));
  }

  /** Send a request, and send it again as `retries.ts` says. */
  private async sent(method: string, url: URL, body: string | undefined, isRepeatable: boolean): Promise<Response> {
    const attempts = new Attempts(this.patienceS, isRepeatable);
    const headers = body === undefined ? this.headers : { ...this.headers, "Content-Type": "application/json" };
    for (;;) {
      let failure: NearfieldError;
      try {
        const response = await this.fetched(url, { method, headers, ...(body === undefined ? {} : { body }) });
        if (response.ok) return response;
        failure = await refusal(response);
      } catch (error) {
        failure = noAnswer(error);
      }
      if (!(await attempts.waits(failure))) throw failure;
    }
  }

  /** `fetch` with a limit for the head of the answer; bodies, such as exports, may take as long as they do. */
  private async fetched(url: URL, request: RequestInit): Promise<Response> {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(new DOMException("no answer in time", "TimeoutError")), 1000 * this.timeoutS);
    try {
      return await fetch(url, { ...request, signal: abort.signal });
    } finally {
      clearTimeout(timer);
    }
  }
}

function filled(template: string, values: object): string {
  const given = new Map(Object.entries(values).map(([name, value]) => [name, String(value)]));
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = given.get(name) ?? "";
    if (value === "." || value === "..") {
      throw new TypeError(`Invalid ${name}: expected an id other than . and .., which URLs have no way to name, got ${value}`);
    }
    return encodeURIComponent(value);
  });
}

/** The query: a list repeats its name, and an object, such as a filter, has the names of its own. */
function queryOf(values: object): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values) as [string, unknown][]) {
    if (value === undefined || value === null) continue;
    if (Array.isArray(value)) for (const one of value) query.append(name, String(one));
    else if (typeof value === "object") for (const [inner, one] of Object.entries(value)) query.append(inner, String(one));
    else query.append(name, String(value));
  }
  return query;
}

function listOf(page: unknown): unknown[] {
  const found = Object.entries(page as object).find(([name]) => /^(items|users|ratings|neighbors)$/.test(name));
  return (found?.[1] ?? []) as unknown[];
}

/** Where the next page begins, null after the last one. */
function placeAfter(page: unknown, nRead: number, nListed: number): object | null {
  const { next, n_ratings } = page as { next?: string | null; n_ratings?: number };
  if (n_ratings !== undefined) return nListed > 0 && nRead < n_ratings ? { offset: nRead } : null;
  return next ? { cursor: next } : null;
}
