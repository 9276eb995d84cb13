/**
 * The text of answers of SentencePiece tokenizers, whose characters without a token are written in bytes: streams are
 * the whole text, spaces stay, names of tokens differ and offsets grow (ggml-org/llama.cpp#4036,
 * vllm-project/vllm#44319, triton-inference-server/server#8538).
 */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Device } from "../../../engine/device.ts";
import { assign } from "../../../engine/state.ts";
import { tensor } from "../../../engine/ops/create.ts";
import type { Tensor } from "../../../engine/tensor.ts";
import { llama2cConfig, modelFromLlama2c, tokenizerFromJSON, tokenizerFromLlama2c } from "../../../pretrained/index.ts";
import type { Tokenizer } from "../../../nn/index.ts";
import { type PolicyServer, servePolicy } from "../../../connect/serve/index.ts";
import { GrowingText } from "../../../connect/serve/text.ts";
import { wasm } from "../../support/rlExecutors.ts";
import { ROOM, scriptedModel, teach } from "../../support/scriptedModel.ts";
import { sentencePiece } from "../../support/sentencePiece.ts";

const tokenizer = tokenizerFromJSON(sentencePiece(["▁", "h", "i", "▁Hello", "▁world", "▁true", "true", "▁end", "A"]));
const idOf = (name: string): number => tokenizer.tokenToId(name)!;
const bytesOf = (text: string): number[] => [...new TextEncoder().encode(text)].map((byte) => 3 + byte);
const SAID = [idOf("▁Hello"), ...bytesOf("㐂䔁娬"), idOf("▁world")];

let device: Device;
beforeAll(async () => {
  device = await wasm.open();
});
afterAll(() => device.dispose());
let server: PolicyServer | undefined;
afterEach(async () => server?.close());

/** A client of a server that says certain tokens behind prompts of certain lengths. */
async function saying(said: readonly { readonly behind: number; readonly ids: readonly number[] }[]): Promise<OpenAI> {
  const model = scriptedModel(device, tokenizer.vocabSize);
  teach(model, said);
  server = await servePolicy({ model, tokenizer, stopIds: [2] }, { name: "m" });
  return new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
}
const ASK = { model: "m", prompt: "hi", temperature: 0, max_tokens: 20 } as const;

/** The text of a stream, and its text offsets. */
async function streamed(client: OpenAI, body: object): Promise<{ text: string; offsets: number[] }> {
  let text = "";
  const offsets: number[] = [];
  const parts = await client.completions.create({ ...ASK, ...body, stream: true });
  for await (const { choices } of parts) {
    text += choices[0]!.text;
    offsets.push(...(choices[0]!.logprobs?.text_offset ?? []));
  }
  return { text, offsets };
}

