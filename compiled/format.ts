/**
 * The file of a compiled model: the length of a header, a checksum of all behind it, the header in JSON, padding, then
 * the programs, the kernels' modules and the data, one behind the other.
 */
import type { TypedArray } from "../engine/backends/backend.ts";
import { check, WorldgradError } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import type { Plan } from "../nn/decodingPlan.ts";

/**
 * A call of a program: the number of a kernel, then its arguments; or `DATA`, an address and the number of what is
 * written there; or `INPUT`, an address and the number of an input.
 */
export type Call = readonly number[];
export const DATA = -1;
export const INPUT = -2;

/**
 * The arrays of a plan that are filled anew in each step, in the order in which `INPUT` counts them: the token, its
 * row, position and slots, then those of a draw.
 */
export function inputsOf({ passes, last, scale, keys, counters }: Plan): readonly TypedArray[] {
  const { ids, places } = passes[0]!;
  return [ids, places.rows, places.positions, places.slots, last, scale, keys, ...counters];
}

/** The programs: what is done once, what reads a token, and what reads one and draws the next. */
export const PROGRAMS = ["once", "read", "draw"] as const;
export type Programs = Readonly<Record<(typeof PROGRAMS)[number], readonly Call[]>>;

/** A model as a program of kernels. */
export interface Compiled {
  /** The model's sizes that its user needs. */
  readonly sizes: Sizes;
  readonly programs: Programs;
  readonly kernels: readonly Uint8Array[];
  readonly data: readonly Uint8Array[];
}

export interface Sizes {
  /** The bytes of memory. */
  readonly memory: number;
  /** The address of what is drawn: an id, its log-probability, its plain one, each f32. */
  readonly drawn: number;
  /** The most tokens of a text. */
  readonly maxTokens: number;
  readonly vocabSize: number;
  /** Heads of keys and values. */
  readonly kvHeads: number;
}
const SIZES = ["memory", "drawn", "maxTokens", "vocabSize", "kvHeads"] as const;

const FORMAT = "worldgrad compiled model 1";
/** What the header of every version begins with. */
const BEGIN = '{"format":"worldgrad compiled model ';
/** Longer than a header is: some lengths of kernels and data. */
const MOST_OF_A_HEADER = 1_000_000;

interface Header {
  readonly format: string;
  readonly sizes: Sizes;
  /** The number of numbers of each. */
  readonly programs: readonly number[];
  /** The number of bytes of each. */
  readonly kernels: readonly number[];
  readonly data: readonly number[];
}

/** Where the header begins. */
const HEADER = 8;
const startOf = (headerLength: number): number => Math.ceil((HEADER + headerLength) / 8) * 8;

/** Another number, almost surely, if a byte was lost or changed on the way. */
export const checksum = (bytes: Uint8Array): number =>
  bytes.reduce((sum, byte) => (Math.imul(sum, 31) + byte) >>> 0, 0);

/** Numbers as they are, also those that JSON does not know. */
const flat = (calls: readonly Call[]): Float64Array =>
  Float64Array.from(calls.flatMap((call) => [call.length, ...call]));

/** The bytes of a file. */
export function toFile({ sizes, programs, kernels, data }: Compiled): Uint8Array<ArrayBuffer> {
  const numbers = PROGRAMS.map((name) => flat(programs[name]));
  const lengths = (parts: readonly Uint8Array[]): number[] => parts.map(({ length }) => length);
  const header: Header = {
    format: FORMAT,
    sizes,
    programs: numbers.map(({ length }) => length),
    kernels: lengths(kernels),
    data: lengths(data),
  };
  const text = new TextEncoder().encode(JSON.stringify(header));
  const start = startOf(text.length);
  const parts = [...numbers.map(({ buffer }) => new Uint8Array(buffer)), ...kernels, ...data];
  const file = new Uint8Array(parts.reduce((sum, { length }) => sum + length, start));
  file.set(text, HEADER);
  let at = start;
  for (const part of parts) {
    file.set(part, at);
    at += part.length;
  }
  const view = new DataView(file.buffer);
  view.setUint32(0, text.length, true);
  view.setUint32(4, checksum(file.subarray(HEADER)), true);
  return file;
}

/** @throws if this is no such file, one of another version, not the whole of one, or damaged */
export function fromFile(given: Uint8Array): Compiled {
  const isBytes: boolean = given instanceof Uint8Array;
  check(isBytes, () => `openCompiled: expected the bytes of a compiled model, a Uint8Array, got ${showValue(given)}`);
  // Not as Node's Buffer, whose `slice` is no copy.
  const file = new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
  const header = headerOf(file);
  let at = header.start;
  const take = (bytes: number): Uint8Array => {
    const whole = at + bytes <= file.length;
    check(
      whole,
      () => `openCompiled: the file is cut off: it has ${file.length} bytes, at least ${at + bytes} belong to it`,
    );
    at += bytes;
    return file.subarray(at - bytes, at);
  };
  const calls = (length: number): Call[] => {
    const numbers = new Float64Array(take(8 * length).slice().buffer);
    const found: number[][] = [];
    for (let i = 0; i < length; i += numbers[i]! + 1) found.push([...numbers.subarray(i + 1, i + 1 + numbers[i]!)]);
    return found;
  };
  const [once, read, draw] = header.programs.map(calls) as [Call[], Call[], Call[]];
  const [kernels, data] = [header.kernels.map(take), header.data.map(take)];
  check(at === file.length, () => `openCompiled: ${file.length - at} bytes stand behind the model's ${at}`);
  const sum = new DataView(file.buffer, file.byteOffset).getUint32(4, true);
  check(sum === checksum(file.subarray(HEADER)), () => "openCompiled: the file is damaged: its checksum is another");
  return { sizes: header.sizes, programs: { once, read, draw }, kernels, data };
}

const isCounts = (list: unknown): boolean =>
  Array.isArray(list) && list.every((count) => Number.isSafeInteger(count) && count >= 0);

function headerOf(file: Uint8Array): Header & { readonly start: number } {
  const length = file.length < HEADER ? Infinity : new DataView(file.buffer, file.byteOffset).getUint32(0, true);
  const text = new TextDecoder().decode(file.subarray(HEADER, Math.min(HEADER + length, MOST_OF_A_HEADER)));
  const begin = JSON.stringify(new TextDecoder("latin1").decode(file.subarray(0, 16)));
  const none = (): string =>
    `openCompiled: this is no compiled model (compileModel makes one); it begins with ${begin}`;
  check(text.startsWith(BEGIN), none);
  check(HEADER + length <= file.length, () => `openCompiled: the file is cut off: it has ${file.length} bytes`);
  let header: Partial<Header>;
  try {
    header = JSON.parse(text) as Partial<Header>;
  } catch (error) {
    throw new WorldgradError(none(), { cause: error });
  }
  const { format, sizes, programs, kernels, data } = header;
  check(
    format === FORMAT,
    () => `openCompiled: the file is a ${String(format)}, this version reads a ${FORMAT}; compile the model anew`,
  );
  const lists: readonly unknown[] = [SIZES.map((name) => sizes?.[name]), programs, kernels, data];
  check(lists.every(isCounts) && programs!.length === PROGRAMS.length, none);
  return { ...(header as Header), start: startOf(length) };
}
