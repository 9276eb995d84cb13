/**
 * Everything with everything: environments, methods and their parts, rewards, data options, workers, adapters, warm
 * starts and self-play, each two of them. First what is refused: in one line that names both, before anything begins,
 * and by a rule of the list below, so that a new refusal fails here. Then runs in which each other pair occurs: the
 * main job on a tiny model, three steps from the warm start of the world, every number finite; and of every second run,
 * from the second step's checkpoint on it ends with the same numbers and the same weights.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { MemoryStore } from "../../run/memoryStore.ts";
import type { Preset } from "../../run/preset.ts";
import { Run } from "../../run/run.ts";
import type { Checkpoint } from "../../run/runStore.ts";
import { isBaseline } from "../../run/baselines.ts";
import { localWorkers } from "../../distribute/async/workers.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { FACTORS, nameOf, names, PLAIN, refusalOf, seen, settingsOf, verdictOf } from "../support/combinations.ts";
import { coveringRows, type Pair, pairsOf, type Row } from "../support/pairwise.ts";
import { QUIET } from "../support/tinyRun.ts";

/** What may be refused. */
const RULES: Readonly<Record<string, RegExp>> = {
  "a baseline is no RL": /which --method (sft|expert|random) is not$|of --method (sft|expert|random)(,|;)/,
  "a baseline takes no add-on": /^--method (sft|expert|random)\+\w+: .* is no RL and takes no add-ons/,
  "sft imitates all actions, and labels take some": /^--set sft\.labelled takes .* --method sft imitates them all/,
  "a critic and an advantage without": /^--method \w+ has a critic, which --advantage \S+ does not read/,
  "no reward and no world": /^--advantage none learns from no reward, and the method has no world model/,
  "rewards later and no world before": /^--set rl\.rewardFrom: .* the method has none: add \+echo/,
  "a loss without a ratio, and another policy":
    /^--(method|loss) \S+ and --(replay|max-staleness|set rl\.iterations|method webrl_full .*): reinforce has no ratio/,
  "two corrections": /the advantage "vtrace" and the correction \w+ both correct/,
  "a penalty in a reward that is not read": /^kl: the advantage "(gdpo|rft|none)" does not look at the return/,
  "answers as actions, and who reads actions": /trainObservations trains answers as if they were actions/,
  "predictions and a critic": /^--(method|advantage) \S+ and --predict: .* a critic's values know nothing of/,
  "predictions and a greedy rollout": /^--(method|advantage) \S+ and --predict: predictions have no greedy rollout/,
  "a reward of programs elsewhere": /^--reward (coderl|ppocoder|swerl|toolrl) is for the environments/,
  "a critic of outcomes where there are none": /outcome_critic is for the environments code, patch/,
  "two weightings of tokens":
    /one token weighting is possible, got outcome_critic and \w+|"outcome_critic" is there twice/,
  "a critic of outcomes and workers": /outcome_critic asks a model .*; leave --workers out/,
  "two models that are trained first": /(outcome_critic|coderl) and --reward (orm|prm): a run trains one such model/,
  "a model that judges and workers": /^--reward (orm|prm) asks a model on the learner's device; leave --workers out$/,
  "a judge that is the learner": /^--set reward\.judges: approval asks .* leave --workers out$/,
  "a bound on a sum that nobody takes": /^--(set|method \w+) .*reward\.cap.* bounds a sum/,
  "hindsight where nobody says what was achieved": /^--hindsight: \w+ does not say what was achieved/,
  "thoughts where nobody thinks": /^--set sft\.thoughts: \w+ has no thoughts/,
  "an option of another world": /^--set env: \w+: unknown option '(coordinates|negatives|subgoals)'/,
  "self-play elsewhere": /^--self-play makes tasks about programs, which --env code measures/,
  "self-play and other tasks": /^--self-play makes its own tasks and plays them once; leave --.* out$/,
  "self-play and other rewards": /^--self-play has rewards of its own; leave .* out/,
  "self-play and a greedy rollout": /^--self-play: the advantage remax plays each task once more/,
  "self-play and workers": /^--self-play proposes and solves in turn.* leave --workers out$/,
};
const rulesOf = (refusal: string): string[] => Object.keys(RULES).filter((name) => RULES[name]!.test(refusal));

/** Pairs of which each needs what the other cannot: a world, or a world model. */
const APART = [
  ...["method", "addOn", "reward", "sft", "negatives", "selfPlay"].map((other) => `coordinates ${other}`),
  ...["advantage", "masks", "reward", "sft", "negatives"].map((other) => `method ${other}`),
  ...["reward", "sft", "negatives"].map((other) => `addOn ${other}`),
  ...["sft", "negatives", "selfPlay"].map((other) => `reward ${other}`),
  ...["negatives", "selfPlay"].map((other) => `sft ${other}`),
  "negatives selfPlay",
  ...["addOn", "coordinates", "method", "reward"].map((other) => `${other} hindsight`),
  ...["negatives", "selfPlay", "sft"].map((other) => `hindsight ${other}`),
  ...["addOn", "method", "negatives", "reward", "selfPlay", "sft"].map((other) => `subgoals ${other}`),
];

const unexpected: string[] = [];
const accepts = (row: Row): boolean => {
  const refusal = refusalOf(row);
  if (refusal !== undefined && rulesOf(refusal).length !== 1) unexpected.push(`${nameOf(row)}: ${refusal}`);
  return refusal === undefined;
};
const witness = (pair: Pair): Row | undefined => {
  const verdict = verdictOf(pair);
  return "row" in verdict ? verdict.row : undefined;
};
const rows = coveringRows(FACTORS, { witness, accepts, seen, rng: new Rng(0) });

