/**
 * `--set PART.OPTION=VALUE`: every number and switch of a method and of its data that has no flag of its own. The tables below say what
 * there is; a name or a value that is not in them is one line with the nearest that is. Ranges are checked where the options are used.
 */
import { nearest } from "../../engine/options.ts";
import { ECHO_NORMALIZATIONS } from "../../rl/methods/world/echo.ts";
import { FOCUS_SIGNALS } from "../../rl/methods/tokenWeights.ts";
import { KL_ALIASES, KL_ESTIMATORS } from "../../rl/methods/losses/kl.ts";
import { UsageError } from "../flags.ts";
import { parsePlan, type Plan, showPlan } from "./schedules.ts";

/** What may stand behind the equals sign: a number, a number or a schedule, yes or no, two bounds or none, or one of some words. */
type Kind = "number" | "schedule" | "switch" | "bounds" | readonly string[];

/** Parts whose options are the environment's own: it says what there is (environments.ts), and here they stay text. */
const TASK_PARTS: Readonly<Record<string, string>> = {
  env: "any option of the environment, in training and evaluation: env.levels=1-2, env.families=read+count, env.size=2",
  train: "the same, in training alone",
  demo: "the same, in the demonstrations of the warm start alone",
};
type Options = Readonly<Record<string, Kind>>;

const CLIP: Options = { epsilon: "number", epsilonHigh: "number" };
const PPO: Options = { ...CLIP, dualClip: "number", delta: "number" };
const STD: Options = { ddof: "number", eps: "number" };
const GAE: Options = { gamma: "number", alpha: "number", level: ["token", "step"], whiten: "switch" };
const STEPS: Options = { gamma: "number", std: "switch", eps: "number" };

/** Options of the parts of a method, under the names of `--list`. */
export const METHOD_OPTIONS: Readonly<Record<string, Options>> = {
  // policy losses
  ppo: PPO,
  dual_clip: PPO,
  sapo: { temperaturePositive: "number", temperatureNegative: "number" },
  cispo: { cap: ["offset", "absolute"], ...CLIP },
  dro: { beta: "number" },
  dppo_tv: CLIP,
  dppo_kl: CLIP,
  prime_rl: { threshold: "number", klTau: "number", symmetric: "switch" },
  m2po: { threshold: "number" },
  kl_cov: { ratio: "number", coefficient: "number" },
  clip_cov: { ratio: "number", low: "number", high: "number", ...CLIP, seed: "number" },
  gspo: CLIP,
  gmpo: CLIP,
  vespo: { kPos: "number", lambdaPos: "number", kNeg: "number", lambdaNeg: "number", detached: "switch" },
  // advantages
  grpo: { ...STD, scale: ["group", "batch"], singleton: ["zero", "raw"] },
  pass_at_k: { ...STD, std: "switch" },
  gdpo: { ...STD, batch: ["rollout", "token"] },
  rae: { decay: "number" },
  rft: { perTask: "number" },
  "reinforce++": { gamma: "number" },
  gae: { ...GAE, lambda: "number", lambdaValue: "number" },
  vapo: GAE,
  bi_level_gae: { gammaTurn: "number", gamma: "number", lambda: "number", whiten: "switch" },
  vtrace: { gamma: "number", lambda: "number", rhoBar: "number", cBar: "number" },
  gigpo: { omega: "number", ...STEPS, stats: ["rollout", "row"] },
  milestone: { lambda: "number", ...STEPS },
  // world models and token weightings
  echo: { lambda: "schedule", normalization: ECHO_NORMALIZATIONS },
  paw: {
    alpha: "number",
    rho: "number",
    selection: ["entropy", "random", "all"],
    entropy: ["full", "sampled"],
    loss: ["clipped", "cross-entropy"],
    weight: ["adaptive", "constant"],
    rewardMax: "number",
    clamp: "bounds",
    coefficient: "number",
    seed: "number",
  },
  actfocus: { alpha: "number", beta: "number", signal: FOCUS_SIGNALS },
  top_entropy: { share: "number" },
};

