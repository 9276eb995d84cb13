/** Adapters: PEFT's numbers, and what an adapter must not change. */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import {
  checkGradient,
  type Device,
  device as makeDevice,
  mapTree,
  mul,
  neg,
  noGrad,
  scope,
  sum,
  tensor,
  type Tensor,
  tokenLogProbs,
  treeEntries,
  treeLeaves,
  valueAndGrad,
} from "../../engine/index.ts";
import { Rng } from "../../engine/random.ts";
import {
  addLora,
  checkLora,
  disposeLora,
  loraFromFiles,
  type LoraModel,
  type LoraOptions,
  type LoraPair,
  type LoraParams,
  loraToFiles,
  mergeLora,
  modelFromFiles,
  modelToFiles,
} from "../../pretrained/index.ts";
import {
  countParameters,
  forward,
  initParams,
  logits,
  type Model,
  modelConfig,
  type ModelOptions,
  outputMatrix,
  pickHidden,
  readSafetensors,
  trainableOf,
} from "../../nn/index.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 300_000 }); // on a machine that may be busy

const FIXTURES = new URL("../fixtures/", import.meta.url);
const CASES = {
  llama_lora: "llama_tiny",
  llama_head: "llama_tiny",
  llama_dora: "llama_tiny",
  llama_patterns: "llama_tiny",
  llama_saved: "llama_tiny",
  qwen3_rslora: "qwen3_tiny",
  qwen3_rsdora: "qwen3_tiny",
  gpt2_lora: "gpt2_tiny",
  gpt2_dora: "gpt2_tiny",
} as const;
type Case = keyof typeof CASES;

const bytes = (path: string): Uint8Array => readFileSync(new URL(path, FIXTURES));
const text = (path: string): string => readFileSync(new URL(path, FIXTURES), "utf8");
const baseOf = (name: string, device: Device): Model =>
  modelFromFiles(text(`models/${name}/config.json`), bytes(`models/${name}/model.safetensors`), device);
const load = (name: Case, device: Device): LoraModel =>
  loraFromFiles(
    baseOf(CASES[name], device),
    text(`lora/${name}/adapter_config.json`),
    bytes(`lora/${name}/adapter_model.safetensors`),
  );

interface Batch {
  readonly input_ids: number[][];
  readonly weights: number[][];
}
const batchOf = (name: string): Batch => JSON.parse(text(`models/${name}/fixture.json`)) as Batch;

/** −Σ w·log p / Σ w, and the logits at each row's end. */
function lossOf({ params, config }: Model, { input_ids: ids, weights }: Batch): [Tensor, Tensor] {
  const [B, T] = [ids.length, ids[0]!.length];
  const { device } = params.embedding;
  const hidden = forward(params, config, tensor(Int32Array.from(ids.flat()), { device, shape: [B, T] }));
  const at = (pick: (t: number) => boolean): Int32Array =>
    Int32Array.from(ids.flatMap((row, b) => row.flatMap((_, t) => (pick(t) ? [b * T + t] : []))));
  const targets = tensor(Int32Array.from(ids.flatMap((row) => row.slice(1))), { device });
  const { logProbs } = tokenLogProbs(
    pickHidden(
      hidden,
      at((t) => t < T - 1),
    ),
    outputMatrix(params),
    targets,
  );
  const w = Float64Array.from(weights.flat());
  const total = w.reduce((a, b) => a + b, 0);
  const loss = neg(
    sum(
      mul(
        logProbs,
        tensor(
          w.map((x) => x / total),
          { device, dtype: device.float },
        ),
      ),
    ),
  );
  return [
    loss,
    logits(
      params,
      pickHidden(
        hidden,
        at((t) => t === T - 1),
      ),
    ),
  ];
}

const distance = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Array.from(a).reduce((most, x, i) => Math.max(most, Math.abs(x - b[i]!)), a.length === b.length ? 0 : Infinity);

/** The logits of a text, [T · V]. */
const logitsOf = (model: Model, ids: readonly number[] = [3, 1, 4, 1, 5]): Promise<ArrayLike<number>> => {
  const { params, config } = model;
  const { device } = params.embedding;
  const x = (): Tensor => tensor(Int32Array.from(ids), { device, shape: [1, ids.length] });
  return scope(() => noGrad(() => logits(params, forward(params, config, x())))).read();
};

