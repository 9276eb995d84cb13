/**
 * Conversations as tokens. A `ChatFormat` renders the messages at the start of a conversation, and separately those
 * that follow an answer of the model. So the tokens of an answer stay those that were sampled.
 */
import { check, fail } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { append, emptyStream, type TokenStream } from "../../rl/episode/stream.ts";
import type { Template } from "../../rl/episode/template.ts";
import type { ToolCall, ToolForm } from "../chat/toolCalls.ts";
import { isFields } from "../fields.ts";

/** A message of a conversation, its content as text. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  /** The thought before an assistant's message, for templates that write it. */
  readonly reasoning_content?: string;
  /** The calls of tools in an assistant's message. */
  readonly tool_calls?: readonly ToolCall[];
  /** The id of the call that a tool's message answers. */
  readonly tool_call_id?: string;
}

/** A format that turns messages into tokens, with the roles of episodes: `prompt`, `observation`, `scaffold`. */
export interface ChatFormat {
  /** Tokens that end an answer of the model. */
  readonly stopIds: readonly number[];
  /** The form of the model's tool calls; undefined: it has no tools. */
  readonly toolForm?: ToolForm | undefined;
  /** The reason why it has no tools, if it has none. */
  readonly noTools?: string | undefined;
  /** Whether answers may begin with thoughts, between `<think>` and `</think>`. Default false. */
  readonly thinks?: boolean;
  /** The same with further variables of the chat template; undefined: it has no template. */
  readonly withVariables?: (variables: Readonly<Record<string, unknown>>) => ChatFormat;
  /**
   * The tokens of a conversation, and those that the template puts before an answer of the model.
   * @param tools that the model may call @param news of a conversation whose history was rewritten: the numbers of the
   *   messages that the model sees for the first time. Their contents are observations, all other tokens the prompt's
   * @throws if it cannot be rendered
   */
  begin(messages: readonly ChatMessage[], tools?: readonly unknown[], news?: ReadonlySet<number>): TokenStream;
  /**
   * The tokens of messages that follow an answer of the model, and those that the template puts before the next one.
   * @param lastId the last token that the model wrote, which may be the one that ends its turn
   * @param turn the number of the answer that they follow
   */
  extend(messages: readonly ChatMessage[], lastId: number, turn: number): TokenStream;
}

/**
 * Conversations as episodes of a run (`Template`): the messages up to the first answer are the task, answers of the
 * model are actions, and whatever follows one is the observation. Answers that the conversation begins with were not
 * sampled here, so they have the role `prompt`.
 */
export function episodeChat(template: Template): ChatFormat {
  const { tokenizer, endId, endIds } = template;
  const joined = (messages: readonly ChatMessage[]): string => messages.map(({ content }) => content).join("\n");
  return {
    stopIds: endIds,
    begin(messages, _tools, news) {
      const stream = emptyStream();
      const first = messages.findIndex(({ role }) => role === "assistant");
      const task = first < 0 ? messages : messages.slice(0, first);
      check(task.length > 0, () => "messages: the first message must not be the assistant's");
      template.appendTask(stream, joined(task));
      let turn = 0;
      for (let i = first; i >= 0 && i < messages.length;) {
        const { content } = messages[i]!;
        const next = messages.findIndex(({ role }, k) => k > i && role === "assistant");
        const answers = messages.slice(i + 1, next < 0 ? undefined : next);
        check(
          answers.length > 0,
          () => "messages: the last one, and one after each of the assistant's, must be another's",
        );
        append(stream, "prompt", turn, template.encodeAction(content));
        const from = stream.ids.length;
        template.appendObservation(stream, turn++, tokenizer.encode(joined(answers)));
        // All answers to one action are one text, which is new only if each of them is.
        if (news && !answers.every((_, k) => news.has(i + 1 + k))) asPrompt(stream, from);
        i = next;
      }
      return stream;
    },
    extend(messages, lastId, turn) {
      const stream = emptyStream();
      check(
        messages.length > 0 && messages.every(({ role }) => role !== "assistant"),
        () => "messages: what follows an answer of the model must be another's",
      );
      if (!template.isEnd(lastId)) append(stream, "scaffold", turn, [endId]);
      template.appendObservation(stream, turn, tokenizer.encode(joined(messages)));
      return stream;
    },
  };
}

