/**
 * A checkpoint's own chat template: the Jinja program of `chat_template.jinja` or `tokenizer_config.json`.
 *
 * Rendering differs from transformers' `apply_chat_template` in one thing: the name of a special token in a message is
 * plain text. `<|im_end|>` in a user's message ends nothing.
 */
import { check, fail } from "../../engine/errors.ts";
import { checkKeys, showValue } from "../../engine/options.ts";
import { compile, type Program } from "./jinja/render.ts";
import { HIDDEN_NAMES } from "./jinja/text.ts";
import { Float } from "./jinja/values.ts";
import { strftime } from "./strftime.ts";
import { encodeWithOffsets, type Range, type Tokenizer } from "../../nn/index.ts";
import type { EpisodeFormat } from "../../rl/index.ts";
import { episodeFormatOf, type EpisodeFormatOptions } from "./format.ts";
import { type RenderedRoles, rolesOf } from "./roles.ts";
import type { ChatMessage, MarkedText, RenderedText, Renderer, RenderOptions } from "./types.ts";

/** Options of `chatTemplate`. */
export interface ChatTemplateOptions {
  readonly tokenizer: Tokenizer;
  /** The Jinja program; unless given, that of `config`. */
  readonly template?: string;
  /** `tokenizer_config.json`, parsed: special tokens by their part (`bos_token`, `eos_token`), perhaps the template. */
  readonly config?: unknown;
  /** Its name in error messages, such as a folder. Default "chat template". */
  readonly name?: string;
}

const RENDER_KEYS = ["tools", "addGenerationPrompt", "variables", "now"] as const;
/** The special tokens that templates know as variables. */
const PARTS = ["bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"] as const;
/** Marks around what a template's `{% generation %}` blocks write: the last private-use characters. */
const [GENERATED, WRITTEN] = ["\u{10fffc}", "\u{10fffd}"];
/** Letters that a text counts for beside its own, because many short messages are not a small conversation. */
const LETTERS_PER_TEXT = 50;
/** Private-use characters that are left for names of special tokens: one replaces each while the template runs. */
const MOST_NAMES = 0x10fffc - HIDDEN_NAMES;

/**
 * Makes a chat template.
 * @throws WorldgradError if the template is missing or malformed
 *
 * @example
 * const chat = await chatTemplate({ tokenizer, config: JSON.parse(tokenizerConfig), template: jinja });
 * const ids = chat.render([{ role: "user", content: "hi" }], { addGenerationPrompt: true });
 */
export async function chatTemplate(options: ChatTemplateOptions): Promise<ChatTemplate> {
  checkKeys("chatTemplate", options, ["tokenizer", "template", "config", "name"]);
  const { tokenizer, config = {}, name = "chat template" } = options;
  check(
    typeof config === "object" && config !== null,
    () => `${name}: config is ${showValue(config)}, expected an object`,
  );
  const source = options.template ?? templateIn((config as Record<string, unknown>)["chat_template"], name);
  const parts: Record<string, string> = {};
  for (const part of PARTS) {
    const given = (config as Record<string, unknown>)[part];
    const content = typeof given === "object" && given !== null ? (given as { content?: unknown }).content : given;
    if (typeof content === "string") parts[part] = content;
  }
  return new ChatTemplate(tokenizer, programOf(source, name), parts, name);
}

/** The template of a configuration: a text, or of a list of named ones that for tools, else the default. */
function templateIn(value: unknown, name: string): string {
  if (typeof value === "string") return value;
  const named = Array.isArray(value) ? (value as ({ name?: unknown; template?: unknown } | null)[]) : [];
  const found = named.find((one) => one?.name === "tool_use") ?? named.find((one) => one?.name === "default");
  return typeof found?.template === "string"
    ? found.template
    : fail(
        `${name}: there is no chat template: neither chat_template.jinja nor chat_template in tokenizer_config.json`,
      );
}

