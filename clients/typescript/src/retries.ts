/**
 * Which requests are sent again, and when.
 *
 * A request is sent again if the service has certainly not applied it: it could not be reached, it answered 429, or
 * 503 with one of the reasons in `NOT_APPLIED`. If the outcome is unknown (a connection that broke, a timeout, another
 * 502, 503 or 504), only requests are sent again whose repetition changes nothing.
 */

import { NearfieldError } from "./problems.js";

const NOT_APPLIED = new Set(["overloaded", "not-ready", "not-seen-yet", "log-unavailable"]); // refused before it began
const TOO_MANY = 429;
const BUSY = new Set([502, 503, 504]);
const IDEMPOTENT = new Set(["GET", "HEAD", "PUT", "PATCH", "DELETE"]);
// A rating or an item replaces the earlier one, and lists are only read.
const REPEATABLE_POSTS = /\/(ratings|items|neighbors|recommend(\/[^/]*)?)$/;
const UNREACHED = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]); // of Node
const FIRST_PAUSE_S = 0.25;
const LONGEST_PAUSE_S = 5;

/** Whether a request that came twice changes no more than one that came once. */
export function isRepeatable(method: string, url: URL): boolean {
  return IDEMPOTENT.has(method) || REPEATABLE_POSTS.test(url.pathname);
}

/** The attempts of one request; `leftS` bounds the sum of all pauses, each of which counts as 0.25 s at least. */
export class Attempts {
  private pauseS = FIRST_PAUSE_S;

  constructor(
    private leftS: number,
    private readonly isRepeatable: boolean,
  ) {}

  /** Waits before the next attempt; false if there is none, because the failure is final. */
  async waits(failure: NearfieldError): Promise<boolean> {
    if (!this.mayRepeat(failure)) return false;
    const pauseS = failure.retryAfter ?? this.pauseS;
    this.pauseS = Math.min(2 * this.pauseS, LONGEST_PAUSE_S);
    const countedS = Math.max(pauseS, FIRST_PAUSE_S); // so that attempts without pauses end too
    if (countedS > this.leftS) return false;
    this.leftS -= countedS;
    await sleep(pauseS);
    return true;
  }

  private mayRepeat(failure: NearfieldError): boolean {
    if (failure.status === null) return this.isRepeatable || isUnreached(failure.cause);
    if (failure.status === TOO_MANY) return true;
    return BUSY.has(failure.status) && (this.isRepeatable || NOT_APPLIED.has(failure.slug));
  }
}

/** Seconds between two looks at a job, without end. */
export function* pausesS(): Generator<number> {
  for (let pauseS = FIRST_PAUSE_S; ; pauseS = Math.min(2 * pauseS, LONGEST_PAUSE_S)) yield pauseS;
}

export function sleep(seconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, 1000 * seconds));
}

/** Whether Node says that there was no connection. Browsers do not tell this from a connection that broke. */
function isUnreached(error: unknown): boolean {
  const cause: unknown = error instanceof Error ? error.cause : null;
  return typeof cause === "object" && cause !== null && "code" in cause && UNREACHED.has(String(cause.code));
}
