/**
 * Episodes that are not learnt from by reinforcement: an expert's demonstrations, and evaluations with their successes
 * by family and the world-model loss.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import type { EnvironmentOptions, EnvironmentSpec, StepResult } from "../../rl/environment.ts";
import { turnCount } from "../../rl/episode/stream.ts";
import { evaluate, type Evaluation, worldModelLoss, worldModelLosses } from "../../rl/evaluate.ts";
import { rowOf } from "../../rl/objective/columns.ts";
import { demonstrate } from "../../data/demonstrations.ts";
import { defineGame, option } from "../../environments/index.ts";
import { trainRl } from "../../rl/train/loop.ts";
import { toyRlOptions } from "../support/rlRuns.ts";
import { score } from "../../rl/train/score.ts";
import { reference } from "../support/rlExecutors.ts";
import { endingModel, letters, toySpec, toyTemplate, toyTokenizer } from "../support/rlToy.ts";

describe("demonstrations and evaluation", () => {
  let device: Device;
  beforeAll(async () => {
    device = await reference.open();
  });
  afterAll(() => device.dispose());

  it("an expert's episode has the columns of a rollout", async () => {
    const t = await demonstrate(toySpec(letters(2)), {}, 4, toyTemplate);
    expect(t).toMatchObject({
      reward: 2,
      stopReason: "completed",
      masked: false,
      group: 4,
      seed: 4,
      stepRewards: [1, 1],
    });
    expect(toyTokenizer.decode(t.stream.ids.filter((_, k) => t.stream.roles[k] === "action"))).toBe("aaaa");
    expect(turnCount(t)).toBe(2);
    await expect(demonstrate(toySpec(letters(9)), {}, 4, toyTemplate, { maxTurns: 3 })).rejects.toThrow(
      "the expert of toy did not finish seed 4 within 3 turns",
    );
  });

  it("the world-model losses of many episodes end between two micro-batches when they are aborted", async () => {
    const model = endingModel(device);
    const spec = toySpec(letters(2));
    const episodes = await Promise.all([1, 2, 3].map((seed) => demonstrate(spec, {}, seed, toyTemplate)));
    const stop = new AbortController();
    const options = { signal: stop.signal, maxTokens: 1 };
    expect(await worldModelLosses(model, toyTemplate, episodes, options)).toHaveLength(3);
    // It comes as Ctrl-C does: while the first of three is computed, in a turn of the event loop.
    setImmediate(() => setImmediate(() => stop.abort(new Error("interrupted"))));
    await expect(worldModelLosses(model, toyTemplate, episodes, options)).rejects.toThrow("interrupted");
  });

  it("refuses what it does not know, in one line, before anything is played", async () => {
    const env = toySpec(letters(2));
    const player = { model: endingModel(device), template: toyTemplate, rng: new Rng(1) };
    const right = { ...player, env, envOptions: {}, rollout: {}, seeds: [1] };
    const wrong = (part: object): Promise<Evaluation> => evaluate({ ...right, ...part });
    await expect(wrong({ groups: 4 })).rejects.toThrow(/^evaluate: .*groups/);
    const list = "evaluate: seeds must be a list of integers ≥ 0, one for each episode, got ";
    await expect(wrong({ seeds: 100 })).rejects.toThrow(`${list}100`);
    await expect(wrong({ seeds: [] })).rejects.toThrow(list);
    await expect(wrong({ model: undefined })).rejects.toThrow("evaluate: model must be a model { config, params }");
    await expect(wrong({ env: env.make({}) })).rejects.toThrow("evaluate: env must be the environment's spec");
    await expect(wrong({ rng: 1 })).rejects.toThrow("evaluate: rng must be a stream of random numbers");
  });

  it("takes options that a world of one's own declares, by their types", async () => {
    const world = defineGame({
      name: "letters",
      description: "as many letters as it says",
      families: [{ name: "one", level: 1, description: "one" }],
      options: { size: option.number(3, "how many") },
      makeTask: (_rng, _family, { size }) => ({ text: "a".repeat(size) }),
      start: () => 0,
      play: () => ({ observation: "b", ending: { kind: "over", score: 0 } }),
      random: () => "a",
      expert: ({ options: { size } }) => "a".repeat(size),
    });
    // None of these is a cast: `size` is known, and has to be a number.
    const played = { env: world, envOptions: { size: 5 }, rollout: { maxActionTokens: 40 }, rng: new Rng(1) };
    const { trajectories } = await evaluate({
      model: endingModel(device),
      template: toyTemplate,
      ...played,
      seeds: [1],
    });
    expect(trajectories[0]!.task).toBe("aaaaa");
    expect((await demonstrate(world, { size: 2 }, 0, toyTemplate)).task).toBe("aa");
    const training = trainRl({ ...toyRlOptions(endingModel(device)), env: world, envOptions: { size: 4 }, steps: 1 });
    for await (const { rows } of training) expect(rows[0]!.trajectory.task).toBe("aaaa");
    type Taken = Parameters<typeof evaluate<EnvironmentOptions & { readonly size?: number }>>[0]["envOptions"];
    const isTaken: { readonly size: string } extends Taken ? true : false = false;
    expect(isTaken).toBe(false);
  });

  it("counts successes and families; the world-model loss is −lp per observation token", async () => {
    const model = endingModel(device);
    const act = letters(1);
    const spec = toySpec((action, turn) => {
      const result = act(action, turn) as StepResult;
      return { ...result, info: { ...result.info, family: action.length % 2 === 0 ? "even" : "odd" } };
    });
    const result = await evaluate({
      model,
      template: toyTemplate,
      env: spec,
      envOptions: {},
      rollout: { maxActionTokens: 20 },
      seeds: [1, 2, 3, 4, 5, 6],
      rng: new Rng(1),
    });
    expect(result.episodes).toBe(6);
    expect(result.successes).toBe(result.trajectories.filter((t) => t.info["success"] === true).length);
    expect(Object.values(result.families).reduce((n, f) => n + f.episodes, 0)).toBe(6);

    const observed = result.trajectories.filter((t) => t.stream.roles.includes("observation"));
    const { logProbs } = await score(
      model,
      observed.map((t) => rowOf(t)),
      { padId: 0, scored: (row, t) => row.trajectory.stream.roles[t] === "observation" },
    );
    const values = logProbs.flatMap((row) => [...row].filter((lp) => !Number.isNaN(lp)));
    const mean = values.reduce((a, b) => a - b, 0) / values.length;
    expect(await worldModelLoss(model, toyTemplate, result.trajectories)).toBeCloseTo(mean, 12);
  });

  it("an evaluation counts an episode whose first action was cut off in its task's family", async () => {
    const model = endingModel(device);
    const seeds = Array.from({ length: 12 }, (_, seed) => seed);
    const familiesOf = async (spec: EnvironmentSpec): Promise<[string, number][]> => {
      const options = { maxActionTokens: 1, maxTurns: 1 };
      const { trajectories, families } = await evaluate({
        model,
        template: toyTemplate,
        env: spec,
        envOptions: {},
        rollout: options,
        seeds,
        rng: new Rng(1),
      });
      const silent = trajectories.filter((t) => t.stepRewards.length === 0).length;
      expect([silent > 0, silent < 12]).toEqual([true, true]);
      // Of the family "unknown" only those are counted that said something.
      return Object.entries(families).map(([name, { episodes }]) => [
        name,
        name === "unknown" ? episodes - silent : episodes,
      ]);
    };
    const act = letters(1);
    const told = (info: StepResult["info"]): EnvironmentSpec =>
      toySpec((action, turn) => ({ ...(act(action, turn) as StepResult), info }));
    const known = told({ family: "odd" });
    const withInfo: EnvironmentSpec = {
      ...known,
      make: () => Object.assign(known.make(), { info: { family: "odd" } }),
    };
    expect(await familiesOf(withInfo)).toEqual([["odd", 12]]);
    expect(await familiesOf(told({}))).toEqual([["all", 12]]); // no families at all
    // Only with its answers: nobody can say which family the others are of.
    expect(Object.fromEntries(await familiesOf(known))).toEqual({ odd: expect.any(Number), unknown: 0 });
  });
});
