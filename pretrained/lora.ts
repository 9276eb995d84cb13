/**
 * LoRA: low-rank adapters (Hu et al. 2021, arXiv 2106.09685). A linear layer W keeps its weights and gets two small
 * matrices beside it, which alone are trained:
 *
 *     y = W x + b + s·B(A x),   A [r, in] random, B [out, r] zero, s = α/r, or α/√r in rsLoRA (arXiv 2312.03732)
 *
 * DoRA (Liu et al. 2024, arXiv 2402.09353) trains the length m [out] of each row of W + s·BA beside its direction:
 *
 *     y = b + m/‖W + s·BA‖ · (W x + s·B(A x)),   m = ‖W‖ at the start; the norm is a constant of the gradient (§4.3)
 *
 * Names, defaults, arithmetic and start are those of the library PEFT (0.21); files are in loraFiles.ts. W may be
 * packed into fewer bits (QLoRA's setting), because only products with it are computed. Layers may have ranks and α of
 * their own (`rankPattern`, `alphaPattern`), and head and embedding may be trained whole beside them (`modulesToSave`).
 * Not supported: adapters on embeddings (and so on a tied head), trained biases, several adapters at once.
 */
import { check, fail } from "../engine/errors.ts";
import type { Device } from "../engine/device.ts";
import type { Weight } from "../engine/matrixForm.ts";
import type { Settled } from "../engine/optionTable.ts";
import { tensor, zeros } from "../engine/ops/create.ts";
import { mul, sqrt } from "../engine/ops/pointwise.ts";
import { Rng } from "../engine/random.ts";
import { outsideScopes, scope } from "../engine/scope.ts";
import { noGrad } from "../engine/tape.ts";
import type { Tensor } from "../engine/tensor.ts";
import { treeLeaves } from "../engine/tree.ts";
import type { FloatType } from "../engine/types.ts";
import type { ModelConfig } from "../nn/config.ts";
import { dense, LoraMatrix, squaresOf } from "./loraMatrix.ts";
import { LORA, type LoraOptions, type LoraSettings } from "./loraOptions.ts";
import { freezeWeight, huggingFaceName, replaceWeights } from "../nn/parameters.ts";
import type { Model, Trainable, TrainingOptions } from "../nn/transformer.ts";

/**
 * The trained tensors of one layer: A [r, in], B [out, r], in DoRA also the lengths m [out]. Named as in PEFT's files.
 */
export type LoraPair = {
  readonly "lora_A.weight": Tensor;
  readonly "lora_B.weight": Tensor;
  readonly lora_magnitude_vector?: Tensor | undefined;
};
/** A matrix that is trained whole (`modulesToSave`). */
export type SavedMatrix = { readonly weight: Tensor };
/** The trained tensors by layer: `base_model.model.model.layers.0.self_attn.q_proj`. */
export type LoraParams = Readonly<Record<string, LoraPair | SavedMatrix>>;

/** The trained part of a model with an adapter. */
export interface LoraAdapter extends Trainable<LoraParams> {
  readonly base: Model;
  readonly settings: LoraSettings;
  modelOf(params: LoraParams, options?: TrainingOptions): LoraModel;
}

/** A model with an adapter. Training it trains only the adapter. */
export interface LoraModel extends Model {
  readonly trainable: LoraAdapter;
}

/** Whether the model has an adapter of this kind. */
export const isLora = (model: Model): model is LoraModel => model.trainable?.settings?.["loraAlpha"] !== undefined;

/**
 * The model with a new adapter. Until this is trained, the outputs are those of the model. The model itself does not
 * change and is shared: `adapted.trainable.base` is the model with the adapter switched off, and takes no memory.
 * `disposeLora` frees the adapter, `treeLeaves(adapted.trainable.params)`.
 * @param rng the stream of A, uniform within ±1/√in (PyTorch's `kaiming_uniform_(a=√5)`); B is 0
 * @throws if no layer has a target's name, or one that is targeted can have no adapter
 *
 * @example
 * const adapted = addLora(model, { r: 8, loraAlpha: 16, targetModules: "all-linear" }, new Rng(0));
 * const optimizer = new AdamW(adapted.trainable.params, { clipNorm: 1 });
 * for await (const { metrics } of trainRl({ model: adapted, optimizer, …})) console.log(metrics.reward);
 */
