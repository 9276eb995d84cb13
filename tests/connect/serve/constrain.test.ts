/**
 * Texts of a form, byte by byte: what fits a schema is accepted, what does not is refused at its first wrong byte, and
 * whatever is accepted so far can be completed. Masks of tokens are those of trying each token.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AnswerForm, answerMachine, callableTools } from "../../../connect/serve/constrain/answers.ts";
import { jsonNode } from "../../../connect/serve/constrain/json.ts";
import { bytesOf, Machine, MOST_LEVELS, type TextState } from "../../../connect/serve/constrain/machine.ts";
import { anyObject, anything, shapeOf } from "../../../connect/serve/constrain/schema.ts";
import { Vocabulary } from "../../../connect/serve/constrain/vocabulary.ts";
import { parseAnswer } from "../../../connect/chat/toolCalls.ts";
import type { ToolForm } from "../../../connect/chat/toolCalls.ts";
import { Rng } from "../../../engine/random.ts";
import { byteTokenizer, type Tokenizer } from "../../../nn/tokenizer.ts";

const machineOf = (schema: unknown): Machine => new Machine(jsonNode(shapeOf(schema, "schema")));

/** Whether a text is complete ("yes"), can go on ("open"), or cannot be from its n-th byte on. */
function reading(machine: Machine, text: string | Uint8Array): "yes" | "open" | number {
  let state: TextState = machine.start;
  const bytes = typeof text === "string" ? bytesOf(text) : text;
  for (const [at, byte] of bytes.entries()) {
    const next = machine.next(state, byte);
    if (next === null) return at;
    state = next;
  }
  return state.isComplete ? "yes" : "open";
}

const object = (properties: object, required?: readonly string[]): object => ({
  type: "object",
  properties,
  ...(required ? { required } : {}),
  additionalProperties: false,
});
const TREE = {
  $ref: "#/$defs/node",
  $defs: {
    node: object({ v: { type: "integer" }, next: { anyOf: [{ $ref: "#/$defs/node" }, { type: "null" }] } }, [
      "v",
      "next",
    ]),
  },
};

