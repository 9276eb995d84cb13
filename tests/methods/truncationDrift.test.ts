/**
 * Whether policies learn to run out of tokens where turns cost: 40 steps of GRPO, REINFORCE++ and PPO in worlds in
 * which being cut short costs less than playing on, with the default of `truncatedReward` and with 0, the control
 * (Tencent-Hunyuan/UniRL#19, axon-rl/gem#38). Further seeds, and the table for docs/log.md, come in a thorough run.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import type { Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { type Fields, openEnv } from "../../environments/openenv/index.ts";
import { AdamW } from "../../nn/optimizer.ts";
import { initValueHead } from "../../nn/valueHead.ts";
import { isTruncated } from "../../rl/episode/stream.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { playScripted } from "../../data/demonstrations.ts";
import type { TruncatedReward } from "../../rl/tasks/truncated.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { trainSft } from "../../methods/sft.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { HARD_WORLDS } from "../support/hardWorlds.ts";
import { type OpenEnvServer, startOpenEnvServer, type World } from "../support/openEnvServer.ts";
import { wasm } from "../support/rlExecutors.ts";
import { reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { toyModel, toyTemplate } from "../support/rlToy.ts";
import { isThorough, some, tries } from "../support/tries.ts";

const STEPS = 40;
/** Actions of the warm start; the last is as long as actions may be. */
const ACTIONS = ["a", "b", "ab", "ba", "aaaaaaaa"];

interface Try {
  readonly method: string;
  readonly seed: number;
  readonly rule: TruncatedReward | undefined;
  readonly maxTurns?: number;
  readonly groups?: number;
  readonly groupSize?: number;
  readonly steps?: number;
}

/** The shares of episodes that ran out of tokens, in the first three steps and in the last three. */
async function drift(
  device: Device,
  env: EnvironmentSpec,
  { method, seed, rule, maxTurns = 3, groups = 4, groupSize = 8, steps: count = STEPS }: Try,
): Promise<readonly [first: number, last: number]> {
  const model = toyModel(device, seed, { layers: 1, initializerRange: 0.02, maxPositions: 96 });
  const rng = new Rng(seed);
  const draw = rng.split("actions");
  const shown = { ...env, expert: () => draw.choice(ACTIONS) };
  const demonstrations = [];
  for (let i = 0; i < 16; i++)
    demonstrations.push(await playScripted(shown, {}, i, toyTemplate, shown.expert, { maxTurns }));
  const optimizer = (): AdamW<typeof model.params> => new AdamW(model.params, { clipNorm: 1, weightDecay: 0 });
  const learner = { model, template: toyTemplate, rng };
  const warmUp = { ...learner, demonstrations, optimizer: optimizer(), lr: () => 0.01, batchSize: 8, steps: 30 };
  await reportsOf(trainSft(warmUp));
  const head = initValueHead(model.config, device);
  const { maxBatchTokens: _, ...options } = toyRlOptions(model, { env, rng, optimizer: optimizer(), lr: () => 0.005 });
  const objective = objectiveOf({ method });
  const steps = trainRl({
    ...options,
    ...(rule === undefined ? {} : { truncatedReward: rule }),
    objective,
    ...(objective.critic ? { heads: { value: { head, optimizer: new AdamW(head) } } } : {}),
    groups,
    groupSize,
    rollout: { maxActionTokens: 8, maxTurns },
    steps: count,
  });
  const share = (reports: readonly StepReport[]): number => {
    const episodes = reports.flatMap(({ rows }) => rows.map(({ trajectory }) => trajectory));
    return episodes.filter(isTruncated).length / episodes.length;
  };
  const reports = await reportsOf(steps);
  return [share(reports.slice(0, 3)), share(reports.slice(-3))];
}

const METHODS = ["grpo", "reinforce++", "ppo"] as const;

describe("where every turn costs", () => {
  let device: Device;
  beforeAll(async () => void (device = await wasm.open()));
  afterAll(() => device.dispose());

  it.each(METHODS)(
    "%s does not learn to run out of tokens; at a return of 0 it does",
    { timeout: 300_000 },
    async (method) => {
      for (let seed = 1; seed <= tries(4); seed++) {
        const [first, last] = await drift(device, HARD_WORLDS.costs, { method, seed, rule: undefined });
        const [from, to] = await drift(device, HARD_WORLDS.costs, { method, seed, rule: "zero" });
        if (isThorough) console.log(method, seed, "default", first, last, "zero", from, to);
        expect(last).toBeLessThan(0.2);
        expect(to).toBeGreaterThan(0.8);
      }
    },
  );
});

describe("where every turn costs, and all episodes of a step may be cut off", () => {
  let device: Device;
  beforeAll(async () => void (device = await wasm.open()));
  afterAll(() => device.dispose());

  it.each(
    some([
      ["rae", 2, 200],
      ["rae", 1, 300],
      ["rae", 8, 100],
      ["remax", 1, 150],
      ["vtrace", 1, 300],
      ["vtrace", 4, 150],
      ["ppo", 4, 300],
    ] as const),
  )(
    "%s, %i tasks once each, %i steps: it does not learn to run out of tokens",
    { timeout: 300_000 },
    async (...how) => {
      const [method, groups, steps] = how;
      for (const seed of [1, 2]) {
        const small = { method, seed, rule: undefined, groups, groupSize: 1, steps };
        const [first, last] = await drift(device, HARD_WORLDS.costs, small);
        if (isThorough) console.log(method, groups, seed, first, last);
        expect(last).toBeLessThan(0.2);
      }
    },
  );
});

/** OpenEnv's grid world, three by three: a step costs 0.1, the one that reaches the goal earns 1 (docs/agents.md). */
function gridWorld(): World {
  let [x, y] = [0, 0];
  const observation = (): object => ({ observation: { message: "abcdef"[x + y] }, reward: null, done: false });
  return {
    reset: () => (([x, y] = [0, 0]), { ...observation() }),
    step({ action }) {
      const [dx, dy] = { UP: [0, -1], DOWN: [0, 1], LEFT: [-1, 0], RIGHT: [1, 0] }[String(action)]!;
      [x, y] = [x + dx!, y + dy!].map((place) => Math.min(2, Math.max(0, place))) as [number, number];
      const isThere = x === 2 && y === 2;
      return { ...observation(), reward: isThere ? 1 : -0.1, done: isThere };
    },
    state: () => ({}),
  };
}

describe("on an OpenEnv server, in a grid world that costs 0.1 a step", () => {
  const MOVES = ["UP", "DOWN", "LEFT", "RIGHT"];
  let device: Device;
  let server: OpenEnvServer;
  let env: EnvironmentSpec;
  beforeAll(async () => {
    device = await wasm.open();
    server = await startOpenEnvServer({ world: gridWorld, maxSessions: 64 });
    const action = (text: string): Fields => ({ action: MOVES[(text.codePointAt(0) ?? 0) % 4] });
    env = { ...openEnv({ url: server.url, WebSocket, action, missingReward: 0 }), expert: () => "a" };
  });
  afterAll(async () => {
    await server.close();
    device.dispose();
  });

  it.each(some(METHODS))("%s does not learn to run out of tokens", { timeout: 300_000 }, async (method) => {
    const how = { method, seed: 1, maxTurns: 5 };
    const [first, last] = await drift(device, env, { ...how, rule: undefined });
    if (isThorough)
      console.log(method, "default", first, last, "zero", ...(await drift(device, env, { ...how, rule: "zero" })));
    expect(first).toBeGreaterThan(0);
    expect(last).toBeLessThan(0.2);
  });
});
