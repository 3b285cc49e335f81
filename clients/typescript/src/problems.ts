/** Errors of the service. */

import type { components } from "./generated/openapi.js";

export type Problem = components["schemas"]["ProblemDocument"];

/** The service refused a request. */
export class RequestFailed extends Error {
  /**
   * @param status HTTP status.
   * @param problem What the service says; null if the answer is no problem document.
   * @param retryAfterS Seconds after which another attempt makes sense; null if the answer does not say.
   */
  constructor(
    readonly status: number,
    readonly problem: Problem | null,
    readonly retryAfterS: number | null,
  ) {
    super(problem === null ? `${status}` : `${status} ${problem.title}: ${problem.detail}`);
    this.name = "RequestFailed";
  }

  /** The stable name of the problem, such as `unknown-user`; empty without a problem. */
  get slug(): string {
    return this.problem?.type.split(":").pop() ?? "";
  }
}

/** The error of an answer that is no success; reads its body. */
export async function failureOf(response: Response): Promise<RequestFailed> {
  return new RequestFailed(response.status, problemIn(await response.text()), retryAfterS(response.headers));
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
function retryAfterS(headers: Headers): number | null {
  const text = headers.get("Retry-After") ?? "";
  if (/^\d+$/.test(text)) return Number(text);
  const date = Date.parse(text);
  return Number.isNaN(date) ? null : Math.max(0, (date - Date.now()) / 1000);
}
