/** No text of a model costs a reward, or what reads it before the reward, more than it should. */
import { describe, it } from "vitest";
import { wordsOf } from "../../environments/ranking.ts";
import { parseToolCall } from "../../mcp/toolCall.ts";
import { repetitionPenalty, thinkFormat, toolEfficiency } from "../../rl/rewards/behaviour.ts";
import { extractCode } from "../../rl/rewards/code.ts";
import { mathsReward, normalizeMaths } from "../../rl/rewards/maths.ts";
import { patchSimilarity, similarity, splitPatch } from "../../rl/rewards/similarity.ts";
import { expectBounded, HOSTILE } from "../support/cost.ts";

const tools = [{ name: "x", description: "", inputSchema: { type: "object", properties: { a: { type: "string" } } } }];
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
  parseToolCall: (text) => orRefused(() => parseToolCall(text, tools)),
  "parseToolCall, after its name": (text) => orRefused(() => parseToolCall(`x ${text}`, tools)),
};

describe.each(Object.entries(READERS))("%s", (name, read) => {
  it("reads hostile texts of any length", { timeout: 60_000 }, async () => {
    for (const [text, make] of Object.entries(HOSTILE)) {
      // Comparing two texts costs the most that it may on nearly all of these; some are enough.
      if (name.startsWith("similarity") && !["letters", "blanks and line ends", "words"].includes(text)) continue;
      await expectBounded(`${name} on ${text}`, (n) => read(make(n)), [2_000, 3_900, 64_000]);
    }
  });
});
