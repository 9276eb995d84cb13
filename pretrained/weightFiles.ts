/**
 * Weights that are read from files tensor by tensor, so that no more than one of them is in the host's memory besides
 * what the device holds. The caller knows where the files are: its `ByteReader` reads their bytes.
 */
import { check, fail } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import {
  BYTES,
  elementsOf,
  readSafetensorsHeader,
  safetensorsDataStart,
  type SafeTensor,
  type SafeTensorInfo,
} from "../nn/safetensors.ts";

/** A file of which parts can be read. */
export interface ByteReader {
  /** In bytes. */
  readonly size: number;
  /** Fills `into` with the bytes from `begin` on, which lie within `size`. Rejects if they cannot be read. */
  read(begin: number, into: Uint8Array): Promise<void>;
}

/** Tensors by name that can be read one by one. */
export interface WeightSource {
  /** In the order in which they lie in their files. */
  readonly tensors: readonly SafeTensorInfo[];
  read(info: SafeTensorInfo): Promise<SafeTensor>;
  /** The elements as they lie in the file, little-endian. */
  readBytes(info: SafeTensorInfo): Promise<Uint8Array>;
}

/** 16-bit elements are widened in pieces of this many bytes. */
const PIECE = 2 ** 22;

/**
 * The tensors of a safetensors file. Its header is read and checked at once, against the length of the file.
 * @throws WorldgradError naming what is wrong, for whatever bytes
 */
export async function openSafetensors(file: ByteReader): Promise<WeightSource> {
  const bytesOf = async (begin: number, end: number): Promise<Uint8Array> => {
    const bytes = new Uint8Array(end - begin);
    await file.read(begin, bytes);
    return bytes;
  };
  const dataStart = safetensorsDataStart(await bytesOf(0, Math.min(64, file.size)), file.size);
  const { tensors } = readSafetensorsHeader(await bytesOf(0, dataStart), file.size);
  const read = async (info: SafeTensorInfo): Promise<SafeTensor> => {
    const { dtype, shape } = info;
    const [begin, end] = [dataStart + info.begin, dataStart + info.end];
    if (dtype !== "F16" && dtype !== "BF16") return elementsOf(await bytesOf(begin, end), info);
    const data = new Float32Array((end - begin) / BYTES[dtype]);
    for (let at = begin; at < end; at += PIECE) {
      const piece = elementsOf(await bytesOf(at, Math.min(end, at + PIECE)), info).data as Float32Array;
      data.set(piece, (at - begin) / BYTES[dtype]);
    }
    return { dtype, shape, data };
  };
  return { tensors, read, readBytes: ({ begin, end }) => bytesOf(dataStart + begin, dataStart + end) };
}

/**
 * A sharded checkpoint: `index` is the parsed `model.safetensors.index.json`, `open` opens one of the files that it
 * names (each once, in the order of their names).
 *
 * @throws WorldgradError if the index is malformed, names a file outside its folder, or disagrees with a file
 */
export async function openShards(index: unknown, open: (file: string) => Promise<ByteReader>): Promise<WeightSource> {
  const weightMap = asObject(asObject(index, "the index")["weight_map"], "weight_map of the index");
  const files = new Map<string, Set<string>>();
  for (const [name, file] of Object.entries(weightMap)) {
    check(
      typeof file === "string",
      () => `safetensors index: weight_map.${name} is ${showValue(file)}, expected a file name`,
    );
    const plain = file !== "" && file !== "." && file !== ".." && !/[/\\\0]/.test(file);
    check(plain, () => `safetensors index: '${file}' (for ${name}) is not a plain file name`);
    files.set(file, (files.get(file) ?? new Set()).add(name));
  }
  const owners = new Map<SafeTensorInfo, WeightSource>();
  for (const file of [...files.keys()].sort()) {
    const names = files.get(file)!;
    const source = await openSafetensors(await open(file));
    const present = new Set(source.tensors.map(({ name }) => name));
    for (const name of names) {
      check(present.has(name), () => `safetensors index: '${name}' should be in ${file}, but is not`);
    }
    const extra = [...present].find((name) => !names.has(name));
    check(
      extra === undefined,
      () => `safetensors index: ${file} holds '${extra}', which the index does not place there`,
    );
    for (const info of source.tensors) owners.set(info, source);
  }
  const ownerOf = (info: SafeTensorInfo): WeightSource =>
    owners.get(info) ?? fail(`safetensors index: '${info.name}' is none of its tensors`);
  return {
    tensors: [...owners.keys()],
    read: (info) => ownerOf(info).read(info),
    readBytes: (info) => ownerOf(info).readBytes(info),
  };
}

function asObject(value: unknown, what: string): Record<string, unknown> {
  const fits = typeof value === "object" && value !== null && !Array.isArray(value);
  check(fits, () => `safetensors: ${what} is ${showValue(value)}, expected an object`);
  return value as Record<string, unknown>;
}
