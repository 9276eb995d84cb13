/**
 * A compiled model draws what `act` draws on the WebAssembly executor, to the last bit: every kind of model, greedy and
 * not, up to the last position; and it refuses files that are none.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checksum } from "../../compiled/format.ts";
import { compileModel, type CompiledModel, openCompiled } from "../../compiled/index.ts";
import { act, HistoryTemplate } from "../../data/index.ts";
import { type Device, device as makeDevice, Rng, tensor, WorldgradError } from "../../engine/index.ts";
import { mapTree } from "../../engine/tree.ts";
import { byteTokenizer, initParams, type Model, modelConfig, type ModelOptions } from "../../nn/index.ts";
import { addLora, packModel } from "../../pretrained/index.ts";
import { type ActOptions } from "../../data/acting.ts";
import { SPECIAL_TOKENS, Template, type Trajectory } from "../../rl/index.ts";

const template = new Template(byteTokenizer({ specials: SPECIAL_TOKENS }));
const SIZES = { vocabSize: template.tokenizer.vocabSize, hiddenSize: 32, layers: 2, heads: 4, maxPositions: 96 };

let on: Device;
let exact: Device;
beforeAll(async () => {
  on = await makeDevice("wasm");
  exact = await makeDevice("reference");
});
afterAll(() => {
  on.dispose();
  exact.dispose();
});

/** A model whose weights are large enough for its choices to differ from token to token. */
const modelOf = (more: Partial<ModelOptions> = {}, device = on): Model => {
  const config = modelConfig({ ...SIZES, initializerRange: 0.5, ...more });
  return { config, params: initParams(config, new Rng(3), device) };
};

type Acting = (options: ActOptions) => AsyncGenerator<string, Trajectory | undefined, string>;

/** The episode of a caller whose answers are of several lengths, one of them empty. */
async function played(begin: Acting, more: ActOptions = {}): Promise<Trajectory> {
  const episode = begin({ maxActionTokens: 40, maxTurns: 4, rng: new Rng(7), ...more });
  const answers = ["yes", "", "further away than that", "no"];
  for (let next = await episode.next(); ; next = await episode.next(answers.shift()!)) {
    if (next.done) return next.value!;
  }
}

/** A template whose actions end often: a drawn letter does, beside the end token. */
const hasty = new Template(template.tokenizer, {
  format: {
    task: ["<|task|>", "<|end|>"],
    observation: ["<|obs|>", "<|end|>"],
    action: "<|act|>",
    end: "<|end|>",
    pad: "<|pad|>",
  },
  ends: Array.from({ length: 60 }, (_, i) => String.fromCharCode(60 + i)),
});

/** Plays the same on both, and expects the same. */
async function same(
  model: Model,
  agent: CompiledModel,
  options: ActOptions = {},
  template: Template = hasty,
): Promise<Trajectory> {
  const expected = await played((given) => act(model, template, "hello", given), options);
  expect(await played((given) => agent.act(template, "hello", given), options)).toEqual(expected);
  return expected;
}

const MODELS: readonly (readonly [string, Partial<ModelOptions>])[] = [
  ["llama", {}],
  ["shared keys and values", { kvHeads: 2 }],
  ["one head of them", { kvHeads: 1, headDim: 16 }],
  ["gpt2: learned positions, LayerNorm, biases", { family: "gpt2" }],
  ["qwen2: biases", { family: "qwen2" }],
  ["qwen3: norms of queries and keys", { family: "qwen3" }],
  ["smollm3: layers without positions", { family: "smollm3", rotaryLayers: [true, false] }],
  ["a sliding window", { family: "mistral", slidingWindow: 5 }],
  ["a window in some layers", { family: "qwen2", slidingWindow: 3, slidingLayers: [false, true] }],
  ["positions that are stretched", { ropeScaling: { type: "linear", factor: 4 } }],
  ["one layer, an own output matrix", { layers: 1, tieEmbeddings: false }],
];

