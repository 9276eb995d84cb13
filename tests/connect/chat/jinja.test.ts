/**
 * The Jinja of chat templates, held to jinja2 3.1 as transformers sets it up (scripts/chatTemplates.py recorded it),
 * and to a budget.
 */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type ChatMessage, chatTemplate, type RenderOptions } from "../../../connect/chat/index.ts";
import { parseExactly } from "../../../connect/chat/json.ts";
import { WorldgradError } from "../../../engine/errors.ts";
import { byteTokenizer } from "../../../nn/index.ts";
import { tokenizerFromJSON } from "../../../pretrained/index.ts";

const FIXTURES = new URL("../../fixtures/chat/", import.meta.url);
const text = (path: string): string => readFileSync(new URL(path, FIXTURES), "utf8");
const json = (path: string): unknown => JSON.parse(text(path));
const NOW = new Date(2026, 10, 26, 15, 4, 5);

/** What a template writes; null if it refuses. */
async function written(template: string, messages: readonly ChatMessage[], options: RenderOptions) {
  try {
    const chat = await chatTemplate({ tokenizer: byteTokenizer(), template });
    return chat.renderText(messages, { now: NOW, ...options });
  } catch (error) {
    expect(error).toBeInstanceOf(WorldgradError);
    return null;
  }
}

describe("against jinja2", () => {
  const { variables, templates } = json("jinja/snippets.json") as {
    variables: Record<string, unknown>;
    templates: string[];
  };
  const recorded = json("jinja/recorded.json") as (string | null)[];

  test("expressions, statements and white space: equal, or refused", async () => {
    const refused: string[] = [];
    for (const [i, template] of templates.entries()) {
      const own = await written(template, [], { variables });
      if (own === null && recorded[i] !== null) refused.push(template);
      else expect(own, template).toBe(recorded[i]);
    }
    // Filters, formats and statements that no template of the families has.
    expect(refused.length).toBeLessThan(20);
  });

  // As the server reads the arguments of past calls: Python tells 1.0 from 1 and keeps all digits of an integer.
  const given = parseExactly(text("public/conversations.json")) as {
    tools: unknown[];
    variables: Record<string, unknown>;
    conversations: (
      ChatMessage[] | { messages: ChatMessage[]; tools?: boolean; variables?: Record<string, unknown> }
    )[];
  };
  const expected = json("public/recorded.json") as Record<string, (string | null)[]>;
  const names = readdirSync(new URL("public/", FIXTURES)).filter((name) => name.endsWith(".jinja"));

  test.each(names)("%s of others writes what it writes there, and refuses what it refuses there", async (name) => {
    expect(expected[name]!.filter((one) => one !== null).length).toBeGreaterThan(10);
    for (const [i, conversation] of given.conversations.entries()) {
      const one = "messages" in conversation ? conversation : { messages: conversation };
      for (const addGenerationPrompt of [false, true]) {
        const own = await written(text(`public/${name}`), one.messages, {
          addGenerationPrompt,
          variables: { ...given.variables, ...("variables" in one ? one.variables : {}) },
          ...("tools" in one && one.tools ? { tools: given.tools } : {}),
        });
        expect(own, `conversation ${i}`).toBe(expected[name]![2 * i + Number(addGenerationPrompt)]);
      }
    }
  });
});