/** Sets B, and the lengths a little off. */
function disturb(params: LoraParams, seed = 5): LoraParams {
  const rng = new Rng(seed);
  return mapTree(params, (x, path) => {
    const old = x.readSync();
    const draw = rng.split(path);
    const value = old.map((v) => (path.endsWith("vector") ? v * (1 + 0.2 * draw.normal()) : v + 0.2 * draw.normal()));
    return tensor(value, { device: x.device, shape: x.shape, dtype: x.dtype });
  });
}

let exact: Device;
let wasm: Device;
beforeAll(async () => {
  exact = await makeDevice("reference");
  wasm = await makeDevice("wasm", { threads: 1 });
});
afterAll(() => {
  exact.dispose();
  wasm.dispose();
});

describe.each(Object.keys(CASES) as Case[])("%s, as PEFT computes it", (name) => {
  const batch = batchOf(CASES[name]);
  const expected = readSafetensors(bytes(`lora/${name}/expected.safetensors`));
  const numbers = (of: string): ArrayLike<number> => expected.get(of)!.data as Float64Array;

  it.each(["reference", "wasm"] as const)("loss, logits and gradients on %s", async (kind) => {
    const device = kind === "wasm" ? wasm : exact;
    const near = kind === "wasm" ? 2e-5 : 1e-6;
    const { trainable } = load(name, device);
    const { value, aux, grads } = valueAndGrad((params: LoraParams) => lossOf(trainable.modelOf(params), batch))(
      trainable.params,
    );
    expect(distance(await value.read(), numbers("loss"))).toBeLessThan(near);
    expect(distance(await aux.read(), numbers("logits"))).toBeLessThan(near);
    const entries = treeEntries(grads);
    expect(entries.length).toBe(expected.size - 2);
    for (const [path, g] of entries) expect(distance(await g.read(), numbers(path)), path).toBeLessThan(near);
  });

  it("is saved as it was loaded, and merged it is the same function", async () => {
    const model = load(name, exact);
    const files = await loraToFiles(model);
    const theirs = JSON.parse(text(`lora/${name}/adapter_config.json`)) as Record<string, unknown>;
    const ours = withoutStarts(JSON.parse(files["adapter_config.json"] as string) as Record<string, unknown>);
    // In the place of a pattern, which may fit modules that are no layers, the names that it finds are saved.
    const isPattern = typeof theirs["target_modules"] === "string" && theirs["target_modules"] !== "all-linear";
    const { target_modules: names, exclude_modules: _, ...rest } = ours;
    if (isPattern) expect((names as string[]).length).toBe(Object.keys(model.trainable.params).length);
    expect(theirs).toMatchObject(isPattern ? rest : ours);
    const weights = files["adapter_model.safetensors"] as Uint8Array;
    const again = loraFromFiles(model.trainable.base, files["adapter_config.json"] as string, weights);
    expect(await logitsOf(again)).toEqual(await logitsOf(model));
    const merged = mergeLora(model);
    expect(merged.trainable).toBeUndefined();
    expect(distance(await logitsOf(merged), await logitsOf(model))).toBeLessThan(1e-12);
    // Merging writes nothing: the base is what it was.
    expect(await logitsOf(model.trainable.base)).toEqual(await logitsOf(baseOf(CASES[name], exact)));
    // A merged model is saved like any other.
    expect(Object.keys(await modelToFiles(merged))).toEqual(["config.json", "model.safetensors"]);
    await expect(modelToFiles(model)).rejects.toThrow("has an adapter: save the adapter");
  });
});

/** Without what PEFT writes differently for an adapter that is being made. */
function withoutStarts({ base_model_name_or_path: _name, ...rest }: Record<string, unknown>): Record<string, unknown> {
  const { target_modules: names } = rest;
  return { ...rest, target_modules: Array.isArray(names) ? (names as string[]).toSorted() : names };
}

const METHODS: readonly LoraOptions[] = [
  { r: 2, targetModules: "all-linear" },
  { r: 2, targetModules: "all-linear", useRslora: true, loraAlpha: 3 },
  { r: 2, targetModules: "all-linear", useDora: true },
  { r: 2, targetModules: "all-linear", rankPattern: { "1\\..*": 3 }, alphaPattern: { "mlp.*": 1, "0.*": 30 } },
  { r: 2, targetModules: "all-linear", modulesToSave: ["lm_head"] },
];
const tiny = (family: "llama" | "gpt2", device: Device, size: Partial<ModelOptions> = {}): Model => {
  const sizes = { vocabSize: 11, hiddenSize: 8, layers: 2, heads: 2, maxPositions: 16, tieEmbeddings: false, ...size };
  const config = modelConfig({ family, ...sizes });
  return { config, params: initParams({ ...config, initializerRange: 0.4 }, new Rng(3), device) };
};

