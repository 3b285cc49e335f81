/** A client of Nearfield: types generated from its OpenAPI document, and what every client needs. */

export { Nearfield, type Options } from "./client.js";
export { type Receipt, type Rejected } from "./batches.js";
export { type Problem, NearfieldError } from "./problems.js";
export type { components, paths } from "./generated/openapi.js";