describe("a schema", () => {
  it.each<[string, unknown, readonly string[], readonly [string, number | "open"][]]>([
    [
      "empty object",
      object({}),
      ["{}", "{ }", "{\n}"],
      [
        ["{", "open"],
        ['{"', 1],
        ["{}}", 2],
        ["{} ", 2],
      ],
    ],
    ["any object", true, [], [['{"a":1', "open"]]],
    [
      "optional and required, in their order",
      object({ a: { type: "null" }, b: { type: "boolean" }, c: { type: "null" } }, ["b"]),
      ['{"b":true}', '{"a": null, "b": false}', '{"b":true,"c":null}', '{\n  "a": null,\n  "b": true\n}'],
      [
        ["{}", 1],
        ['{"c"', 2],
        ['{"a":null}', 9],
        ['{"b":true,"a"', 11],
        ['{"b":true,}', 10],
        ['{"a":null,"c"', 11],
      ],
    ],
    [
      "values of which one begins with another",
      { enum: ["x", "xy", 1, 12, null] },
      ['"x"', '"xy"', "1", "12", "null"],
      [
        ["13", 1],
        ['"xz', 2],
        ["nul", "open"],
      ],
    ],
    ["a constant with marks", { const: { "a/b": ['é"\n'] } }, ['{"a/b":["é\\"\\n"]}'], [['{"a\\/', 3]]],
    ["names with marks", object({ 'q"\\é/': { type: "null" } }, ['q"\\é/']), ['{"q\\"\\\\é/":null}'], []],
    [
      "lengths in code points",
      { type: "string", minLength: 1, maxLength: 2 },
      ['"a"', '"é😀"', '"\\n\\""', '"\\ud83d\\ude00b"', '"\\u00e9"'],
      [
        ['""', 1],
        ['"abc', 3],
        ['"a\\n\\', 4],
        ['"\\ud83d\\ude00\\ud83d\\ude00\\', 25],
      ],
    ],
    [
      "no characters",
      { type: "string", maxLength: 0 },
      ['""'],
      [
        ['"a', 1],
        ['"\\', 1],
      ],
    ],
    [
      "halves of pairs",
      { type: "string" },
      ['"\\ud7ff\\ue000"'],
      [
        ['"\\ud800"', 7],
        ['"\\udc00', 4],
        ['"\\ud800\\u0', 9],
        ['"\\ud800\\n', 8],
        ['"\\x', 2],
        ['"\t', 1],
        ['"\\u12g', 5],
      ],
    ],
    [
      "integers",
      { type: "integer" },
      ["0", "-0", "-12", "1234567890123456"],
      [
        ["01", 1],
        ["1.", 1],
        ["1e", 1],
        ["+1", 0],
        ["12345678901234567", 16],
        ["-", "open"],
        ["--", 1],
      ],
    ],
    [
      "numbers",
      { type: "number" },
      ["0.5", "-1.25e-10", "1E+2", "0e0"],
      [
        ["1.", "open"],
        [".5", 0],
        ["1.e", 2],
        ["1e", "open"],
        ["1e+", "open"],
        ["1e123", 4],
        ["0.12345678901234567", 18],
        ["NaN", 0],
      ],
    ],
    [
      "bounds of integers",
      { type: "integer", minimum: -5, exclusiveMaximum: 120 },
      ["0", "-5", "119", "7"],
      [["-6", 1], ["120", 2], ["-0", "open"].slice(0, 0) as never, ["1190", 3], ["-51", 2]].filter(
        ({ length }) => length > 0,
      ) as [string, number][],
    ],
    [
      "only negative",
      { type: "integer", maximum: -10, minimum: -12 },
      ["-10", "-11", "-12"],
      [
        ["1", 0],
        ["-2", 1],
        ["-1", "open"],
        ["-13", 2],
      ],
    ],
    [
      "bounds of numbers",
      { type: "number", exclusiveMinimum: 0.1, maximum: 0.25 },
      ["0.25", "0.2", "0.10000001"],
      [
        ["0.1", "open"],
        ["0.26", 3],
        ["0.0", 2],
        ["1", 0],
        ["0e", 1],
      ],
    ],
    [
      "safe integers, as zod writes them",
      { type: "integer", minimum: -9007199254740991, maximum: 9007199254740991 },
      ["9007199254740991", "-1"],
      [["9007199254740992", 15]],
    ],
    [
      "lists of lists",
      { type: "array", items: { type: "array", items: { type: "null" }, maxItems: 1 }, minItems: 2 },
      ["[[],[]]", "[[null], [], []]"],
      [
        ["[]", 1],
        ["[[]]", 3],
        ["[[null,", 6],
      ],
    ],
    ["no items", { type: "array", maxItems: 0 }, ["[]", "[ ]"], [["[1", 1]]],
    ["a type list", { type: ["string", "null"] }, ["null", '"null"'], [["1", 0]]],
    [
      "alternatives with a common start",
      {
        anyOf: [object({ t: { const: "a" }, x: { type: "null" } }, ["t", "x"]), object({ t: { const: "ab" } }, ["t"])],
      },
      ['{"t":"a","x":null}', '{"t":"ab"}'],
      [
        ['{"t":"a"}', 8],
        ['{"t":"ab",', 9],
      ],
    ],
    [
      "a schema that refers to itself",
      TREE,
      ['{"v":1,"next":null}', '{"v":1,"next":{"v":2,"next":null}}'],
      [['{"v":1}', 6]],
    ],
    [
      "references",
      { type: "array", items: { $ref: "#/definitions/a~1b" }, definitions: { "a/b": { type: "null" } } },
      ["[null]"],
      [["[1", 1]],
    ],
    [
      "keys of any name",
      { type: "object", additionalProperties: { type: "integer" } },
      ["{}", '{"a":1, "":2}'],
      [
        ['{"a":n', 5],
        ['{"a":1,}', 7],
      ],
    ],
    ["required without properties", { type: "object", required: ["k"] }, ['{"k":[1,{}]}'], [["{}", 1]]],
    [
      "keywords without a type",
      { properties: { a: { items: { minLength: 1 } } } },
      ['{"a":["x"]}', "{}"],
      [['{"a":[""', 7]],
    ],
    [
      "bounded white space",
      { type: "array", items: { type: "null" } },
      [`[\n${" ".repeat(32)}null ]`, "[\n\n\tnull\n]"],
      [
        ["[  ", 2],
        ["[\n\n\n", 3],
        [`[\n${" ".repeat(33)}`, 34],
        [" [", 0],
      ],
    ],
  ])("of %s", (_, schema, whole, broken) => {
    const machine = schema === true ? new Machine(jsonNode(anyObject())) : machineOf(schema);
    for (const text of whole) expect(reading(machine, text), text).toBe("yes");
    for (const [text, at] of broken) expect(reading(machine, text), text).toBe(at);
  });

  it.each<[string, unknown, string]>([
    ["a pattern", { type: "string", pattern: "^a" }, "'pattern' is not supported"],
    [
      "in its place",
      object({ a: { type: "array", items: { not: {} } } }),
      "'not' is not supported (at /properties/a/items)",
    ],
    ["uniqueItems", { type: "array", uniqueItems: true }, "'uniqueItems' is not supported"],
    ["oneOf", { oneOf: [{}] }, "'oneOf' is not supported"],
    ["allOf of several", { allOf: [{}, {}] }, "'allOf' of several schemas is not supported"],
    ["beside a reference", { $ref: "#", minLength: 1 }, "'minLength'"],
    ["of another type", { type: "string", minimum: 1 }, "'minimum' is not supported"],
    [
      "an unknown type",
      { type: "text" },
      'type must be of string, number, integer, array, object, boolean, null, got "text"',
    ],
    ["a reference to nothing", { $ref: "#/$defs/a" }, "points to nothing"],
    ["a reference into the prototype", { $ref: "#/constructor" }, "points to nothing"],
    ["a reference elsewhere", { $ref: "http://example.com" }, "$ref must point into the schema"],
    [
      "a value without an end",
      { $ref: "#/$defs/a", $defs: { a: object({ a: { $ref: "#/$defs/a" } }, ["a"]) } },
      "a $ref without an end",
    ],
    [
      "a circle of references",
      { $ref: "#/$defs/a", $defs: { a: { anyOf: [{ $ref: "#/$defs/a" }] } } },
      "a $ref without an end",
    ],
    ["false", object({ a: false }), "a schema must be an object, got false (at /properties/a)"],
    ["no value", { enum: [] }, "enum must be a list, not empty"],
    ["no value of the type", { type: "string", enum: [1] }, "no value is of the type"],
    [
      "no number",
      { type: "integer", minimum: 3, maximum: 2 },
      "no number of at most 16 digits has minimum 3, maximum 2",
    ],
    ["bounds that cross", { type: "string", minLength: 3, maxLength: 2 }, "minLength 3 is larger than maxLength 2"],
    ["a required name", object({}, ["a"]), 'required has "a", which is no property'],
    ["half an integer", { type: "array", minItems: 1.5 }, "minItems must be an integer"],
    [
      "other properties of a schema",
      { properties: { a: {} }, additionalProperties: { type: "null" } },
      "'additionalProperties' with a schema beside properties",
    ],
  ])("that is not supported is refused by its keyword: %s", (_, schema, message) => {
    expect(() => machineOf(schema)).toThrow(message);
  });

  it("of any depth or size costs no stack and little time", () => {
    let deep: unknown = { type: "null" };
    for (let i = 0; i < 100_000; i++) deep = { type: "array", items: deep };
    expect(() => machineOf(deep)).toThrow("nested more than 200 deep");
    const wide = { anyOf: Array.from({ length: 20_000 }, () => ({ type: "null" })) };
    expect(() => machineOf(wide)).toThrow("more than 10000 parts");
    const many = object(Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`k${i}`, { type: "null" }])));
    expect(reading(machineOf(many), '{"k7":null,"k2999":null}')).toBe("yes");
    const twice = {
      $ref: "#/$defs/a",
      $defs: { a: { anyOf: [{ type: "null" }, ...Array(40).fill({ type: "array", items: { $ref: "#/$defs/a" } })] } },
    };
    expect(() => reading(machineOf(twice), "[[[[[[")).toThrow("more than 10000 ways");
  });

  it("nests to a limit, and never where it could not be completed", () => {
    const any = new Machine(jsonNode(anything()));
    expect(reading(any, "[".repeat(MOST_LEVELS) + "1" + "]".repeat(MOST_LEVELS))).toBe("yes");
    expect(reading(any, "[".repeat(MOST_LEVELS + 1))).toBe(MOST_LEVELS);
    const link = '{"v":1,"next":';
    const tree = machineOf(TREE);
    expect(reading(tree, link.repeat(MOST_LEVELS) + "null" + "}".repeat(MOST_LEVELS))).toBe("yes");
    expect(reading(tree, `${link.repeat(MOST_LEVELS)}{`)).toBe(link.length * MOST_LEVELS);
  });
});

