/** How answers to a conversation are taken apart: into a thought, text, and calls of tools. */
import type { Tokenizer } from "../../nn/index.ts";
import type { ChatMessage } from "./chat.ts";
import { type CallsForm, MARKS } from "./constrain/answers.ts";
import type { Said } from "./events.ts";
import type { Asked } from "./requests.ts";
import type { TextOptions } from "./text.ts";
import { THINK, THINK_END, type Thought, thoughtIn } from "../chat/thoughts.ts";
import { type AnswerContext, parseAnswer, plainLength, type ToolForm } from "../chat/toolCalls.ts";

/** What is known of the answers to a conversation. */
export interface Conversation {
  readonly messages: readonly ChatMessage[];
  readonly reading: CallReading | undefined;
  /** The calls that an answer may consist of, if it has to have a form. */
  readonly calls: CallsForm | undefined;
  readonly mustCall: boolean;
  /** Whether the request names the tool that has to be called. */
  readonly isNamed: boolean;
  /** Whether the prompt has begun a thought. */
  readonly isThought: boolean;
  /** Whether an answer may begin with a thought of its own. */
  readonly mayThink: boolean;
  /** Whether thoughts are told apart from answers. */
  readonly separates: boolean;
}

/** The form and context in which tool calls are found in an answer. */
export interface CallReading extends AnswerContext {
  readonly form: ToolForm;
}

/** An answer taken apart. @param callName makes the id of its n-th call */
export function saidIn(text: string, callName: (n: number) => string, conversation: Conversation | undefined): Said {
  const { reading, separates = false, isThought = false } = conversation ?? {};
  const thought = separates ? thoughtIn(text, isThought, true) : undefined;
  const answer = thought ? text.slice(thought.answer) : text;
  const { content, calls } = reading ? parseAnswer(reading.form, answer, reading) : { content: answer, calls: [] };
  const reasoning = thought && { reasoning_content: text.slice(thought.from, thought.to) };
  if (calls.length === 0) return { content, ...reasoning };
  return {
    content,
    ...reasoning,
    tool_calls: calls.map((call, n) => ({ id: callName(n), type: "function", function: call })),
  };
}

/** The parts of a growing text that may be shown: neither tags nor what may become a call. */
export function holding(conversation: Conversation | undefined): Pick<TextOptions, "plainLength" | "thoughtIn"> {
  const { reading, separates = false, isThought = false } = conversation ?? {};
  const ofCalls = reading && { plainLength: (text: string) => plainLength(reading.form, text, reading) };
  if (!separates) return ofCalls ?? {};
  const find = (text: string): Thought => thoughtIn(text, isThought, false);
  return {
    thoughtIn: find,
    plainLength: (text) => {
      const { answer } = find(text);
      return answer + (ofCalls?.plainLength(text.slice(answer)) ?? text.length - answer);
    },
  };
}

/** An answer as a message of the conversation that goes on. */
export const messageOf = ({ content, tool_calls }: Said): ChatMessage => ({
  role: "assistant",
  content,
  ...(tool_calls ? { tool_calls } : {}),
});

/** Special tokens that are shown: the marks of calls and thoughts are among them in some vocabularies. */
export function specialsShown(
  { skipSpecials }: Asked,
  conversation: Conversation | undefined,
  { special }: Tokenizer,
): { readonly skipSpecials: boolean; readonly unseen?: readonly number[] } {
  const { reading, separates = false } = conversation ?? {};
  const shown = MARKS.filter((name) => (name === THINK || name === THINK_END ? separates : reading !== undefined))
    .map((name) => special[name])
    .filter((id) => id !== undefined);
  if (shown.length === 0) return { skipSpecials };
  return {
    skipSpecials: false,
    unseen: skipSpecials ? Object.values(special).filter((id) => !shown.includes(id)) : [],
  };
}
