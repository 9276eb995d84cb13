/**
 * The safetensors file format: reading and writing (format: Hugging Face's safetensors,
 * "Format" in its README; the checks are those of its reference implementation).
 *
 *     8 bytes        N, little-endian u64
 *     N bytes        UTF-8 JSON {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}, then spaces
 *     the rest       the tensors' bytes, row-major, little-endian; offsets count from here
 *
 * The bytes are not trusted: the whole header is checked against the file's length before a single element is read.
 * Files that are read piece by piece, and shards, are in `weightFiles.ts`; 8-bit floats and other quantised formats are
 * not supported.
 */
import { check, fail } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import { bfloat16Bits, float16Bits, fromBfloat16Bits, fromFloat16Bits } from "./half.ts";

/**
 * A tensor that was read. 16-bit floats are widened to f32 (exactly), while `dtype` is still the stored type; BOOL is 0
 * or 1 per byte.
 */
export type SafeTensor = { readonly shape: readonly number[] } & (
  | { readonly dtype: "F32" | "F16" | "BF16"; readonly data: Float32Array }
  | { readonly dtype: "F64"; readonly data: Float64Array }
  | { readonly dtype: "I32"; readonly data: Int32Array }
  | { readonly dtype: "I64"; readonly data: BigInt64Array }
  | { readonly dtype: "U8" | "BOOL"; readonly data: Uint8Array }
);
/** Element types that are read and written, as the format names them. */
export type SafeDtype = SafeTensor["dtype"];

/** A tensor to write: as `SafeTensor`; besides, F32 takes a Float64Array (rounded) and F64 a Float32Array (exact). */
export type SafeTensorInput =
  | SafeTensor
  | { readonly shape: readonly number[]; readonly dtype: "F32" | "F64"; readonly data: Float32Array | Float64Array };

/** One tensor's line in the header; `begin` and `end` are byte offsets from the start of the data. */
export interface SafeTensorInfo {
  readonly name: string;
  readonly dtype: SafeDtype;
  readonly shape: readonly number[];
  readonly begin: number;
  readonly end: number;
}

/** The content of a file's header. */
export interface SafetensorsHeader {
  /** The tensors in the order of the data. */
  readonly tensors: readonly SafeTensorInfo[];
  readonly metadata: ReadonlyMap<string, string>;
  /** The offset of the data, in bytes from the start of the file. */
  readonly dataStart: number;
}

/** The number of bytes of an element. */
export const BYTES: Readonly<Record<SafeDtype, number>> = {
  F32: 4,
  F64: 8,
  F16: 2,
  BF16: 2,
  I32: 4,
  I64: 8,
  U8: 1,
  BOOL: 1,
};
const MAX_HEADER_BYTES = 100_000_000;
const MAX_HEADER_DEPTH = 128;
/** The largest number of strings in a header: a hundred times that of large checkpoints; more would take seconds. */
const MAX_STRINGS = 1_000_000;

/**
 * Reads and checks the header only.
 * @param bytes the file, or its beginning with the whole header (up to `safetensorsDataStart`)
 * @param given the length of the file, if it is longer than `bytes`
 * @throws WorldgradError naming what is wrong, for any bytes
 */
export function readSafetensorsHeader(bytes: Uint8Array, given?: number): SafetensorsHeader {
  const isBytes: boolean = bytes instanceof Uint8Array;
  check(isBytes, () => `safetensors: expected the file as a Uint8Array, got ${showValue(bytes)}`);
  const fileBytes = given ?? bytes.length;
  const dataStart = safetensorsDataStart(bytes, fileBytes);
  const header = parseHeader(bytes.subarray(8, dataStart));

  const tensors: SafeTensorInfo[] = [];
  const metadata = new Map<string, string>();
  for (const [name, value] of Object.entries(header)) {
    if (name === "__metadata__") {
      for (const [key, text] of Object.entries(asObject(value, "__metadata__"))) {
        check(
          typeof text === "string",
          () => `safetensors: __metadata__.${key} is ${showValue(text)}, expected a string`,
        );
        metadata.set(key, text);
      }
    } else tensors.push(readInfo(name, value));
  }
  tensors.sort((a, b) => a.begin - b.begin || a.end - b.end || (a.name < b.name ? -1 : 1));
  let end = 0;
  for (const info of tensors) {
    const problem = info.begin > end ? "leaves a hole" : "overlaps another";
    check(info.begin === end, () => `safetensors: '${info.name}' ${problem}: begins at ${info.begin}, expected ${end}`);
    end = info.end;
  }
  const dataBytes = fileBytes - dataStart;
  check(
    end === dataBytes,
    () =>
      `safetensors: the header describes ${end} bytes of data, the file has ${dataBytes}` +
      (end > dataBytes ? " (truncated?)" : ""),
  );
  return { tensors, metadata, dataStart };
}

