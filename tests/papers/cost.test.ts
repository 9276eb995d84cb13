/** No text of a model costs a reward, or what reads it before the reward, more than it should. */
import { describe, it } from "vitest";
import { wordsOf } from "../../environments/ranking.ts";
import { readProposal } from "../../environments/riddle/proposal.ts";
import { visible } from "../../run/visible.ts";
import { parseToolCalls, resultText } from "../../connect/mcp/toolCall.ts";
import { toolsCalled } from "../../connect/toolWeights.ts";
import { byteTokenizer } from "../../nn/index.ts";
import { TextStream } from "../../pretrained/index.ts";
import { bleu, repetition } from "../../papers/selfplay/rewards.ts";
import { parseAnswer, plainLength } from "../../connect/chat/toolCalls.ts";
import { truncate, wrap } from "../../run/display/width.ts";
import { repetitionPenalty, thinkFormat, toolEfficiency } from "../../papers/rewards/behaviour.ts";
import { extractCode } from "../../papers/rewards/code.ts";
import { mathsReward, normalizeMaths } from "../../papers/rewards/maths.ts";
import { patchSimilarity, similarity, splitPatch } from "../../papers/rewards/similarity.ts";
import { expectBounded, HOSTILE, SIZES } from "../support/cost.ts";
import { tried } from "../support/tried.ts";

const tools = [{ name: "x", description: "", inputSchema: { type: "object", properties: { a: { type: "string" } } } }];
const tokenizer = byteTokenizer();
/** What is refused has been read as well. */
const orRefused = (read: () => unknown): void => {
  try {
    read();
  } catch {
    // the cost is what counts here
  }
};

const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  extractCode,
  thinkFormat,
  splitPatch,
  normalizeMaths,
  wordsOf,
  mathsReward: (text) => mathsReward(text, "7"),
  "mathsReward, in a box": (text) => mathsReward(`\\boxed{${text}}`, "7"),
  similarity: (text) => similarity(text, `${text}b`),
  "similarity to something else": (text) => similarity(text, "return 1;\n"),
  "similarity the other way round": (text) => similarity(text, [...text].reverse().join("")),
  patchSimilarity: (text) => patchSimilarity(text, "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"),
  repetitionPenalty: (text) => repetitionPenalty(text),
  toolEfficiency: (text) =>
    toolEfficiency(
      [
        { action: text, observation: "" },
        { action: text, observation: "" },
      ] as never,
      { tools: ["x"] },
    ),
  parseToolCalls: (text) => orRefused(() => parseToolCalls(text, tools)),
  toolsCalled,
  "toolsCalled, behind a mark": (text) => toolsCalled(`<tool_call>${text}`),
  "toolsCalled, in a fence": (text) => toolsCalled(`\`\`\`\n${text}`),
  "resultText of a tool": (text) => resultText({ content: [{ type: "text", text }] }, 100),
  "readProposal, a program and its input": (text) => readProposal("deduction", text),
  "readProposal, behind a program": (text) => readProposal("abduction", `x*2 for ${text}`),
  "readProposal, inputs": (text) => readProposal("induction", text, "x*2"),
  "bleu, of self-play": (text) => bleu(text, `${text} b`),
  "repetition, of self-play": (text) => repetition([text, `${text} b`, "a"]),
  "parseAnswer, hermes": (text) => parseAnswer("hermes", `<tool_call>${text}`),
  "parseAnswer, llama3": (text) => parseAnswer("llama3", text),
  "parseAnswer, behind calls": (text) => parseAnswer("hermes", `<tool_call>{"name": "f"}</tool_call>${text}`),
  "parseAnswer, mistral": (text) => parseAnswer("mistral", `[TOOL_CALLS] ${text}`),
  "parseAnswer, mistral_args": (text) => parseAnswer("mistral_args", `[TOOL_CALLS]f[ARGS]${text}`),
  "parseAnswer, arguments without an end": ({ length }) =>
    parseAnswer("mistral_args", '[TOOL_CALLS]f{"'.repeat(length / 15)),
  "parseAnswer, functions without an end": ({ length }) =>
    parseAnswer("qwen3_coder", "<function=f>".repeat(length / 12)),
  "parseAnswer, behind a mark": (text) => parseAnswer("mistral_args", `[TOOL_CALLS]${text}`),
  "parseAnswer, qwen3_coder": (text) => parseAnswer("qwen3_coder", `<tool_call><function=f><parameter=x>${text}`),
  "parseAnswer, a function's name": (text) => parseAnswer("qwen3_coder", `<function=${text}`),
  "parseAnswer, behind an object": (text) => parseAnswer("llama3", `{"name": "f"};${text}`),
  plainLength: (text) =>
    (["hermes", "qwen3_coder", "llama3", "mistral", "mistral_args"] as const).map((form) => plainLength(form, text)),
  TextStream: (text) => {
    const stream = new TextStream(tokenizer, { stop: ["\n\nab", "aaaaab"] });
    for (const id of tokenizer.encode(text)) stream.push([id]);
    return stream.end();
  },
  visible,
  "wrap on a display": (text) => wrap(visible(text), 80),
  "truncate on a display": (text) => truncate(visible(text), 80),
  "parseToolCalls, after its name": (text) => orRefused(() => parseToolCalls(`x ${text}`, tools)),
};

describe.each(Object.entries(READERS))("%s", (name, read) => {
  it("reads hostile texts of any length", { timeout: 60_000 }, async (context) => {
    // Two texts are compared letter by letter up to a length of which 3,900 letters are just below.
    const sizes = name.toLowerCase().includes("similarity") ? [2_000, 3_900, 64_000] : SIZES;
    for (const [text, make] of Object.entries(HOSTILE)) {
      // Comparing two texts costs the most that it may on nearly all of these; some are enough.
      if (name.startsWith("similarity") && !["letters", "blanks and line ends", "words"].includes(text)) continue;
      await expectBounded(`${name} on ${text}`, (n) => read(make(n)), sizes);
      tried(context, { texts: sizes.length });
    }
  });
});
