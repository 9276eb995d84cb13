/** Arrays of numbers as an object of the store: a line of JSON with their types and lengths, then all bytes. */
import { check, fail } from "../engine/errors.ts";
import { fromJson, toJson } from "./json.ts";

const TYPES = { f32: Float32Array, f64: Float64Array, i32: Int32Array, u8: Uint8Array } as const;
type TypeName = keyof typeof TYPES;
/** The arrays that can be sent. */
export type Sent = Float32Array | Float64Array | Int32Array | Uint8Array;

const typeOf = (x: Sent): TypeName =>
  x instanceof Float32Array ? "f32" : x instanceof Float64Array ? "f64" : x instanceof Int32Array ? "i32" : "u8";

/** The bytes of some arrays. */
export function arraysToBytes(arrays: readonly Sent[]): Uint8Array {
  const line = new TextEncoder().encode(`${JSON.stringify(arrays.map((x) => [typeOf(x), x.length]))}\n`);
  const bytes = new Uint8Array(arrays.reduce((sum, x) => sum + x.byteLength, line.length));
  bytes.set(line);
  let at = line.length;
  for (const x of arrays) {
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
  const arrays = (header as readonly unknown[]).map((entry, i) => {
    const [type, length] = Array.isArray(entry) ? (entry as readonly unknown[]) : [];
    const known = typeof type === "string" && Object.hasOwn(TYPES, type) ? TYPES[type as TypeName] : undefined;
    const isFine = known !== undefined && Number.isSafeInteger(length) && (length as number) >= 0;
    check(isFine, () => `${where}: array ${i} has no type and length`);
    const size = (length as number) * known.BYTES_PER_ELEMENT;
    check(at + size <= bytes.length, () => `${where}: array ${i} ends after the object's ${bytes.length} bytes`);
    // A copy, because `slice` of Node's buffers makes none.
    const own = new Uint8Array(bytes.subarray(at, at + size)).buffer;
    at += size;
    return new known(own);
  });
  check(at === bytes.length, () => `${where}: ${bytes.length - at} bytes too many`);
  return arrays;
}

/** @throws unless array `i` has floats */
export const floats = (where: string, x: Sent | undefined, i: number): Float32Array | Float64Array =>
  x instanceof Float32Array || x instanceof Float64Array ? x : fail(`${where}: array ${i} has no type and length`);

/** Plain data as an array. */
export const jsonToArray = (value: unknown): Uint8Array => new TextEncoder().encode(toJson(value));

/** The inverse of `jsonToArray`. @throws if the array is none of plain data */
export const jsonFromArray = (where: string, x: Sent | undefined): unknown =>
  x instanceof Uint8Array ? fromJson(where, new TextDecoder().decode(x)) : fail(`${where}: the facts are missing`);
