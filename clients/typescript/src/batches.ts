/** Elements in bodies that the service takes. */

import type { components } from "./generated/openapi.js";

const MAX_ELEMENTS = 1000; // of one body; the service's default
const MAX_BYTES = 900_000; // of one body; below the service's default
const MAX_EVENTS_OF_A_USER = 64; // of one body: the service remembers the ids of the last 64 events of each user
const N_REJECTED_KEPT = 100;

/** An element that the service rejected: its position from 0 among those that were given, and why. */
export interface Rejected {
  position: number;
  error: string;
}

/**
 * What became of the elements that were posted.
 *
 * `rejected` has the first hundred of the `nRejected` elements. `streamId` is the position of the last body, null if
 * nothing was accepted.
 */
export class Receipt {
  accepted = 0;
  nRejected = 0;
  readonly rejected: Rejected[] = [];
  streamId: string | null = null;
  private nPosted = 0;

  /** Add the answer to a body of `n` elements. */
  add(answer: components["schemas"]["Accepted"], n: number): void {
    this.accepted += answer.accepted;
    this.nRejected += answer.rejected.length;
    const room = N_REJECTED_KEPT - this.rejected.length;
    for (const { index, error } of answer.rejected.slice(0, room)) {
      this.rejected.push({ position: this.nPosted + index, error });
    }
    this.nPosted += n;
    this.streamId = answer.stream_id ?? this.streamId;
  }
}

/** A body and its number of elements. */
export interface Body {
  text: string;
  n: number;
}

/**
 * Bodies of at most 1,000 elements and 900,000 bytes.
 *
 * With `areEvents` an element without an `event_id` gets one, and no body has more than 64 elements of one user: then
 * a body may come twice.
 */
export async function* bodies(
  elements: Iterable<object> | AsyncIterable<object>,
  areEvents: boolean,
): AsyncGenerator<Body> {
  let texts: string[] = [];
  let nBytes = 0;
  const byUser = new Map<string, number>();
  const encoder = new TextEncoder();
  for await (const element of elements) {
    const text = JSON.stringify(areEvents ? { event_id: crypto.randomUUID(), ...element } : element);
    const length = encoder.encode(text).length + 1;
    const user = "user" in element ? String(element.user) : "";
    const isFull = texts.length === MAX_ELEMENTS || nBytes + length + 1 > MAX_BYTES;
    if (texts.length > 0 && (isFull || (areEvents && byUser.get(user) === MAX_EVENTS_OF_A_USER))) {
      yield { text: `[${texts.join(",")}]`, n: texts.length };
      texts = [];
      nBytes = 0;
      byUser.clear();
    }
    texts.push(text);
    nBytes += length;
    byUser.set(user, (byUser.get(user) ?? 0) + 1);
  }
  if (texts.length > 0) yield { text: `[${texts.join(",")}]`, n: texts.length };
}
