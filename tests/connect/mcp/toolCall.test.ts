/** Tool calls as text: both forms, typed by the tools' schemas, with errors that an agent can act on. */
import { describe, expect, it } from "vitest";
import {
  describeTools,
  type McpTool,
  parseToolCalls,
  resultText,
  toolDefinitions,
} from "../../../connect/mcp/index.ts";

const TOOLS: readonly McpTool[] = [
  {
    name: "get-sum",
    description: "Returns the sum of two numbers\nand more",
    inputSchema: {
      type: "object",
      properties: { a: { type: "number" }, b: { type: "number" } },
      required: ["a", "b"],
    },
  },
  {
    name: "read",
    description: "",
    inputSchema: {
      type: "object",
      properties: {
        head: { type: "integer" },
        path: { type: "string" },
        deep: { type: "boolean" },
        names: { type: "array" },
        any: {},
        maybe: { type: ["string", "null"] },
      },
      required: ["path"],
    },
  },
  { name: "now", description: "the time", inputSchema: { type: "object" } },
];
/** As Pydantic writes Optional[str], Optional[int], Union[int, str], Literal and models of one's own. */
const PYDANTIC: McpTool = {
  name: "pydantic",
  description: "",
  inputSchema: {
    type: "object",
    properties: {
      text: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
      count: { anyOf: [{ type: "integer" }, { type: "null" }] },
      both: { oneOf: [{ type: "integer" }, { type: "string" }] },
      one: { enum: ["1", "2", "all"] },
      mixed: { enum: [1, "2", null] },
      fixed: { const: "7" },
      name: { $ref: "#/$defs/a~1b" },
      loop: { $ref: "#/properties/loop" },
      away: { $ref: "https://example.org/schema" },
      any: { anyOf: [{ type: "string" }, {}] },
      things: { anyOf: [{ type: "array", items: { type: "string" } }, { type: "null" }] },
    },
    $defs: { "a/b": { anyOf: [{ $ref: "#/$defs/text" }] }, text: { type: "string" } },
  },
};
const parse = (text: string, tools: readonly McpTool[] = [...TOOLS, PYDANTIC]): unknown => {
  const [{ call, mistake } = {}, ...others] = parseToolCalls(text, tools);
  expect(others).toEqual([]);
  return call?.arguments ?? mistake;
};