const STEPS = 3;

/** The settings of a row, as small as they can be. */
function presetOf(row: Row): Preset {
  const preset = settingsOf(row);
  const { maxTurns, maxActionTokens } = preset.rollout;
  return {
    ...preset,
    tokenizer: { vocabSize: 280, corpusEpisodes: 10 },
    model: { ...preset.model, hiddenSize: 16, layers: 1, heads: 2, intermediateSize: 16 },
    sft: { ...preset.sft, demonstrations: 24, steps: 40, batchSize: 8, checkpointEvery: 40, warmup: 2, lr: 3e-2 },
    rl: { ...preset.rl, steps: STEPS, groups: 3, groupSize: 2 },
    rollout: {
      ...preset.rollout,
      maxTurns: Math.min(2, maxTurns),
      maxActionTokens: Math.min(12, maxActionTokens),
      maxObservationTokens: 24,
    },
    evaluation: { every: STEPS, episodes: 2, finalEpisodes: 2 },
    checkpointEvery: 1,
  };
}

describe("each two values of flags", () => {
  it("that are refused are so in one line that names both, by a rule", () => {
    const used = new Set<string>();
    const apart = new Set<string>();
    for (const pair of pairsOf(FACTORS)) {
      const verdict = verdictOf(pair);
      if ("apart" in verdict) apart.add(verdict.apart);
      if (!("refusal" in verdict)) continue;
      const { refusal, of } = verdict;
      const own = rulesOf(refusal);
      expect(own, `${nameOf(of)}: ${refusal}`).toHaveLength(1);
      used.add(own[0]!);
      expect(refusal).not.toContain("\n");
      expect(names(refusal, pair.a, pair.x) && names(refusal, pair.b, pair.y), `${nameOf(of)}: ${refusal}`).toBe(true);
    }
    expect([...used].toSorted()).toEqual(Object.keys(RULES).toSorted());
    expect([...apart].toSorted()).toEqual(APART.toSorted());
    expect(unexpected).toEqual([]);
  });
});

let device: Device;
beforeAll(async () => void (device = await makeDevice("wasm")));
afterAll(() => device.dispose());

const warmStarts = new Map<string, Promise<Checkpoint>>();

/** The warm start of a row: the same for all that begin with one world, with or without thoughts and labels. */
function warmStart({ env, sft }: Row): Promise<Checkpoint> {
  const made = async (): Promise<Checkpoint> => {
    const preset = presetOf({ ...PLAIN, env: env!, sft: sft! });
    const store = new MemoryStore(`the warm start of ${env!}`, { preset });
    const run = new Run(store, preset, device, QUIET, new AbortController().signal);
    await run.warmUp(false);
    run.dispose();
    return store.loadLatestCheckpoint()!;
  };
  const known = warmStarts.get(`${env!} ${sft!}`) ?? made();
  warmStarts.set(`${env!} ${sft!}`, known);
  return known;
}

const TIMES = /^(step_time|tokens_per_second|async\/\w+_idle)$/;
const untimed = (records: readonly object[]): unknown[] =>
  records.map((record) => Object.fromEntries(Object.entries(record).filter(([name]) => !TIMES.test(name))));
const weightsOf = ({ files }: Checkpoint): Record<string, string> =>
  Object.fromEntries(
    Object.entries(files)
      .filter(([name]) => name !== "state.json")
      .map(([name, bytes]) => [name, Buffer.from(bytes).toString("base64")]),
  );

async function play(store: MemoryStore, preset: Preset): Promise<[unknown[], Record<string, string>]> {
  const run = new Run(store, preset, device, QUIET, new AbortController().signal, {
    playAhead: { startWorkers: localWorkers, train: trainRlAsync },
  });
  try {
    expect(await run.run(true)).not.toBeNull();
  } finally {
    run.dispose();
  }
  return [untimed(store.metrics), weightsOf(store.loadLatestCheckpoint()!)];
}

describe("a run", () => {
  let trained = 0;
  it.each(rows.map((row, n) => [nameOf(row), row, n] as const))("%s", async (_, row, n) => {
    const preset = presetOf(row);
    const store = new MemoryStore("a run", { preset }, () => true);
    const { step, files } = await warmStart(row);
    store.saveCheckpoint(step, files);
    const [metrics, weights] = await play(store, preset);
    const steps = store.metrics.filter(({ phase }) => phase === "rl");
    expect(steps).toHaveLength(preset.rl.method === "random" ? 0 : STEPS);
    for (const { phase: _phase, ...numbers } of steps)
      for (const [name, value] of Object.entries(numbers)) expect(value, name).toSatisfy(Number.isFinite);
    if (steps.some((line) => Number(line["grad_norm"] ?? 0) > 0) || isBaseline(preset.rl.method)) trained++;
    // Who plays ahead plays other episodes, with other policies, when the run goes on; random play has no steps.
    if (preset.async?.maxStaleness || steps.length === 0 || n % 2 === 1) return;
    store.rewindTo(store.checkpointAt(step + STEPS - 1));
    expect(store.listCheckpoints().at(-1)).toBe(step + STEPS - 1);
    const again = await play(store, preset);
    expect(again[0]).toEqual(metrics);
    expect(again[1]).toEqual(weights);
  });

  // Six episodes of a model this small are often worth the same; then there is nothing to learn from them.
  it("most of them have something to learn from", () => expect(trained / rows.length).toBeGreaterThan(0.5));
});
