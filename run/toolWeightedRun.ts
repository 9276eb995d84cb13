/** The RL phase of a run with weights by tool (`echo.tools`). */
import { toolsOfTokens, type ToolWeighting, type ToolWeights, weighByTool, worldLossByTool } from "../connect/index.ts";
import { worldsOf } from "../rl/objective/objective.ts";
import type { RlOptions } from "../rl/train/loop.ts";
import type { StepReport } from "../rl/train/report.ts";
import { visibleLine } from "./visible.ts";

/** The most names in a warning. */
const MOST = 12;

/** The steps of a loop in which ECHO weighs answers by tool, with the loss of each tool among their metrics. */
export async function* weighedByTool(
  run: RlOptions,
  weights: ToolWeights,
  loop: (run: RlOptions) => AsyncGenerator<StepReport>,
): AsyncGenerator<StepReport> {
  const weighting = { weights, template: run.template };
  const world = worldsOf(run.objective).map((one) => (one.name === "echo" ? weighByTool(one, weighting) : one));
  let isTold = false;
  for await (const report of loop({ ...run, objective: { ...run.objective, world } })) {
    const called = isTold ? [] : toolsIn(report, weighting);
    if (called.length > 0) {
      const unknown = uncalled(weights, called);
      if (unknown !== undefined) run.warn?.(`echo.tools: ${unknown} in step ${report.step + 1}`);
      isTold = true;
    }
    yield { ...report, metrics: { ...report.metrics, ...worldLossByTool(report, weighting) } };
  }
}

/** The tools that answered in a step, the one with most tokens first. */
function toolsIn({ rows }: StepReport, { template }: ToolWeighting): string[] {
  const trajectories = rows.map(({ trajectory }) => trajectory);
  const counts = new Map<string, number>();
  for (const tool of toolsOfTokens(trajectories, template).flat())
    if (tool !== undefined) counts.set(tool, (counts.get(tool) ?? 0) + 1);
  return [...counts].toSorted((a, b) => b[1] - a[1]).map(([name]) => name);
}

/** The names with a weight that are not among the tools that were called; undefined if all are. */
function uncalled(weights: ToolWeights, called: readonly string[]): string | undefined {
  const names = Object.keys(weights).filter((name) => name !== "*" && !called.includes(name));
  if (names.length === 0) return undefined;
  const shown = [...called.slice(0, MOST).map(visibleLine), ...(called.length > MOST ? ["…"] : [])];
  return `no action called ${names.map(visibleLine).join(" or ")}; called were ${shown.join(", ")}`;
}
