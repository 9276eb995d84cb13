/** `WORLDGRAD_DEBUG=1` on WebGPU: times by `timestamp-query` where the adapter has it, and what the caches did. */
import { afterEach, expect, test, vi } from "vitest";
import { createWebgpuBackend } from "../../engine/backends/webgpu.ts";
import { fill } from "../../kernels/wgsl/index.ts";
import { gpuOptions } from "../support/gpu.ts";

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

test("reports kernels and caches when it is disposed of, and computes the same", async () => {
  vi.stubEnv("WORLDGRAD_DEBUG", "1");
  const log = vi.spyOn(console, "error").mockImplementation(() => undefined);
  const backend = await createWebgpuBackend(gpuOptions);
  const buffer = backend.alloc(256);
  for (let i = 0; i < 3; i++) backend.run(fill({ count: 64, bits: i }, backend.profile), [buffer], () => "fill");
  expect(new Uint32Array(await backend.read(buffer, 256))[63]).toBe(2);
  await backend.synchronize();
  await new Promise((resolve) => setTimeout(resolve, 50)); // times come back by themselves
  backend.dispose();
  const report = String(log.mock.calls[0]![0]);
  expect(report).toContain("3 dispatches in 1 command buffers");
  expect(report).toContain("pipelines: 2 of 3 found (66.7 %)");
  expect(report).toContain("bind groups: 2 of 3 found (66.7 %)");
  expect(report).toMatch(/ 3 +[\d.]+ {2}fill by 4|no times: the adapter has no timestamp-query/);
});