/** Makes the observations from a position on part of the prompt. */
function asPrompt({ roles, targets }: TokenStream, from: number): void {
  for (let t = from; t < roles.length; t++) {
    if (roles[t] !== "observation") continue;
    roles[t] = "prompt";
    targets[t] = false;
  }
}

const ROLES: Readonly<Record<string, ChatMessage["role"]>> = {
  system: "system",
  developer: "system",
  user: "user",
  assistant: "assistant",
  tool: "tool",
};

/**
 * The messages of a request.
 * @param hasTools whether the model's conversations have calls of tools
 * @throws WorldgradError that names the message and what is wrong with it
 */
export function readMessages(value: unknown, hasTools = false): ChatMessage[] {
  check(Array.isArray(value) && value.length > 0, () => `messages must be a list of messages, got ${showValue(value)}`);
  return (value as readonly unknown[]).map((message, i) => {
    const where = `messages[${i}]`;
    if (!isFields(message)) return fail(`${where} must be an object, got ${showValue(message)}`);
    const { role, content, tool_calls: given, tool_call_id: id, reasoning_content: thought } = message;
    const known = typeof role === "string" && Object.hasOwn(ROLES, role) ? ROLES[role] : undefined;
    if (known === undefined) return fail(`${where}.role must be one of ${Object.keys(ROLES).join(", ")}`);
    const calls = callsOf(given ?? [], `${where}.tool_calls`);
    check(
      calls.length === 0 || hasTools,
      () => `${where}.tool_calls: this model's conversations have no tool calls apart from the text`,
    );
    check(
      calls.length === 0 || known === "assistant",
      () => `${where}.tool_calls: only an assistant's message has calls`,
    );
    check(
      id === undefined || typeof id === "string",
      () => `${where}.tool_call_id must be a text, got ${showValue(id)}`,
    );
    check(
      thought === undefined || thought === null || typeof thought === "string",
      () => `${where}.reasoning_content must be a text, got ${showValue(thought)}`,
    );
    return {
      role: known,
      content: contentOf(content, where),
      ...(typeof thought === "string" && thought !== "" ? { reasoning_content: thought } : {}),
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
      ...(id === undefined ? {} : { tool_call_id: id }),
    };
  });
}

function callsOf(given: unknown, where: string): ToolCall[] {
  if (!Array.isArray(given)) return fail(`${where} must be a list, got ${showValue(given)}`);
  return (given as readonly unknown[]).map((call, i) => {
    const { id, type, function: called } = isFields(call) ? call : {};
    const { name, arguments: text } = isFields(called) ? called : {};
    const fits = typeof id === "string" && (type ?? "function") === "function" && typeof name === "string";
    check(fits, () => `${where}[${i}] must be a call of a function, with id, function.name and function.arguments`);
    // Many clients hold an empty text for a call without arguments (vllm-project/vllm#19419).
    const json = text === "" ? "{}" : text;
    const isJson = typeof json === "string" && objectIn(json) !== undefined;
    check(isJson, () => `${where}[${i}].function.arguments must be an object as JSON, got ${showValue(text)}`);
    return { id, type: "function", function: { name, arguments: json } };
  });
}

/** Parses a JSON object; undefined if the text is something else. */
export function objectIn(json: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return isFields(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function contentOf(content: unknown, where: string): string {
  if (typeof content === "string") return content;
  if (content === null || content === undefined) return "";
  check(Array.isArray(content), () => `${where}.content must be a text or a list of parts, got ${showValue(content)}`);
  return (content as readonly unknown[])
    .map((part) =>
      isFields(part) && part["type"] === "text" && typeof part["text"] === "string"
        ? part["text"]
        : fail(`${where}.content: only parts of type text are supported, got ${showValue(part)}`),
    )
    .join("");
}
