/** The folder for a machine with a GPU and the tables of what was measured there. */
import { describe, expect, test } from "vitest";
import { packageFolders } from "../../bench/gpu/pack.ts";
import { gpuTables, testSummary } from "../../bench/gpu/tables.ts";
import type { ResultLine } from "../../bench/results.ts";

describe("the packages of the folder for a GPU machine", () => {
  // Folders that exist, as what is not installed is left out.
  const lock = {
    "node_modules/vitest": { dependencies: { vite: "^8.0.0" }, optionalDependencies: { "no-such-package": "1" } },
    "node_modules/vite": { dependencies: { esbuild: "*", vitest: "*" } },
    "node_modules/esbuild": { optionalDependencies: { "@esbuild/of-another-system": "1" } },
    "node_modules/@esbuild/of-another-system": {},
    "node_modules/prettier": {},
  };
  test("are those named and what they need, each once, also in a circle, and nothing else", () => {
    expect(packageFolders(lock, ["vitest"])).toEqual([
      "node_modules/vitest",
      "node_modules/vite",
      "node_modules/esbuild",
    ]);
  });
  test("a package's own copy comes before the one beside it", () => {
    const nested = {
      "node_modules/playwright-core": { dependencies: { ws: "1" } },
      "node_modules/playwright-core/node_modules/ws": {},
      "node_modules/ws": {},
    };
    expect(packageFolders(nested, ["playwright-core"])).not.toContain("node_modules/ws");
  });
});

describe("the tables of a GPU", () => {
  const line = (name: string, contender: string, median: number | undefined, reason?: string): ResultLine =>
    ({
      case: name,
      flops: 2e9,
      bytes: 0,
      result: {
        contender,
        description: contender,
        ...(median === undefined ? {} : { ms: { median, min: median, max: median } }),
        ...(reason === undefined ? {} : { reason }),
      },
    }) as ResultLine;

  test("have contenders side by side, the newest line of each, and the reason of one without a time", () => {
    const text = gpuTables([
      line("matmul/NN:1x1x1", "worldgrad-webgpu", 9),
      line("matmul/NN:1x1x1", "worldgrad-webgpu", 2),
      line("matmul/NN:1x1x1", "torch-cuda", undefined, "no torch"),
    ]);
    expect(text).toContain("| `matmul/NN:1x1x1` | 2.00 (1.00e+3 GFLOP/s) | no torch |");
  });

  test("have schedules in rows and shapes in columns; what was not measured is empty", () => {
    const text = gpuTables([
      line("ladder/matmulTiled/NN:1x1x1", "worldgrad-webgpu", 2),
      line("ladder/matmulTiled/NN:2x2x2", "worldgrad-webgpu", 1),
      line("ladder/matmulNaive/NN:1x1x1", "worldgrad-webgpu", 4),
    ]);
    expect(text).toContain("| `matmulTiled` | 1000 | 2000 |");
    expect(text).toContain("| `matmulNaive` | 500 |  |");
  });
});

test("a run of tests that was stopped is summed up as far as it came", () => {
  const output =
    " ✓ |unit| a.test.ts > one 1ms\n × |unit| a.test.ts > two 3ms\n   → expected 1 to be 2\n ✓ |unit| b 1ms\n";
  expect(testSummary(output)).toBe(
    "Tests of WGSL: 2 passed, 1 failed.\n\n- × |unit| a.test.ts > two 3ms → expected 1 to be 2",
  );
  expect(testSummary("")).toContain("0 passed, 0 failed");
});
