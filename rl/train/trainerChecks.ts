/** Checks of the options of every training loop: one clear error where something is missing, or is of another kind. */
import { check } from "../../engine/errors.ts";
import type { Rng } from "../../engine/index.ts";
import { checkMethods, showValue } from "../../engine/options.ts";
import type { Model } from "../../nn/index.ts";
import type { EnvironmentSpec } from "../environment.ts";
import type { Heads } from "./loss.ts";
import type { TrainedHead } from "./update.ts";
import type { StepProbe, TrainerOptions } from "./step.ts";

/** Options of a loop over a number of steps. */
interface LoopOptions extends TrainerOptions {
  readonly steps: number;
  readonly startStep?: number;
  readonly rng: Rng;
}

/** @throws if something that a loop needs is missing or of another kind; the message begins with `where` */
export function checkTrainer(where: string, options: LoopOptions): void {
  const { lr, steps, startStep = 0 } = options;
  checkPlayer(where, options);
  checkOptimizer(where, "optimizer", options.optimizer);
  const isSchedule = typeof lr === "function";
  check(isSchedule, () => `${where}: lr must be a function of the step, schedule({ lr: 1e-3 }), got ${showValue(lr)}`);
  const isCount = (n: number): boolean => (Number.isInteger(n) || n === Infinity) && n >= 0;
  check(isCount(steps), () => `${where}: steps must be an integer ≥ 0, got ${showValue(steps)}`);
  check(isCount(startStep), () => `${where}: startStep must be an integer ≥ 0, got ${showValue(startStep)}`);
  const isAhead = startStep <= steps;
  check(isAhead, () => `${where}: steps is where training ends: expected ≥ startStep ${startStep}, got ${steps}`);
}

/** @throws if one of what plays an episode is something else */
export function checkPlayer(where: string, player: Pick<LoopOptions, "model" | "template" | "rng">): void {
  const { model, template, rng } = player;
  checkModel(where, "model", model);
  checkMethods(where, "template", template, "new Template(tokenizer)", ["appendTask", "appendSampled"]);
  checkMethods(where, "rng", rng, "a stream of random numbers, new Rng(0)", ["split", "uniform"]);
}

/** @throws if `model` is none */
export function checkModel(where: string, name: string, model: Model): void {
  const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;
  const isModel = isObject(model) && isObject(model.config) && isObject(model.params);
  check(isModel, () => `${where}: ${name} must be a model { config, params }, got ${showValue(model)}`);
}

const checkOptimizer = (where: string, name: string, optimizer: unknown): void =>
  checkMethods(where, name, optimizer, "an optimiser, new AdamW(trainableOf(model).params)", ["step", "resume"]);

/** @throws if one of them lacks a head or its optimiser */
export function checkHeads(where: string, heads: Heads<TrainedHead>): void {
  const isTable = typeof heads === "object" && heads !== null;
  check(isTable, () => `${where}: heads must be { TERM: { head, optimizer } }, got ${showValue(heads)}`);
  for (const [name, entry] of Object.entries(heads)) {
    const isHead = typeof entry === "object" && entry !== null && typeof entry.head === "object";
    check(isHead, () => `${where}: heads.${name} must be { head, optimizer }, got ${showValue(entry)}`);
    checkOptimizer(where, `heads.${name}.optimizer`, entry.optimizer);
  }
}

/** @throws if `env` is no spec; an episode that a spec has made is none */
export function checkEnv(where: string, env: EnvironmentSpec): void {
  const isEpisode = "reset" in Object(env);
  const spec = isEpisode ? "the environment's spec and not what its make() returned" : "the spec of an environment";
  checkMethods(where, "env", env, `${spec}, an object with make()`, ["make"]);
}

/** @throws if one of them measures nothing */
export function checkProbes(where: string, probes: readonly StepProbe[]): void {
  const isList: boolean = Array.isArray(probes);
  check(isList, () => `${where}: probes must be a list, such as [gradientProbe()], got ${showValue(probes)}`);
  for (const probe of probes) checkMethods(where, "probes", probe, "a measurement of a step", ["measure"]);
}

/** @throws if an option that counts is no integer ≥ 1 */
export function checkCount(where: string, name: string, value: number): void {
  check(Number.isInteger(value) && value >= 1, () => `${where}: ${name} must be an integer ≥ 1, got ${value}`);
}
