/** safetensors: round trips, the golden files byte by byte, and hostile bytes. */
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { WorldgradError } from "../../engine/errors.ts";
import { fromBfloat16Bits, fromFloat16Bits } from "../../nn/half.ts";
import {
  readSafetensors,
  safetensorsDataStart,
  readSafetensorsHeader,
  type SafeTensorInput,
  writeSafetensors,
} from "../../nn/safetensors.ts";

const MODELS = ["llama_tiny", "qwen2_tiny", "qwen3_tiny", "gpt2_tiny"];
const fixture = (path: string): Uint8Array =>
  new Uint8Array(readFileSync(new URL(`../fixtures/models/${path}`, import.meta.url)));

/** A file with the given header text and as many data bytes. */
function fileOf(header: string, dataBytes = 0): Uint8Array {
  const json = new TextEncoder().encode(header);
  const file = new Uint8Array(8 + json.length + dataBytes);
  new DataView(file.buffer).setUint32(0, json.length, true);
  file.set(json, 8);
  return file;
}

/** Equal to the bit, NaN payloads and zeros' signs included. */
function bitsOf(array: ArrayBufferView): number[] {
  return [...new Uint8Array(array.buffer, array.byteOffset, array.byteLength)];
}

const shapes = fc.array(fc.nat(4), { maxLength: 3 });
const tensors: fc.Arbitrary<SafeTensorInput> = shapes.chain((shape): fc.Arbitrary<SafeTensorInput> => {
  const length = shape.reduce((a, b) => a * b, 1);
  const sized = { minLength: length, maxLength: length };
  const f32 = fc.float32Array(sized);
  return fc.oneof(
    f32.map((data) => ({ dtype: "F32" as const, shape, data })),
    fc.float64Array(sized).map((data) => ({ dtype: "F64" as const, shape, data })),
    fc.int32Array(sized).map((data) => ({ dtype: "I32" as const, shape, data })),
    fc.bigInt64Array(sized).map((data) => ({ dtype: "I64" as const, shape, data })),
    fc.uint8Array(sized).map((data) => ({ dtype: "U8" as const, shape, data })),
    fc.uint8Array({ ...sized, max: 1 }).map((data) => ({ dtype: "BOOL" as const, shape, data })),
    fc.uint16Array(sized).map((bits) => ({ dtype: "F16" as const, shape, data: fromFloat16Bits(bits) })),
    fc.uint16Array(sized).map((bits) => ({ dtype: "BF16" as const, shape, data: fromBfloat16Bits(bits) })),
  );
});
const names = fc
  .oneof(fc.string({ unit: "binary" }), fc.constantFrom("__proto__", "constructor", "0", "weight", 'a"b\\c'))
  .filter((name) => name !== "__metadata__");
const files = fc.uniqueArray(fc.tuple(names, tensors), { selector: ([name]) => name, maxLength: 5 });
const metadata = fc.option(fc.dictionary(fc.string({ unit: "binary" }), fc.string({ unit: "binary" })), {
  nil: undefined,
});

