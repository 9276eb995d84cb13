/** Weights read from files piece by piece, whole and in shards with an index. */
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  readSafetensors,
  readSafetensorsHeader,
  type SafeTensorInput,
  writeSafetensors,
} from "../../nn/safetensors.ts";
import { type ByteReader, openSafetensors, openShards } from "../../pretrained/weightFiles.ts";

const MODELS = ["llama_tiny", "qwen2_tiny", "qwen3_tiny", "gpt2_tiny"];
const fixture = (path: string): Uint8Array =>
  new Uint8Array(readFileSync(new URL(`../fixtures/models/${path}`, import.meta.url)));
const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** A file in memory, and how much was asked of it at once. */
function readerOf(bytes: Uint8Array): ByteReader & { most: number } {
  return {
    size: bytes.length,
    most: 0,
    read(begin, into) {
      if (begin + into.length > bytes.length) throw new Error(`read up to ${begin + into.length} of ${bytes.length}`);
      into.set(bytes.subarray(begin, begin + into.length));
      this.most = Math.max(this.most, into.length);
      return Promise.resolve();
    },
  };
}

test("a text that came instead of weights is shown", async () => {
  const opening = openSafetensors(readerOf(new TextEncoder().encode("Entry not found\n")));
  await expect(opening).rejects.toThrow(
    String.raw`safetensors: the file is a text that begins with "Entry not found\n"; download the weights themselves`,
  );
});

describe("sharded files", () => {
  const w: [string, SafeTensorInput] = ["w", { dtype: "F32", shape: [1], data: Float32Array.of(1) }];
  const b: [string, SafeTensorInput] = ["b", { dtype: "I32", shape: [1], data: Int32Array.of(2) }];
  const c: [string, SafeTensorInput] = ["c", { dtype: "U8", shape: [1], data: Uint8Array.of(3) }];
  const shards = new Map([
    ["model-1.safetensors", writeSafetensors([w, c])],
    ["model-2.safetensors", writeSafetensors([b])],
  ]);
  const load = (file: string): Promise<Uint8Array> => Promise.resolve(shards.get(file)!);
  const weightMap = { b: "model-2.safetensors", w: "model-1.safetensors", c: "model-1.safetensors" };

  test("reads each file once and gathers all tensors", async () => {
    const loaded: string[] = [];
    const source = await openShards({ metadata: { total_size: 9 }, weight_map: weightMap }, async (file) => {
      loaded.push(file);
      return readerOf(await load(file));
    });
    expect(loaded).toEqual(["model-1.safetensors", "model-2.safetensors"]);
    const values: [string, number][] = [];
    for (const info of source.tensors) values.push([info.name, Number((await source.read(info)).data[0])]);
    expect(Object.fromEntries(values)).toEqual({ b: 2, c: 3, w: 1 });
  });

  test("a file read piece by piece has the bits of the file read at once", async () => {
    for (const name of MODELS) {
      const original = readSafetensors(fixture(`${name}/model.safetensors`));
      for (const dtype of ["F32", "BF16", "F16"] as const) {
        const bytes = writeSafetensors([...original].map(([key, x]) => [key, { ...x, dtype } as SafeTensorInput]));
        const expected = readSafetensors(bytes);
        const source = await openSafetensors(readerOf(bytes));
        expect(source.tensors.length).toBe(expected.size);
        for (const info of source.tensors) {
          const [read, known] = [await source.read(info), expected.get(info.name)!];
          expect({ ...read, data: null }).toEqual({ ...known, data: null });
          expect(read.data.constructor).toBe(known.data.constructor);
          expect(Buffer.compare(bytesOf(read.data), bytesOf(known.data))).toBe(0);
        }
      }
    }
  });

  test("16-bit tensors are widened in pieces; what is no file is refused as in memory", async () => {
    const data = Float32Array.from({ length: 5_000_001 }, (_, i) => (i % 251) - 125);
    const reader = readerOf(writeSafetensors([["x", { dtype: "BF16", shape: [data.length], data }]]));
    const source = await openSafetensors(reader);
    const read = await source.read(source.tensors[0]!);
    expect((read.data as Float32Array).every((x, i) => x === data[i])).toBe(true);
    expect(reader.most).toBeLessThanOrEqual(2 ** 22);
    const bytes = fixture("llama_tiny/model.safetensors");
    for (const length of [0, 3, 8, 100, bytes.length - 1]) {
      const cut = bytes.slice(0, length);
      let message = "no error";
      try {
        readSafetensorsHeader(cut);
      } catch (error) {
        message = (error as Error).message;
      }
      await expect(openSafetensors(readerOf(cut))).rejects.toThrow(message);
    }
  });

  test.each([
    ["no object", null, "the index is null, expected an object"],
    ["no map", { metadata: {} }, "weight_map of the index is missing"],
    ["a file name that is none", { weight_map: { w: 3 } }, "weight_map.w is 3"],
    [
      "a file elsewhere",
      { weight_map: { w: "../secret.safetensors" } },
      "'../secret.safetensors' (for w) is not a plain",
    ],
    ["a folder", { weight_map: { w: ".." } }, "is not a plain file name"],
    [
      "a tensor missing",
      { weight_map: { ...weightMap, x: "model-2.safetensors" } },
      "'x' should be in model-2.safetensors",
    ],
    ["a tensor unlisted", { weight_map: { w: "model-1.safetensors" } }, "model-1.safetensors holds 'c'"],
  ])("refuses %s", async (_, index, message) => {
    await expect(openShards(index, async (file) => readerOf(await load(file)))).rejects.toThrow(message);
  });
});
