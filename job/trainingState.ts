/**
 * The training state of some methods in addition to the model and its optimiser: a frozen copy of the warm start (KL
 * penalties, ActFocus; if there is an adapter, the model under it and no copy), a value head with its own optimiser
 * (PPO and its relatives), and parts with a memory of earlier steps (an adaptive KL coefficient, a running baseline, a
 * curriculum, a replay buffer). They are made at the start of RL and saved in every checkpoint, so that a resumed run
 * continues bit for bit. Other methods, such as GRPO with ECHO, have no such state.
 */
import { check, fail } from "../engine/errors.ts";
import { assign, scope, tensor, treeEntries, treeLeaves } from "../engine/index.ts";
import { sameShape, showShape } from "../engine/types.ts";
import {
  configToHuggingFace,
  type Files,
  initValueHead,
  type Model,
  modelFromTensors,
  modelToFiles,
  readSafetensors,
  readSafetensorsHeader,
  type SafeTensorInput,
  writeSafetensors,
} from "../nn/index.ts";
import type { Critic } from "../rl/train/update.ts";
import { statisticsOf } from "../rl/methods/objective.ts";
import { isOfReference } from "../rl/methods/tokenStatistics.ts";
import type { Experiment } from "./experiment.ts";

const REFERENCE = "reference.safetensors";
const CRITIC = "critic.safetensors";
/** The file of a part with a memory (a `Memory` of the experiment). */
const memoryFile = (name: string): string => `${name}.json`;

/** The additional training state of a run. */
export class TrainingState {
  readonly reference: Model | undefined;
  readonly critic: Critic | undefined;
  readonly #memories: ReturnType<Experiment["memories"]>;
  /** The reference as bytes, which never change. */
  readonly #frozen: Uint8Array | undefined;

  private constructor(experiment: Experiment, critic?: Critic, reference?: Model, frozen?: Uint8Array) {
    this.critic = critic;
    this.reference = reference;
    this.#frozen = frozen;
    this.#memories = experiment.memories();
  }

  /** For a run that begins RL with `model`, the warm start. */
  static async ofWarmStart(experiment: Experiment, model: Model): Promise<TrainingState> {
    const objective = experiment.objective();
    const critic = objective.critic ? newCritic(experiment, model) : undefined;
    if (!statisticsOf(objective).some(isOfReference)) return new TrainingState(experiment, critic);
    const { base } = model.trainable ?? {};
    if (base) return new TrainingState(experiment, critic, base);
    const frozen = (await modelToFiles(model))["model.safetensors"] as Uint8Array;
    return new TrainingState(experiment, critic, copyOf(model, frozen), frozen);
  }

  /**
   * For a resumed run, from the files of a checkpoint.
   * @throws if a file that the method needs is missing or of another size
   */
  static ofFiles(experiment: Experiment, model: Model, files: Readonly<Record<string, Uint8Array>>): TrainingState {
    const objective = experiment.objective();
    const file = (name: string): Uint8Array => files[name] ?? fail(`checkpoint: ${name} is missing`);
    const critic = objective.critic ? newCritic(experiment, model) : undefined;
    if (critic) restoreCritic(critic, file(CRITIC));
    for (const [name, memory] of Object.entries(experiment.memories())) {
      memory.restore(JSON.parse(new TextDecoder().decode(file(memoryFile(name)))));
    }
    if (!statisticsOf(objective).some(isOfReference)) return new TrainingState(experiment, critic);
    const { base } = model.trainable ?? {};
    if (base) return new TrainingState(experiment, critic, base);
    return new TrainingState(experiment, critic, copyOf(model, file(REFERENCE)), file(REFERENCE));
  }

  /** The files for a checkpoint; none if the method has no such state. */
  async files(): Promise<Files> {
    return {
      ...(this.#frozen ? { [REFERENCE]: this.#frozen } : {}),
      ...(this.critic ? { [CRITIC]: await criticToFile(this.critic) } : {}),
      ...Object.fromEntries(
        Object.entries(this.#memories).map(([name, memory]) => [memoryFile(name), JSON.stringify(memory.state())]),
      ),
    };
  }

  dispose(): void {
    this.critic?.optimizer.dispose();
    for (const x of this.critic ? treeLeaves(this.critic.head) : []) x.dispose();
    // Without a file the reference is the model under an adapter, and not a copy.
    for (const x of this.reference && this.#frozen ? treeLeaves(this.reference.params) : []) x.dispose();
  }
}

/** A copy of the model with its own parameters, bit for bit those of the file. */
function copyOf({ config, params }: Model, weights: Uint8Array): Model {
  const { device } = params.embedding;
  return { config, params: modelFromTensors(configToHuggingFace(config), readSafetensors(weights), device).params };
}

function newCritic(experiment: Experiment, model: Model): Critic {
  const head = initValueHead(model.config, model.params.embedding.device);
  return { head, optimizer: experiment.criticOptimizer(head) };
}

/** The head and both moments, as `head.weight`, `m.weight` and so on, with the optimiser's step in the metadata. */
async function criticToFile({ head, optimizer }: Critic): Promise<Uint8Array> {
  const { step, m, v } = optimizer.state;
  const named: [string, SafeTensorInput][] = [];
  for (const [part, tree] of Object.entries({ head, m, v })) {
    for (const [path, x] of treeEntries(tree)) {
      const [data, shape] = [await x.read(), [...x.shape]];
      if (data instanceof Float64Array) named.push([`${part}.${path}`, { dtype: "F64", shape, data }]);
      else if (data instanceof Float32Array) named.push([`${part}.${path}`, { dtype: "F32", shape, data }]);
    }
  }
  return writeSafetensors(named, { step: String(step) });
}

function restoreCritic({ head, optimizer }: Critic, file: Uint8Array): void {
  const saved = readSafetensors(file);
  const { m, v } = optimizer.state;
  scope(() => {
    for (const [part, tree] of Object.entries({ head, m, v })) {
      for (const [path, x] of treeEntries(tree)) {
        const { data, shape } = saved.get(`${part}.${path}`) ?? fail(`checkpoint: ${CRITIC} lacks "${part}.${path}"`);
        check(
          sameShape(shape, x.shape),
          () => `checkpoint: "${part}.${path}" has shape ${showShape(shape)}, expected ${showShape(x.shape)}`,
        );
        assign(x, tensor(data as Float32Array | Float64Array, { device: x.device, shape, dtype: x.dtype }));
      }
    }
  }, "restoreCritic");
  optimizer.resume(Number(readSafetensorsHeader(file).metadata.get("step")));
}