describe("round trip", () => {
  test("every dtype, any shape, any name: the same bits, whatever the alignment of the file in memory", () => {
    fc.assert(
      fc.property(files, metadata, fc.nat(8), (entries, meta, shift) => {
        const written = writeSafetensors(entries, meta);
        const memory = new Uint8Array(written.length + shift);
        memory.set(written, shift);
        const file = memory.subarray(shift);
        const read = readSafetensors(file);
        expect(read.size).toBe(entries.length);
        for (const [name, tensor] of entries) {
          const back = read.get(name)!;
          expect([back.dtype, back.shape]).toEqual([tensor.dtype, tensor.shape]);
          expect(back.data.constructor).toBe(tensor.data.constructor);
          expect(bitsOf(back.data)).toEqual(bitsOf(tensor.data));
        }
        expect(new Map(readSafetensorsHeader(file).metadata)).toEqual(new Map(Object.entries(meta ?? {})));
        // The bytes depend on the content, not on the order in which it came.
        expect(writeSafetensors(entries.toReversed(), meta)).toEqual(written);
      }),
      { numRuns: 200 },
    );
  });

  test("views where aligned: no copy", () => {
    const file = writeSafetensors([["w", { dtype: "F32", shape: [2], data: Float32Array.of(1, 2) }]]);
    const { data } = readSafetensors(file).get("w")!;
    expect(data.buffer).toBe(file.buffer);
    const shifted = new Uint8Array(file.length + 1);
    shifted.set(file, 1);
    expect(readSafetensors(shifted.subarray(1)).get("w")!.data).toEqual(data);
  });

  test("F32 from f64 is rounded, F64 from f32 is exact", () => {
    const file = writeSafetensors([
      ["a", { dtype: "F32", shape: [1], data: Float64Array.of(0.1) }],
      ["b", { dtype: "F64", shape: [1], data: Float32Array.of(0.1) }],
    ]);
    expect([...readSafetensors(file).values()].map(({ data }) => data[0])).toEqual([
      Math.fround(0.1),
      Math.fround(0.1),
    ]);
  });

  test("scalars, empty tensors and the empty file", () => {
    const file = writeSafetensors([
      ["scalar", { dtype: "I32", shape: [], data: Int32Array.of(7) }],
      ["empty", { dtype: "F32", shape: [3, 0], data: new Float32Array() }],
    ]);
    expect([...readSafetensors(file).get("scalar")!.data]).toEqual([7]);
    expect(readSafetensors(file).get("empty")!.shape).toEqual([3, 0]);
    expect(readSafetensors(writeSafetensors([])).size).toBe(0);
  });

  test("what cannot be written is named", () => {
    const data = Float32Array.of(1, 2);
    const write = (name: string, tensor: object): unknown => writeSafetensors([[name, tensor as SafeTensorInput]]);
    expect(() => write("w", { dtype: "F32", shape: [3], data })).toThrow("w: shape [3] does not fit 2 elements");
    expect(() => write("w", { dtype: "F32", shape: [-2, -1], data })).toThrow("'w': -2 in its shape is no size");
    expect(() => write("w", { dtype: "I32", shape: [2], data })).toThrow("w: Float32Array cannot be written as I32");
    expect(() => write("w", { dtype: "BF16", shape: [2], data: Float64Array.from(data) })).toThrow(
      "Float64Array cannot",
    );
    expect(() => write("w", { dtype: "F8_E4M3", shape: [2], data })).toThrow('w: dtype "F8_E4M3" is not supported');
    expect(() => write("__metadata__", { dtype: "F32", shape: [2], data })).toThrow("cannot be a tensor's name");
    expect(() => write("\ud800", { dtype: "F32", shape: [2], data })).toThrow("cannot be a tensor's name");
    const twice: [string, SafeTensorInput] = ["w", { dtype: "F32", shape: [2], data }];
    expect(() => writeSafetensors([twice, twice])).toThrow("two tensors are named 'w'");
  });
});

describe("golden files", () => {
  test.each(MODELS.flatMap((name) => [`${name}/model.safetensors`, `${name}/grads.safetensors`]))(
    "%s: read, written again: the same bytes",
    (path) => {
      const file = fixture(path);
      const { metadata: meta } = readSafetensorsHeader(file);
      const read = readSafetensors(file);
      expect(read.size).toBeGreaterThan(20);
      const dtype = path.endsWith("grads.safetensors") ? "F64" : "F32";
      for (const tensor of read.values()) {
        expect(tensor.dtype).toBe(dtype);
        expect(tensor.data.every((value) => Number.isFinite(value))).toBe(true);
      }
      const written = writeSafetensors(read, meta.size === 0 ? undefined : Object.fromEntries(meta));
      // (`toEqual` looks at each of 100,000 bytes by itself, for a second.)
      expect(Buffer.compare(written, file)).toBe(0);
    },
  );

  test("the gradients' norm is the one that PyTorch gave", () => {
    for (const name of MODELS) {
      const { grad_norm: expected } = JSON.parse(new TextDecoder().decode(fixture(`${name}/fixture.json`))) as {
        grad_norm: number;
      };
      let squares = 0;
      for (const { data } of readSafetensors(fixture(`${name}/grads.safetensors`)).values()) {
        for (const value of data) squares += Number(value) ** 2;
      }
      expect(Math.abs(Math.sqrt(squares) / expected - 1)).toBeLessThan(1e-12);
    }
  });
});