/** Options around the method: of the loss, of the loop, and of the data. */
export const OTHER_OPTIONS: Readonly<Record<string, Options>> = {
  kl: {
    beta: "number",
    estimator: [...KL_ESTIMATORS, ...Object.keys(KL_ALIASES)],
    in: ["loss", "reward"],
    importance: "switch",
    target: "number",
    horizon: "number",
  },
  entropy: { target: "number", coefficient: "number", delta: "number", min: "number", max: "number" },
  rolloutFilter: { strategy: ["top_p", "top_k", "min_p"], value: "number", mode: ["linear", "softmax"] },
  critic: { coefficient: "number", clip: "number", trunk: "switch" },
  correction: {
    level: ["token", "sequence"],
    mode: ["truncate", "mask", "none"],
    max: "number",
    min: "number",
    normalize: "switch",
    offPolicyMask: "number",
  },
  rejection: {
    level: ["token", "sum", "mean", "max"],
    estimator: ["k1", "k2", "k3"],
    max: "number",
    min: "number",
  },
  tokenizer: { vocabSize: "number", corpusEpisodes: "number", novices: "switch" },
  sft: {
    loss: ["sft", "dft"],
    demonstrations: "number",
    noviceShare: "number",
    imitateNovices: "switch",
    thoughts: "switch",
    observationWeight: "number",
    steps: "number",
    batchSize: "number",
    lr: "number",
    warmup: "number",
  },
  rl: {
    entropy: "number",
    imitation: "number",
    maskTruncated: "switch",
    dropConstantGroups: "switch",
    rewardFrom: "number",
    expertsOnly: "switch",
    iterations: "number",
    gradEvery: "number",
    groups: "number",
    groupSize: "number",
    lr: "number",
    warmup: "number",
    clipNorm: "number",
    weightDecay: "number",
  },
  rollout: {
    temperature: "schedule",
    topK: "number",
    topP: "number",
    minP: "number",
    maxTurns: "number",
    maxActionTokens: "number",
    maxObservationTokens: "number",
  },
  reward: { format: "number", tools: "number", overlong: "number", repetition: "number", cap: "number" },
  curriculum: {
    by: ["family", "level"],
    floor: "number",
    memory: "number",
    prior: "number",
    share: "number",
    capacity: "number",
    solvedAt: "number",
    tasks: "number",
  },
  dynamicSampling: { maxRefills: "number" },
  replay: {
    perStep: "number",
    capacity: "number",
    order: ["fifo", "priority"],
    maxStaleness: "number",
    maxUses: "number",
  },
  predictions: { perStep: "number", size: "number", threshold: "number" },
  guide: { maxPrefix: "number" },
  exploration: { epsilon: "schedule", choose: ["random", "expert"] },
};

export type Value = number | boolean | string | Plan | readonly [number, number] | null;
/** Values by part and option. */
export type Settings = Readonly<Record<string, Readonly<Record<string, Value>>>>;

/** @throws UsageError with one line: what was expected, what came */
export function parseSettings(texts: readonly string[]): Settings {
  const settings: Record<string, Record<string, Value>> = {};
  for (const text of texts) {
    const [, part, option, value] = /^([\w+-]+)\.(\w+)=(.*)$/.exec(text) ?? [];
    if (part === undefined)
      throw new UsageError(`--set: expected PART.OPTION=VALUE, as in paw.alpha=0.5, got "${text}"`);
    const own = (settings[part] ??= {});
    if (Object.hasOwn(own, option!)) throw new UsageError(`--set: ${part}.${option} is there twice`);
    if (Object.hasOwn(TASK_PARTS, part)) {
      own[option!] = value!;
      continue;
    }
    const tables = { ...METHOD_OPTIONS, ...OTHER_OPTIONS };
    const names = { ...tables, ...TASK_PARTS };
    known(`--set ${text}`, "part", names, part);
    const kind = known(`--set ${part}.${option!}`, "option", tables[part]!, option!);
    own[option!] = valueOf(`--set ${part}.${option!}`, kind, value!);
  }
  return settings;
}

function known<T>(where: string, what: string, table: Readonly<Record<string, T>>, name: string): T {
  if (Object.hasOwn(table, name)) return table[name]!;
  const names = Object.keys(table);
  const near = nearest(name, names);
  throw new UsageError(
    `${where}: unknown ${what} "${name}"; ${near === undefined ? `expected ${names.join(", ")}` : `did you mean "${near}"?`}`,
  );
}

