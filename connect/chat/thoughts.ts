/**
 * Thoughts: the part of an answer between `<think>` and `</think>` with which a model may begin. It is told apart from
 * the answer as `reasoning_content`, the field of DeepSeek, SGLang and vLLM. White space around it belongs to neither.
 */
import type { Renderer } from "./types.ts";

/** The tags of a thought. */
export const [THINK, THINK_END] = ["<think>", "</think>"] as const;

/** The places of a thought and of the answer in a text that may still grow. */
export interface Thought {
  /** The part of the thought that is certain; empty if there is none. */
  readonly from: number;
  readonly to: number;
  /** Where the answer begins: at the end of the text while the thought goes on. */
  readonly answer: number;
}

/**
 * Finds the thought with which a text begins.
 * @param isBegun whether the prompt has begun it @param isWhole whether no text follows
 */
export function thoughtIn(text: string, isBegun: boolean, isWhole: boolean): Thought {
  const start = spacesEnd(text, 0);
  let from = start;
  if (!isBegun) {
    if (!isWhole && THINK.startsWith(text.slice(start, start + THINK.length)))
      return { from: 0, to: 0, answer: text.length };
    if (!text.startsWith(THINK, start)) return { from: 0, to: 0, answer: 0 };
    from = spacesEnd(text, start + THINK.length);
  }
  const end = text.indexOf(THINK_END, from);
  let to = end >= 0 ? end : text.length;
  if (end < 0 && !isWhole)
    for (let length = THINK_END.length - 1; length > 0 && to === text.length; length--)
      if (text.endsWith(THINK_END.slice(0, length))) to -= length;
  const certain = from + text.slice(from, to).trimEnd().length;
  return { from, to: Math.max(from, certain), answer: end < 0 ? text.length : spacesEnd(text, end + THINK_END.length) };
}

const spacesEnd = (text: string, from: number): number => text.length - text.slice(from).trimStart().length;

/** Whether a template's answers begin with thoughts: it writes the tag itself, or leaves earlier thoughts out. */
export function writesThoughts(chat: Renderer, variables: Readonly<Record<string, unknown>>): boolean {
  const user = { role: "user", content: "q" };
  const assistant = { role: "assistant", content: `${THINK}\nqTHOUGHTq\n${THINK_END}\n\nqANSWERq` };
  const text = (messages: Parameters<Renderer["renderText"]>[0], more: object): string => {
    try {
      return chat.renderText(messages, { addGenerationPrompt: true, variables: { ...variables, ...more } });
    } catch {
      return "";
    }
  };
  if ([true, false].some((enable_thinking) => text([user], { enable_thinking }).includes(THINK))) return true;
  const later = text([user, assistant, user], {});
  return later.includes("qANSWERq") && !later.includes("qTHOUGHTq");
}
