/**
 * Answers as server-sent events. Tokens that are drawn while the client does not read are kept, and sent as one event
 * when it reads again. So an answer takes the memory of its tokens, however slow its reader is.
 */
import type { ServerResponse } from "node:http";
import type { Fields } from "../fields.ts";
import type { Generation, GenerationEngine } from "./engine.ts";
import type { ServedToken } from "./scores.ts";
import { type LogProbOptions, logProbsOf } from "./logProbs.ts";
import type { Asked } from "./requests.ts";
import type { GrowingText } from "./text.ts";
import type { ToolCall } from "../chat/toolCalls.ts";

/** One answer: its prompt, the tokens so far, its text. */
export interface StreamedChoice {
  readonly index: number;
  readonly prompt: readonly number[];
  readonly text: GrowingText;
  readonly tokens: readonly ServedToken[];
}

/** The assistant's message: text, and calls of tools. */
export interface Said {
  readonly content: string;
  /** The thought before it; undefined if thoughts are part of the content. */
  readonly reasoning_content?: string | undefined;
  readonly tool_calls?: readonly ToolCall[];
}

/** A complete answer. */
export interface EndedChoice {
  readonly said: Said;
  readonly result: Generation;
  /** The API's reason. */
  readonly finishReason: string;
}

/** The part of the server that a stream needs. */
export interface EventOptions extends LogProbOptions {
  readonly engine: GenerationEngine;
}

/** The stop string or the token that the caller named, if one of them ended the answer. */
export function stopReasonOf(
  { text, tokens }: StreamedChoice,
  { finishReason }: Generation,
  { stopIds }: Asked,
): string | number | null {
  if (finishReason !== "stop") return null;
  if (text.stoppedBy !== undefined) return text.stoppedBy;
  const last = tokens.at(-1)!.id;
  return stopIds.includes(last) ? last : null;
}

/** An answer as server-sent events. */
export class EventStream {
  readonly #kind: "completion" | "chat";
  readonly #head: Fields;
  readonly #asked: Asked;
  readonly #response: ServerResponse;
  readonly #options: EventOptions;
  /** The number of tokens that have been sent of each choice. */
  readonly #sent = new Map<number, number>();
  /** Choices with tokens that were not sent, and their ends. */
  readonly #unsent = new Map<StreamedChoice, EndedChoice | undefined>();
  #isSending = false;
  #sending: Promise<void> = Promise.resolve();
  /** The error after which nothing more is sent. */
  #failure: Error | undefined;

  constructor(
    kind: "completion" | "chat",
    head: Fields,
    asked: Asked,
    response: ServerResponse,
    options: EventOptions,
  ) {
    this.#kind = kind;
    this.#head = { ...head, object: kind === "chat" ? "chat.completion.chunk" : "text_completion" };
    this.#asked = asked;
    this.#response = response;
    this.#options = options;
  }

  /** Takes note of a new token. */
  grown(choice: StreamedChoice): void {
    this.#offer(choice, undefined);
  }

  /** Takes note of a complete answer. */
  ended(choice: StreamedChoice, end: EndedChoice): void {
    this.#offer(choice, end);
  }

  /** Resolves when everything is written, or the client is gone. @throws what went wrong while it was written */
  async flushed(): Promise<void> {
    await this.#sending;
    if (this.#failure) throw this.#failure;
  }

  close(usage: Fields): void {
    if (this.#asked.includeUsage) this.#write({ ...this.#head, choices: [], usage });
    this.#response.end("data: [DONE]\n\n");
  }

  #offer(choice: StreamedChoice, end: EndedChoice | undefined): void {
    this.#unsent.set(choice, end);
    if (!this.#isSending && !this.#failure) this.#sending = this.#send();
  }

  /** Sends what has not been sent, as far as the client reads. */
  async #send(): Promise<void> {
    this.#isSending = true;
    try {
      // A choice that is set again during the loop is visited again.
      for (const [choice, end] of this.#unsent) {
        this.#unsent.delete(choice);
        const event = this.#eventOf(choice, end);
        if (event && !this.#write(event)) await drained(this.#response);
      }
    } catch (error) {
      this.#failure = error as Error;
    } finally {
      this.#isSending = false;
    }
  }

  /** The event for what has come of a choice; undefined if there is nothing to say yet. */
  #eventOf(choice: StreamedChoice, end: EndedChoice | undefined): Fields | undefined {
    const { index, tokens, prompt } = choice;
    const { returnTokenIds, top } = this.#asked;
    const { text, thought } = end
      ? choice.text.rest(end.said.content, end.said.reasoning_content ?? "")
      : choice.text.take();
    if (end === undefined && text === "" && thought === "" && !returnTokenIds && top === undefined) return undefined;
    const isFirst = !this.#sent.has(index);
    const from = this.#sent.get(index) ?? 0;
    this.#sent.set(index, tokens.length);
    const fresh = tokens.slice(from);
    const offsets = choice.text.offsets.slice(from);
    const promptIds = returnTokenIds && isFirst ? { prompt_token_ids: prompt } : {};
    const isChat = this.#kind === "chat";
    const calls = end?.said.tool_calls;
    const delta = {
      ...(isFirst ? { role: "assistant" } : {}),
      content: text,
      ...(thought === "" ? {} : { reasoning_content: thought }),
      ...(calls ? { tool_calls: calls.map((call, n) => ({ index: n, ...call })) } : {}),
    };
    return {
      ...this.#head,
      choices: [
        {
          index,
          ...(isChat ? { delta } : { text }),
          logprobs: top === undefined ? null : logProbsOf(this.#kind, fresh, offsets, this.#options),
          finish_reason: end ? end.finishReason : null,
          ...(end ? { stop_reason: stopReasonOf(choice, end.result, this.#asked) } : {}),
          ...(returnTokenIds ? { token_ids: fresh.map(({ id }) => id) } : {}),
          ...(isChat ? {} : promptIds),
        },
      ],
      ...(isChat ? promptIds : {}),
      weight_version: String(tokens.at(-1)?.version ?? this.#options.engine.version),
    };
  }

  /** @returns false if the client has to read before more is written */
  #write(event: Fields): boolean {
    const response = this.#response;
    if (response.destroyed) return true;
    if (!response.headersSent) {
      response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
    }
    return response.write(`data: ${JSON.stringify(event)}\n\n`);
  }
}

/** Resolves when a client has read what was written, or is gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    if (response.destroyed) return resolve();
    response.on("drain", done);
    response.on("close", done);
  });
}