export function addLora(model: Model, given: LoraOptions = {}, rng: Rng = new Rng(0)): LoraModel {
  return withLora(model, given, (name, r, inputs, { device, dtype }) => {
    const stream = rng.split(name);
    const bound = 1 / Math.sqrt(inputs);
    const start = Float64Array.from({ length: r * inputs }, () => bound * (2 * stream.uniform() - 1));
    return tensor(start, { device, dtype, shape: [r, inputs] });
  });
}

/** The model of `addLora` with A = 0, so that nothing is drawn; for measuring memory. */
export function zeroLora(model: Model, given: LoraOptions = {}): LoraModel {
  return withLora(model, given, (_, r, inputs, { device, dtype }) => zeros([r, inputs], { device, dtype }));
}

interface Place {
  readonly device: Device;
  readonly dtype: FloatType;
}

/** @param start makes A [r, in] of the layer that is called so in the checkpoint */
function withLora(
  model: Model,
  given: LoraOptions,
  start: (name: string, r: number, inputs: number, place: Place) => Tensor,
): LoraModel {
  const { settings, saved, layers } = planOf(model, given);
  const { useDora } = settings;
  const params: LoraParams = outsideScopes(() => {
    const pairs = [...layers].map(([path, weight]): [string, LoraPair] => {
      const [first, second] = weight.shape as [number, number];
      const isTransposed = isAcross(model.config, path);
      const [outputs, inputs] = isTransposed ? [second, first] : [first, second];
      const place = weight as Place;
      const name = moduleName(model.config, path);
      const { r } = strengthOf(settings, name);
      const pair: LoraPair = {
        "lora_A.weight": start(name, r, inputs, place),
        "lora_B.weight": zeros([outputs, r], { device: place.device, dtype: place.dtype }),
        ...(useDora ? { lora_magnitude_vector: rowLengths(weight, isTransposed) } : {}),
      };
      return [`${PREFIX}${name}`, pair];
    });
    const whole = [...saved].map(([path, weight]): [string, SavedMatrix] => {
      const isTransposed = isAcross(model.config, path);
      const copy = scope(() => noGrad(() => mul(dense(weight, { isTransposed }), 1)), "lora module to save");
      return [`${PREFIX}${moduleName(model.config, path)}`, { weight: copy }];
    });
    return Object.fromEntries<LoraPair | SavedMatrix>([...pairs, ...whole]);
  });
  return adapted(model, settings, params);
}

interface LoraPlan {
  readonly settings: LoraSettings;
  /** By their paths: what is trained whole, and what gets an adapter. */
  readonly saved: ReadonlyMap<string, Weight>;
  readonly layers: ReadonlyMap<string, Weight>;
}

/** What an adapter would train of this model, before anything is made. @throws in one line */
function planOf(model: Model, given: LoraOptions): LoraPlan {
  check(model.trainable === undefined, () => "addLora: the model has an adapter already; merge it first (mergeLora)");
  const settings = settingsOf(model.config, LORA.read(given));
  const saved = savedOf(model, settings);
  const layers = targetsOf(model, settings);
  const twice = [...saved.keys()].find((path) => layers.has(path));
  check(
    twice === undefined,
    () => `lora: ${moduleName(model.config, twice!)} is in targetModules and in modulesToSave`,
  );
  return { settings, saved, layers };
}

/** Whether `addLora` takes these options for this model; makes nothing. @throws what `addLora` throws */
export const checkLora = (model: Model, given: LoraOptions): void => void planOf(model, given);

/** PEFT's names of layers begin like this. */
export const PREFIX = "base_model.model.";

/** The rank of each layer that would get an adapter. @throws as `addLora` does */
export function ranksOf(model: Model, given: LoraOptions): ReadonlyMap<string, number> {
  const settings = settingsOf(model.config, LORA.read(given));
  const layers = [...targetsOf(model, settings).keys()].map((path) => moduleName(model.config, path));
  return new Map(layers.map((layer) => [layer, strengthOf(settings, layer).r]));
}

/**
 * A model with this adapter.
 * @param params the tensors of each targeted layer, as `addLora` and `loraFromFiles` make them; the caller owns them
 */
