/**
 * Arrays of numbers as an object of the store: a line of JSON that says what each is, then all bytes. A plain array is
 * [type, length] there, a packed matrix [format, rows, columns, whether it is stored [in, out]].
 */
import { check, fail } from "../../engine/errors.ts";
import { packedBytes, type PackedWords, type PackedFormat } from "../../pretrained/index.ts";
import { fromJson, toJson } from "./json.ts";

const TYPES = { f32: Float32Array, f64: Float64Array, u8: Uint8Array } as const;
type TypeName = keyof typeof TYPES;
type Plain = Float32Array | Float64Array | Uint8Array;
/** The arrays that can be sent. */
export type Sent = Plain | PackedWords;

const FORMATS: readonly PackedFormat[] = ["bf16", "f16", "q8"];

const typeOf = (x: Plain): TypeName => (x instanceof Float32Array ? "f32" : x instanceof Float64Array ? "f64" : "u8");

const entryOf = (x: Sent): readonly unknown[] =>
  "words" in x ? [x.format, ...x.shape, x.transposed] : [typeOf(x), x.length];

/** The bytes of some arrays. */
export function arraysToBytes(arrays: readonly Sent[]): Uint8Array {
  const line = new TextEncoder().encode(`${JSON.stringify(arrays.map(entryOf))}\n`);
  const parts = arrays.map((x) => ("words" in x ? x.words : x));
  const bytes = new Uint8Array(parts.reduce((sum, x) => sum + x.byteLength, line.length));
  bytes.set(line);
  let at = line.length;
  for (const x of parts) {
    bytes.set(new Uint8Array(x.buffer, x.byteOffset, x.byteLength), at);
    at += x.byteLength;
  }
  return bytes;
}

/** @throws if the bytes are not what `arraysToBytes` makes; `where` begins the error */
export function arraysFromBytes(where: string, bytes: Uint8Array): Sent[] {
  const end = bytes.indexOf(10);
  check(end > 0, () => `${where}: the header is missing`);
  const header = fromJson(where, new TextDecoder().decode(bytes.subarray(0, end)));
  check(Array.isArray(header), () => `${where}: the header is no list`);
  let at = end + 1;
  const arrays = (header as readonly unknown[]).map((value, i) => {
    const entry = Array.isArray(value) ? (value as readonly unknown[]) : [];
    const { size, make } = plainOf(entry) ?? packedOf(entry) ?? fail(`${where}: array ${i} has no type and length`);
    check(at + size <= bytes.length, () => `${where}: array ${i} ends after the object's ${bytes.length} bytes`);
    // A copy, because `slice` of Node's buffers makes none.
    const own = new Uint8Array(bytes.subarray(at, at + size)).buffer;
    at += size;
    return make(own);
  });
  check(at === bytes.length, () => `${where}: ${bytes.length - at} bytes too many`);
  return arrays;
}

/** An array that the header announces: its bytes, and how it is made of them. */
interface Announced {
  readonly size: number;
  readonly make: (memory: ArrayBuffer) => Sent;
}

const isCount = (x: unknown, least: number): x is number => Number.isSafeInteger(x) && (x as number) >= least;

function plainOf([type, length]: readonly unknown[]): Announced | undefined {
  if (typeof type !== "string" || !Object.hasOwn(TYPES, type) || !isCount(length, 0)) return undefined;
  const known = TYPES[type as TypeName];
  return { size: length * known.BYTES_PER_ELEMENT, make: (memory) => new known(memory) };
}

/**
 * A packed matrix of the header. The number of words follows from format and shape, so no header can give another one.
 */
function packedOf([name, first, second, transposed]: readonly unknown[]): Announced | undefined {
  const format = FORMATS.find((one) => one === name);
  if (!format || !isCount(first, 1) || !isCount(second, 1) || typeof transposed !== "boolean") return undefined;
  const size = packedBytes(format, transposed ? [second, first] : [first, second]);
  return { size, make: (memory) => ({ format, shape: [first, second], transposed, words: new Int32Array(memory) }) };
}

/** @throws unless array `i` has floats */
export const floats = (where: string, x: Sent | undefined, i: number): Float32Array | Float64Array =>
  x instanceof Float32Array || x instanceof Float64Array ? x : fail(`${where}: array ${i} has no floats`);

/** Plain data as an array. */
export const jsonToArray = (value: unknown): Uint8Array => new TextEncoder().encode(toJson(value));

/** The inverse of `jsonToArray`. @throws if the array is none of plain data */
export const jsonFromArray = (where: string, x: Sent | undefined): unknown =>
  x instanceof Uint8Array ? fromJson(where, new TextDecoder().decode(x)) : fail(`${where}: the facts are missing`);