describe.each(["llama", "gpt2"] as const)("an adapter on %s", (family) => {
  it.each(METHODS)("that has learnt nothing changes no bit: %o", async (options) => {
    for (const device of [exact, wasm]) {
      const model = tiny(family, device);
      const adapted = addLora(model, options, new Rng(1));
      expect(await logitsOf(adapted)).toEqual(await logitsOf(model));
      expect(adapted.trainable.base).toBe(model);
    }
  });

  it.each(METHODS)("has the gradient that differences give: %o", async (options) => {
    const { trainable } = addLora(
      tiny(family, exact, { vocabSize: 5, hiddenSize: 4, layers: 1, intermediateSize: 4 }),
      { ...options, r: 1 },
      new Rng(1),
    );
    const batch: Batch = { input_ids: [[1, 2, 3]], weights: [[1, 0.5]] };
    // DoRA's norm is a constant of the gradient, so there its A and B have another: the test is by m alone.
    const start = disturb(trainable.params);
    const loss = (params: LoraParams): Tensor => lossOf(trainable.modelOf(params), batch)[0];
    if (!options.useDora) await checkGradient(loss, start);
    else {
      const lengths = Object.fromEntries(
        Object.entries(start as Readonly<Record<string, LoraPair>>).map(([k, { lora_magnitude_vector: m }]) => [k, m!]),
      );
      await checkGradient(
        (ms: Readonly<Record<string, Tensor>>) =>
          loss(Object.fromEntries(Object.entries(start).map(([k, p]) => [k, { ...p, lora_magnitude_vector: ms[k] }]))),
        lengths,
      );
    }
  });

  it.each(METHODS)("merged is the adapter, on every executor: %o", async (options) => {
    for (const [device, near] of [
      [exact, 1e-12],
      [wasm, 2e-5],
    ] as const) {
      const { trainable } = addLora(tiny(family, device), options, new Rng(1));
      const model = trainable.modelOf(disturb(trainable.params));
      const unmerged = await logitsOf(model);
      expect(distance(unmerged, await logitsOf(model.trainable.base))).toBeGreaterThan(0.01);
      expect(distance(await logitsOf(mergeLora(model)), unmerged)).toBeLessThan(near);
    }
  });

  it("drops inputs in training only, the same ones from the same stream", async () => {
    const options: LoraOptions = { r: 2, targetModules: "all-linear", loraDropout: 0.5 };
    const { trainable } = addLora(tiny(family, exact), options, new Rng(1));
    const params = disturb(trainable.params);
    const of = (dropout?: Rng): Promise<ArrayLike<number>> => logitsOf(trainable.modelOf(params, { dropout }));
    const plain = await of();
    expect(await of(new Rng(7))).toEqual(await of(new Rng(7)));
    expect(distance(await of(new Rng(7)), plain)).toBeGreaterThan(1e-3);
    expect(distance(await of(new Rng(8)), await of(new Rng(7)))).toBeGreaterThan(1e-3);
  });
});