describe("hostile bytes", () => {
  test("what came instead of weights is named", () => {
    const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    for (const [text, what] of [
      [pointer, "the file is a pointer of Git LFS"],
      ["<!DOCTYPE html><html><body>Not found</body></html>", "the file is a web page"],
      ["\n<html lang=en>", "the file is a web page"],
      ["<?xml version='1.0'?><Error/>", "the file is a web page"],
      ["Entry not found", 'the file is a text that begins with "Entry no'],
      ['{"error":"Invalid credentials"}\n', String.raw`the file is a text that begins with "{\"error\"`],
    ] as const) {
      const bytes = new TextEncoder().encode(text);
      expect(() => readSafetensors(bytes)).toThrow(what);
      // As a file is opened: by its first eight bytes.
      expect(() => safetensorsDataStart(bytes.subarray(0, 8), bytes.length)).toThrow(what);
    }
  });

  test("a header of millions of names is refused before it is read", () => {
    const keys = Array.from({ length: 1_000_001 }, (_, i) => `"${i}":""`).join();
    const before = process.cpuUsage(); // four million took 21 s
    expect(() => readSafetensors(fileOf(`{"__metadata__":{${keys}}}`))).toThrow(
      "the header has some 2000003 strings, at most 1000000 are read",
    );
    expect(process.cpuUsage(before).user / 1e6, "seconds").toBeLessThan(2);
  });

  const entry = (text: string): string => `{"w":${text}}`;
  const byte = `{"dtype":"U8","shape":[1],"data_offsets":[0,1]}`;
  const cases: [string, Uint8Array, string][] = [
    ["too short for a length", Uint8Array.of(1, 2, 3), "the file has 3 bytes, its header length alone takes 8"],
    [
      "a header longer than allowed",
      Uint8Array.of(0, 0, 0, 0, 1, 0, 0, 0),
      "header of 4294967296 bytes, at most 100000000",
    ],
    ["the largest length there is", new Uint8Array(8).fill(255), "at most 100000000 allowed"],
    [
      "a header longer than the file",
      Uint8Array.of(9, 0, 0, 0, 0, 0, 0, 0, 0x7b),
      "header of 9 bytes, but only 1 follow",
    ],
    ["no header", new Uint8Array(8), "does not begin with '{'"],
    ["another kind of file", fileOf("PK archive"), "does not begin with '{'"],
    ["a byte order mark", fileOf("\ufeff{}"), "does not begin with '{'"],
    ["not UTF-8", Uint8Array.of(4, 0, 0, 0, 0, 0, 0, 0, 0x7b, 0xff, 0x22, 0x7d), "not valid UTF-8"],
    ["not JSON", fileOf("{'w':1}"), "not valid JSON"],
    ["bytes after the JSON", fileOf("{}\0"), "not valid JSON"],
    ["a tensor that is no object", fileOf(entry("[]")), "'w' is [], expected an object"],
    ["no dtype", fileOf(entry(`{"shape":[],"data_offsets":[0,4]}`), 4), "'w': dtype missing is not supported"],
    ["a foreign dtype", fileOf(entry(`{"dtype":"F4","shape":[],"data_offsets":[0,4]}`), 4), `'w': dtype "F4" is not`],
    [
      "a dtype of Object",
      fileOf(entry(`{"dtype":"toString","shape":[],"data_offsets":[0,4]}`), 4),
      `"toString" is not`,
    ],
    ["no shape", fileOf(entry(`{"dtype":"F32","data_offsets":[0,4]}`), 4), "'w': shape is missing"],
    ["a negative size", fileOf(entry(`{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}`), 4), "no plain integer"],
    ["a fraction", fileOf(entry(`{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}`), 4), "no plain integer"],
    ["an exponent", fileOf(entry(`{"dtype":"F32","shape":[1e0],"data_offsets":[0,4]}`), 4), "no plain integer"],
    ["a size in quotes", fileOf(entry(`{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}`), 4), `shape is ["1"]`],
    [
      "sizes that overflow",
      fileOf(entry(`{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}`), 4),
      "overflows",
    ],
    [
      "a shape that does not fit",
      fileOf(entry(`{"dtype":"F32","shape":[2],"data_offsets":[0,4]}`), 4),
      "takes 8 bytes",
    ],
    ["offsets backwards", fileOf(entry(`{"dtype":"F32","shape":[1],"data_offsets":[4,0]}`), 4), "give -4"],
    ["one offset", fileOf(entry(`{"dtype":"F32","shape":[1],"data_offsets":[4]}`), 4), "data_offsets is [4]"],
    ["a hole at the start", fileOf(entry(`{"dtype":"F32","shape":[1],"data_offsets":[4,8]}`), 8), "'w' leaves a hole"],
    [
      "a hole between",
      fileOf(
        `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`,
        3,
      ),
      "'b' leaves a hole: begins at 2, expected 1",
    ],
    [
      "an overlap",
      fileOf(
        `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`,
        3,
      ),
      "'b' overlaps another: begins at 1, expected 2",
    ],
    [
      "data cut off",
      fileOf(entry(`{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`), 3),
      "4 bytes of data, the file has 3",
    ],
    [
      "data left over",
      fileOf(entry(`{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`), 5),
      "4 bytes of data, the file has 5",
    ],
    ["metadata that is no text", fileOf(`{"__metadata__":{"step":3}}`), "__metadata__.step is 3, expected a string"],
    ["metadata that is no object", fileOf(`{"__metadata__":null}`), "__metadata__ is null"],
    ["a tensor twice", fileOf(`{"a":${byte},"\\u0061":${byte}}`, 1), "'a' stands twice in the header"],
    [
      "a field twice",
      fileOf(entry(`{"dtype":"U8","dtype":"I32","shape":[],"data_offsets":[0,4]}`), 4),
      "'dtype' stands twice",
    ],
    [
      "deep nesting",
      fileOf(`{"w":${"[".repeat(100_000)}${"]".repeat(100_000)}}`),
      "the header is nested over 128 deep",
    ],
  ];

  test.each(cases)("%s", (_, file, message) => {
    expect(() => readSafetensors(file)).toThrow(message);
    expect(() => readSafetensors(file)).toThrow(WorldgradError);
  });

  test("harmless oddities are read: white space, unknown fields, quoted braces and colons", () => {
    const tensor = `{"dtype" :"U8" , "shape":[ 1 ],"data_offsets":[0,1],"note":"e-1.5 {"}`;
    const header = `{"a\\":{" : ${tensor}, "__metadata__":{"k":"-1.5e3"} }  `;
    const read = readSafetensors(fileOf(header, 1));
    expect([...read.keys()]).toEqual(['a":{']);
  });

  const attempt = (file: Uint8Array): void => {
    try {
      readSafetensors(file);
    } catch (error) {
      // A RangeError of a typed array, say, would be a bug of ours.
      if (!(error instanceof WorldgradError)) throw error;
      expect(error.message).toMatch(/^safetensors: /);
    }
  };

  test("arbitrary bytes, with and without a plausible length", () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 100 }), attempt));
    const plausible = fc.tuple(fc.json(), fc.nat(16)).map(([json, data]) => fileOf(json, data));
    fc.assert(fc.property(plausible, attempt), { numRuns: 300 });
  });

  test("a valid file with a flipped byte: read or refused, never anything else", () => {
    const corrupted = files.chain((entries) => {
      const file = writeSafetensors(entries, { format: "pt" });
      return fc.tuple(fc.nat(file.length - 1), fc.integer({ min: 1, max: 255 })).map(([at, flip]) => {
        const copy = file.slice();
        copy[at] = copy[at]! ^ flip;
        return copy;
      });
    });
    fc.assert(fc.property(corrupted, attempt), { numRuns: 500 });
  });

  test("a valid file cut anywhere, or with bytes added, is refused", () => {
    const file = writeSafetensors([
      ["w", { dtype: "F32", shape: [2, 3], data: new Float32Array(6) }],
      ["b", { dtype: "BF16", shape: [3], data: new Float32Array(3) }],
    ]);
    for (let length = 0; length < file.length; length++) {
      expect(() => readSafetensors(file.subarray(0, length))).toThrow(WorldgradError);
    }
    const longer = new Uint8Array(file.length + 1);
    longer.set(file);
    expect(() => readSafetensors(longer)).toThrow("the file has 31");
  });
});
