/**
 * The training state of some methods in addition to the model and its optimiser: a frozen copy of the warm start (KL
 * penalties, ActFocus), a value head with its own optimiser (PPO and its relatives), and parts with a memory of earlier
 * steps (an adaptive KL coefficient, a running baseline, a curriculum, a replay buffer). They are made at the start of
 * RL and saved in every checkpoint, so that a resumed run continues bit for bit. Other methods, such as GRPO with ECHO,
 * have no such state. In the place of the copy may be the model under an adapter, or a teacher; neither is saved.
 */
import { check, fail } from "../engine/errors.ts";
import { assign, outsideScopes, scope, tensor, type Tensor, treeEntries, treeLeaves } from "../engine/index.ts";
import { sameShape, showShape } from "../engine/types.ts";
import { configToHuggingFace, modelFromTensors, modelToFiles } from "../pretrained/index.ts";
import {
  type Files,
  initValueHead,
  type Model,
  readSafetensors,
  readSafetensorsHeader,
  type SafeTensorInput,
  writeSafetensors,
} from "../nn/index.ts";
import { type Heads, headTraining } from "../rl/train/loss.ts";
import type { TrainedHead } from "../rl/train/update.ts";
import { disposeReader, type Reader } from "../methods/reader.ts";
import type { Template } from "../rl/episode/template.ts";
import { statisticsOf } from "../rl/objective/objective.ts";
import { isOfReference } from "../rl/objective/tokenStatistics.ts";
import type { Experiment } from "./experiment.ts";
import type { Watch } from "./observer.ts";
import { isTrained } from "./trainedRewards.ts";

const REFERENCE = "reference.safetensors";
const READER = "reader.safetensors";
/** The prefix of the names of a head's tensors in the file of its model. */
const HEAD = "reader.";
/** The file of a term's head. */
const headFile = (term: string): string => `head-${term}.safetensors`;
/** The file of a part with a memory (a `Memory` of the experiment). */
const memoryFile = (name: string): string => `${name}.json`;

/** The additional training state of a run. */
export class TrainingState {
  readonly reference: Model | undefined;
  /** The heads of the objective's terms. */
  readonly heads: Heads<TrainedHead>;
  /** The model that judges episodes, for rewards that a model gives. */
  readonly reader: Reader | undefined;
  /** A sentence about the models that were trained at the start of RL. */
  readonly note: string | undefined;
  readonly #saved: ReturnType<Experiment["memories"]>;
  /** The reference and the reader as bytes, which never change. */
  readonly #frozen: Uint8Array | undefined;
  readonly #reader: Uint8Array | undefined;
  readonly #teacher: Model | undefined;

  private constructor(experiment: Experiment, parts: Parts) {
    this.heads = parts.heads;
    this.reference = parts.reference ?? parts.teacher;
    this.reader = parts.reader?.reader;
    this.note = parts.reader?.note;
    this.#frozen = parts.frozen;
    this.#reader = parts.reader?.file;
    this.#teacher = parts.teacher;
    this.#saved = experiment.memories();
  }

  /**
   * The state of a run that begins RL with `model`, the warm start.
   * @param teacher the reference in the warm start's place; it is freed with the state
   * @throws if the run is stopped meanwhile
   */
  static async ofWarmStart(
    experiment: Experiment,
    model: Model,
    template: Template,
    watch: Watch,
    teacher?: Model,
  ): Promise<TrainingState> {
    const objective = experiment.objective();
    const heads = newHeads(experiment, model);
    const reader = hasReader(experiment) ? await newReader(experiment, model, template, watch) : undefined;
    const common = { heads, reader, teacher };
    if (teacher || !statisticsOf(objective).some(isOfReference)) return new TrainingState(experiment, common);
    const { base } = model.trainable ?? {};
    if (base) return new TrainingState(experiment, { ...common, reference: base });
    const frozen = await weightsOf(model);
    return new TrainingState(experiment, { ...common, reference: copyOf(model, frozen), frozen });
  }

  /**
   * The state of a resumed run, from the files of a checkpoint.
   * @param teacher as in `ofWarmStart`
   * @throws if a file that the method needs is missing or of another size
   */
  static ofFiles(
    experiment: Experiment,
    model: Model,
    files: Readonly<Record<string, Uint8Array>>,
    teacher?: Model,
  ): TrainingState {
    const objective = experiment.objective();
    const file = (name: string): Uint8Array => files[name] ?? fail(`checkpoint: ${name} is missing`);
    const heads = newHeads(experiment, model);
    for (const [term, head] of Object.entries(heads)) restoreHead(head, headFile(term), file(headFile(term)));
    for (const [name, memory] of Object.entries(experiment.memories())) {
      memory.restore(JSON.parse(new TextDecoder().decode(file(memoryFile(name)))));
    }
    const reader = hasReader(experiment) ? readerOfFile(model, file(READER)) : undefined;
    const common = { heads, reader, teacher };
    if (teacher || !statisticsOf(objective).some(isOfReference)) return new TrainingState(experiment, common);
    const { base } = model.trainable ?? {};
    if (base) return new TrainingState(experiment, { ...common, reference: base });
    const frozen = file(REFERENCE);
    return new TrainingState(experiment, { ...common, reference: copyOf(model, frozen), frozen });
  }