describe("addLora", () => {
  const names = (model: LoraModel): string[] => Object.keys(model.trainable.params);

  it("finds layers as PEFT does: by the end of the name, by a pattern of the whole, all but the head", () => {
    const model = tiny("llama", exact);
    expect(names(addLora(model))).toEqual(
      [0, 1].flatMap((n) => ["q", "v"].map((k) => layer(n, `self_attn.${k}_proj`))),
    );
    const pattern = /.*\.1\..*(up|down)_proj/;
    const expected = [layer(1, "mlp.up_proj"), layer(1, "mlp.down_proj")];
    expect(names(addLora(model, { targetModules: pattern }))).toEqual(expected);
    expect(names(addLora(model, { targetModules: pattern.source }))).toEqual(expected);
    expect(names(addLora(model, { targetModules: "all-linear" })).length).toBe(14);
    expect(names(addLora(model, { targetModules: "all-linear", excludeModules: ["mlp.up_proj"] })).length).toBe(12);
    expect(names(addLora(model, { targetModules: ["lm_head"] }))).toEqual(["base_model.model.lm_head"]);
  });

  it("gives a layer the first rank and α whose pattern fits the end of its name", () => {
    const ranks = (options: LoraOptions): number[] =>
      Object.values(addLora(tiny("llama", exact), options).trainable.params).map(
        (pair) => (pair as LoraPair)["lora_A.weight"].shape[0]!,
      );
    // q and v of the first layer, then of the second.
    expect(ranks({ rankPattern: { q_proj: 3 } })).toEqual([3, 8, 3, 8]);
    expect(ranks({ rankPattern: { proj: 3 } })).toEqual([8, 8, 8, 8]);
    expect(ranks({ rankPattern: { ".*proj": 3, q_proj: 5 } })).toEqual([3, 3, 3, 3]);
    expect(ranks({ rankPattern: { "layers.1.self_attn.v_proj": 5, "^model.layers.0.*|other": 6 } })).toEqual([
      6, 6, 8, 5,
    ]);
    expect(ranks({ rankPattern: {}, alphaPattern: {} })).toEqual([8, 8, 8, 8]);
  });

  it("trains what is to be saved whole, from the base's values, which stay", async () => {
    const model = tiny("llama", exact);
    const before = Array.from(await logitsOf(model));
    const adapted = addLora(model, { r: 1, modulesToSave: ["lm_head", "embed_tokens"] });
    const { params } = adapted.trainable;
    expect(Object.keys(params).slice(-2)).toEqual(["base_model.model.model.embed_tokens", "base_model.model.lm_head"]);
    const { weight } = params["base_model.model.lm_head"] as { readonly weight: Tensor };
    expect([...weight.readSync()]).toEqual([...(model.params.head as Tensor).readSync()]);
    const moved = adapted.trainable.modelOf(disturb(params));
    expect(distance(await logitsOf(moved), before)).toBeGreaterThan(0.01);
    expect(Array.from(await logitsOf(moved.trainable.base))).toEqual(before);
    const config = (await loraToFiles(moved))["adapter_config.json"] as string;
    expect(JSON.parse(config)).toMatchObject({
      target_modules: ["q_proj", "v_proj"],
      modules_to_save: ["lm_head", "embed_tokens"],
    });
    const merged = mergeLora(moved);
    disposeLora(moved); // what it has merged is its own
    expect(Array.from(await logitsOf(merged)).every(Number.isFinite)).toBe(true);
  });

  it("refuses in one line what it cannot do", () => {
    const model = tiny("llama", exact);
    const refusal =
      (options: LoraOptions): (() => unknown) =>
      () =>
        addLora(model, options);
    expect(refusal({ targetModules: ["q_prj"] })).toThrow("lora: no layer is called q_prj; there are self_attn.q_proj");
    expect(refusal({ targetModules: "nothing" })).toThrow("lora: targetModules finds no layer");
    expect(refusal({ targetModules: "(" })).toThrow('lora: "(" is no regular expression');
    expect(refusal({ targetModules: ["embed_tokens"] })).toThrow(
      'lora: "model.embed_tokens" is a table of embeddings, and only linear layers can have an adapter',
    );
    expect(refusal({ rankPattern: { q_proj: 0 } })).toThrow("lora: rankPattern must be ranks by name");
    expect(refusal({ rankPattern: { "(": 1 } })).toThrow("is no regular expression");
    expect(refusal({ alphaPattern: { q_proj: Infinity } })).toThrow("lora: alphaPattern must be numbers > 0 by name");
    expect(refusal({ modulesToSave: ["lm_head", "norm"] })).toThrow(
      "lora: modulesToSave may be model.embed_tokens and lm_head in this model, got norm",
    );
    expect(refusal({ targetModules: ["lm_head"], modulesToSave: ["lm_head"] })).toThrow(
      "lora: lm_head is in targetModules and in modulesToSave",
    );
    const tied = tiny("llama", exact, { tieEmbeddings: true });
    for (const name of ["embed_tokens", "lm_head", "norm"])
      for (const refuses of [addLora, checkLora])
        expect(() => refuses(tied, { modulesToSave: [name] })).toThrow(
          `lora: modulesToSave is not supported where the head is tied to the embedding, got ${name}`,
        );
    expect(refusal({ r: 0 })).toThrow("lora: r must be an integer ≥ 1, got 0");
    expect(refusal({ targetModules: [] })).toThrow("lora: targetModules must be");
    const adapted = addLora(model);
    expect(() => addLora(adapted)).toThrow("addLora: the model has an adapter already");
  });

  it("starts A uniformly within 1/√in, from the seed, and B at 0", () => {
    const start = (seed: number): number[] =>
      treeLeaves(addLora(tiny("llama", exact), { r: 8 }, new Rng(seed)).trainable.params).flatMap((x) => [
        ...x.readSync(),
      ]);
    expect(start(1)).toEqual(start(1));
    expect(start(1)).not.toEqual(start(2));
    const A = start(1).filter((x) => x !== 0);
    expect(Math.max(...A.map(Math.abs))).toBeLessThan(1 / Math.sqrt(8));
    expect(Math.max(...A.map(Math.abs))).toBeGreaterThan(0.95 / Math.sqrt(8));
    expect(A.reduce((a, b) => a + b * b, 0) / A.length).toBeCloseTo(1 / 24, 2);
  });

  it("counts what is trained, and frees what it made", () => {
    const model = tiny("llama", wasm);
    const adapted = addLora(model, { r: 2, useDora: true });
    const whole = treeLeaves(model.params).reduce((n, x) => n + x.size, 0);
    expect(countParameters(model)).toEqual({ trainable: whole, all: whole });
    expect(countParameters(adapted).trainable).toBe(4 * (2 * 8 + 8 * 2 + 8));
    expect(countParameters(adapted).all).toBe(countParameters(adapted).trainable + whole);
    expect(trainableOf(adapted)).toBe(adapted.trainable);
    disposeLora(adapted);
    expect(treeLeaves(adapted.trainable.params).every((x) => x.disposed)).toBe(true);
    expect(treeLeaves(model.params).some((x) => x.disposed)).toBe(false);
  });
});

