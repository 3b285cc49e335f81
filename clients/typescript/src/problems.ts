/** Errors of the service. */

import type { components } from "./generated/openapi.js";

const SHOWN = 200; // characters of an answer that is none of the service
export type Problem = components["schemas"]["ProblemDocument"];

/** A request failed: the service refused it, or did not answer it. A job can fail too. */
export class NearfieldError extends Error {
  /**
   * @param status HTTP status; null if no answer came.
   * @param title What happened, in general.
   * @param detail What happened in this case.
   * @param retryAfter Seconds after which another attempt makes sense; null if the answer does not say.
   * @param problem All that the service says; null if it has said nothing.
   * @param options `cause`: the error of `fetch` if no answer came.
   */
  constructor(
    readonly status: number | null,
    readonly title: string,
    readonly detail: string,
    readonly retryAfter: number | null = null,
    readonly problem: Problem | null = null,
    options: ErrorOptions = {},
  ) {
    super(status === null ? `${title}: ${detail}` : `${status} ${title}: ${detail}`, options);
    this.name = "NearfieldError";
  }

  /** The stable name of the problem, such as `unknown-user`; empty if the service has not named one. */
  get slug(): string {
    return this.problem?.type.split(":").pop() ?? "";
  }
}

/** The error of an answer that is no success; reads its body. */
export async function refusal(response: Response): Promise<NearfieldError> {
  const text = await response.text();
  const problem = problemIn(text);
  const title = problem?.title ?? (response.statusText || "Refused");
  const got = JSON.stringify(text.slice(0, SHOWN));
  const detail = problem?.detail ?? `expected a problem document of the service, got ${got}`;
  return new NearfieldError(response.status, title, detail, retryAfter(response.headers), problem);
}

/** The error of a request without an answer. */
export function noAnswer(cause: unknown): NearfieldError {
  const reason = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  return new NearfieldError(null, "No answer", String(reason), null, null, { cause });
}

function problemIn(text: string): Problem | null {
  try {
    const document: unknown = JSON.parse(text);
    return isProblem(document) ? document : null;
  } catch {
    return null;
  }
}

function isProblem(document: unknown): document is Problem {
  return typeof document === "object" && document !== null && "type" in document && typeof document.type === "string";
}

/** Retry-After, which is a number of seconds or a date. */
function retryAfter(headers: Headers): number | null {
  const text = headers.get("Retry-After") ?? "";
  if (/^\d+$/.test(text)) return Number(text);
  const date = Date.parse(text);
  return Number.isNaN(date) ? null : Math.max(0, (date - Date.now()) / 1000);
}