describe("completions of a tokenizer with bytes", () => {
  // "hi" is <s> ▁ h i: the first answer token stands at place 4.
  it.each([
    [" Hello㐂䔁娬 world", SAID],
    ["é😀 end", [...bytesOf("é😀"), idOf("▁end")]],
    [" world\ufffd\ufffd end", [idOf("▁world"), ...bytesOf("é😀").slice(2, 4), idOf("▁end")]],
    [" Hello\ufffd", [idOf("▁Hello"), ...bytesOf("é").slice(0, 1)]],
  ])("%j: the stream is the whole text, and offsets are places in it", async (text, ids) => {
    const client = await saying([{ behind: 4, ids: [...ids, 2] }]);
    const whole = await client.completions.create({ ...ASK, logprobs: 0 });
    expect(whole.choices[0]!.text).toBe(text);
    const { text_offset: offsets, tokens } = whole.choices[0]!.logprobs!;
    expect(tokens).toHaveLength(ids.length + 1);
    expect(await streamed(client, { logprobs: 0 })).toEqual({ text, offsets });
    // Where a token is a text of its own, it stands at its place. Bytes that are no text have no exact ones.
    if (text.includes("\ufffd")) return;
    const characters = [...text];
    tokens!.forEach((name, t) => {
      if (/^[ \w]+$/.test(name)) expect(characters.slice(offsets![t]).join("").startsWith(name)).toBe(true);
    });
  });

  // vLLM and transformers look for stop strings after each token, too.
  it.each([
    ["\n", [idOf("▁Hello"), ...bytesOf("\n"), idOf("▁world")], " Hello"],
    ["o\n", [idOf("▁Hello"), ...bytesOf("\n"), idOf("▁world")], " Hell"],
    ["\n\n", [...bytesOf("a\n\n"), idOf("▁world")], "a"],
    ["婬", [idOf("▁Hello"), ...bytesOf("㐂婬"), idOf("▁world")], " Hello㐂"],
  ])("the stop string %j in bytes ends the answer with its last byte", async (stop, ids, text) => {
    const client = await saying([{ behind: 4, ids: [...ids, 2] }]);
    for (const max_tokens of [20, ids.length - 1]) {
      const body = { ...ASK, stop: [stop], max_tokens, return_token_ids: true } as typeof ASK;
      const choice = (await client.completions.create(body)).choices[0]!;
      expect(choice).toMatchObject({ text, finish_reason: "stop", stop_reason: stop, token_ids: ids.slice(0, -1) });
      expect((await streamed(client, { stop: [stop], max_tokens })).text).toBe(text);
    }
  });

  it("a row of bytes that never ends is stopped; one that is no text has no line ends", () => {
    const row = (continues: boolean, stop: string[], ids: readonly number[]): [number, string, string | undefined] => {
      const text = new GrowingText(tokenizer, { stop, skipSpecials: true, continues });
      const count = ids.findIndex((id) => text.push(id)) + 1;
      text.end();
      return [count, text.text, text.stoppedBy];
    };
    const ends = bytesOf("\n".repeat(500));
    expect(row(false, ["\n"], ends)).toEqual([1, "", "\n"]);
    expect(row(true, ["END", "\n\n\n"], [idOf("▁Hello"), ...ends])).toEqual([4, " Hello", "\n\n\n"]);
    expect(row(true, ["END"], ends)).toEqual([0, "\n".repeat(500), undefined]);
    expect(row(true, ["\n"], [...bytesOf("é").slice(0, 1), ...ends])).toEqual([0, "\ufffd".repeat(501), undefined]);
    // The space at a text's start is left out, and is then in no stop string.
    expect(row(false, [" \n"], [idOf("▁"), ...bytesOf("\n"), idOf("▁end")])).toEqual([0, "\n end", undefined]);
    expect(row(true, [" \n"], [idOf("▁"), ...bytesOf("\n"), idOf("▁end")])).toEqual([2, "", " \n"]);
  });

  it("the tokens of a text are its pieces, spaces included; bytes are named as OpenAI does", async () => {
    const client = await saying([{ behind: 4, ids: [...SAID.slice(0, 2), ...SAID.slice(3), 2] }]);
    const { tokens } = (await client.completions.create({ ...ASK, logprobs: 0 })).choices[0]!.logprobs!;
    expect(tokens!.at(0)).toBe(" Hello");
    expect(tokens!.at(1)).toBe("bytes:\\xe3"); // 㐂 is e3 90 82 in UTF-8
    expect(tokens!.slice(-2)).toEqual([" world", "</s>"]);
  });

  it("equal texts do not overwrite each other: a space's difference, and a letter that is also a byte", async () => {
    const client = await saying([]);
    // At the place behind "hi": ▁true 4, true 3, the byte <0x41> 2, A 1, others 0.
    const { model } = server!.engine;
    const head = model.params.head as Tensor;
    const data = new Float32Array(head.size);
    [idOf("▁true"), idOf("true"), idOf("<0x41>"), idOf("A")].forEach((id, k) => (data[id * ROOM + 3] = 0.4 - 0.1 * k));
    assign(head, tensor(data, { device, shape: head.shape }));
    const top = async (logprobs: number): Promise<Record<string, number>> =>
      (await client.completions.create({ ...ASK, max_tokens: 1, logprobs })).choices[0]!.logprobs!.top_logprobs![0]!;
    const [one, four] = [await top(1), await top(4)];
    expect(Object.keys(four)).toEqual([" true", "true", "A", `token_id:${idOf("A")}`]);
    expect(one).toEqual({ " true": four[" true"] });
    expect(Object.values(four)).toEqual(Object.values(four).toSorted((a, b) => b - a));
    expect(new Set(Object.values(four)).size).toBe(4);
  });

  it("prompt and answer join to one text; without a prompt the answer is a text of its own, as in a chat", async () => {
    const client = await saying([
      { behind: 1, ids: [idOf("▁Hello"), idOf("▁world"), 2] },
      { behind: 4, ids: [] },
    ]);
    const answer = await client.completions.create({ ...ASK, prompt: "", logprobs: 0 });
    expect(answer.choices[0]!.text).toBe("Hello world");
    expect(answer.choices[0]!.logprobs!.text_offset).toEqual([0, 5, 11]);
  });
});

