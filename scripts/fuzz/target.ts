/** What can be fuzzed. */
import type fc from "fast-check";

/** What a file of JSON holds. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export interface Target {
  readonly name: string;
  /** Valid documents, which are changed here and there. */
  readonly documents: fc.Arbitrary<Json>;
  /** Reads a document. @throws WorldgradError, and nothing else, if it is not to be had */
  readonly read: (document: Json) => unknown;
  /** How many documents `npm test` tries; fewer where each takes milliseconds. Default: 200. */
  readonly few?: number;
  /** A file of bytes: the document is its header, and single bytes are changed as well. */
  readonly bytesOf?: (document: Json) => Uint8Array;
  readonly readBytes?: (bytes: Uint8Array) => unknown;
}
