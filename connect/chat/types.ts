/** Messages and options of rendering, and the part of a template that this folder's other files use. */
import type { Range, Tokenizer } from "../../nn/index.ts";

/** A message of a conversation, as in transformers and in OpenAI's API. Templates may read further fields. */
export interface ChatMessage {
  /** `system`, `user`, `assistant`, `tool`, or another role that the template knows. */
  readonly role: string;
  /** The message itself: text, or parts that the template knows; it may be missing beside a tool call. */
  readonly content?: unknown;
  /** The calls of tools in an assistant's message: `{ type: "function", function: { name, arguments } }`. */
  readonly tool_calls?: readonly unknown[];
  readonly [field: string]: unknown;
}

/** Options of rendering. */
export interface RenderOptions {
  /** Tools that the assistant may call, as JSON schemas: `{ type: "function", function: { name, … } }`. */
  readonly tools?: readonly unknown[];
  /** Whether the header of an assistant's message follows, so that the model writes it. Default false. */
  readonly addGenerationPrompt?: boolean;
  /** Further variables of the template, `enable_thinking` for example. */
  readonly variables?: Readonly<Record<string, unknown>>;
  /** The time that the template's `strftime_now` tells. Default: that of the call. */
  readonly now?: Date;
}

/** A text, and the places in it where names of special tokens are plain text. */
export interface RenderedText {
  readonly text: string;
  readonly plain: readonly Range[];
}

/** A rendered text, and the parts of it that the template's `{% generation %}` blocks wrote. */
export interface MarkedText extends RenderedText {
  readonly generated: readonly Range[];
}

/** The part of a chat template that finding roles and formats needs. */
export interface Renderer {
  readonly name: string;
  readonly tokenizer: Tokenizer;
  readonly parts: Readonly<Record<string, string>>;
  renderText(messages: readonly ChatMessage[], options?: RenderOptions): string;
  renderMarked(messages: readonly ChatMessage[], options?: RenderOptions): MarkedText;
  encodeMarked(rendered: RenderedText): { ids: number[]; offsets: Range[] };
}