it("any JSON is accepted as the clients write it, and what is cut is open", () => {
  const any = new Machine(jsonNode(anything()));
  const value = fc
    .jsonValue({ maxDepth: 5, noUnicodeString: false })
    .filter((v) => !/\d[.e]|\d{17}/.test(JSON.stringify(v)));
  fc.assert(
    fc.property(value, fc.nat(), (each, cut) => {
      const compact = JSON.stringify(each);
      fc.pre(!/\\ud[89a-f]/i.test(compact));
      expect(reading(any, compact)).toBe("yes");
      expect(reading(any, JSON.stringify(each, null, 2))).toBe("yes");
      expect(typeof reading(any, compact.slice(0, cut % compact.length).replace(/[\ud800-\udbff]$/, ""))).toBe(
        "string",
      );
    }),
  );
});

/** Writes a text at random, and closes strings and lists sooner or later. */
function written(machine: Machine, seed: number): string {
  const rng = new Rng(seed);
  const bytes: number[] = [];
  for (let state = machine.start; ;) {
    const next = Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => machine.next(state, byte));
    if (next.length === 0) {
      expect(state.isComplete, new TextDecoder().decode(Uint8Array.from(bytes))).toBe(true);
      break;
    }
    if (state.isComplete && rng.uniform() < 0.3) break;
    const ends = [...'"]}'].map((end) => end.charCodeAt(0)).filter((byte) => next.includes(byte));
    const byte = ends.length > 0 && rng.uniform() < 0.3 ? rng.choice(ends) : rng.choice(next);
    bytes.push(byte);
    state = machine.next(state, byte)!;
  }
  return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes));
}