export function adapted(base: Model, settings: LoraSettings, params: LoraParams): LoraModel {
  const { config } = base;
  const squares = settings.useDora ? squaredLengths(base, params) : undefined;
  const modelOf = (pairs: LoraParams, { dropout: stream }: TrainingOptions = {}): LoraModel => {
    const weights = replaceWeights(base.params, (weight, path) => {
      const layer = moduleName(config, path);
      const name = `${PREFIX}${layer}`;
      const pair = pairs[name];
      if (pair === undefined) return weight;
      if ("weight" in pair) return pair.weight;
      const { "lora_A.weight": A, "lora_B.weight": B, lora_magnitude_vector: m } = pair;
      const parts = { base: weight, A, B, ...(m ? { m, squares: squares!.get(name)! } : {}) };
      const rng = settings.loraDropout > 0 ? stream?.split(name) : undefined;
      return new LoraMatrix(parts, {
        isTransposed: isAcross(config, path),
        scale: scaleOf(settings, layer),
        dropout: rng && { p: settings.loraDropout, rng },
      });
    });
    return { config, params: weights, trainable: { params: pairs, modelOf, base, settings } };
  };
  return modelOf(params);
}

/** Frees an adapter; the model that it was added to stays. */
export function disposeLora({ trainable, params }: LoraModel): void {
  for (const x of treeLeaves(trainable.params)) x.dispose();
  replaceWeights(params, (weight) => {
    if (weight instanceof LoraMatrix) weight.tensors.squares?.dispose();
    return weight;
  });
}

/**
 * The model with the adapter added to its matrices, which is as fast as the base. The matrices that had an adapter are
 * new tensors, which the caller frees; all others are shared with the base, which does not change:
 * `adapted.trainable.base` stays the unmerged model, bit for bit. The outputs of merged and unmerged model agree to
 * rounding.
 * @returns a model all of whose targeted matrices are plain tensors, also where the base is packed
 */
export function mergeLora({ config, params, trainable }: LoraModel): Model {
  const merged = (weight: Weight, path: string): Weight => {
    const saved = `${PREFIX}${moduleName(config, path)}` in trainable.params;
    if (!saved) return weight;
    // A matrix that is trained whole belongs to the adapter, so the merged model gets a copy.
    const whole = weight instanceof LoraMatrix ? weight.merged() : scope(() => noGrad(() => mul(weight as Tensor, 1)));
    freezeWeight(whole, path);
    return whole;
  };
  return { config, params: outsideScopes(() => replaceWeights(params, merged)) };
}

/** Rank and α of a layer: a pattern's, by PEFT's rule that it fits the end of the name, else those of all layers. */
function strengthOf(
  { r, loraAlpha, rankPattern = {}, alphaPattern = {} }: LoraSettings,
  layer: string,
): { readonly r: number; readonly alpha: number } {
  const of = (patterns: Readonly<Record<string, number>>): number | undefined =>
    Object.entries(patterns).find(([pattern]) => regExpOf(`(?:.*\\.)?(?:${pattern})`).test(layer))?.[1];
  return { r: of(rankPattern) ?? r, alpha: of(alphaPattern) ?? loraAlpha };
}

function scaleOf(settings: LoraSettings, layer: string): number {
  const { r, alpha } = strengthOf(settings, layer);
  return alpha / (settings.useRslora ? Math.sqrt(r) : r);
}

/** Whether the matrix is [in, out]: GPT-2's layers are, its head is not. */
const isAcross = ({ family }: ModelConfig, path: string): boolean => family === "gpt2" && path !== "head";

/** A layer's name in the checkpoint, without `.weight`. */
const moduleName = (config: ModelConfig, path: string): string =>
  huggingFaceName(config, path).replace(/\.weight$/, "");

/** PEFT's default target modules for these models. */
const defaultTargets = ({ family }: ModelConfig): readonly string[] =>
  family === "gpt2" ? ["c_attn"] : ["q_proj", "v_proj"];

function settingsOf(config: ModelConfig, read: Settled<typeof LORA.fields>): LoraSettings {
  const { targetModules = defaultTargets(config), excludeModules, ...rest } = read;
  const plain = (value: string | RegExp | readonly string[]): string | readonly string[] =>
    value instanceof RegExp ? (value.ignoreCase ? IGNORING_CASE : "") + value.source : value;
  return {
    ...rest,
    targetModules: plain(targetModules),
    ...(excludeModules === undefined ? {} : { excludeModules: plain(excludeModules) }),
  };
}