/**
 * The offset of a file's data, by its first eight bytes.
 * @throws WorldgradError if there are fewer, or if the file cannot have such a header
 */
export function safetensorsDataStart(bytes: Uint8Array, fileBytes: number): number {
  const given = Math.min(bytes.length, fileBytes);
  check(given >= 8, () => `safetensors: the file has ${given} bytes, its header length alone takes 8`);
  const beginning = new TextDecoder().decode(bytes.subarray(0, Math.min(given, 64)));
  // The length of a header never has eight printable bytes.
  const text = /^[\t\n\r -~]{8}/.test(beginning) ? `a text that begins with ${showValue(beginning)}` : undefined;
  const accident = accidentOf(beginning) ?? text;
  check(accident === undefined, () => `safetensors: the file is ${accident}; download the weights themselves`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(0, true) + view.getUint32(4, true) * 2 ** 32;
  check(
    length <= MAX_HEADER_BYTES,
    () => `safetensors: header of ${length} bytes, at most ${MAX_HEADER_BYTES} allowed`,
  );
  const available = fileBytes - 8;
  check(length <= available, () => `safetensors: header of ${length} bytes, but only ${available} follow (truncated?)`);
  return 8 + length;
}

/** A description of a file in place of a model's, by its beginning; no header's length and no JSON begins so. */
export function accidentOf(beginning: string): string | undefined {
  const start = beginning.trimStart().toLowerCase();
  if (start.startsWith("version") && (start.length < 9 || start.startsWith("version https://git-lfs"))) {
    return "a pointer of Git LFS (install git-lfs and run `git lfs pull`)";
  }
  return /^<(!doctyp|html|head|\?xml|!--)/.test(start) ? "a web page" : undefined;
}

/**
 * Reads all tensors. They are views into `bytes` where the alignment allows (files by the reference implementation and
 * by `writeSafetensors` are aligned), else copies: they must not be changed unless `bytes` may be.
 *
 * @throws WorldgradError naming what is wrong, for any bytes; unsupported dtypes by name
 */
export function readSafetensors(bytes: Uint8Array): Map<string, SafeTensor> {
  const { tensors, dataStart } = readSafetensorsHeader(bytes);
  return new Map(
    tensors.map((info) => [info.name, elementsOf(bytes.subarray(dataStart + info.begin, dataStart + info.end), info)]),
  );
}

/**
 * Writes a file: larger elements first, then by name (so every tensor is aligned, and the bytes depend on the content
 * only), header padded with spaces to 8 bytes. F16 and BF16 are rounded to nearest, ties to even, from f32; values
 * beyond the range of F16 become infinities, as in IEEE 754.
 *
 * @param metadata free text, by convention at least `{ format: "pt" }` for files that PyTorch programs will open
 * @throws WorldgradError if a shape does not fit its data, or an array's type its dtype
 */
export function writeSafetensors(
  tensors: Iterable<readonly [string, SafeTensorInput]>,
  metadata?: Readonly<Record<string, string>>,
): Uint8Array<ArrayBuffer> {
  const sorted = [...tensors].sort(
    ([a, left], [b, right]) => (BYTES[right.dtype] ?? 0) - (BYTES[left.dtype] ?? 0) || (a < b ? -1 : a > b ? 1 : 0),
  );
  const lines = metadata === undefined ? [] : [`"__metadata__":${JSON.stringify(metadata)}`];
  const chunks: Uint8Array[] = [];
  const seen = new Set<string>();
  let offset = 0;
  for (const [name, tensor] of sorted) {
    check(!seen.has(name), () => `writeSafetensors: two tensors are named '${name}'`);
    seen.add(name);
    check(
      name !== "__metadata__" && !/\p{Cs}/u.test(name),
      () => `writeSafetensors: '${name}' cannot be a tensor's name`,
    );
    const { dtype, shape } = tensor;
    check(Object.hasOwn(BYTES, dtype), () => `writeSafetensors: ${name}: dtype ${showValue(dtype)} is not supported`);
    const chunk = encodeElements(name, tensor);
    const expected = sizeInBytes(shape, dtype, name);
    check(
      expected === chunk.length,
      () =>
        `writeSafetensors: ${name}: shape [${shape.join(", ")}] does not fit ${chunk.length / BYTES[dtype]} elements`,
    );
    const info = { dtype, shape, data_offsets: [offset, offset + chunk.length] };
    lines.push(`${JSON.stringify(name)}:${JSON.stringify(info)}`);
    chunks.push(chunk);
    offset += chunk.length;
  }
  const json = new TextEncoder().encode(`{${lines.join(",")}}`);
  const headerBytes = Math.ceil(json.length / 8) * 8;
  check(headerBytes <= MAX_HEADER_BYTES, () => `writeSafetensors: the header would take ${headerBytes} bytes`);
  const file = new Uint8Array(8 + headerBytes + offset);
  new DataView(file.buffer).setUint32(0, headerBytes, true);
  file.fill(0x20, 8, 8 + headerBytes);
  file.set(json, 8);
  let at = 8 + headerBytes;
  for (const chunk of chunks) {
    file.set(chunk, at);
    at += chunk.length;
  }
  return file;
}

function parseHeader(bytes: Uint8Array): Record<string, unknown> {
  check(bytes[0] === 0x7b, () => "safetensors: the header does not begin with '{'; is this a safetensors file?");
  let quotes = 0;
  for (const byte of bytes) if (byte === 0x22) quotes++;
  check(
    quotes <= 2 * MAX_STRINGS,
    () => `safetensors: the header has some ${Math.floor(quotes / 2)} strings, at most ${MAX_STRINGS} are read`,
  );
  let text: string;
  let header: unknown;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    fail("safetensors: the header is not valid UTF-8");
  }
  try {
    header = JSON.parse(text);
  } catch {
    fail("safetensors: the header is not valid JSON");
  }
  checkStrictJson(text);
  return asObject(header, "the header");
}

