/** What a browser lacks, in sentences. */
import { expect, test } from "vitest";
import { missingFor, type Surroundings, threadsInWords } from "../../site/machine.ts";

const whole: Surroundings = { WebAssembly, Worker: Object, navigator: { hardwareConcurrency: 8 } };
const withGpu = (adapter: object | null): Surroundings => ({
  ...whole,
  navigator: { hardwareConcurrency: 8, gpu: { requestAdapter: () => Promise.resolve(adapter) } },
});

test("nothing is missing where there are workers and SIMD, or an adapter", async () => {
  expect(await missingFor("wasm", whole)).toBeNull();
  expect(await missingFor("webgpu", withGpu({}))).toBeNull();
});

test("each thing that is missing has its sentence", async () => {
  const noSimd = { ...whole, WebAssembly: { validate: () => false } };
  expect(await missingFor("wasm", { ...whole, Worker: undefined })).toContain("no workers");
  expect(await missingFor("wasm", { ...whole, WebAssembly: undefined })).toContain("no WebAssembly");
  expect(await missingFor("wasm", noSimd)).toContain("no SIMD");
  expect(await missingFor("webgpu", whole)).toContain("no WebGPU");
  expect(await missingFor("webgpu", withGpu(null))).toContain("no GPU for it");
});

test("threads are shared where the page is isolated", () => {
  expect(threadsInWords(2, { ...whole, crossOriginIsolated: true })).toBe("Each agent has 4 of 8 processors.");
  expect(threadsInWords(2, { ...whole, crossOriginIsolated: false })).toContain("one thread, because");
});