describe("a compiled model", () => {
  it.each(MODELS)("%s: acts as the model does", async (_, more) => {
    const model = modelOf(more);
    const agent = await openCompiled(await compileModel(model));
    expect(agent).toMatchObject({ maxTokens: 96, vocabSize: SIZES.vocabSize });
    for (const temperature of [0, 0.7, 1]) {
      const { stream } = await same(model, agent, { temperature });
      expect(stream.turns.at(-1)).toBeGreaterThan(0);
    }
    expect((await same(model, agent, { temperature: 1, maxActionTokens: 1 })).stopReason).toMatch(/max_t/);
  });

  it("forgets turns as its template says: each context is read from where it differs", async () => {
    const model = modelOf();
    const agent = await openCompiled(await compileModel(model));
    const sliding = new HistoryTemplate(template.tokenizer, { ...hasty.options, history: { turns: 1 } });
    for (const temperature of [0, 1]) {
      const { stream } = await same(model, agent, { temperature }, sliding);
      expect(stream.contexts!.length).toBeGreaterThan(0);
      expect(stream.ids).not.toEqual((await same(model, agent, { temperature })).stream.ids);
    }
  });

  it("with an adapter, and in 8 bits", async () => {
    const model = modelOf();
    const adapted = addLora(model, { r: 2, loraAlpha: 8 });
    const plain = await same(adapted, await openCompiled(await compileModel(adapted)));
    expect(await same(model, await openCompiled(await compileModel(model)))).toEqual(plain); // its B is 0
    const rng = new Rng(2);
    const params = mapTree(adapted.trainable.params, (x) =>
      tensor(
        Float64Array.from({ length: x.size }, () => rng.normal()),
        { device: on, shape: x.shape },
      ),
    );
    const trained = adapted.trainable.modelOf(params);
    expect(await same(trained, await openCompiled(await compileModel(trained)))).not.toEqual(plain);
    const whole = await compileModel(model);
    const packed = await packModel(model, "q8");
    const file = await compileModel(packed);
    expect(file.length).toBeLessThan(0.6 * whole.length);
    await same(packed, await openCompiled(file), { temperature: 1 });
  });

  it("of the reference executor, with 64 bits, is one with 32", async () => {
    const file = await compileModel(modelOf({}, exact));
    expect(Buffer.from(file).equals(await compileModel(modelOf()))).toBe(true);
  });

  it("fills a text to its last position, and no further", async () => {
    const model = modelOf();
    for (const maxTokens of [9, 10, 41]) {
      const agent = await openCompiled(await compileModel(model, { maxTokens }));
      const { stream, stopReason } = await same(model, agent, { maxTokens, temperature: 1 });
      expect(stopReason).toBe("context_overflow");
      expect(stream.ids.length).toBeLessThanOrEqual(maxTokens);
      // Where nothing else is said, its own positions are the limit.
      expect((await played((given) => agent.act(hasty, "hello", given), { temperature: 1 })).stream.ids).toEqual(
        stream.ids,
      );
      await expect(agent.act(hasty, "hello", { maxTokens: maxTokens + 1 }).next()).rejects.toThrow(
        `maxTokens ${maxTokens + 1} exceeds the model's ${maxTokens} positions`,
      );
      await expect(agent.act(hasty, "hello, hello, hello, hello, hello, hello").next()).rejects.toThrow("tokens, only");
    }
  });

  it("plays episodes one after the other and side by side, each as if it were alone", async () => {
    const model = modelOf();
    const agent = await openCompiled(await compileModel(model));
    const first = await same(model, agent);
    const left = agent.act(hasty, "another task");
    await left.next();
    // Of tasks that begin alike, or are the same, in turns and at once.
    const options = { temperature: 1, maxActionTokens: 40, maxTurns: 3 };
    const tasks = ["hello", "hello", "hell", "other", "hello you"];
    const play = async (begin: (task: string, given: ActOptions) => ReturnType<Acting>): Promise<unknown> =>
      Promise.all(tasks.map((task, n) => played((given) => begin(task, { ...given, ...options, rng: new Rng(n) }))));
    expect(await play((task, given) => agent.act(hasty, task, given))).toEqual(
      await play((task, given) => act(model, hasty, task, given)),
    );
    await left.return(undefined);
    expect(await same(model, agent)).toEqual(first);
    const stop = new AbortController();
    const aborted = agent.act(template, "hello", { signal: stop.signal, maxTurns: 2 });
    stop.abort();
    expect((await aborted.next()).value).toMatchObject({ stopReason: "aborted" });
    expect(await same(model, agent)).toEqual(first);
  });

  it("says that a model has diverged as the model does", async () => {
    const model = modelOf();
    const params = mapTree(model.params, (x) =>
      tensor(new Float32Array(x.size).fill(NaN), { device: on, shape: x.shape }),
    );
    const agent = await openCompiled(await compileModel({ ...model, params }));
    const why = "the logit of token 0 is NaN; the model has diverged";
    await expect(act({ ...model, params }, template, "a").next()).rejects.toThrow(why);
    await expect(agent.act(template, "a").next()).rejects.toThrow(why);
  });

  it("refuses what it cannot do", async () => {
    const agent = await openCompiled(await compileModel(modelOf()));
    for (const filter of [{ topK: 3 }, { topP: 0.5 }, { minP: 0.1 }])
      await expect(agent.act(template, "a", filter as object).next()).rejects.toThrow("leave out topK, topP and minP");
    const small = new Template(byteTokenizer({ specials: SPECIAL_TOKENS }));
    const larger = await openCompiled(await compileModel(modelOf({ vocabSize: SIZES.vocabSize + 1 })));
    await expect(larger.act(small, "a").next()).rejects.toThrow("the model has embeddings of 262 tokens");
    await expect(agent.act(template, "a", { maxTurn: 3 } as object).next()).rejects.toThrow("maxTurn");
    // A tokenizer of more tokens than the model has: the wrong one, as in `act`.
    const wide = new Template(byteTokenizer({ specials: ["<|a|>", "<|b|>", ...SPECIAL_TOKENS] }));
    await expect(agent.act(wide, "a").next()).rejects.toThrow("none of the model's vocabulary of 261");
    await expect(agent.act(undefined as never, "a").next()).rejects.toThrow("act: expected a Template, got");
    await expect(agent.act("a" as never, template as never).next()).rejects.toThrow("act: the task is a text");
    await expect(agent.act(template, undefined as never).next()).rejects.toThrow("act: the task is a text");
    await expect(agent.act(template, "a", { rng: 5 } as object).next()).rejects.toThrow("act: rng must be");
    await expect(compileModel(Promise.resolve() as never)).rejects.toThrow("compileModel: expected a model");
    await expect(compileModel(undefined as never)).rejects.toThrow("compileModel: expected a model");
  });
});

