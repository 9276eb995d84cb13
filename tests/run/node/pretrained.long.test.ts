/** How much memory loading takes. */
import { spawnSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

// 96 MiB of weights in f32, stored in 16 bits, the largest tensor 32 MiB; a process of its own, which says its peak.
const script = fileURLToPath(new URL("loadMemory.ts", import.meta.url));
it("loading takes the weights and about one tensor", () => {
  const run = spawnSync(process.execPath, ["--import", "tsx", script], { encoding: "utf8" });
  expect(run.stderr.replace(/npm warn.*\n/g, "")).toBe("");
  type Sizes = Record<"weights" | "largest" | "peak" | "packed", number>;
  const { weights, largest, peak, packed } = JSON.parse(run.stdout) as Sizes;
  console.info(
    `loading ${weights} MiB, largest tensor ${largest} MiB: ${peak} MiB above an empty device, 16 bits ${packed}`,
  );
  // Two copies of the largest for what the collector has not taken yet.
  expect(peak).toBeLessThan(weights + 3 * largest + 16);
  expect(packed).toBeLessThan((weights + 3 * largest) / 2 + 16);
});
