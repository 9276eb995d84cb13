/**
 * Answers of a form that a request asks for: JSON that fits a schema, or calls of tools in the model's own form,
 * perhaps behind a thought. At each step the tokens that cannot continue such an answer are taken out.
 */
import { check, fail } from "../../../engine/errors.ts";
import type { LogitsProcessor } from "../engine.ts";
import type { Schemas } from "../../chat/markedCalls.ts";
import type { ToolForm } from "../../chat/toolCalls.ts";
import { isFields } from "../../fields.ts";
import { jsonNode, type Shape, space } from "./json.ts";
import { choice, literal, Machine, type Node, sequence, type TextState, upTo, word, words } from "./machine.ts";
import { anyObject, shapeOf } from "./schema.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** Names of special tokens that are part of answers. */
export const MARKS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]"] as const;

/** A tool that may be called, and its arguments. */
export interface CallableTool {
  readonly name: string;
  readonly parameters: Shape;
}

/** Calls that an answer consists of. */
export interface CallsForm {
  readonly form: ToolForm;
  readonly tools: readonly CallableTool[];
  /** Whether there may be several. */
  readonly many: boolean;
}

/** The form of an answer. */
export interface AnswerForm {
  /** Whether it begins within a thought, may begin with one, or has none. */
  readonly thought: "open" | "allowed" | "none";
  /** The JSON value that it is. */
  readonly value?: Shape | undefined;
  /** The calls that it is; beside `value`: the model chooses. */
  readonly calls?: CallsForm | undefined;
}

/** The values of a `response_format`. @param schema true: any object @throws WorldgradError if it is not supported */
export const formatShape = (schema: unknown): Shape =>
  schema === true ? anyObject() : shapeOf(schema, "response_format: json_schema.schema");

const NO_PARAMETERS = { type: "object", properties: {}, additionalProperties: false };

/**
 * The tools of these names, or all of them, with the values that their parameters may have.
 * @param schemas of parameters by the tools' names; undefined: the tool has none
 * @throws WorldgradError if one is not supported
 */
export function callableTools(schemas: Schemas, names: readonly string[] = Object.keys(schemas)): CallableTool[] {
  return [...new Set(names)].map((name) => {
    const where = `tools: ${name}.parameters`;
    const schema = schemas[name] ?? NO_PARAMETERS;
    let parameters = shapeOf(isFields(schema) && Object.keys(schema).length === 0 ? { type: "object" } : schema, where);
    while (parameters.kind === "choice" && parameters.options.length === 1) parameters = parameters.options[0]!;
    check(areObjects(parameters, new Set()), () => `${where} must be the schema of an object`);
    return { name, parameters };
  });
}

function areObjects(shape: Shape, seen: Set<Shape>): boolean {
  if (shape.kind !== "choice") return shape.kind === "object";
  if (seen.has(shape)) return true;
  seen.add(shape);
  return shape.options.every((option) => areObjects(option, seen));
}

/** The machine of answers of a form. @throws WorldgradError if a tool cannot be called in the model's form */
export function answerMachine(answer: AnswerForm, vocabulary: Vocabulary): Machine {
  const { thought, value, calls } = answer;
  const json = value && jsonNode(value);
  const called = calls && callsNode(calls, (name) => literal(vocabulary.markOf(name)));
  const said = choice(() => [...(json ? [sequence(space, json)] : []), ...(called ? [called] : [])]);
  const sign = Array.from(vocabulary.markOf("</think>")).find((one) => one > 255);
  const behind = choice(() => [said, ...(called ? [sequence(space, called)] : [])]);
  const thinking = sequence(upTo("</think>", sign), behind);
  if (thought === "open") return new Machine(thinking);
  if (thought === "none") return new Machine(said);
  const begun = sequence(space, literal(vocabulary.markOf("<think>")), thinking);
  return new Machine(choice(() => [said, begun]));
}

const NOTHING = literal([]);

function callsNode({ form, tools, many }: CallsForm, mark: (name: string) => Node): Node {
  /** A call behind another. @param between what separates them */
  const repeated = (call: Node, ...between: readonly Node[]): Node => {
    if (!many) return call;
    const rest: Node = choice(() => [NOTHING, sequence(...between, call, rest)]);
    return sequence(call, rest);
  };
  const oneOf = (make: (tool: CallableTool) => Node): Node => {
    const nodes = tools.map(make);
    return choice(() => nodes);
  };
  const asObject = (field: string): Node => oneOf((tool) => jsonNode(callShape(tool, field)));
  switch (form) {
    case "hermes": {
      const call = sequence(mark("<tool_call>"), space, asObject("arguments"), space, mark("</tool_call>"));
      return repeated(call, space);
    }
    case "llama3":
      return asObject("parameters");
    case "mistral":
      return sequence(
        // The mark is in the text only where it is a token.
        choice(() => [mark("[TOOL_CALLS]"), NOTHING]),
        word("["),
        space,
        repeated(asObject("arguments"), word(","), space),
        space,
        word("]"),
      );
    case "mistral_args": {
      const args = choice(() => [mark("[ARGS]"), NOTHING]);
      const call = oneOf(({ name, parameters }) =>
        sequence(mark("[TOOL_CALLS]"), word(name), args, jsonNode(parameters)),
      );
      return repeated(call);
    }
    case "qwen3_coder": {
      const call = oneOf(({ name, parameters }) =>
        sequence(
          mark("<tool_call>"),
          word(`\n<function=${name}>\n`),
          parametersNode(name, parameters),
          word("</function>\n"),
          mark("</tool_call>"),
        ),
      );
      return repeated(call, space);
    }
  }
}

