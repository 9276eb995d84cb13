/**
 * No message costs a chat template more than it should, and no template its reader: whoever makes a checkpoint writes
 * the one, whoever talks to the server the other. A template's budget counts steps and letters, and a regular
 * expression that backtracks is one step.
 */
import { describe, expect, it } from "vitest";
import { chatTemplate } from "../../../connect/chat/index.ts";
import { parseExactly } from "../../../connect/chat/json.ts";
import { tokensOf } from "../../../connect/chat/jinja/lexer.ts";
import { strftime } from "../../../connect/chat/strftime.ts";
import { WorldgradError } from "../../../engine/errors.ts";
import { byteTokenizer } from "../../../nn/index.ts";
import { expectBounded, HOSTILE } from "../../support/cost.ts";
import { tried } from "../../support/tried.ts";

const SIZES = [2_000, 25_000, 100_000];

/** What the patterns of these files repeat, and then not what they want behind it. */
const TEXTS: Readonly<Record<string, (n: number) => string>> = {
  ...HOSTILE,
  "digits that are no number": (n) => `${"7".repeat(n)}x`,
  "digits behind a point": (n) => `7.${"7".repeat(n)}x`,
  "digits of an exponent": (n) => `7e${"7".repeat(n)}x`,
  "digits with underscores": (n) => "7_".repeat(n / 2),
  "more digits with underscores": (n) => `${"77_".repeat(n / 3)}.${"7_".repeat(n / 3)}`,
  noughts: (n) => `${"0".repeat(n)}7`,
  "letters, then a sign": (n) => `${"a".repeat(n)}!`,
  "a field that is not closed": (n) => `{${"a".repeat(n)}`,
  fields: (n) => "{a".repeat(n / 2),
  "outputs that are not closed": (n) => "{{".repeat(n / 2),
  "a flag of a date": (n) => `%${"-".repeat(n)}`,
  "flags of dates": (n) => "%-0".repeat(n / 3),
  percents: (n) => "%".repeat(n),
  "blocks that are not closed": (n) => "{%".repeat(n / 2),
  "blocks with blanks": (n) => `{%-${" ".repeat(200)}`.repeat(n / 200),
  "a block with blanks": (n) => `{%${" ".repeat(n)}x`,
  "raw with blanks": (n) => `{%${" ".repeat(n / 2)}raw${" ".repeat(n / 2)}x`,
  "ends of raw with blanks": (n) => `{% raw %}${`{% endraw${" ".repeat(90)}`.repeat(n / 100)}`,
  "comments that are not closed": (n) => "{#-".repeat(n / 3),
  comments: (n) => "{#-#}\n".repeat(n / 6),
  "backslashes in a quote": (n) => `'${"\\a".repeat(n / 2)}`,
  "blanks between words": (n) => `a${" ".repeat(50)}`.repeat(n / 50),
};

/** Reads; a text that is refused has been read as well. */
function orRefused(read: () => unknown): void {
  try {
    read();
  } catch (error) {
    if (!(error instanceof SyntaxError)) expect(error).toBeInstanceOf(WorldgradError);
  }
}

/** A template that writes an expression of the last message. */
async function templateOf(expression: string): Promise<(content: string) => string> {
  const chat = await chatTemplate({
    tokenizer: byteTokenizer(),
    template: `{% set c = messages[0].content %}${expression}`,
  });
  return (content) => chat.renderText([{ role: "user", content }]);
}

const HEADS = ["", "{{ ", "{{ '", "{{ x }}", "{% ", "{% raw %}", "{#", "\n"];
const EXPRESSIONS = [
  "{{ c|int }}",
  "{{ c|float }}",
  "{{ c|title }}",
  "{{ c|trim }}",
  "{{ c|indent }}",
  "{{ c|tojson }}",
  "{{ [{'a': 1}]|map(attribute=c)|list }}",
  "{{ [{'a': 1}]|sort(attribute=c) }}",
  "{{ c.isalnum() }}",
  "{{ c.isalpha() }}",
  "{{ c.isdecimal() }}",
  "{{ c.isdigit() }}",
  "{{ c.isnumeric() }}",
  "{{ c.isspace() }}",
  "{{ c.format(1) }}",
  "{{ c % 1 }}",
  "{{ c.split() }}",
  "{{ c.rsplit(None, 2) }}",
  "{{ c.split('a') }}",
  "{{ c.replace('a', 'b') }}",
  "{{ c.splitlines() }}",
  "{{ c.strip() }}",
  "{{ c.title() }}",
  "{{ c.zfill(9) }}",
  "{{ strftime_now(c) }}",
];

type Reader = (text: string) => unknown;
const READERS: readonly (readonly [name: string, reader: () => Promise<Reader>])[] = [
  ["strftime", () => Promise.resolve((text: string) => strftime(new Date(2026, 10, 26), text))],
  ["parseExactly", () => Promise.resolve((text: string) => parseExactly(text))],
  ["parseExactly, in quotes", () => Promise.resolve((text: string) => parseExactly(JSON.stringify(text)))],
  ["parseExactly, as digits", () => Promise.resolve((text: string) => parseExactly("7".repeat(text.length)))],
  ...HEADS.map((head) => {
    return [
      `tokensOf, behind ${JSON.stringify(head)}`,
      () => Promise.resolve((text: string) => tokensOf(head + text)),
    ] as const;
  }),
  ...EXPRESSIONS.map((expression) => [expression, () => templateOf(expression)] as const),
];

describe.each(READERS)("%s", (name, reader) => {
  it("reads hostile texts of any length", { timeout: 60_000 }, async (context) => {
    const read = await reader();
    for (const [text, make] of Object.entries(TEXTS)) {
      await expectBounded(`${name} on ${text}`, (n) => orRefused(() => read(make(n))), SIZES);
      tried(context, { texts: SIZES.length });
    }
  });
});

it("an integer has at most as many digits as Python reads, the sign apart", () => {
  const digits = "7".repeat(4300);
  for (const text of [digits, `-${digits}`]) expect(parseExactly(text)).toBe(BigInt(text));
  for (const text of [`${digits}7`, `-${digits}7`]) expect(() => parseExactly(text)).toThrow("got one of 4301");
});
