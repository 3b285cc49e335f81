/** What the generated types say about a request: its parts, its answer, the elements of a page. */

import type { components, paths } from "./generated/openapi.js";

export type Method = "get" | "post" | "put" | "patch" | "delete";

/** The paths that have a method. */
export type PathOf<M extends Method> = { [P in keyof paths]: M extends keyof paths[P] ? P : never }[keyof paths];

type Operation<P extends keyof paths, M extends Method> = M extends keyof paths[P] ? paths[P][M] : never;

type InPath<O> = O extends { parameters: { path: infer P extends object } } ? { path: P } : { path?: undefined };
type InQuery<O> = O extends { parameters: { query?: infer Q } } ? { query?: Q } : { query?: undefined };
type InBody<O> = O extends { requestBody: { content: { "application/json": infer B } } } ? { body: B } : { body?: undefined };

/** What goes into a request, beside its method and path. */
export type Parts<P extends keyof paths, M extends Method> = InPath<Operation<P, M>> &
  InQuery<Operation<P, M>> &
  InBody<Operation<P, M>>;

/** The arguments behind the path: none are needed if no part of the request is. */
export type Arguments<T> = object extends T ? [parts?: T] : [parts: T];

type Json<R> = R extends { content: { "application/json": infer A } } ? A : never;

/** The JSON of a success. */
export type Answer<P extends keyof paths, M extends Method> = Operation<P, M> extends { responses: infer R }
  ? { [S in keyof R]: S extends 200 | 201 | 202 ? Json<R[S]> : never }[keyof R]
  : never;

type ListName = "items" | "users" | "ratings" | "neighbors";

/** The elements of a page. */
export type ElementOf<A> = { [N in keyof A & ListName]: A[N] extends (infer E)[] ? E : never }[keyof A & ListName];

type QueryOf<O> = O extends { parameters: { query?: infer Q } } ? NonNullable<Q> : never;

/** The parameters of a read. */
export type Query<P extends PathOf<"get">> = QueryOf<Operation<P, "get">>;

/** The paths that answer pages: they take a cursor, or an offset. */
export type PagedPath = {
  [P in PathOf<"get">]: [Extract<keyof QueryOf<Operation<P, "get">>, "cursor" | "offset">] extends [never] ? never : P;
}[PathOf<"get">];

/** Path -> its elements. */
export interface Posted {
  "/ratings": components["schemas"]["PostedRating"];
  "/events": components["schemas"]["PostedEvent"];
  "/items": components["schemas"]["PostedItem"];
}

/** The fields of an element beside those that a method takes by their place. */
export type More<P extends keyof Posted> = Omit<Posted[P], "user" | "item" | "rating" | "type">;