describe("a tool call", () => {
  it.each([
    ['{"name":"get-sum","arguments":{"a":2,"b":3}}', { a: 2, b: 3 }],
    ['<tool_call>\n{"name":"get-sum","arguments":{"a":2,"b":3}}\n</tool_call>', { a: 2, b: 3 }],
    ['{"name":"get-sum","arguments":"{\\"a\\":2}"}', { a: 2 }],
    ['{"name":"now"}', {}],
    // As models of several families write it, with text, and a thought that may name the marks, around it.
    ['I add.\n<tool_call>{"name":"get-sum","arguments":{"a":2,"b":3}}</tool_call>\nNow.', { a: 2, b: 3 }],
    ['{"name":"get-sum","parameters":{"a":2,"b":3}}', { a: 2, b: 3 }],
    ['<|python_tag|>{"name":"get-sum","parameters":{"a":2}}', { a: 2 }],
    ['[TOOL_CALLS] [{"name":"get-sum","arguments":{"a":2}}]', { a: 2 }],
    ['[{"name":"get-sum","arguments":{"a":2}}]', { a: 2 }],
    ['[TOOL_CALLS]get-sum[ARGS]{"a":2}', { a: 2 }],
    ["<tool_call>\n<function=get-sum>\n<parameter=a>\n2\n</parameter>\n</function>\n</tool_call>", { a: 2 }],
    ["<function=read><parameter=path>007</parameter></function>", { path: "007" }],
    ['<think>\nNo <tool_call>.\n</think>\n\n<tool_call>{"name":"now","arguments":{}}</tool_call>', {}],
    ["<think></think>now", {}],
    ["I look.\n</think>\n\nread a", { path: "a" }],
    // Marks within arguments are texts.
    [
      '<tool_call>{"name":"read","arguments":{"path":"</think><tool_call>"}}</tool_call>',
      { path: "</think><tool_call>" },
    ],
    ["read <tool_call>", { path: "<tool_call>" }],
    ["read </think>", { path: "</think>" }],
    ['I see.</think><tool_call>{"name":"now","arguments":{}}</tool_call>', {}],
    ["get-sum a=2 b=-3e2", { a: 2, b: -300 }],
    ["  get-sum 2 3  ", { a: 2, b: 3 }],
    ["get-sum b=2 3", { b: 2, a: 3 }],
    ["read 007", { path: "007" }],
    ["read path='a b' head=3", { path: "a b", head: 3 }],
    ['read "a \\"b\\" c" 5 deep=true', { path: 'a "b" c', head: 5, deep: true }],
    // Digits that are sent as they are, or as a text.
    ["get-sum a=9007199254740991 b=10000000000000000", { a: 9007199254740991, b: 1e16 }],
    ["read 1234567890123456789", { path: "1234567890123456789" }],
    ['{"name":"now","arguments":{"a":"1234567890123456789","b":1.5e300}}', { a: "1234567890123456789", b: 1.5e300 }],
    // A value that only looks as if it had a name.
    ["read x=1", { path: "x=1" }],
    ['read p names=["a","b"]', { path: "p", names: ["a", "b"] }],
    ["read p any=word", { path: "p", any: "word" }],
    ["read p any=7", { path: "p", any: 7 }],
    ["read p maybe=null", { path: "p", maybe: "null" }],
    ["now", {}],
    // What is in quotes is a text wherever a text may be.
    ['read p any="7"', { path: "p", any: "7" }],
    ["pydantic text=5", { text: "5" }],
    ['pydantic text="5"', { text: "5" }],
    ["pydantic count=5", { count: 5 }],
    ["pydantic count=null", { count: null }],
    ["pydantic both=5", { both: 5 }],
    ['pydantic both="5"', { both: "5" }],
    ["pydantic both=five", { both: "five" }],
    ["pydantic one=1", { one: "1" }],
    ["pydantic one=3", { one: "3" }], // the server says what it thinks of that
    ["pydantic mixed=1", { mixed: 1 }],
    ["pydantic mixed=2", { mixed: "2" }],
    ["pydantic mixed=null", { mixed: null }],
    ["pydantic fixed=7", { fixed: "7" }],
    ["pydantic name=5", { name: "5" }],
    ["pydantic loop=5", { loop: 5 }],
    ["pydantic away=5", { away: 5 }],
    ['pydantic any="5"', { any: "5" }],
    ['pydantic things=["5"]', { things: ["5"] }],
  ])("%s", (text, expected) => expect(parse(text)).toEqual(expected));

  it.each([
    ["", "the action is empty; name a tool"],
    ["get-some 1 2", 'unknown tool "get-some"; did you mean get-sum?'],
    ["zzz", 'unknown tool "zzz"; there are get-sum, read, now'],
    ['{"name":"toString"}', 'unknown tool "toString"'],
    ["get-sum a=x b=1", 'get-sum: a must be a number, got "x"'],
    ["get-sum a= b=1", "get-sum: a must be a number"],
    ["get-sum 1 2 3", 'get-sum: too many arguments, from "3" on'],
    ["get-sum a=1 a=2", "get-sum: argument a is there twice"],
    ['get-sum c="1"', 'get-sum: unknown argument "c"; did you mean a?'],
    ['read "open', 'read: cannot read "\\"open"; is a quote missing?'],
    ["read p deep=perhaps", 'read: deep must be boolean, got "perhaps"'],
    ["now 3", 'now: too many arguments, from "3" on'],
    ["now __proto__=3", 'now: unknown argument "__proto__"'],
    ["{nonsense", "the tool call is no valid JSON"],
    ["[{nonsense", "the tool call is no valid JSON"],
    ["[]", 'unknown tool "[]"'],
    ["<tool_call>{nonsense</tool_call>", "the tool call is no valid JSON"],
    ["<tool_call></tool_call>", "the action is empty; name a tool"],
    ["<tool_call>", "the action is empty; name a tool"],
    ["I write <tool_call> here", 'unknown tool "here"'],
    ["<think>now", "the action is a thought without an end"],
    ["<think>now</think>", "the action is empty; name a tool"],
    ['{"tool":"now"}', 'a tool call needs a "name", a text'],
    ['{"name":"now","arguments":[1]}', 'now: "arguments" must be an object'],
    ['{"name":"now","arguments":"{"}', "now: the arguments are no valid JSON"],
    // Another number would be sent: another record read, or deleted.
    [
      "get-sum a=1234567890123456789 b=1",
      "get-sum: a: the number 1234567890123456789 has more digits than can be sent",
    ],
    ["read p names=[1,12345678901234567]", "read: names: the number 12345678901234567 has more digits than"],
    ['{"name":"now","arguments":{"a":-1234567890123456789}}', "now: the number -1234567890123456789 has more digits"],
    [
      '{"name":"now","arguments":"{\\"a\\":1234567890123456789}"}',
      "now: the number 1234567890123456789 has more digits",
    ],
    // What `JSON.stringify` cannot send would otherwise end the episode.
    [
      `{"name":"now","arguments":{"a":${"[".repeat(7000)}${"]".repeat(7000)}}}`,
      'now: "arguments" has more than 1000 levels',
    ],
    [`read p names=${"[".repeat(7000)}${"]".repeat(7000)}`, "read: names has more than 1000 levels"],
  ])("%s is refused", (text, message) => {
    expect(parse(text, TOOLS)).toContain(message);
  });

  it("stands beside others in every form, in their order; one that cannot be read is a mistake in its place", () => {
    const sum = (a: number): object => ({ call: { name: "get-sum", arguments: { a } } });
    const unknown = { mistake: 'unknown tool "get-som"; did you mean get-sum?' };
    const json = (name: string, a: number): string => JSON.stringify({ name, arguments: { a } });
    const coder = (name: string, a: number): string => `<function=${name}><parameter=a>${a}</parameter></function>`;
    const calls: readonly (readonly [string, number])[] = [
      ["get-sum", 1],
      ["get-som", 2],
      ["get-sum", 1],
    ];
    const written = (one: (name: string, a: number) => string): string[] => calls.map(([name, a]) => one(name, a));
    const texts = [
      `Both:${written(json)
        .map((text) => `<tool_call>${text}</tool_call>`)
        .join("\nand\n")}`,
      written(json)
        .map((text) => `<tool_call>${text}`)
        .join(""),
      written(coder)
        .map((text) => `<tool_call>${text}</tool_call>`)
        .join("\n"),
      written((name, a) => `[TOOL_CALLS]${name}[ARGS]{"a": ${a}}`).join(""),
      `[TOOL_CALLS] [${written(json).join(", ")}]`,
      written(json).join("; "),
    ];
    for (const text of texts) expect(parseToolCalls(text, TOOLS), text).toEqual([sum(1), unknown, sum(1)]);
    const broken = parseToolCalls(
      `<tool_call>${json("get-sum", 1)}</tool_call><tool_call>{"name": </tool_call>`,
      TOOLS,
    );
    const unread = { mistake: expect.stringContaining("a tool call cannot be read") as string };
    expect(broken).toEqual([sum(1), unread]);
    const [good, cut] = [`<tool_call>${json("get-sum", 1)}</tool_call>`, "<tool_call>{bad}</tool_call>\n"];
    expect(parseToolCalls(good + cut + good, TOOLS)).toEqual([sum(1), unread, sum(1)]);
    expect(parseToolCalls(cut + good, TOOLS)).toEqual([unread, sum(1)]);
    expect(parseToolCalls(`First ${cut}${cut}and${good}`, TOOLS)).toEqual([unread, unread, sum(1)]);
    expect(parseToolCalls(`${good}<tool_call></tool_call>${good}`, TOOLS)).toEqual([sum(1), unread, sum(1)]);
    const named = { mistake: 'a tool call cannot be read: "<tool_call>{bad}</tool_call>"' };
    expect(parseToolCalls(good + cut, TOOLS)).toEqual([sum(1), named]);
  });

  it("that is the seventeenth is not made, and the agent is told", () => {
    const text = (n: number): string => '<tool_call>{"name":"now"}</tool_call>'.repeat(n);
    expect(parseToolCalls(text(16), TOOLS).map(({ mistake }) => mistake)).toEqual(Array(16).fill(undefined));
    const more = parseToolCalls(text(18), TOOLS);
    expect(more).toHaveLength(17);
    expect(more[16]!.mistake).toBe("an action has at most 16 calls; 2 were not made");
  });

  it("may have an argument called __proto__", () => {
    const inputSchema = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"}}}') as object;
    const tool = { name: "odd", description: "", inputSchema } as McpTool;
    expect(JSON.stringify(parse("odd __proto__=x", [tool]))).toBe('{"__proto__":"x"}');
  });

  it("of a tool whose schema refers to itself without end is read in no time", () => {
    const many = { anyOf: Array.from({ length: 1000 }, () => ({ $ref: "#/$defs/many" })) };
    const inputSchema = { type: "object", properties: { a: { $ref: "#/$defs/many" } }, $defs: { many } };
    const tool = { name: "t", description: "", inputSchema };
    expect(parse('t a="5"', [tool])).toEqual({ a: "5" });
  });

  it("of a long action without an end is read in linear time", () => {
    expect(parse(`read "${'\\"a'.repeat(20_000)}`, TOOLS)).toContain("is a quote missing?");
    expect(parse(`read ${"x".repeat(100_000)}`)).toEqual({ path: "x".repeat(100_000) });
  });
});

