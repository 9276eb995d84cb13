/** The author of each token of a rendered conversation. */
import { check } from "../../engine/errors.ts";
import type { Range } from "../../nn/index.ts";
import type { ChatMessage, Renderer, RenderOptions } from "./types.ts";

/** A rendered conversation. All lists have one entry a token. */
export interface RenderedRoles {
  readonly ids: number[];
  /** The role of the message that the token is from, or `template` for what the template wrote around it. */
  readonly roles: string[];
  /** The number of the message in which the token stands, its header included. */
  readonly messages: number[];
  /**
   * Whether the assistant wrote the token, the one that ends its turn included: TRL's and transformers'
   * `assistant_masks`. If the template has `{% generation %}` blocks, these decide.
   */
  readonly assistant: boolean[];
}

/** The part of the rendered text that comes from one message. */
interface Part {
  readonly message: number;
  readonly start: number;
  readonly end: number;
}

/** The roles of the tokens of a conversation; see `ChatTemplate.renderWithRoles`. */
export function rolesOf(chat: Renderer, messages: readonly ChatMessage[], options: RenderOptions): RenderedRoles {
  const whole = chat.renderMarked(messages, options);
  const { ids, offsets } = chat.encodeMarked(whole);
  const parts = partsOf(chat, messages, options, whole.text);
  const said = parts.flatMap((part) => saidIn(chat, messages, options, part, whole.text));
  const result: RenderedRoles = { ids, roles: [], messages: [], assistant: [] };
  offsets.forEach((place) => {
    const found = said.find(({ start, end }) => overlaps(place, [start, end]));
    const part = parts.findLast(({ start }) => place[0] >= start) ?? parts[0];
    const role = found === undefined ? "template" : messages[found.message]!.role;
    result.roles.push(role);
    result.messages.push(found?.message ?? part?.message ?? 0);
    result.assistant.push(
      whole.generated.length > 0 ? whole.generated.some((range) => overlaps(place, range)) : role === "assistant",
    );
  });
  return result;
}

const overlaps = ([start, end]: Range, [from, to]: Range): boolean => start < to && from < end;

/** The part of the text that each message adds to that of the messages before it. */
function partsOf(chat: Renderer, messages: readonly ChatMessage[], options: RenderOptions, whole: string): Part[] {
  const parts: Part[] = [];
  let start = 0;
  messages.forEach((_, i) => {
    const end = i + 1 === messages.length && !options.addGenerationPrompt ? whole.length : endOf(i);
    if (end === undefined) return;
    check(
      end >= start && end <= whole.length,
      () => `${chat.name}: message ${i} is written otherwise once others follow`,
    );
    parts.push({ message: i, start, end });
    start = end;
  });
  return parts;

  /**
   * The end of message i; undefined if the template refuses a conversation that ends there (with a system message,
   * say).
   */
  function endOf(i: number): number | undefined {
    let text: string;
    try {
      text = chat.renderText(messages.slice(0, i + 1), { ...options, addGenerationPrompt: false });
    } catch {
      return undefined;
    }
    check(
      whole.startsWith(text),
      () =>
        `${chat.name}: the template writes messages 0 to ${i} otherwise once others follow (it may leave out the ` +
        "thoughts of earlier turns): append turn by turn with episodeFormat instead of rendering anew",
    );
    return text.length;
  }
}

/** The words in a part: all that the assistant wrote up to the end of its turn, or another role's content. */
function saidIn(
  chat: Renderer,
  messages: readonly ChatMessage[],
  options: RenderOptions,
  { message, start, end }: Part,
  whole: string,
): Part[] {
  const { role, content } = messages[message]!;
  const text = whole.slice(start, end);
  if (role !== "assistant") {
    // A message that cannot end a conversation is in the part of the next one.
    const found: Part[] = [];
    for (let m = message; m >= 0 && (m === message || !found.some((part) => part.message === m)); m--) {
      const shown = typeof messages[m]!.content === "string" ? (messages[m]!.content as string).trim() : "";
      const at = shown === "" ? -1 : text.lastIndexOf(shown);
      if (at >= 0) found.push({ message: m, start: start + at, end: start + at + shown.length });
      if (messages[m - 1]?.role !== "system") break;
    }
    if (found.length > 0 || typeof content === "string") return found;
    return [{ message, start, end }];
  }
  const header = headerOf(chat, messages.slice(0, message), options, whole, start);
  // White space after the token that ends the turn belongs to the template.
  const { offsets } = chat.encodeMarked({ text: text.slice(header - start), plain: [] });
  const body = text.slice(header - start);
  const special = (chat.tokenizer.addedTokens ?? [])
    .filter((token) => token.special)
    .map((token) => ({ at: body.lastIndexOf(token.content), length: token.content.length }))
    .filter(({ at, length }) => at >= 0 && body.slice(at + length).trim() === "");
  const last = Math.max(...special.map(({ at, length }) => at + length), -1);
  return [{ message, start: header, end: last < 0 || offsets.length === 0 ? end : header + last }];
}

/** The position at which the assistant's own words begin: after the header of its message. */
function headerOf(
  chat: Renderer,
  before: readonly ChatMessage[],
  options: RenderOptions,
  whole: string,
  start: number,
): number {
  if (before.length === 0) return start;
  const asked = chat.renderText(before, { ...options, addGenerationPrompt: true });
  return whole.startsWith(asked) ? Math.max(start, asked.length) : start;
}