function valueOf(where: string, kind: Kind, text: string): Value {
  if (typeof kind !== "string") {
    if (kind.includes(text)) return text;
    const near = nearest(text, kind);
    const hint = near === undefined ? "" : `; did you mean "${near}"?`;
    throw new UsageError(`${where}: expected ${kind.join(", ")}, got "${text}"${hint}`);
  }
  switch (kind) {
    case "number":
      return numberOf(where, "a number", text);
    case "schedule":
      return parsePlan(where, text);
    case "switch":
      if (text === "true" || text === "false") return text === "true";
      throw new UsageError(`${where}: expected true or false, got "${text}"`);
    case "bounds": {
      if (text === "none") return null;
      const [low, high, ...more] = text.split("..").map((side) => numberOf(where, "LOW..HIGH or none", side));
      if (high === undefined || more.length > 0 || low! > high)
        throw new UsageError(`${where}: expected LOW..HIGH or none, got "${text}"`);
      return [low!, high];
    }
  }
}

function numberOf(where: string, expected: string, text: string): number {
  const n = Number(text);
  if (text.trim() === "" || !Number.isFinite(n)) throw new UsageError(`${where}: expected ${expected}, got "${text}"`);
  return n;
}

/** What a flag and `--set` say of one thing. @throws UsageError if both do */
export function once<T extends Value>(flag: string, value: T | undefined, name: string, set: Settings): T | undefined {
  const [part, option] = name.split(".") as [string, string];
  const other = set[part]?.[option] as T | undefined;
  if (value !== undefined && other !== undefined)
    throw new UsageError(`${flag} and --set ${name} are the same; give one of them`);
  return value ?? other;
}

const KIND_TEXT = {
  number: "N",
  schedule: "N or a schedule",
  switch: "true | false",
  bounds: "LOW..HIGH | none",
} as const;

/** All options in a line each part, for `--list`. */
export function listSettings(): string {
  const lines = Object.entries({ ...METHOD_OPTIONS, ...OTHER_OPTIONS }).map(([part, options]) => {
    const texts = Object.entries(options).map(([name, kind]) =>
      kind === "number" ? name : `${name} (${typeof kind === "string" ? KIND_TEXT[kind] : kind.join(" | ")})`,
    );
    return `  ${part.padEnd(24)}${texts.join(", ")}`;
  });
  const tasks = Object.entries(TASK_PARTS).map(([part, about]) => `  ${part.padEnd(24)}${about}`);
  return ["Options (--set PART.OPTION=VALUE; a number unless it says otherwise; a schedule is FROM..TO@STEPS or STEP:VALUE,STEP:VALUE)", ...lines, ...tasks].join("\n"); // prettier-ignore
}

/**
 * What a run's settings say beside its method and its sizes, as `--set` would say it: `paw.alpha=0.5, curriculum.name=failed`; and the
 * parts that were exchanged, as flags. Empty if nothing.
 */
export function showSettings(rl: object, data: object = {}): string {
  const { options = {}, kl, critic, correction, reward, entropy, imitation, rolloutFilter, maskTruncated, dropConstantGroups, rewardFrom, expertsOnly, iterations } = rl as Readonly<Record<string, Settings[string] | undefined>>; // prettier-ignore
  const { advantage, loss } = rl as { readonly advantage?: string; readonly loss?: string };
  const { temperature, ...rest } = data as Readonly<Record<string, Settings[string] | undefined>>;
  const { reject: rejection, ...weighing } = (correction ?? {}) as { readonly reject?: Settings[string] };
  const loop = { imitation, maskTruncated, dropConstantGroups, rewardFrom, expertsOnly, iterations };
  const bonus = typeof entropy === "object" ? { entropy, rl: loop } : { rl: { entropy, ...loop } };
  const parts = { ...options, kl, critic, correction: weighing, rejection, rolloutFilter, reward, ...bonus, rollout: { temperature }, ...rest }; // prettier-ignore
  const flags = [...(advantage ? [`--advantage ${advantage}`] : []), ...(loss ? [`--loss ${loss}`] : [])];
  const settings = Object.entries(parts).flatMap(([part, values]) => {
    const given = Object.entries((values ?? {}) as Record<string, Value | undefined>).filter(
      ([, v]) => v !== undefined,
    );
    if (values !== undefined && given.length === 0 && part in rest) return [part];
    return given.map(([option, value]) => `${part}.${option}=${showSetting(value!)}`);
  });
  return [...flags, ...settings].join(", ");
}

function showSetting(value: Value): string {
  if (value === null) return "none";
  if (typeof value !== "object") return String(value);
  return "length" in value ? value.join("..") : showPlan(value);
}
