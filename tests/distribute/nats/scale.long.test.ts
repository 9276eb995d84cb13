/** What bench/scale.ts measures: a real server, and processes that play. */
import { expect, test } from "vitest";
import { measureAll } from "../../../bench/scale.ts";
import type { StartOptions } from "../../../run/startOptions.ts";
import { presetFor } from "../../../run/presets.ts";
import { parseStart } from "../../../run/node/commandLine.ts";

test("one and two processes play for a learner, and the table has what they took", async () => {
  const preset = presetFor(parseStart(["--env", "terminal", "--quick"]) as StartOptions);
  const how = { workers: [1, 2], waits: [0, 0.05], steps: 4, fill: 2, staleness: 1, places: 4, preset };
  const lines: string[] = [];
  await measureAll(how, (line) => lines.push(line));
  const rows = lines.slice(2).map((line) =>
    line
      .split("|")
      .map((cell) => cell.trim())
      .slice(1, -1),
  );
  expect(rows.map(([answers, processes]) => [answers, processes])).toEqual([
    ["in 0 s", "1"],
    ["in 0 s", "2"],
    ["in 0.05 s", "1"],
    ["in 0.05 s", "2"],
  ]);
  for (const [, , tokens, busy, staleness, learner] of rows) {
    expect(Number(tokens)).toBeGreaterThan(0);
    expect(parseFloat(busy!)).toBeGreaterThan(0);
    expect(parseFloat(busy!)).toBeLessThanOrEqual(100);
    expect(Number(staleness)).toBeLessThanOrEqual(1);
    expect(Number(learner)).toBeGreaterThan(0);
  }
});