describe("the date", () => {
  const DIRECTIVES =
    "%a|%A|%b|%B|%c|%C|%d|%D|%e|%f|%F|%g|%G|%h|%H|%I|%j|%k|%l|%m|%M|%n|%p|%P|%r|%R|%S|%t|%T|%u|%U|%V|%w|%W|%x" +
    "|%X|%y|%Y|" +
    "%z|%Z|%%|%-d|%-m|%_d|%-I|%^a|%0e|%-j|%Q|%!|%";
  // Python 3.11: datetime.datetime(…).strftime(DIRECTIVES), on Linux.
  test.each([
    [
      new Date(2026, 0, 3, 0, 4, 5),
      "Sat|Saturday|Jan|January|Sat Jan  3 00:04:05 2026|20|03|01/03/26| 3|000000|2026-01-03|26|2026|Jan|00|12|" +
        "003| 0|12|01|04|\n|AM|am|12:04:05 AM|00:04|05|\t|00:04:05|6|00|01|6|00|01/03/26|00:04:05|26|2026|||%|3|1" +
        "| 3|12|SAT|03|3|%Q|%!|%",
    ],
    [
      new Date(2024, 11, 30, 12, 0, 59),
      "Mon|Monday|Dec|December|Mon Dec 30 12:00:59 2024|20|30|12/30/24|30|000000|2024-12-30|25|2025|Dec|12|12|3" +
        "65|12|12|12|00|\n|PM|pm|12:00:59 PM|12:00|59|\t|12:00:59|1|52|01|1|53|12/30/24|12:00:59|24|2024|||%|30|1" +
        "2|30|12|MON|30|365|%Q|%!|%",
    ],
    [
      new Date(2027, 0, 1, 23, 59, 0),
      "Fri|Friday|Jan|January|Fri Jan  1 23:59:00 2027|20|01|01/01/27| 1|000000|2027-01-01|26|2026|Jan|23|11|00" +
        "1|23|11|01|59|\n|PM|pm|11:59:00 PM|23:59|00|\t|23:59:00|5|00|53|5|00|01/01/27|23:59:00|27|2027|||%|1|1| " +
        "1|11|FRI|01|1|%Q|%!|%",
    ],
    [
      new Date(2023, 0, 1, 1, 1, 1),
      "Sun|Sunday|Jan|January|Sun Jan  1 01:01:01 2023|20|01|01/01/23| 1|000000|2023-01-01|22|2022|Jan|01|01|00" +
        "1| 1| 1|01|01|\n|AM|am|01:01:01 AM|01:01|01|\t|01:01:01|7|01|52|0|00|01/01/23|01:01:01|23|2023|||%|1|1| " +
        "1|1|SUN|01|1|%Q|%!|%",
    ],
  ])("%s has Python's directives", async (now, expected) => {
    expect(await written("{{ strftime_now(format) }}", [], { now, variables: { format: DIRECTIVES } })).toBe(expected);
  });

  test("strftime_now is there unasked, and an episode's format holds the date as text", async () => {
    const added = ["<|im_start|>", "<|im_end|>"].map((content, i) => ({ id: 2 + i, content, special: true }));
    const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
    const tokenizer = tokenizerFromJSON({
      ...tiny({ a: 0, b: 1 }),
      added_tokens: added.map((token) => ({ ...flags, ...token })),
    });
    const chat = await chatTemplate({ tokenizer, template: text("public/smollm3.jinja") });
    const today = new Date();
    expect(chat.renderText([{ role: "user", content: "a" }])).toContain(`${today.getFullYear()}`);
    const format = chat.episodeFormat({ now: new Date(2020, 1, 3) });
    expect(format.task[0]).toContain("Today Date: 03 February 2020");
    expect(format.end).toBe("<|im_end|>");
  });
});

/** A tokenizer of a few characters. */
const tiny = (vocab: Record<string, number>) => ({
  version: "1.0",
  model: { type: "BPE", vocab, merges: [], byte_fallback: false, ignore_merges: false },
  added_tokens: [] as unknown[],
  decoder: { type: "Fuse" },
});

test("names of 28,672 special tokens in a message are text, the last as the first", async () => {
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const letters = [..."<custom_ken0123456789>ab"].filter((one, i, all) => all.indexOf(one) === i);
  const vocab = Object.fromEntries(letters.map((one, i) => [one, i]));
  const added_tokens = Array.from({ length: 28_672 }, (_, i) => ({
    ...flags,
    id: letters.length + i,
    content: `<custom_token_${i}>`,
  }));
  const tokenizer = tokenizerFromJSON({ ...tiny(vocab), added_tokens });
  const template = "{% for m in messages %}{{ m.content }}<custom_token_7>{% endfor %}";
  const chat = await chatTemplate({ tokenizer, template });
  for (const i of [0, 9, 4_089, 4_090, 4_092, 4_093, 4_097, 28_671]) {
    const name = `<custom_token_${i}>`;
    expect(chat.renderText([{ role: "user", content: `a${name}b` }])).toBe(`a${name}b<custom_token_7>`);
    const ids = chat.render([{ role: "user", content: `a${name}b` }]);
    expect(ids.filter((id) => id >= letters.length)).toEqual([letters.length + 7]);
    expect(tokenizer.decode(ids.slice(0, -1))).toBe(`a${name}b`);
  }
});

