/** A report that is saved in the middle of a run says where the agents are, not where they will be. */
import { expect, test } from "vitest";
import type { MetricsRecord } from "../../run/records.ts";
import { experimentOf } from "../../site/experiment.ts";
import { type LoggedAgent, renderReport } from "../../site/saveReport.ts";
import { withHashes } from "../../run/page/assets.ts";

const experiment = experimentOf(new URLSearchParams("quick=true&seed=3&steps=40&set=rl.groups%3D2"));
const warmSteps = experiment.warm.sft.steps;
const { groups, groupSize } = experiment.warm.rl;

const knownAfter = (step: number, p: number): LoggedAgent["knowledge"][number] => ({
  step,
  facts: [{ kind: "where files are", known: "a.txt", right: "b", says: "a.txt is in b", p }],
});

/** What an agent tells that has gone back to, or come to, this step. */
function logAt(step: number, success: number): LoggedAgent {
  const evaluated = { episodes: 10, world_loss: 1, "world_loss/random": 1, "world_loss/on_policy": 1 };
  const played: MetricsRecord[] = Array.from({ length: step }, (_, i) => ({
    step: warmSteps + i,
    phase: "rl",
    success: i === step - 1 ? 1 : 0,
  }));
  return {
    step,
    metrics: [
      { step: warmSteps, phase: "eval", success: 0, "num_turns/mean": 2, ...evaluated },
      ...played,
      { step: warmSteps + step, phase: "eval", success, "num_turns/mean": 2, ...evaluated },
    ],
    transcripts: [],
    knowledge: [knownAfter(0, 0.1), knownAfter(step, success)],
  };
}

test("its steps, episodes and success are those of the saved state", () => {
  const assets = withHashes({ script: "", style: "" });
  const same = renderReport(experiment, [logAt(7, 0.5), logAt(7, 0.5)], assets);
  expect(same).toContain(`<dd>${warmSteps} of the warm start + 7 of 40</dd>`);
  expect(same).toContain(`${7 * groups * groupSize} episodes took plain to 50.0 %`);
  // The last tenth of seven steps is one, not four.
  expect(same).toContain("<td>100 %</td>");
  const apart = renderReport(experiment, [logAt(7, 0.5), logAt(6, 0.2)], assets);
  expect(apart).toContain(`<dd>${warmSteps} of the warm start + 7 of 40 or 6 of 40</dd>`);
  const whole = renderReport(experiment, [logAt(40, 0.5), logAt(40, 0.5)], assets);
  expect(whole).toContain(`<dd>${warmSteps} of the warm start + 40</dd>`);
});

test("what the agents know is on its map, if their world has facts", () => {
  const assets = withHashes({ script: "", style: "" });
  const shares = (html: string): number[] =>
    [...html.matchAll(/"says":"a.txt is in b","p":([\d.]+)/g)].map(([, p]) => +p!);
  const logs = [logAt(7, 0.5), logAt(6, 0.2)];
  const html = renderReport(experiment, logs, assets);
  expect(html).toContain("What each agent knows of its world");
  expect(shares(html)).toEqual([0.1, 0.5, 0.2]);
  const without = renderReport(
    experiment,
    logs.map((log) => ({ ...log, knowledge: [] })),
    assets,
  );
  expect(without).not.toContain("What each agent knows");
});
