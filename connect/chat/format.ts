/** A chat template as the text around the parts of an episode. */
import { check, fail } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import type { EpisodeFormat } from "../../rl/index.ts";
import type { ChatMessage, Renderer, RenderOptions } from "./types.ts";

/** Options of `ChatTemplate.episodeFormat`. */
export interface EpisodeFormatOptions extends Omit<RenderOptions, "addGenerationPrompt"> {
  /** The text of the system message; without it there is none. */
  readonly system?: string;
  /** The role that gives the environment's answers: the user (default), or a tool. */
  readonly answers?: "user" | "tool";
  /**
   * The token that fills batches. Default: the configuration's pad token, else its end-of-text token, else the token
   * that ends a turn.
   */
  readonly pad?: string;
}

/** Placeholders for what is said: words that occur in no template. */
const [TASK, ACTION, ANSWER] = ["qTASKq", "qACTIONq", "qANSWERq"];
/** Characters that a template would escape if it wrote a text as JSON or XML. */
const SIGNS = `"'<&>\\{}`;

/** The format of a template; see `ChatTemplate.episodeFormat`. */
export function episodeFormatOf(chat: Renderer, options: EpisodeFormatOptions = {}): EpisodeFormat {
  checkKeys("episodeFormat", options, ["system", "answers", "pad", "tools", "variables", "now"]);
  const { system, answers = "user", pad, ...render } = options;
  const head: ChatMessage[] = [
    ...(system === undefined ? [] : [{ role: "system", content: system }]),
    { role: "user", content: TASK },
  ];
  const open = chat.renderText(head, { ...render, addGenerationPrompt: true });
  const closed = chat.renderText(head, { ...render, addGenerationPrompt: false });
  const [beforeTask, behindTask] = around(chat, open, TASK, "the task");
  const action = open.startsWith(closed) ? open.slice(closed.length) : "";

  const answer = (content: string): ChatMessage =>
    answers === "tool"
      ? { role: "tool", name: "environment", tool_call_id: "000000000", content }
      : { role: "user", content };
  // Rendered without the tools, which are part of the task; some templates write them before the last message.
  const { tools: _, ...plain } = render;
  const conversation = (content: string): string =>
    chat.renderText([...head, { role: "assistant", content: ACTION }, answer(content)], {
      ...plain,
      addGenerationPrompt: true,
    });
  const text = conversation(ANSWER);
  const at = text.lastIndexOf(ACTION);
  check(at >= 0, () => `${chat.name}: the template does not write what the assistant said`);
  const behindAction = text.slice(at + ACTION.length);
  const end = endIn(chat, behindAction);
  const [beforeAnswer, behindAnswer] = around(
    chat,
    behindAction.slice(behindAction.indexOf(end) + end.length),
    ANSWER,
    "an answer",
  );
  const signs = conversation(ANSWER + SIGNS);
  check(
    signs.endsWith(`${ANSWER}${SIGNS}${behindAnswer}`),
    () =>
      `${chat.name}: the template does not write what a ${answers} says as it is` +
      (answers === "tool" ? '; use answers: "user"' : ""),
  );
  const cut = (behind: string): string =>
    action === "" || !behind.endsWith(action) ? behind : behind.slice(0, -action.length);
  const isCut = behindTask.endsWith(action) && behindAnswer.endsWith(action);
  return {
    task: [beforeTask, isCut ? cut(behindTask) : behindTask],
    observation: [beforeAnswer, isCut ? cut(behindAnswer) : behindAnswer],
    action: isCut ? action : "",
    end,
    pad: pad ?? chat.parts["pad_token"] ?? chat.parts["eos_token"] ?? end,
  };
}

function around(chat: Renderer, text: string, word: string, what: string): [before: string, behind: string] {
  const at = text.lastIndexOf(word);
  check(at >= 0, () => `${chat.name}: the template does not write ${what}`);
  return [text.slice(0, at), text.slice(at + word.length)];
}

/** The special token that ends what the assistant said: the first one after it. */
function endIn(chat: Renderer, behind: string): string {
  const found = (chat.tokenizer.addedTokens ?? [])
    .filter(({ special }) => special)
    .map(({ content }) => ({ content, at: behind.indexOf(content) }))
    .filter(({ at }) => at >= 0 && behind.slice(0, at).trim() === "")
    .sort((a, b) => a.at - b.at || b.content.length - a.content.length)[0];
  return found?.content ?? fail(`${chat.name}: no special token ends what the assistant says`);
}
