/**
 * Faults of real environments, for any environment: answers with text that nobody can predict (time stamps, request
 * numbers), and a verifier that lies. They measure what a method loses to them. Only the reward lies; `info.success`
 * stays correct.
 *
 * The faults are a function of the task and of the actions so far: the same actions meet the same faults, in a clone
 * too, and another task or another action meets its own.
 */
import { Rng } from "../engine/index.ts";
import type {
  CallOptions,
  EndResult,
  Environment,
  EnvironmentOptions,
  OutsideEnd,
  StepInfo,
  StepResult,
} from "../rl/environment.ts";
import { number, options, type OptionsOf, type Settled } from "../engine/optionTable.ts";
import type { FactWorld } from "./facts/questions.ts";
import { COMMON_OPTIONS } from "./options.ts";

const CHANCE = { min: 0, max: 1 };

/** The faults. A verifier is better than chance while J = TPR − FPR > 0 (RLVεR). */
export const FAULTS = {
  noise: number(0, "share of the answers that end in a time stamp and a number (PaW, arXiv 2606.02388)", CHANCE),
  falsePositives: number(0, "chance that an ended episode that failed is paid 1", CHANCE),
  falseNegatives: number(0, "chance that an ended episode that succeeded is paid 0", CHANCE),
};
const TABLE = options("faults", FAULTS);
/**
 * Options that every entry of `ENVIRONMENTS` takes, too, all 0 by default: the share of answers with `noise`, and the
 * chances of `falsePositives` and `falseNegatives` of the reward, not of `info.success`. `FAULTS` is their table.
 */
export type FaultOptions = OptionsOf<typeof TABLE>;

/** The environment with `FaultOptions` among its options. Without them its episodes stay as they are. */
export function withFaults(spec: FactWorld): FactWorld<EnvironmentOptions & FaultOptions> {
  const own = (env: Environment): Environment => (env instanceof Faulty ? env.world : env);
  const all = { ...(spec.options ?? COMMON_OPTIONS), ...FAULTS };
  return {
    ...spec,
    options: all,
    make(given = {}) {
      // This check comes first: the environment's own would name its own options alone.
      options(spec.name, all).read(given);
      const { faults, rest } = split(given);
      const settled = options(spec.name, FAULTS).read(faults);
      const world = spec.make(rest);
      return Object.keys(faults).length === 0 ? world : new Faulty(world, settled);
    },
    ...(spec.expert ? { expert: (env) => spec.expert!(own(env)) } : {}),
    random: (rng, task, options, env) => spec.random(rng, task, options && split(options).rest, env && own(env)),
    ...(spec.atOnce ? { atOnce: (options = {}) => spec.atOnce!(split(options).rest) } : {}),
    ...(spec.limits ? { limits: (options = {}) => spec.limits!(split(options).rest) } : {}),
    ...(spec.check ? { check: (options = {}) => spec.check!(split(options).rest) } : {}),
    ...(spec.fingerprint ? { fingerprint: (options = {}) => spec.fingerprint!(split(options).rest) } : {}),
    ...(spec.novice ? { novice: (env, rng, turn, task) => spec.novice!(own(env), rng, turn, task) } : {}),
    ...(spec.thoughts ? { thoughts: (env, rng) => spec.thoughts!(own(env), rng) } : {}),
    ...(spec.achieved ? { achieved: spec.achieved } : {}),
    ...(spec.facts ? { facts: (options = {}) => spec.facts!(split(options).rest) } : {}),
  };
}

function split(options: EnvironmentOptions & FaultOptions): { faults: FaultOptions; rest: EnvironmentOptions } {
  const isFault = ([name]: [string, unknown]): boolean => Object.hasOwn(FAULTS, name);
  const all = Object.entries(options);
  return {
    faults: Object.fromEntries(all.filter(isFault)),
    rest: Object.fromEntries(all.filter((entry) => !isFault(entry))),
  };
}

/** Hours, minutes and seconds of a time stamp, and the count of request numbers, which have four digits. */
const CLOCK = [24, 60, 60] as const;
const REQUESTS = 9000;

/** Entropy in nats of what noise adds to an answer: whether there is a stamp, and what it says. */
function stampEntropy(noise: number): number {
  const nats = (p: number): number => (p === 0 ? 0 : -p * Math.log(p));
  return nats(noise) + nats(1 - noise) + noise * Math.log(CLOCK.reduce((product, n) => product * n, REQUESTS));
}

class Faulty implements Environment {
  readonly name: string;
  readonly world: Environment;
  readonly #faults: Settled<typeof FAULTS>;
  /** The random stream of this task after the actions so far. */
  #rng = new Rng(0);
  /** The entropy of all stamps so far, in nats. */
  #entropy = 0;
  clone?: (seed?: number) => Environment;

  constructor(world: Environment, faults: Settled<typeof FAULTS>) {
    this.name = world.name;
    this.world = world;
    this.#faults = faults;
    if (world.clone) this.clone = (seed) => this.#copy(world.clone!(seed));
  }

  get info(): StepInfo {
    return this.world.info ?? {};
  }

  async reset(seed: number, options?: CallOptions): Promise<string> {
    this.#rng = new Rng(seed).split("faults");
    return this.world.reset(seed, options);
  }

  async step(action: string, options?: CallOptions): Promise<StepResult> {
    const result = await this.world.step(action, options);
    this.#rng = this.#rng.split(action);
    const faulty = result.done ? { reward: this.#verdict(result) } : { observation: this.#answer(result) };
    const { answerEntropy } = result.info;
    if (typeof answerEntropy !== "number") return { ...result, ...faulty };
    return { ...result, ...faulty, info: { ...result.info, answerEntropy: answerEntropy + this.#entropy } };
  }

  async end(reason: OutsideEnd, options?: CallOptions): Promise<EndResult | undefined> {
    const result = await this.world.end?.(reason, options);
    if (result?.reward === undefined || typeof result.info?.["success"] !== "boolean") return result;
    // Who is judged at the end, whoever ends the episode, is judged by the same verifier.
    this.#rng = this.#rng.split("end");
    return { ...result, reward: this.#verdict({ reward: result.reward, info: result.info }) };
  }

  close(): void {
    this.world.close?.();
  }

  #verdict({ reward, info }: Pick<StepResult, "reward" | "info">): number {
    const { falsePositives, falseNegatives } = this.#faults;
    const isLie = this.#rng.split("verdict").uniform() < (info["success"] === true ? falseNegatives : falsePositives);
    if (!isLie) return reward;
    return info["success"] === true ? 0 : 1;
  }

  #answer({ observation }: StepResult): string {
    const rng = this.#rng.split("answer");
    const { noise } = this.#faults;
    this.#entropy += stampEntropy(noise);
    if (rng.uniform() >= noise) return observation;
    const [hour, minute, second] = CLOCK.map((below) => String(rng.int(below)).padStart(2, "0"));
    return `${observation} [${hour}:${minute}:${second} ${rng.int(REQUESTS) + 1000}]`.trimStart();
  }

  #copy(world: Environment): Environment {
    const copy = new Faulty(world, this.#faults);
    copy.#rng = this.#rng;
    copy.#entropy = this.#entropy;
    return copy;
  }
}