/**
 * Refuses JSON that `JSON.parse` accepts and the format does not: a key twice in one object, numbers that are no plain
 * integers, any depth.
 */
function checkStrictJson(text: string): void {
  const objects: (Set<string> | undefined)[] = [];
  for (let i = 0; i < text.length; i++) {
    check(objects.length <= MAX_HEADER_DEPTH, () => `safetensors: the header is nested over ${MAX_HEADER_DEPTH} deep`);
    const c = text[i]!;
    if (c === "{") objects.push(new Set());
    else if (c === "[") objects.push(undefined);
    else if (c === "}" || c === "]") objects.pop();
    else if (c === '"') {
      const start = i;
      for (i++; text[i] !== '"'; i++) if (text[i] === "\\") i++;
      let after = i + 1;
      while (" \t\r\n".includes(text[after] ?? "x")) after++;
      if (text[after] !== ":") continue;
      const key = JSON.parse(text.slice(start, i + 1)) as string;
      const keys = objects.at(-1);
      check(keys === undefined || !keys.has(key), () => `safetensors: '${key}' stands twice in the header`);
      keys?.add(key);
    } else {
      const exponent = (c === "e" || c === "E") && /\d/.test(text[i - 1]!);
      check(
        c !== "." && c !== "-" && !exponent,
        () => `safetensors: a number in the header is no plain integer (at byte ${i})`,
      );
    }
  }
}

