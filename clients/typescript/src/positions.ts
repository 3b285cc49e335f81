/** The newest position that writes have answered. Reads that carry it see these writes. */

// The reads without `wait_for`, by their path behind the address.
const NEVER_WAIT = /^\/(|docs|openapi\.json|metrics|health\/.*|admin\/(audit|keys|exports|schedules|webhooks)(\/.*)?)$/;
const WAITING_POSTS = /^\/(neighbors|recommend(\/[^/]*)?)$/;

export class Position {
  latest: string | null = null;

  /** Keep a position if it is newer than the one that is kept. */
  note(streamId: string): void {
    if (this.latest === null || isNewer(streamId, this.latest)) this.latest = streamId;
  }

  /** Keep the `stream_id` of the answer to a write, if there is one. */
  noteAnswer(method: string, document: unknown): void {
    if (method === "GET" || typeof document !== "object" || document === null || !("stream_id" in document)) return;
    if (typeof document.stream_id === "string") this.note(document.stream_id);
  }

  /** Add `wait_for` to the query of a read that does not say itself what to wait for. */
  addTo(method: string, path: string, query: URLSearchParams): void {
    if (this.latest === null || method !== "GET" || NEVER_WAIT.test(path) || query.has("wait_for")) return;
    query.set("wait_for", this.latest);
  }

  /** The body of a request, with `wait_for` if the request only reads. */
  added(method: string, path: string, body: unknown): unknown {
    const waits = this.latest !== null && method === "POST" && WAITING_POSTS.test(path);
    return waits ? { wait_for: this.latest, ...(body as object) } : body;
  }
}

function isNewer(one: string, other: string): boolean {
  const [ours, theirs] = [one, other].map((streamId) => streamId.split("-").map(BigInt));
  const difference = ours![0]! - theirs![0]! || ours![1]! - theirs![1]!;
  return difference > 0n;
}
