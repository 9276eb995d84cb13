/**
 * The experiment of a page, from its address: the flags of `npm start`, without dashes, as in
 * `?seed=1&arms=grpo_token,grpo_token%2Becho[lambda=0.2]&set=rl.groups=4`. The same words make the same run in Node.
 */
import { type Arm, parseArms, presetOfArm } from "../job/arms.ts";
import { environmentSettings } from "../job/environments.ts";
import { nearest } from "../engine/options.ts";
import type { Preset } from "../job/preset.ts";
import { presetFor } from "../job/presets.ts";
import { type Said, START_FLAGS, type StartOptions, startOptions } from "../job/startOptions.ts";
import { UsageError } from "../job/usage.ts";

/** How many agents a page trains: one in a worker for each, side by side. */
export const AGENTS = 2;

export interface PageAgent {
  readonly arm: Arm;
  readonly preset: Preset;
}

export interface PageExperiment {
  readonly options: StartOptions;
  /** The settings of the warm start, which all agents share. */
  readonly warm: Preset;
  readonly agents: readonly PageAgent[];
}

/** Flags that are about files, threads and terminals, which a page does not have. */
const NOT_HERE: ReadonlySet<string> = new Set(["grpo-config", "name", "resume", "workers", "max-staleness"]);

/** Steps between two checkpoints: going back in time plays at most so many steps again. */
const CHECKPOINT_EVERY = 10;

/** @throws UsageError with one line that says what was expected and what came */
export function experimentOf(address: URLSearchParams): PageExperiment {
  const options = startOptions(saidIn(address));
  const { env = "home" } = options;
  const arms = options.arms ?? environmentSettings(env).arms;
  if (arms === undefined) throw new UsageError(`env: ${env} names no agents to compare; say which with arms=…`);
  const base: StartOptions = { ...options, env, arms: undefined };
  const chosen = parseArms(arms).slice(0, AGENTS);
  if (chosen.length < AGENTS) throw new UsageError(`arms: expected ${AGENTS} agents, got "${arms}"`);
  const inPage = (preset: Preset): Preset => ({ ...preset, checkpointEvery: CHECKPOINT_EVERY });
  return {
    options,
    warm: inPage(presetFor({ ...base, method: "grpo_token" })),
    agents: chosen.map((arm) => ({ arm, preset: inPage(presetOfArm(arm, base)) })),
  };
}

function saidIn(address: URLSearchParams): Said {
  const flags = Object.keys(START_FLAGS).filter((flag) => !NOT_HERE.has(flag));
  const said: Record<string, unknown> = {};
  for (const [name, value] of address) {
    if (!flags.includes(name)) {
      const near = nearest(name, flags);
      throw new UsageError(`unknown setting "${name}" in the address${near ? `; did you mean "${near}"?` : ""}`);
    }
    if (name === "set") said["set"] = [...((said["set"] as string[] | undefined) ?? []), value];
    else if (Object.hasOwn(said, name)) throw new UsageError(`${name} is there twice in the address`);
    else said[name] = START_FLAGS[name as keyof typeof START_FLAGS].type === "boolean" ? value !== "false" : value;
  }
  return said;
}