describe("tools", () => {
  it("are described in a line each", () => {
    expect(describeTools(TOOLS)).toBe(
      "get-sum a b: Returns the sum of two numbers\nread [head] path [deep] [names] [any] [maybe]\nnow: the time",
    );
  });
  it("are listed as chat templates want them", () => {
    expect(toolDefinitions(TOOLS.slice(2))).toEqual([
      { type: "function", function: { name: "now", description: "the time", parameters: { type: "object" } } },
    ]);
  });
});

describe("a result", () => {
  const texts = (...content: unknown[]): string => resultText({ content }, 60);
  it("is its texts; other parts are named with their size", () => {
    expect(
      texts(
        { type: "text", text: "one" },
        { type: "image", data: "AAAA", mimeType: "image/png" },
        { type: "resource", resource: { uri: "f://x", text: "two" } },
        { type: "resource_link", uri: "f://y" },
      ),
    ).toBe("one\n[image image/png, 3 bytes]\ntwo\n[resource f://y]");
    expect(resultText({ structuredContent: { x: 1 } }, 60)).toBe('{"x":1}');
    expect(resultText({}, 60)).toBe("");
    expect(texts({ type: "new" }, 3)).toBe("[new]\n");
  });
  it("that is too long is cut in the middle, at whole characters", () => {
    expect(resultText({ content: [{ type: "text", text: "abcdefghij" }] }, 4)).toBe("ab … 6 characters left out … ij");
    const smiles = resultText({ content: [{ type: "text", text: "🙂".repeat(9) }] }, 6);
    expect(smiles).toBe("🙂 … 12 characters left out … 🙂");
  });
});