/** A call as a JSON object: the name, then the arguments in their field. */
function callShape({ name, parameters }: CallableTool, field: string): Shape {
  const named: Shape = { kind: "words", texts: [JSON.stringify(name)], levels: 0 };
  const properties = [
    { key: "name", shape: named, isRequired: true },
    { key: field, shape: parameters, isRequired: true },
  ];
  return { kind: "object", properties, levels: 1 + parameters.levels };
}

const PARAMETER_END = "\n</parameter>\n";

/** Parameters as XML, in the order of the schema. */
function parametersNode(tool: string, shape: Shape): Node {
  if (shape.kind !== "object" || shape.others !== undefined)
    return fail(`tools: ${tool}.parameters must list properties: this model writes each by its name`);
  const { properties } = shape;
  const nodes = properties.map(({ key, shape: ofValue, isRequired }) => {
    check(!/[<>\n]/.test(key), () => `tools: ${tool}.parameters: the name ${JSON.stringify(key)} cannot be a tag`);
    const node = sequence(word(`<parameter=${key}>\n`), valueNode(ofValue, `${tool}.${key}`));
    return isRequired ? node : choice(() => [NOTHING, node]);
  });
  return nodes.length === 0 ? NOTHING : sequence(...nodes);
}

/** A value and its end: texts as they are, all else as JSON. */
function valueNode(shape: Shape, place: string): Node {
  if (shape.kind === "string") {
    const isFree = shape.min === 0 && shape.max === Infinity;
    check(isFree, () => `tools: ${place}: minLength and maxLength are not supported in this model's form of calls`);
    return upTo(PARAMETER_END);
  }
  if (shape.kind === "choice") {
    const options = shape.options.map((option) => valueNode(option, place));
    return choice(() => options);
  }
  if (shape.kind !== "words") return sequence(jsonNode(shape), word(PARAMETER_END));
  const texts = shape.texts.map((json) => {
    const value: unknown = JSON.parse(json);
    return typeof value === "string" ? value : json;
  });
  const tags = texts.find((text) => text.includes("</parameter>"));
  check(tags === undefined, () => `tools: ${place}: the value ${JSON.stringify(tags)} cannot stand between tags`);
  return sequence(words(texts), word(PARAMETER_END));
}

/** An answer that is kept to a form while it is drawn. */
export class ConstrainedAnswer {
  readonly #vocabulary: Vocabulary;
  readonly #machine: Machine;
  /** Tokens that end the answer and are no text. */
  readonly #endIds: readonly number[];
  /** The request's field that asks for the form. */
  readonly #field: string;
  #state: TextState;

  constructor(machine: Machine, vocabulary: Vocabulary, stopIds: readonly number[], field: string) {
    this.#machine = machine;
    this.#vocabulary = vocabulary;
    this.#endIds = stopIds.filter((id) => vocabulary.signsOf(id).length === 0);
    this.#field = field;
    this.#state = machine.start;
  }

  /** Takes note of a drawn token. @returns whether the answer is over: it is complete, and no token says so */
  push(id: number): boolean {
    const signs = this.#vocabulary.signsOf(id);
    for (let i = 0; i < signs.length; i++) {
      const next = this.#machine.next(this.#state, signs[i]!);
      if (next === null) return true; // a token that ends the answer by the caller's wish
      this.#state = next;
    }
    return this.#state.isComplete && this.#endIds.length === 0 && !this.#goesOn();
  }

  /** Takes out the tokens that cannot come next. @throws WorldgradError if none can */
  readonly process: LogitsProcessor = (logits) => {
    const mask = this.#vocabulary.maskOf(this.#machine, this.#state);
    const ends = this.#state.isComplete ? this.#endIds.map((id) => [id, logits[id]!] as const) : [];
    let allowed = ends.length;
    for (let id = 0; id < logits.length; id++) {
      if ((mask[id >> 5]! >>> (id & 31)) & 1) allowed++;
      else logits[id] = -Infinity;
    }
    for (const [id, logit] of ends) logits[id] = logit;
    check(
      allowed > 0,
      () => `${this.#field}: the vocabulary has no token that continues what was written so far in the form asked for`,
    );
  };

  /** Whether something may follow. */
  #goesOn(): boolean {
    return this.#vocabulary.maskOf(this.#machine, this.#state).some((bits) => bits !== 0);
  }
}
