/** `WORLDGRAD_DEBUG=1`: totals per kernel in order of time, small ones in one line, hit rates below; printed once. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { debugging, hitRate, KernelLog, kernelLog } from "../../engine/debug.ts";

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});
const printed = (): string[] => vi.mocked(console.error).mock.calls.map(([text]) => String(text));
const quiet = (): void => void vi.spyOn(console, "error").mockImplementation(() => undefined);

describe("a log of kernels", () => {
  test("is made only where it is asked for", () => {
    expect(debugging()).toBe(false);
    expect(kernelLog("title", () => [])).toBeUndefined();
    vi.stubEnv("WORLDGRAD_DEBUG", "1");
    expect(debugging()).toBe(true);
  });

  test("sums by kernel and prints once", () => {
    quiet();
    const log = new KernelLog("wasm", () => [hitRate("buffers", 3, 1)]);
    for (let i = 0; i < 4; i++) log.add("matmul", 250);
    log.add("softmax", 500);
    for (let i = 0; i < 3; i++) log.add(`small ${i}`, 0.5);
    log.print();
    log.print();
    expect(printed()).toHaveLength(1);
    const lines = printed()[0]!.split("\n");
    expect(lines[0]).toBe("wasm: 1501.5 ms in kernels");
    expect(lines.slice(2).map((line) => line.trim().split(/\s+/))).toEqual([
      ["1000.00", "66.6", "4", "250000.0", "matmul"],
      ["500.00", "33.3", "1", "500000.0", "softmax"],
      ["1.50", "0.1", "3", "500.0", "3", "others"],
      ["buffers:", "3", "of", "4", "found", "(75.0", "%)"],
    ]);
  });
});