/** The start of one of Python's patterns that ignores case; JavaScript has a flag for it. */
export const IGNORING_CASE = "(?i)";

/** PEFT's rule for names: one in a list matches the whole name or its end after a dot, a pattern the whole name. */
function matches(patterns: string | readonly string[], name: string): boolean {
  if (typeof patterns !== "string") return patterns.some((end) => name === end || name.endsWith(`.${end}`));
  return regExpOf(patterns).test(name);
}

/** One of Python's patterns, for whole names. @throws in one line */
function regExpOf(pattern: string): RegExp {
  try {
    const isIgnoring = pattern.startsWith(IGNORING_CASE);
    return new RegExp(`^(?:${isIgnoring ? pattern.slice(IGNORING_CASE.length) : pattern})$`, isIgnoring ? "i" : "");
  } catch (error) {
    return fail(`lora: "${pattern}" is no regular expression: ${error instanceof Error ? error.message : ""}`);
  }
}

/** The matrices that are trained whole, by their paths. */
function savedOf({ config, params }: Model, { modulesToSave = [] }: LoraSettings): Map<string, Weight> {
  // In PEFT the copy of a tied embedding is trained and the head stays as it was.
  check(
    modulesToSave.length === 0 || params.head !== undefined,
    () =>
      `lora: modulesToSave is not supported where the head is tied to the embedding, got ${modulesToSave.join(", ")}`,
  );
  const found = new Map<string, Weight>();
  replaceWeights(params, (weight, path) => {
    if (!path.startsWith("layers.") && matches(modulesToSave, moduleName(config, path))) found.set(path, weight);
    return weight;
  });
  const names = [...found.keys()].map((path) => moduleName(config, path));
  const missing = modulesToSave.filter((name) => !names.some((found) => matches([name], found)));
  const matrices = ["embedding", "head"].map((path) => moduleName(config, path));
  check(
    missing.length === 0,
    () => `lora: modulesToSave may be ${matrices.join(" and ")} in this model, got ${missing.join(", ")}`,
  );
  return found;
}

/** The matrices that get an adapter, by their paths. */
function targetsOf({ config, params }: Model, settings: LoraSettings): Map<string, Weight> {
  const { targetModules, excludeModules } = settings;
  const found = new Map<string, Weight>();
  const names: string[] = [];
  replaceWeights(params, (weight, path) => {
    const name = moduleName(config, path);
    const isInBlock = path.startsWith("layers.");
    const isLinear = isInBlock || path === "head";
    if (isLinear) names.push(name);
    const isTarget = targetModules === "all-linear" ? isInBlock : matches(targetModules, name);
    if (!isTarget || (excludeModules !== undefined && matches(excludeModules, name))) return weight;
    check(isLinear, () => `lora: "${name}" is a table of embeddings, and only linear layers can have an adapter`);
    found.set(path, weight);
    return weight;
  });
  // A name that finds nothing is a mistake. PEFT reports it only if no name finds anything.
  const unused =
    typeof targetModules === "string" ? [] : targetModules.filter((t) => !names.some((n) => matches([t], n)));
  const ends = [...new Set(names.map((name) => name.replace(/^.*\.\d+\./, "")))].join(", ");
  check(unused.length === 0, () => `lora: no layer is called ${unused.join(", ")}; there are ${ends}`);
  check(found.size > 0, () => `lora: targetModules finds no layer; there are ${ends}`);
  return found;
}

const rowLengths = (weight: Weight, isAcross: boolean): Tensor =>
  scope(() => noGrad(() => sqrt(squaresOf(weight, isAcross))), "lora lengths");

/** ‖W‖² of the layers that have lengths to learn. */
function squaredLengths({ config, params }: Model, pairs: LoraParams): Map<string, Tensor> {
  const squares = new Map<string, Tensor>();
  replaceWeights(params, (weight, path) => {
    const name = `${PREFIX}${moduleName(config, path)}`;
    if (pairs[name] && !("weight" in pairs[name]))
      squares.set(
        name,
        outsideScopes(() => squaresOf(weight, isAcross(config, path))),
      );
    return weight;
  });
  return squares;
}