describe("the tokens that a tokenizer puts around a text", () => {
  // The post-processor's <s>, as transformers and vLLM (vllm-project/vllm#7382) put it.
  it("are put around prompts that are texts, unless the request says no", async () => {
    const client = await saying([]);
    const idsFor = async (body: object): Promise<number[]> => {
      const answer = await client.completions.create({
        ...ASK,
        max_tokens: 1,
        ...body,
        return_token_ids: true,
      } as never);
      return (answer as unknown as { choices: { prompt_token_ids: number[] }[] }).choices[0]!.prompt_token_ids;
    };
    const hi = ["▁", "h", "i"].map(idOf);
    expect(await idsFor({})).toEqual([1, ...hi]);
    expect(await idsFor({ add_special_tokens: false })).toEqual(hi);
    expect(await idsFor({ prompt: hi })).toEqual(hi);
  });
});

const fixture = (name: string): Uint8Array =>
  new Uint8Array(readFileSync(new URL(`../../fixtures/pretrained/stories260K/${name}`, import.meta.url)));
const { sets } = JSON.parse(
  readFileSync(new URL("../../fixtures/tokenizers/families.json", import.meta.url), "utf8"),
) as {
  sets: { name: string; tokenizer: unknown }[];
};

describe.each<[string, Tokenizer]>([
  ["by hand", tokenizer],
  ["stories260K", tokenizerFromLlama2c(fixture("tok512.bin"), 512)],
  ...sets.map(({ name, tokenizer: json }) => [name, tokenizerFromJSON(json)] as [string, Tokenizer]),
])("%s", (_, each) => {
  const some = ["é😀", "日本語", "👍🏽", " the", "  x", "\n\n", "नमस्ते"].map((text) => each.encode(text));
  const row = fc.array(
    fc.oneof(
      fc.nat(each.vocabSize - 1).map((id) => [id]),
      fc.constantFrom(...some),
      fc.constantFrom(...some).map((ids) => ids.slice(0, -1)),
    ),
    { maxLength: 12 },
  );
  it("random rows of tokens: what is shown joins to the decoded whole; a row that goes on keeps its space", () => {
    fc.assert(
      fc.property(row, fc.boolean(), fc.boolean(), (parts, skipSpecials, continues) => {
        const ids = parts.flat();
        const text = new GrowingText(each, { stop: [], skipSpecials, continues });
        let shown = "";
        for (const id of ids) {
          text.push(id);
          shown += text.take().text;
        }
        text.end();
        shown += text.take().text;
        const whole = each.decode(ids, { specials: skipSpecials ? "skip" : "name" });
        expect(text.text).toBe(shown);
        expect(shown).toBe(continues && shown !== whole ? ` ${whole}` : whole);
        if (continues || whole.includes("\ufffd")) return;
        ids.forEach((_id, t) => {
          const before = each.decode(ids.slice(0, t), { specials: skipSpecials ? "skip" : "name" });
          if (!before.includes("\ufffd")) expect(text.offsets[t]).toBe([...before].length);
        });
      }),
      { numRuns: 150 },
    );
  }, 60_000);
});

it("stories260K: a stream at temperature 1.5 is its whole text, and follows the prompt", async () => {
  const model = modelFromLlama2c(fixture("stories260K.bin"), device);
  const stories = tokenizerFromLlama2c(fixture("tok512.bin"), llama2cConfig(fixture("stories260K.bin")).vocabSize);
  server = await servePolicy({ model, tokenizer: stories, stopIds: [2] }, { name: "m" });
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
  for (const seed of [1, 2, 3]) {
    const body = { prompt: "Once upon", temperature: 1.5, seed, max_tokens: 40, logprobs: 0 };
    const { choices } = await client.completions.create({ ...ASK, ...body });
    const { text, logprobs } = choices[0]!;
    expect(await streamed(client, body)).toEqual({ text, offsets: logprobs!.text_offset });
    expect(logprobs!.tokens![0]!.startsWith(" ")).toBe(text.startsWith(" "));
  }
});