function readInfo(name: string, value: unknown): SafeTensorInfo {
  const { dtype, shape, data_offsets: offsets } = asObject(value, `'${name}'`);
  const known = typeof dtype === "string" && isDtype(dtype);
  check(
    known,
    () => `safetensors: '${name}': dtype ${showValue(dtype)} is not supported (${Object.keys(BYTES).join(", ")} are)`,
  );
  const integers = (list: unknown): list is number[] =>
    Array.isArray(list) && list.every((n) => Number.isSafeInteger(n));
  check(integers(shape), () => `safetensors: '${name}': shape is ${showValue(shape)}, expected a list of integers`);
  const pair = integers(offsets) && offsets.length === 2;
  check(pair, () => `safetensors: '${name}': data_offsets is ${showValue(offsets)}, expected two integers`);
  const [begin, end] = offsets as [number, number];
  const expected = sizeInBytes(shape, dtype, name);
  check(
    end - begin === expected,
    () =>
      `safetensors: '${name}': ${dtype} [${shape.join(", ")}] takes ${expected} bytes, ` +
      `data_offsets [${begin}, ${end}] give ${end - begin}`,
  );
  return { name, dtype, shape, begin, end };
}

function sizeInBytes(shape: readonly number[], dtype: SafeDtype, name: string): number {
  let size = BYTES[dtype];
  for (const n of shape) {
    check(Number.isSafeInteger(n) && n >= 0, () => `safetensors: '${name}': ${n} in its shape is no size`);
    size *= n;
    check(Number.isSafeInteger(size), () => `safetensors: '${name}': shape [${shape.join(", ")}] overflows`);
  }
  return size;
}

/** One tensor's bytes as a typed array: a view where it is aligned, else of a copy. */
export function elementsOf(bytes: Uint8Array, { dtype, shape }: Pick<SafeTensorInfo, "dtype" | "shape">): SafeTensor {
  checkLittleEndian();
  const elementBytes = BYTES[dtype];
  const { buffer, byteOffset } = bytes.byteOffset % elementBytes === 0 ? bytes : bytes.slice();
  const count = bytes.length / elementBytes;
  switch (dtype) {
    case "F32":
      return { dtype, shape, data: new Float32Array(buffer, byteOffset, count) };
    case "F64":
      return { dtype, shape, data: new Float64Array(buffer, byteOffset, count) };
    case "I32":
      return { dtype, shape, data: new Int32Array(buffer, byteOffset, count) };
    case "I64":
      return { dtype, shape, data: new BigInt64Array(buffer, byteOffset, count) };
    case "U8":
    case "BOOL":
      return { dtype, shape, data: bytes };
    case "F16":
      return { dtype, shape, data: fromFloat16Bits(new Uint16Array(buffer, byteOffset, count)) };
    case "BF16":
      return { dtype, shape, data: fromBfloat16Bits(new Uint16Array(buffer, byteOffset, count)) };
  }
}

function encodeElements(name: string, { dtype, data }: SafeTensorInput): Uint8Array {
  checkLittleEndian();
  const wrong = (): never => fail(`writeSafetensors: ${name}: ${data.constructor.name} cannot be written as ${dtype}`);
  const raw = (array: ArrayBufferView): Uint8Array => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  switch (dtype) {
    case "F32":
      if (data instanceof Float64Array) return raw(Float32Array.from(data));
      return data instanceof Float32Array ? raw(data) : wrong();
    case "F64":
      if (data instanceof Float32Array) return raw(Float64Array.from(data));
      return data instanceof Float64Array ? raw(data) : wrong();
    // Only from f32: an f64 would be rounded twice, on its way through f32.
    case "F16":
      return data instanceof Float32Array ? raw(float16Bits(data)) : wrong();
    case "BF16":
      return data instanceof Float32Array ? raw(bfloat16Bits(data)) : wrong();
    case "I32":
      return data instanceof Int32Array ? raw(data) : wrong();
    case "I64":
      return data instanceof BigInt64Array ? raw(data) : wrong();
    case "U8":
    case "BOOL":
      return data instanceof Uint8Array ? data : wrong();
  }
}

function isDtype(name: string): name is SafeDtype {
  return Object.hasOwn(BYTES, name);
}

function asObject(value: unknown, what: string): Record<string, unknown> {
  const fits = typeof value === "object" && value !== null && !Array.isArray(value);
  check(fits, () => `safetensors: ${what} is ${showValue(value)}, expected an object`);
  return value as Record<string, unknown>;
}

/** Checks that the host is little-endian, like the format and every JavaScript engine in use today. */
function checkLittleEndian(): void {
  check(
    new Uint8Array(Uint16Array.of(1).buffer)[0] === 1,
    () => "safetensors: this host is big-endian, which is not supported",
  );
}