describe("an adapter's files", () => {
  const config = (changes: object): string =>
    JSON.stringify({ ...(JSON.parse(text("lora/llama_lora/adapter_config.json")) as object), ...changes });
  const weights = bytes("lora/llama_lora/adapter_model.safetensors");

  it("with patterns of Python's re that unsloth and others write", () => {
    const unsloth =
      String.raw`(?:.*?(?:language|text).*?(?:self_attn).*?(?:q_proj|v_proj).*?)` +
      String.raw`|(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|attention)\.(?:(?:q_proj|v_proj)))`;
    for (const target_modules of [
      unsloth,
      String.raw`.*\b(q|v)_proj\b`,
      "(?i).*(Q|V)_PROJ",
      String.raw`(?i).*LAYERS\.[0-9]+\..*\b[qv]_proj`,
    ]) {
      const loaded = loraFromFiles(baseOf("llama_tiny", wasm), config({ target_modules }), weights);
      const named = loraFromFiles(
        baseOf("llama_tiny", wasm),
        config({ target_modules: ["q_proj", "v_proj"] }),
        weights,
      );
      expect(countParameters(loaded)).toEqual(countParameters(named));
    }
    const model = tiny("llama", wasm);
    expect(countParameters(addLora(model, { targetModules: /.*Q_PROJ/i }))).toEqual(
      countParameters(addLora(model, { targetModules: ["q_proj"] })),
    );
  });

  it("that ask for something else are refused by its name, and nothing stays allocated", () => {
    const model = baseOf("llama_tiny", wasm);
    const before = wasm.backend.stats().liveBytes;
    const refusal =
      (changes: object): (() => unknown) =>
      () =>
        loraFromFiles(model, config(changes), weights);
    expect(refusal({ peft_type: "LOHA" })).toThrow('adapter_config.json: peft_type must be "LORA", got "LOHA"');
    expect(refusal({ bias: "all" })).toThrow('adapter_config.json: bias "all" is not supported, only "none"');
    expect(refusal({ init_lora_weights: "pissa" })).toThrow('init_lora_weights "pissa" is not supported');
    expect(refusal({ rank_pattern: { q_proj: 4 } })).toThrow(
      `adapter: r is 4 in the config, "${layer(0, "self_attn.q_proj")}.lora_A.weight" has shape [3, 32]`,
    );
    expect(refusal({ rank_pattern: { "((a+)+)+b": 4 } })).toThrow("adapter_config.json: ");
    expect(refusal({ alpha_pattern: { q_proj: "4" } })).toThrow("lora: alphaPattern must be numbers > 0 by name");
    expect(refusal({ modules_to_save: ["lm_head"] })).toThrow('tensor "base_model.model.lm_head.weight" is missing');
    expect(refusal({ modules_to_save: ["norm"] })).toThrow("modulesToSave may be model.embed_tokens and lm_head");
    expect(refusal({ r: 4 })).toThrow("r is 4 in the config, ");
    expect(refusal({ target_modules: ["q_proj"] })).toThrow("belongs to no layer that the config targets");
    expect(refusal({ target_modules: ["q_proj", "v_proj", "k_proj"] })).toThrow('k_proj.lora_A.weight" is missing');
    expect(() => loraFromFiles(model, "{", weights)).toThrow("adapter_config.json: not valid JSON");
    expect(wasm.backend.stats().liveBytes).toBe(before);
  });
});

const layer = (n: number, name: string): string => `base_model.model.model.layers.${n}.${name}`;
