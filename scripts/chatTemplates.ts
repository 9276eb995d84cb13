/**
 * Comparison of many chat templates on many conversations with the output that scripts/chatTemplates.py recorded:
 *
 *     npx tsx scripts/chatTemplates.ts FOLDER recorded.json
 *
 * Numbers of the conversations are read as Python reads them, so that 1.0 differs from 1 and integers keep all digits.
 * It prints the templates that differ, and counts. The exit code is 1 if a text differs or only the reference refuses;
 * a refusal here is no difference.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { chatTemplate, type ChatMessage } from "../connect/chat/index.ts";
import { parseExactly } from "../connect/chat/json.ts";
import { byteTokenizer } from "../nn/index.ts";

interface Conversation {
  readonly messages: readonly ChatMessage[];
  readonly tools?: boolean;
  readonly variables?: Readonly<Record<string, unknown>>;
}
interface Given {
  readonly tools: readonly unknown[];
  readonly variables: Readonly<Record<string, unknown>>;
  readonly conversations: readonly (readonly ChatMessage[] | Conversation)[];
}

const [folder = "", recordedAt = ""] = process.argv.slice(2);
const read = (path: string): string => readFileSync(path, "utf8");
const { tools, variables, conversations } = parseExactly(read(join(folder, "conversations.json"))) as Given;
const recorded = JSON.parse(read(recordedAt)) as Readonly<Record<string, readonly (string | null)[] | null>>;
const counts = { equal: 0, "refused by both": 0, "refused here": 0, "refused there": 0, different: 0 };

for (const [name, expected] of Object.entries(recorded)) {
  const template = read(join(folder, name));
  const seen = new Set<string>();
  const chat = await chatTemplate({ tokenizer: byteTokenizer(), template, name }).catch((error: unknown) => {
    seen.add(String(error));
    return undefined;
  });
  const tries = conversations.flatMap((given) => {
    const one: Conversation = "messages" in given ? given : { messages: given };
    return [false, true].map((addGenerationPrompt) => ({ ...one, addGenerationPrompt }));
  });
  tries.forEach((one, i) => {
    const wanted = expected?.[i] ?? null;
    const [text, error] = rendered(one);
    const kind =
      text === undefined
        ? wanted === null
          ? "refused by both"
          : "refused here"
        : wanted === null
          ? "refused there"
          : text === wanted
            ? "equal"
            : "different";
    counts[kind]++;
    if (kind === "refused here") seen.add(`refused: ${error}`);
    if (kind === "refused there") seen.add(`conversation ${i >> 1}: the reference refuses`);
    if (kind === "different") seen.add(`conversation ${i >> 1}: ${difference(text!, wanted!)}`);
  });
  if (seen.size > 0) console.log(`${name}\n  ${[...seen].slice(0, 6).join("\n  ")}`);

  function rendered(one: Conversation & { addGenerationPrompt: boolean }): [text: string | undefined, error: string] {
    try {
      const text = chat?.renderText(one.messages, {
        addGenerationPrompt: one.addGenerationPrompt,
        variables: { ...variables, ...one.variables },
        now: new Date(2026, 10, 26, 15, 4, 5),
        ...(one.tools ? { tools } : {}),
      });
      return [text, "the template cannot be read"];
    } catch (error) {
      return [undefined, error instanceof Error ? error.message : String(error)];
    }
  }
}
console.log(
  `${Object.keys(recorded).length} templates, ${conversations.length} conversations, with prompt and without`,
);
console.table(counts);
process.exitCode = counts.different + counts["refused there"] > 0 ? 1 : 0;

/** The first difference of two texts, with some context. */
function difference(a: string, b: string): string {
  let at = 0;
  while (a[at] === b[at]) at++;
  const part = (text: string): string => JSON.stringify(text.slice(Math.max(0, at - 20), at + 30));
  return `${part(a)}, expected ${part(b)}`;
}
