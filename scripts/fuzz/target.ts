/** Type of a target of fuzzing. */
import type fc from "fast-check";

/** Content of a JSON file. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export interface Target {
  readonly name: string;
  /** Valid documents, to be changed. */
  readonly documents: fc.Arbitrary<Json>;
  /** Reads a document. @throws WorldgradError, and nothing else, for a document that it refuses */
  readonly read: (document: Json) => unknown;
  /** The number of documents that `npm test` tries; smaller where each takes milliseconds. Default 200. */
  readonly few?: number;
  /** Binary file whose header is the document; single bytes are changed, too. */
  readonly bytesOf?: (document: Json) => Uint8Array;
  readonly readBytes?: (bytes: Uint8Array) => unknown;
}