it("whatever is written can be completed, is JSON, and fits", () => {
  const schema = object(
    {
      kind: { enum: ["a", "ab", 'q"'] },
      n: { type: "number", minimum: -0.5, exclusiveMaximum: 1000 },
      i: { type: "integer", exclusiveMinimum: 8, maximum: 1205 },
      s: { type: "string", minLength: 2, maxLength: 4 },
      list: {
        type: "array",
        items: { anyOf: [{ type: "boolean" }, { type: "array", items: { type: "null" } }] },
        minItems: 1,
        maxItems: 3,
      },
      more: {},
    },
    ["kind", "i", "s", "list"],
  );
  const machine = machineOf(schema);
  for (let seed = 0; seed < 300; seed++) {
    const text = written(machine, seed);
    const {
      kind,
      n = 0,
      i,
      s,
      list,
    } = JSON.parse(text) as { kind: string; n?: number; i: number; s: string; list: unknown[] };
    expect(["a", "ab", 'q"'], text).toContain(kind);
    expect(n >= -0.5 && n < 1000 && Number.isInteger(i) && i > 8 && i <= 1205, text).toBe(true);
    expect([2, 3, 4], text).toContain([...s].length);
    expect([1, 2, 3], text).toContain(list.length);
  }
});

/** A tokenizer of any tokens; those of two letters "<…" are special. */
function tokenizerOf(tokens: readonly Uint8Array[], special: Record<string, number> = {}): Tokenizer {
  const isSpecial = new Set(Object.values(special));
  const bytes = byteTokenizer();
  return {
    encode: (text) => bytes.encode(text),
    decode: (ids) => new TextDecoder().decode(Uint8Array.from(Array.from(ids).flatMap((id) => [...tokens[id]!]))),
    toJSON: () => ({}),
    vocabSize: tokens.length,
    special,
    decodeBytes: (ids, { specials = "name" } = {}) =>
      Uint8Array.from(
        Array.from(ids).flatMap((id) => (specials === "skip" && isSpecial.has(id) ? [] : [...tokens[id]!])),
      ),
  };
}