function programOf(source: string, name: string): Program {
  try {
    return compile(source);
  } catch (error) {
    return fail(`${name}: the template cannot be read: ${messageOf(error)}`);
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A chat template with its tokenizer. Made by `chatTemplate`. */
export class ChatTemplate implements Renderer {
  readonly tokenizer: Tokenizer;
  /** Its name in error messages. */
  readonly name: string;
  /** The special tokens by their part: `bos_token`, `eos_token` and so on. */
  readonly parts: Readonly<Record<string, string>>;
  readonly #program: Program;
  /** Finds names of special tokens, the longest first. */
  readonly #names: RegExp | undefined;

  /** Use `chatTemplate`. */
  constructor(tokenizer: Tokenizer, program: Program, parts: Readonly<Record<string, string>>, name: string) {
    this.tokenizer = tokenizer;
    this.name = name;
    this.parts = parts;
    this.#program = program;
    const names = (tokenizer.addedTokens ?? []).filter(({ special }) => special).map(({ content }) => content);
    const longestFirst = names.filter((one) => one !== "").sort((a, b) => b.length - a.length);
    const source = longestFirst.map((one) => one.replace(/[\^$\\.*+?()[\]{}|/]/g, String.raw`\$&`)).join("|");
    this.#names = source === "" ? undefined : new RegExp(source, "gu");
  }

  /** The conversation as text, as transformers' `apply_chat_template(…, tokenize=False)` gives it. */
  renderText(messages: readonly ChatMessage[], options: RenderOptions = {}): string {
    return this.renderMarked(messages, options).text;
  }

  /**
   * The conversation as token ids: `apply_chat_template`, but names of special tokens in messages are text.
   * @throws WorldgradError if the template refuses the conversation (`raise_exception`), with its reason
   */
  render(messages: readonly ChatMessage[], options: RenderOptions = {}): number[] {
    const { text, plain } = this.renderMarked(messages, options);
    return this.tokenizer.encode(text, { specials: "tokens", plain });
  }

  /**
   * The conversation as token ids, and who wrote each token: the assistant, somebody else, or the template.
   * @throws WorldgradError if the template writes earlier messages otherwise once later ones follow; it names the
   *   message. Then the tokens of a conversation are to be appended turn by turn (`episodeFormat`), not rendered anew.
   */
  renderWithRoles(messages: readonly ChatMessage[], options: RenderOptions = {}): RenderedRoles {
    return rolesOf(this, messages, options);
  }

  /**
   * The text around the parts of an episode, for `new Template(tokenizer, { format })`: any environment then plays with
   * the checkpoint in the markup that it was trained with. Nothing that was sampled is rendered again.
   * @throws WorldgradError if the template changes what is said (writes it as JSON, say) or has no end of a turn
   */
  episodeFormat(options: EpisodeFormatOptions = {}): EpisodeFormat {
    return episodeFormatOf(this, options);
  }

  /**
   * The text of `renderText`, with the places in which names of special tokens are text, and those that generation
   * blocks wrote.
   */
  renderMarked(messages: readonly ChatMessage[], options: RenderOptions = {}): MarkedText {
    checkKeys("render", options, RENDER_KEYS);
    check(Array.isArray(messages), () => `${this.name}: expected a list of messages, got ${showValue(messages)}`);
    messages.forEach((message, i) => {
      check(
        typeof (message as ChatMessage | undefined)?.role === "string",
        () => `${this.name}: message ${i} has no role: ${showValue(message)}`,
      );
    });
    const { tools, addGenerationPrompt = false, variables = {}, now = new Date() } = options;
    const hidden = new HiddenNames(this.#names);
    let text: string;
    try {
      const given = {
        messages: mapTexts(messages, (one) => hidden.hide(one)),
        tools: tools === undefined ? null : mapTexts(tools, (one) => hidden.hide(one)),
      };
      text = this.#program.render(
        {
          strftime_now: (format: string) => strftime(now, format),
          documents: null,
          ...this.parts,
          ...variables,
          ...given,
          add_generation_prompt: addGenerationPrompt,
        },
        hidden.size,
        [GENERATED, WRITTEN],
      );
    } catch (error) {
      return fail(`${this.name}: the template refuses the conversation: ${hidden.reveal(messageOf(error)).text}`);
    }
    return hidden.reveal(text);
  }

  /** The ids of a text with the places of its tokens. */
  encodeMarked({ text, plain }: RenderedText): { ids: number[]; offsets: Range[] } {
    return encodeWithOffsets(this.tokenizer, text, { specials: "tokens", plain });
  }
}

/** A value with all its texts changed. */
function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, change));
  if (typeof value !== "object" || value === null || value instanceof Float) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, mapTexts(item, change)]));
}

/** The names of special tokens in a conversation, for which other characters stand while the template runs. */
class HiddenNames {
  readonly #pattern: RegExp | undefined;
  readonly #numbers = new Map<string, number>();
  /** The size of the texts so far, in letters. */
  size = 0;

  constructor(pattern: RegExp | undefined) {
    this.#pattern = pattern;
  }

  /** Puts a character in place of each name; a character of the text that would mean one becomes U+FFFD. */
  hide(text: string): string {
    this.size += text.length + LETTERS_PER_TEXT;
    const result = text.replace(/[\u{10f000}-\u{10fffd}]/gu, "\ufffd");
    return this.#pattern === undefined ? result : result.replace(this.#pattern, (name) => this.#characterOf(name));
  }

  #characterOf(name: string): string {
    const number = this.#numbers.get(name) ?? this.#numbers.size;
    check(number < MOST_NAMES, () => `it names more than ${MOST_NAMES} different special tokens`);
    this.#numbers.set(name, number);
    return String.fromCodePoint(HIDDEN_NAMES + number);
  }

  /** Undoes `hide`, and takes the marks of generation blocks out. */
  reveal(text: string): MarkedText {
    const names = [...this.#numbers.keys()];
    const plain: Range[] = [];
    const generated: Range[] = [];
    let result = "";
    let begun = 0;
    let end = 0;
    for (const { 0: char, index } of text.matchAll(/[\u{10f000}-\u{10fffd}]/gu)) {
      result += text.slice(end, index);
      end = index + char.length;
      if (char === GENERATED) begun = result.length;
      else if (char === WRITTEN) generated.push([begun, result.length]);
      else {
        const name = names[char.codePointAt(0)! - HIDDEN_NAMES] ?? "";
        plain.push([result.length, result.length + name.length]);
        result += name;
      }
    }
    return { text: result + text.slice(end), plain, generated };
  }
}
