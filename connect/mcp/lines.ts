/**
 * Lines of JSON-RPC from an MCP server that was started. They are read here and not by the library, so that output
 * beside messages costs next to nothing, and an answer in a slightly wrong form counts as an answer.
 */
import { showValue } from "../../engine/options.ts";
import { type Fields, isFields } from "../fields.ts";

/** The field of a result that replaces a missing or malformed one; it shows what the server sent. */
export const NO_RESULT = "worldgrad/no result";
/** Bytes that a line that is no message counts for beside its own: short lines cost more per byte. */
const BYTES_PER_LINE = 100;
/** The code of an error that has none of its own: JSON-RPC's "internal error". */
const NO_CODE = -32_603;

/**
 * An answer in the form of the protocol: `null` in place of a missing field, an error that is a text or has a text for
 * a code, and a missing `jsonrpc` are corrected. Other messages are as they are.
 */
export function answerOf(message: Fields): Fields {
  const { id, method, result, error } = message;
  if (method !== undefined || id === undefined || id === null) return message;
  if (error !== undefined && error !== null) return { jsonrpc: "2.0", id, error: errorOf(error) };
  if (!isFields(result)) return { jsonrpc: "2.0", id, result: { [NO_RESULT]: showValue(result) } };
  const { _meta: _, ...rest } = result; // nothing reads it
  return { jsonrpc: "2.0", id, result: rest };
}

function errorOf(error: unknown): Fields {
  if (typeof error === "string") return { code: NO_CODE, message: error };
  const { code, message } = isFields(error) ? error : {};
  const said = typeof message === "string" ? message : showValue(error);
  if (Number.isInteger(code)) return { code, message: said };
  return { code: NO_CODE, message: code === undefined || code === null ? said : `${showValue(code)}: ${said}` };
}

/** Splits a server's output into messages. */
export class Lines {
  readonly #most: number;
  #open: Uint8Array[] = [];
  #size = 0;
  /** The size of the output since the last message. */
  #noise = 0;

  /** @param most bytes of a message, and of what stands between two */
  constructor(most: number) {
    this.#most = most;
  }

  /**
   * The messages that end in this part of the output. Other lines are the server's log.
   * @throws if a line, or what stands between two messages, is too long
   */
  *read(chunk: Uint8Array): Generator<Fields, void> {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      this.#keep(chunk.subarray(start, end));
      start = end + 1;
      const message = this.#message();
      if (message !== undefined) {
        this.#noise = 0;
        yield message;
      } else if (this.#noise > this.#most) throw new Error(`over ${this.#most} bytes that are no message`);
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start));
  }

  #keep(part: Uint8Array): void {
    this.#open.push(part);
    this.#size += part.length;
    if (this.#size > this.#most) throw new Error(`a message over ${this.#most} bytes`);
  }

  /** The message in the line that has ended; undefined if it is none. */
  #message(): Fields | undefined {
    const parts = this.#open;
    this.#noise += this.#size + BYTES_PER_LINE;
    this.#open = [];
    this.#size = 0;
    const first = parts.find((part) => part.length > 0)?.[0];
    // Only what may be an object, perhaps behind a space, is decoded.
    if (first !== 0x7b && first !== 0x20 && first !== 0x09) return undefined;
    try {
      const value: unknown = JSON.parse(globalThis.Buffer.concat(parts).toString("utf8"));
      return isFields(value) ? answerOf(value) : undefined;
    } catch {
      return undefined;
    }
  }
}