  /** The files for a checkpoint; none if the method has no such state. */
  async files(): Promise<Files> {
    return {
      ...(this.#frozen ? { [REFERENCE]: this.#frozen } : {}),
      ...(this.#reader ? { [READER]: this.#reader } : {}),
      ...Object.fromEntries(
        await Promise.all(
          Object.entries(this.heads).map(async ([term, head]) => [headFile(term), await headToFile(head)] as const),
        ),
      ),
      ...Object.fromEntries(
        Object.entries(this.#saved).map(([name, memory]) => [memoryFile(name), JSON.stringify(memory.state())]),
      ),
    };
  }

  dispose(): void {
    for (const { head, optimizer } of Object.values(this.heads)) {
      optimizer.dispose();
      for (const x of treeLeaves(head)) x.dispose();
    }
    if (this.reader) disposeReader(this.reader);
    // Without a file the reference is the model under an adapter, not a copy.
    const own = this.#teacher ?? (this.#frozen && this.reference);
    for (const x of own ? treeLeaves(own.params) : []) x.dispose();
  }
}

/** The parts of a `TrainingState`. */
interface Parts {
  readonly heads: Heads<TrainedHead>;
  readonly reference?: Model | undefined;
  readonly frozen?: Uint8Array | undefined;
  readonly teacher?: Model | undefined;
  readonly reader?: SavedReader | undefined;
}

interface SavedReader {
  readonly reader: Reader;
  readonly file: Uint8Array;
  readonly note?: string;
}

/** Whether a model that is trained before RL gives the rewards, or the weights of tokens. */
const hasReader = (experiment: Experiment): boolean =>
  isTrained(experiment.preset.rl.reward?.name) || isCriticised(experiment);
const isCriticised = (experiment: Experiment): boolean =>
  experiment.objective().tokenWeights?.name === "outcome_critic";

/** The weights of the model, or of the model under its adapter. */
const weightsOf = async (model: Model): Promise<Uint8Array> =>
  (await modelToFiles(model.trainable?.base ?? model))["model.safetensors"] as Uint8Array;

/** @param copy of the model, which changes in place */
async function trainReaderOf(
  experiment: Experiment,
  model: Model,
  copy: Model,
  template: Template,
  watch: Watch,
): Promise<{ readonly reader: Reader; readonly note: string }> {
  const { reward, outcomeCritic } = experiment.preset.rl;
  if (reward?.name === "prm") {
    const { trainProcessModel } = await import("./processModel.ts");
    return trainProcessModel(experiment, model, copy, template, watch, reward.prm);
  }
  const { trainCritic, trainOutcomeModel } = await import("./outcomeModel.ts");
  return isCriticised(experiment)
    ? trainCritic(experiment, model, copy, template, watch, outcomeCritic)
    : trainOutcomeModel(experiment, model, copy, template, watch, reward?.orm);
}

async function newReader(experiment: Experiment, model: Model, template: Template, watch: Watch): Promise<SavedReader> {
  const copy = copyOf(model, await weightsOf(model));
  const { reader, note } = await trainReaderOf(experiment, model, copy, template, watch);
  const named = await Promise.all(
    Object.entries(reader.head).map(async ([name, x]): Promise<[string, SafeTensorInput]> => {
      const data = await x.read();
      const dtype = data instanceof Float64Array ? "F64" : "F32";
      return [`${HEAD}${name}`, { dtype, shape: [...x.shape], data } as SafeTensorInput];
    }),
  );
  const weights = [...readSafetensors(await weightsOf(copy))].map(([name, x]): [string, SafeTensorInput] => [name, x]);
  return { reader, note, file: writeSafetensors([...weights, ...named]) };
}

function readerOfFile(model: Model, file: Uint8Array): SavedReader {
  const all = readSafetensors(file);
  const { device } = model.params.embedding;
  const part = (name: string): Tensor => {
    const { data, shape } = all.get(HEAD + name) ?? fail(`checkpoint: ${READER} lacks "${HEAD}${name}"`);
    return tensor(data as Float32Array | Float64Array, { device, shape, dtype: device.float });
  };
  const head = outsideScopes(() => ({ weight: part("weight"), bias: part("bias") }));
  const weights = new Map([...all].filter(([name]) => !name.startsWith(HEAD)));
  return { reader: { model: modelOfWeights(model, weights), head }, file };
}

/** A copy of the model with its own parameters, bit for bit those of the file. */
const copyOf = (model: Model, weights: Uint8Array): Model => modelOfWeights(model, readSafetensors(weights));

function modelOfWeights({ config, params }: Model, weights: ReturnType<typeof readSafetensors>): Model {
  const { device } = params.embedding;
  return { config, params: modelFromTensors(configToHuggingFace(config), weights, device).params };
}

function newHeads(experiment: Experiment, model: Model): Heads<TrainedHead> {
  const made = Object.keys(headTraining(experiment.objective())).map((term) => {
    const head = initValueHead(model.config, model.params.embedding.device);
    return [term, { head, optimizer: experiment.headOptimizer(head) }] as const;
  });
  return Object.fromEntries(made);
}

/** The head and both moments, as `head.weight`, `m.weight` and so on, with the optimiser's step in the metadata. */
async function headToFile({ head, optimizer }: TrainedHead): Promise<Uint8Array> {
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

function restoreHead({ head, optimizer }: TrainedHead, name: string, file: Uint8Array): void {
  const saved = readSafetensors(file);
  const { m, v } = optimizer.state;
  scope(() => {
    for (const [part, tree] of Object.entries({ head, m, v })) {
      for (const [path, x] of treeEntries(tree)) {
        const { data, shape } = saved.get(`${part}.${path}`) ?? fail(`checkpoint: ${name} lacks "${part}.${path}"`);
        check(
          sameShape(shape, x.shape),
          () => `checkpoint: "${part}.${path}" has shape ${showShape(shape)}, expected ${showShape(x.shape)}`,
        );
        assign(x, tensor(data as Float32Array | Float64Array, { device: x.device, shape, dtype: x.dtype }));
      }
    }
  }, "restoreHead");
  optimizer.resume(Number(readSafetensorsHeader(file).metadata.get("step")));
}