describe("a file", () => {
  it.each([[0], [-1], [97], [1.5], [NaN], ["8"]])("of at most %s tokens is refused", async (maxTokens) => {
    const options = { maxTokens } as { maxTokens: number };
    await expect(compileModel(modelOf(), options)).rejects.toThrow("an integer from 1 to the model's 96");
  });

  it("has an option that is misspelt", async () => {
    await expect(compileModel(modelOf(), { maxToken: 8 } as object)).rejects.toThrow("maxToken");
  });

  it("that is none, or a part of one, or of a later version, is refused", async () => {
    const file = await compileModel(modelOf());
    const none = "this is no compiled model";
    for (const other of [0, 1, 3, 4]) await expect(openCompiled(file.slice(0, other))).rejects.toThrow(none);
    for (const other of [100, 400]) await expect(openCompiled(file.slice(0, other))).rejects.toThrow("is cut off");
    const page = new TextEncoder().encode("<!doctype html><title>404</title>");
    await expect(openCompiled(page)).rejects.toThrow('it begins with "<!doctype html><"');
    await expect(openCompiled(new Uint8Array(1000))).rejects.toThrow(none);
    await expect(openCompiled(new TextEncoder().encode("\u0002\0\0\0{}"))).rejects.toThrow(none);
    await expect(openCompiled(file.buffer as unknown as Uint8Array)).rejects.toThrow("a Uint8Array");
    await expect(openCompiled(file.slice(0, -1))).rejects.toThrow(`it has ${file.length - 1} bytes`);
    await expect(openCompiled(Uint8Array.from([...file, 0]))).rejects.toThrow("1 bytes stand behind");
    const text = new TextDecoder("latin1").decode(file).replace("compiled model 1", "compiled model 2");
    const later = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    await expect(openCompiled(later)).rejects.toThrow("a worldgrad compiled model 2, this version reads");
  });

  it("whose header was changed, with the checksum of the change, is refused by name", async () => {
    const file = await compileModel(modelOf({ layers: 1 }), { maxTokens: 16 });
    const end = 8 + new DataView(file.buffer).getUint32(0, true);
    type Changed = Record<string, unknown> & { sizes: Record<string, unknown> };
    const opened = async (change: (header: Changed) => void): Promise<CompiledModel> => {
      const header = JSON.parse(new TextDecoder().decode(file.subarray(8, end))) as Changed;
      change(header);
      const text = new TextEncoder().encode(JSON.stringify(header));
      const start = Math.ceil((8 + text.length) / 8) * 8;
      const rest = file.subarray(Math.ceil(end / 8) * 8);
      const other = new Uint8Array(start + rest.length);
      other.set(text, 8);
      other.set(rest, start);
      const view = new DataView(other.buffer);
      view.setUint32(0, text.length, true);
      view.setUint32(4, checksum(other.subarray(8)), true);
      return openCompiled(other);
    };
    expect(await opened(() => undefined)).toMatchObject({ maxTokens: 16 });
    await expect(opened(({ sizes }) => (sizes["memory"] = 100))).rejects.toThrow("the file is damaged");
    await expect(opened(({ sizes }) => (sizes["memory"] = 2 ** 40))).rejects.toThrow(`${2 ** 40} bytes of memory`);
    for (const change of [
      (header: Changed) => delete header["programs"],
      (header: Changed) => (header["programs"] = [1, 2]),
      (header: Changed) => (header["kernels"] = { length: 3 }),
      (header: Changed) => (header["data"] = [-1]),
      ({ sizes }: Changed) => delete sizes["drawn"],
      ({ sizes }: Changed) => (sizes["kvHeads"] = "2"),
      (header: Changed) => (header.sizes = null as never),
    ])
      await expect(opened(change)).rejects.toThrow("this is no compiled model");
  });

  it("with one byte changed is refused, be it of the header, a kernel or a weight", async () => {
    const file = await compileModel(modelOf({ layers: 1 }), { maxTokens: 16 });
    const rng = new Rng(11);
    const places = [0, 4, 7, 8, 60, file.length - 1, ...Array.from({ length: 60 }, () => rng.int(file.length))];
    for (const place of places) {
      const other = file.slice();
      other[place]! ^= 1 << rng.int(8);
      await expect(openCompiled(other), `byte ${place}`).rejects.toThrow(WorldgradError);
    }
    const other = file.slice();
    other[file.length - 1]! ^= 1;
    await expect(openCompiled(other)).rejects.toThrow("openCompiled: the file is damaged: its checksum is another");
  });

  it("has the same bytes whenever it is made, and may lie within others", async () => {
    const [file, again] = [await compileModel(modelOf()), await compileModel(modelOf())];
    expect(Buffer.from(again).equals(file)).toBe(true);
    const within = new Uint8Array(file.length + 3);
    within.set(file, 3);
    await same(modelOf(), await openCompiled(within.subarray(3)));
    // What Node reads a file as: a part of a pool, whose `slice` shares its memory.
    for (const at of [0, 3, 8]) {
      const pool = Buffer.alloc(file.length + at);
      pool.set(file, at);
      await same(modelOf(), await openCompiled(pool.subarray(at)));
    }
  });
});