describe("a mask", () => {
  it("is that of trying each token, also of halves of characters, equal tokens and empty ones", () => {
    const schema = object({ é: { type: "string", maxLength: 3 }, b: { enum: [1, 12, true] } }, ["é", "b"]);
    const text = '{"é": "a😀\\u00e9", "b": 12}';
    const pieces = fc.array(fc.tuple(fc.nat(30), fc.nat(6)), { minLength: 1, maxLength: 60 });
    const bytes = bytesOf(text);
    fc.assert(
      fc.property(pieces, fc.nat(30), (cuts, at) => {
        const tokens = [
          new Uint8Array(0),
          ...cuts.map(([from, length]) => bytes.slice(from, from + length)),
          Uint8Array.of(0xff),
        ];
        const vocabulary = new Vocabulary(tokenizerOf(tokens));
        const machine = machineOf(schema);
        let state = machine.start;
        for (const byte of bytes.subarray(0, at)) state = machine.next(state, byte) ?? state;
        const mask = vocabulary.maskOf(machine, state);
        for (const [id, own] of tokens.entries()) {
          let next: TextState | null = state;
          for (const byte of own) next &&= machine.next(next, byte);
          expect(((mask[id >> 5]! >>> (id & 31)) & 1) === 1, `${id}`).toBe(own.length > 0 && next !== null);
        }
      }),
    );
  });
});

