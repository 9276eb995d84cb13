/**
 * Adapters as files, in the format of the library PEFT: `adapter_config.json` and `adapter_model.safetensors` with
 * names such as `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`. Files of PEFT load here, and
 * `PeftModel.from_pretrained` loads files that are written here.
 */
import { check, fail } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import { tensor } from "../engine/ops/create.ts";
import { outsideScopes } from "../engine/scope.ts";
import { mapTree, treeEntries } from "../engine/tree.ts";
import { sameShape, showShape } from "../engine/types.ts";
import { ADAPTER_FILES } from "./checkpoint.ts";
import type { Files } from "../nn/optimizerFiles.ts";
import { adapted, disposeLora, IGNORING_CASE, type LoraModel, type LoraParams, PREFIX } from "./lora.ts";
import { ranksOf, zeroLora } from "./lora.ts";
import { LORA, type LoraOptions } from "./loraOptions.ts";
import { compilePattern } from "./tokenizers/pattern.ts";
import { readSafetensors, type SafeTensorInput, writeSafetensors } from "../nn/safetensors.ts";
import type { Model } from "../nn/transformer.ts";

/** PEFT's name of each of our settings. */
const NAMES = {
  r: "r",
  loraAlpha: "lora_alpha",
  loraDropout: "lora_dropout",
  targetModules: "target_modules",
  excludeModules: "exclude_modules",
  rankPattern: "rank_pattern",
  alphaPattern: "alpha_pattern",
  modulesToSave: "modules_to_save",
  useRslora: "use_rslora",
  useDora: "use_dora",
} as const satisfies Record<keyof typeof LORA.fields, string>;

/** Entries that do not change what the adapter computes. */
const SILENT: ReadonlySet<string> = new Set([
  "auto_mapping",
  "base_model_name_or_path",
  "corda_config",
  "ensure_weight_tying",
  "eva_config",
  "fan_in_fan_out", // follows from the model
  "inference_mode",
  "layers_pattern",
  "loftq_config",
  "lora_ga_config",
  "megatron_core",
  "peft_version",
  "qalora_group_size",
  "revision",
  "runtime_config",
  "task_type",
]);
/** Values of `init_lora_weights` that do not change the base. The others (PiSSA, OLoRA, …) do. */
const STARTS: readonly unknown[] = [true, false, "gaussian", "eva", "orthogonal"];

/** The largest number of unbounded repetitions in sequence in a pattern for names of layers. */
const MOST_ENDLESS = 4;

/** `adapter_config.json` and `adapter_model.safetensors`: the adapter alone, without the model that it belongs to. */
export async function loraToFiles({ config, trainable }: LoraModel): Promise<Files> {
  const { settings, params } = trainable;
  const value = (ours: string): unknown => settings[ours as keyof typeof settings] ?? null;
  const own = Object.entries(NAMES).map(([ours, theirs]): [string, unknown] => [theirs, value(ours)]);
  const json: Readonly<Record<string, unknown>> = {
    auto_mapping: null,
    base_model_name_or_path: null,
    bias: "none",
    fan_in_fan_out: config.family === "gpt2",
    inference_mode: true,
    init_lora_weights: true,
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    ...Object.fromEntries(own),
    rank_pattern: settings.rankPattern ?? {},
    alpha_pattern: settings.alphaPattern ?? {},
    ...(isPattern(settings.targetModules) ? { target_modules: namesOf(params), exclude_modules: null } : {}),
  };
  const named: [string, SafeTensorInput][] = [];
  for (const [path, x] of treeEntries(params)) {
    const data = await x.read();
    const shape = [...x.shape];
    if (data instanceof Float64Array) named.push([path, { dtype: "F64", shape, data }]);
    else if (data instanceof Float32Array) named.push([path, { dtype: "F32", shape, data }]);
  }
  return {
    [ADAPTER_FILES.config]: `${JSON.stringify(json, null, 2)}\n`,
    [ADAPTER_FILES.weights]: writeSafetensors(named, { format: "pt" }),
  };
}

/** In PEFT a pattern may match modules that are no layers, such as dropout; so the file gets the names instead. */
const isPattern = (modules: string | readonly string[]): boolean =>
  typeof modules === "string" && modules !== "all-linear";