describe("a template has bounds", () => {
  const nested = (statement: string, times: number): string =>
    `${`{% ${statement} %}`.repeat(times)}${"{% endfor %}".repeat(times)}`;
  const doubled = (made: string): string =>
    `{% set ns = namespace(s='a', l=[1]) %}{% for i in range(99) %}{% set ns.s = ${made} %}{% endfor %}{{ ns.s }}`;
  const hostile: Record<string, string> = {
    "a range of a thousand million": "{% for i in range(1000000000) %}x{% endfor %}",
    "three nested loops": nested("for i in range(1000)", 3),
    "replace that doubles": doubled("ns.s|replace('a', 'aa')"),
    "a text that doubles": doubled("ns.s ~ ns.s"),
    "a list that doubles":
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
    "a list of itself twice, compared":
      "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m =" +
      " [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
    "a list of itself twice, written":
      "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l|" +
      "tojson }}",
    "a repeated text": "{{ 'a' * 10000000000 }}",
    "an indentation": "{{ 'a\nb'|indent(10000000000) }}",
    "a width": "{{ 'a'.ljust(10000000000) }}",
    "a text between all letters": "{% set a = 'x' * 100000 %}{{ a.replace('', a) }}",
    "a long text between numbers": "{% set a = 'x' * 100000 %}{{ range(100000)|join(a) }}",
    "a search that almost matches":
      "{% set a = 'a' * 1000000 %}{% set b = 'b' ~ 'a' * 300000 %}{% for i in range(100000) %}{{ a.find(b) }}{%" +
      " endfor %}",
    "a macro that calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    parentheses: `{{ ${"(".repeat(100_000)} }}`,
    "a sum of many": `{{ 1${"+1".repeat(100_000)} }}`,
    ifs: "{% if 1 %}".repeat(50_000),
    "a list within lists":
      "{% set ns = namespace(l=[]) %}{% for i in range(50000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
    "many letters": "x".repeat(1_000_001),
  };

  test.each(Object.entries(hostile))("%s ends in one error", async (_, template) => {
    expect(await written(template, [{ role: "user", content: "hi" }], {})).toBeNull();
  });

  test("white space, quotes and open tags are read in linear time", async () => {
    for (const template of [
      `${" ".repeat(900_000)}{{ x`,
      `{{ '${"\\a".repeat(400_000)}`,
      "{#".repeat(400_000),
      `{% raw %}${"{%".repeat(400_000)}`,
      `{{ ${"1_".repeat(400_000)} }}`,
      `${" {{ '' }}".repeat(90_000)}{{`,
    ])
      expect(await written(template, [], {})).toBeNull();
  });

  test("a long conversation has the room that it needs", async () => {
    const messages = Array.from({ length: 3_000 }, (_, i) => ({ role: i % 2 ? "assistant" : "user", content: "ok" }));
    const whole = await written(text("public/qwen3.jinja"), messages, {});
    expect(whole!.split("<|im_start|>")).toHaveLength(3_001);
    const long = await written(
      "{% for m in messages %}{{ m.content | trim }}{% endfor %}",
      [{ role: "user", content: ` ${"a b ".repeat(1_000_000)}` }],
      {},
    );
    expect(long).toHaveLength(3_999_999);
  });

  test("what it is given may not nest without end", async () => {
    let deep: unknown = 1;
    for (let i = 0; i < 20_000; i++) deep = [deep];
    expect(await written("{{ messages|tojson }}", [{ role: "user", content: deep }], {})).toBeNull();
  });
});