describe("calls of tools in the form", () => {
  const parameters = object(
    { q: { type: "string" }, n: { type: "integer", minimum: 1, maximum: 99 }, on: { enum: ["x", "y"] } },
    ["q", "n"],
  );
  const schemas = { find: parameters, stop: undefined };
  const marks = { "[TOOL_CALLS]": 256, "[ARGS]": 257, "<tool_call>": 258 };
  const tokens = [...Array.from({ length: 256 }, (_, b) => Uint8Array.of(b)), ...Object.keys(marks).map(bytesOf)];
  const tokenizer = tokenizerOf(tokens, marks);
  const vocabulary = new Vocabulary(tokenizer, Object.keys(marks));

  it.each<ToolForm>(["hermes", "qwen3_coder", "llama3", "mistral", "mistral_args"])(
    "%s are read as they were kept",
    (form) => {
      for (const many of [false, true]) {
        const answer: AnswerForm = { thought: "none", calls: { form, tools: callableTools(schemas), many } };
        const machine = answerMachine(answer, vocabulary);
        for (let seed = 0; seed < 40; seed++) {
          const rng = new Rng(seed);
          const ids: number[] = [];
          for (let state = machine.start; ids.length < 2000;) {
            if (state.isComplete && (ids.length > 600 || rng.uniform() < 0.4)) break;
            const next = tokens.flatMap((_, id) => {
              const signs = Array.from(vocabulary.signsOf(id));
              let to: TextState | null = state;
              for (const sign of signs) to &&= machine.next(to, sign);
              return to ? [{ id, to }] : [];
            });
            if (next.length === 0) {
              expect(state.isComplete, tokenizer.decode(ids)).toBe(true);
              break;
            }
            const ends = next.filter(({ id }) => '"}]<'.includes(String.fromCharCode(id)));
            // A value of the second form ends with a tag, which a random text does not find.
            const only = next.filter(({ id }) => String.fromCharCode(id) === `\n</parameter>\n`.charAt(0));
            const tail = new TextDecoder().decode(Uint8Array.from(ids.slice(-13)));
            const tag = "\n</parameter>\n";
            const begun =
              Array.from(tag, (_, n) => tag.length - 1 - n).find((n) => n > 0 && tail.endsWith(tag.slice(0, n))) ?? 0;
            const wanted =
              form === "qwen3_coder" && tail.length > 0
                ? next.find(({ id }) => begun > 0 && id === tag.charCodeAt(begun))
                : undefined;
            const pick =
              wanted ??
              (form === "qwen3_coder" && only.length > 0 && rng.uniform() < 0.1
                ? only[0]!
                : ends.length > 0 && rng.uniform() < 0.3
                  ? rng.choice(ends)
                  : rng.choice(next));
            ids.push(pick.id);
            state = pick.to;
          }
          const text = tokenizer.decode(ids);
          const { content, calls } = parseAnswer(form, text, { names: ["find", "stop"], schemas: schemas });
          expect(content.trim(), text).toBe("");
          expect(calls.length, text).toBeGreaterThan(0);
          if (!many) expect(calls.length).toBe(1);
          for (const call of calls) {
            const given = JSON.parse(call.arguments) as { q: string; n: number };
            if (call.name === "stop") expect(given).toEqual({});
            else expect([typeof given.q, given.n >= 1 && given.n <= 99], text).toEqual(["string", true]);
          }
        }
      }
    },
  );

  it("that cannot be kept to are refused by name", () => {
    const machineFor = (schema: unknown): Machine =>
      answerMachine(
        { thought: "none", calls: { form: "qwen3_coder", tools: callableTools({ f: schema }), many: false } },
        vocabulary,
      );
    expect(() => machineFor(object({ a: { type: "string", maxLength: 3 } }))).toThrow(
      "tools: f.a: minLength and maxLength",
    );
    expect(() => machineFor({ type: "object" })).toThrow("f.parameters must list properties");
    expect(() => machineFor(object({ "a>b": {} }))).toThrow('the name "a>b" cannot be a tag');
    expect(() => callableTools({ f: { type: "string" } })).toThrow(
      "tools: f.parameters must be the schema of an object",
    );
    expect(() => callableTools({ f: object({ a: { pattern: "a", type: "string" } }) })).toThrow(
      "tools: f.parameters: 'pattern' is not supported (at /properties/a)",
    );
  });

  it("stand behind a thought that has begun, or may begin", () => {
    const value = shapeOf({ type: "boolean" }, "s");
    const open = answerMachine({ thought: "open", value }, new Vocabulary(byteTokenizer()));
    const allowed = answerMachine({ thought: "allowed", value }, new Vocabulary(byteTokenizer()));
    expect(reading(open, 'true </thin"k></<</think>\n\ntrue')).toBe("yes");
    expect(reading(open, "true")).toBe("open");
    expect(reading(allowed, "true")).toBe("yes");
    expect(reading(allowed, "<think>a</think>false")).toBe("yes");
    expect(reading(allowed, "\n<thinx")).toBe(6);
  });
});