const namesOf = (params: LoraParams): string[] =>
  Object.keys(params)
    .filter((name) => !("weight" in params[name]!))
    .map((name) => name.slice(PREFIX.length));

/**
 * The model with a saved adapter.
 * @param configText the content of `adapter_config.json`
 * @param weights the content of `adapter_model.safetensors`
 * @throws naming an entry that is not supported, or a tensor that is missing, has another shape or belongs to no layer;
 *   then nothing stays allocated
 */
export function loraFromFiles(model: Model, configText: string, weights: Uint8Array): LoraModel {
  const options = optionsFromPeft(configText);
  const saved = readSafetensors(weights);
  // Checked before anything is allocated for a rank that the file does not have.
  for (const [layer, r] of ranksOf(model, options)) {
    const name = `${PREFIX}${layer}.lora_A.weight`;
    const { shape } = saved.get(name) ?? fail(`adapter: tensor "${name}" is missing`);
    check(shape[0] === r, () => `adapter: r is ${r} in the config, "${name}" has shape ${showShape(shape)}`);
  }
  const fresh = zeroLora(model, options);
  try {
    const read = new Map<string, Float32Array | Float64Array>();
    for (const [path, x] of treeEntries(fresh.trainable.params)) {
      const { data, shape } = saved.get(path) ?? fail(`adapter: tensor "${path}" is missing`);
      check(
        sameShape(shape, x.shape),
        () => `adapter: "${path}" has shape ${showShape(shape)}, expected ${showShape(x.shape)}`,
      );
      if (!(data instanceof Float32Array || data instanceof Float64Array))
        fail(`adapter: "${path}" is no float tensor`);
      read.set(path, data);
      saved.delete(path);
    }
    // PEFT also saves the head itself if the head has an adapter; the model has that head already.
    for (const name of saved.keys())
      if (!name.endsWith(".base_layer.weight"))
        fail(`adapter: tensor "${name}" belongs to no layer that the config targets`);
    const params: LoraParams = outsideScopes(() =>
      mapTree(fresh.trainable.params, ({ device, shape, dtype }, path) =>
        tensor(read.get(path)!, { device, shape, dtype }),
      ),
    );
    return adapted(model, fresh.trainable.settings, params);
  } finally {
    disposeLora(fresh);
  }
}

/** Reads the options of an adapter from PEFT's `adapter_config.json`. @throws naming an entry that is not supported */
function optionsFromPeft(configText: string): LoraOptions {
  let json: unknown;
  try {
    json = JSON.parse(configText);
  } catch (error) {
    fail(`adapter_config.json: not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
  check(isObject, () => `adapter_config.json: expected an object, got ${showValue(json)}`);
  const { peft_type: type, bias = "none", init_lora_weights: start = true, ...rest } = json as Record<string, unknown>;
  check(type === "LORA", () => `adapter_config.json: peft_type must be "LORA", got ${JSON.stringify(type)}`);
  check(bias === "none", () => `adapter_config.json: bias ${JSON.stringify(bias)} is not supported, only "none"`);
  check(
    STARTS.includes(start),
    () => `adapter_config.json: init_lora_weights ${JSON.stringify(start)} is not supported, it changes the base`,
  );
  const names = new Map<string, string>(Object.entries(NAMES).map(([ours, theirs]) => [theirs, ours]));
  const options: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(rest)) {
    const own = names.get(name);
    if (own !== undefined) {
      if (value !== null) options[own] = value;
    } else {
      const isOff = !value || (typeof value === "object" && Object.keys(value).length === 0);
      check(
        isOff || SILENT.has(name),
        () => `adapter_config.json: ${name} is not supported, got ${JSON.stringify(value)}`,
      );
    }
  }
  const { targetModules, excludeModules, rankPattern = {}, alphaPattern = {} } = LORA.read(options);
  for (const pattern of [targetModules, excludeModules, ...Object.keys({ ...rankPattern, ...alphaPattern })]) {
    // A pattern that could take exponential time is refused, as a tokenizer's is. Names are short, so more repetitions
    // are allowed.
    if (typeof pattern !== "string") continue;
    const own = pattern.startsWith(IGNORING_CASE) ? pattern.slice(IGNORING_CASE.length) : pattern;
    compilePattern(own, "adapter_config.json", MOST_ENDLESS);
  }
  return options;
}
