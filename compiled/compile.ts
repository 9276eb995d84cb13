/** A model compiled ahead of time: its weights and the calls of kernels that decode with them. */
import { Device } from "../engine/device.ts";
import { check } from "../engine/errors.ts";
import { tensor } from "../engine/ops/create.ts";
import { checkKeys, showValue } from "../engine/options.ts";
import { Rng } from "../engine/random.ts";
import { scope } from "../engine/scope.ts";
import type { Tensor } from "../engine/tensor.ts";
import { mapTree, treeLeaves } from "../engine/tree.ts";
import { KvCache, type Model } from "../nn/index.ts";
import { type Plan, planStep } from "../nn/decodingPlan.ts";
import { decodingStep, readTokens } from "../nn/decodingStep.ts";
import { inputsOf, toFile } from "./format.ts";
import { Recorder } from "./recorder.ts";

/** Options of `compileModel`. */
export interface CompileOptions {
  /** The most tokens of a text; default the model's positions. Each takes memory where the model is used. */
  readonly maxTokens?: number;
}

/** One token at a time. */
const WIDTHS = { most: 1, ofPass: (tokens: number): number => tokens, ofDraw: (rows: number): number => rows };

/**
 * Compiles a model for a user who has no engine: the file has its weights, the WebAssembly kernels of its sizes and the
 * order of their calls. `openCompiled` runs them, with the same bits as the WebAssembly executor, and knows neither ops
 * nor generators of kernels, which makes a page small. Nothing is defined twice: a step of decoding runs on an executor
 * that only notes its calls (recorder.ts).
 * @returns the bytes of the file, four for each weight
 * @throws if `maxTokens` is more than the model's positions
 * @example
 * await writeFile("agent.bin", await compileModel(model, { maxTokens: 256 }));
 */
export async function compileModel(model: Model, options: CompileOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
  checkKeys("compileModel", options, ["maxTokens"]);
  const isModel: boolean = typeof (model as Model | undefined)?.params === "object";
  check(isModel, () => `compileModel: expected a model, got ${showValue(model)} (packModel and others are awaited)`);
  const { config } = model;
  const { maxPositions: most } = config;
  const { maxTokens = most } = options;
  check(
    Number.isInteger(maxTokens) && maxTokens >= 1 && maxTokens <= most,
    () => `compileModel: maxTokens must be an integer from 1 to the model's ${most}, got ${showValue(maxTokens)}`,
  );
  const values = new Map<Tensor, Float32Array | Float64Array | Int32Array>();
  for (const x of treeLeaves(model.params)) values.set(x, await x.read());
  const recorder = new Recorder();
  return scope(() => record(recorder, model, values, maxTokens), "compileModel");
}

function record(
  recorder: Recorder,
  { config, params }: Model,
  values: ReadonlyMap<Tensor, Float32Array | Float64Array | Int32Array>,
  maxTokens: number,
): Uint8Array<ArrayBuffer> {
  const device = new Device(recorder);
  const { vocabSize, kvHeads } = config;
  /** The plan of the last token of a text. Its table of angles has a row for every position. */
  const planLast = (cache: KvCache, draws: number): Plan => {
    cache.truncate(0, 0);
    cache.append([{ row: 0, count: maxTokens - 1 }]);
    const part = { row: 0, tokens: [0], rng: new Rng(0) };
    const how = { vocabSize, float: device.float, widths: WIDTHS, draws, invTemperature: 1 };
    return planStep(cache, [part], draws === 0 ? [] : [part], how);
  };
  const copies = new Map<Tensor, Tensor>();
  const copyOf = (x: Tensor): Tensor => {
    const { shape, dtype } = x;
    const made = copies.get(x) ?? tensor(values.get(x)!, { device, shape, ...(dtype === "i32" ? { dtype } : {}) });
    copies.set(x, made);
    return made;
  };
  // The first step makes what later ones share.
  const made = recorder.noting([], "lasting", () => {
    const model: Model = { config, params: mapTree(params, copyOf) };
    const cache = new KvCache(config, 1, maxTokens, device);
    decodingStep(model, cache, planLast(cache, 1)).dispose();
    return { model, cache };
  });
  const { model, cache } = made.result;
  const step = <R>(draws: number, body: (plan: Plan) => R): ReturnType<typeof recorder.noting<R>> => {
    const plan = planLast(cache, draws);
    return recorder.noting(inputsOf(plan), "all", () => scope(() => body(plan), "decode"));
  };
  const read = step(0, (plan) => void readTokens(model, cache, plan));
  const draw = step(1, (plan) => decodingStep(model, cache, plan));
  const drawn = recorder.addressOf(draw.result.storage.buffer);
  const { kernels, data, bytes: memory } = recorder;
  const programs = { once: made.calls, read: read.calls, draw: draw.calls };
  return toFile({ sizes: { memory, drawn, maxTokens, vocabSize, kvHeads }, programs, kernels, data });
}
