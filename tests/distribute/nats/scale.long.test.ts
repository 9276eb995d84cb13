/** What bench/scale.ts measures: a real server, processes that play, and the transfers of weights. */
import { expect, test } from "vitest";
import { measuredCase, resultOf } from "../../../bench/scale/cases.ts";
import { measureAll } from "../../../bench/scale/measure.ts";
import { COMMON } from "../../../bench/scale/settings.ts";
import type { StartOptions } from "../../../run/startOptions.ts";
import { presetFor } from "../../../run/presets.ts";
import { parseStart } from "../../../run/node/commandLine.ts";

test("one and two processes play for a learner, and the simulation begins from what they took", async () => {
  const preset = presetFor(parseStart(["--env", "terminal", "--quick"]) as StartOptions);
  const { groups, groupSize } = preset.rl;
  const said: string[] = [];
  const measured = await measureAll({
    workers: [1, 2],
    steps: 4,
    fill: 2,
    staleness: 1,
    wait: 0.05,
    sizes: [1e5, 1e7],
    preset,
    places: 4,
    say: (line) => said.push(line),
  });
  expect(measured.server).toMatch(/nats-server/);
  expect(measured.link.bytesPerSecond).toBeGreaterThan(1e5);
  expect(measured.settings.map(({ wait }) => wait)).toEqual([0, 0.05]);
  expect(said).toHaveLength(2 + 4);
  for (const setting of measured.settings) {
    expect(setting.runs.map(({ workers }) => workers)).toEqual([1, 2]);
    for (const run of setting.runs) {
      expect(run.steps).toHaveLength(4);
      expect(run.seconds.length).toBeGreaterThan(0);
      expect(run.episodes.length).toBeGreaterThanOrEqual(groups * groupSize);
      // An episode whose first action is cut off has no answer to wait for.
      expect(Math.max(...run.seconds)).toBeGreaterThanOrEqual(setting.wait);
      expect(run.learner).toBeGreaterThan(0);
      expect(run.learner).toBeLessThanOrEqual(1);
      // Episodes that end in the time that counts may have begun before it.
      expect(run.places).toBeGreaterThan(0);
      expect(run.places).toBeLessThan(1.5);
      expect(run.staleness).toBeLessThanOrEqual(1);
      expect(run.processors.workers).toBeGreaterThan(0);
      const tokens = run.steps.reduce((sum, [, own]) => sum + own, 0);
      expect(run.tokensPerSecond * run.secondsPerStep * 4).toBeCloseTo(tokens, 3);
    }
    const { points } = resultOf(measuredCase(measured, setting, COMMON.read({ steps: 8, staleness: 1 })), [1, 2]);
    for (const { result } of points) expect(result.tokensPerSecond).toBeGreaterThan(0);
  }
});
