/**
 * The completions and chat API of OpenAI over a `GenerationEngine`: requests become prompts, tokens become answers, as
 * one object or as server-sent events. If a request came to the address of an episode (`Rollout`), the episode keeps
 * what was sampled.
 *
 * `logprobs` are the model's at temperature 1 (`raw_logprobs`, vLLM's default), or with `processed_logprobs` those of
 * the distribution that was sampled from, after temperature, top-k, top-p and min-p. Trajectories always keep the
 * log-probabilities at the sampling temperature over the whole vocabulary.
 */
import type { ServerResponse } from "node:http";
import type { Rng } from "../engine/index.ts";
import type { Tokenizer } from "../nn/index.ts";
import { type ChatFormat, type ChatMessage, readMessages } from "./chat.ts";
import type { Generation, GenerationEngine, ServedToken } from "./engine.ts";
import { type Fields, HttpError, sendJson } from "./http.ts";
import { type Asked, readChat, readCompletion, streamOf } from "./requests.ts";
import type { Rollout, RolloutPrompt } from "./rollouts.ts";
import { GrowingText } from "./text.ts";
import { parseAnswer, plainLength, type ToolCall, type ToolForm } from "./toolCalls.ts";

/** What the two APIs need. */
export interface ApiOptions {
  readonly engine: GenerationEngine;
  readonly tokenizer: Tokenizer;
  /** How messages become tokens; undefined if the model has no chat format. */
  readonly chat: ChatFormat | undefined;
  readonly model: string;
  /** Tokens that end an answer. */
  readonly stopIds: readonly number[];
  readonly rng: Rng;
  readonly logProbs: "raw_logprobs" | "processed_logprobs";
  /** Milliseconds since 1970, for `created`. */
  readonly now: () => number;
}

/** A request as it came in. */
export interface Call {
  readonly body: Fields;
  readonly response: ServerResponse;
  /** Aborted when the client is gone, the time is up or the episode is over. */
  readonly signal: AbortSignal;
  readonly rollout: Rollout | undefined;
}

/** One answer: its prompt, the tokens so far, its text. */
interface Choice {
  readonly index: number;
  readonly prompt: readonly number[];
  readonly ofRollout: RolloutPrompt | undefined;
  readonly text: GrowingText;
  readonly tokens: ServedToken[];
  /** How many tokens have been sent in a stream. */
  sent: number;
  /** How calls of tools are written, if the answer is searched for them, and the ids for them. */
  readonly calls: { readonly form: ToolForm | undefined; readonly name: (n: number) => string };
}

/** The id of a call: nine letters and digits, as Mistral's templates require. */
const callName = (request: number, index: number, n: number): string =>
  `c${(128 * (128 * request + index) + n).toString(36).padStart(8, "0")}`;

/** What the assistant said: text, and calls of tools. */
function saidIn({ text, calls: { form, name } }: Choice): { content: string; tool_calls?: readonly ToolCall[] } {
  const { content, calls } = form === undefined ? { content: text.text, calls: [] } : parseAnswer(form, text.text);
  if (calls.length === 0) return { content };
  return { content, tool_calls: calls.map((call, n) => ({ id: name(n), type: "function", function: call })) };
}

type Kind = "completion" | "chat";

/** Both APIs. */
export class OpenAiApi {
  readonly #options: ApiOptions;
  #requests = 0;

  constructor(options: ApiOptions) {
    this.#options = options;
  }

  /** POST /v1/completions */
  async completions({ body, ...call }: Call): Promise<void> {
    const { tokenizer, model } = this.#options;
    const asked = readCompletion(body, model);
    const ids = asked.prompts.map((prompt) => (typeof prompt === "string" ? tokenizer.encode(prompt) : prompt));
    const prompts = ids.map((prompt) => ({ prompt, ofRollout: call.rollout?.promptOfIds(prompt) }));
    await this.#answer("completion", asked, prompts, call, undefined);
  }

  /** POST /v1/chat/completions */
  async chat({ body, ...call }: Call): Promise<void> {
    const { chat, model } = this.#options;
    const asked = readChat(body, model);
    if (chat === undefined) throw new HttpError(400, "this model has no chat format; use /v1/completions");
    const { tools, readsCalls } = asked;
    const { toolForm } = chat;
    if (tools.length > 0 && toolForm === undefined)
      throw new HttpError(400, "tools must be left out: this model's conversations have none", { param: "tools" });
    const messages = readMessages(asked.messages, toolForm !== undefined);
    const ofRollout = call.rollout?.promptOfMessages(messages, chat, tools);
    const { ids: prompt } = ofRollout?.stream ?? chat.begin(messages, tools.length > 0 ? tools : undefined);
    const form = readsCalls ? toolForm : undefined;
    await this.#answer("chat", asked, [{ prompt, ofRollout }], call, { messages, form });
  }

  async #answer(
    kind: Kind,
    asked: Asked,
    prompts: readonly { readonly prompt: readonly number[]; readonly ofRollout: RolloutPrompt | undefined }[],
    { response, signal, rollout }: Omit<Call, "body">,
    conversation: { readonly messages: readonly ChatMessage[]; readonly form: ToolForm | undefined } | undefined,
  ): Promise<void> {
    const { engine, tokenizer, rng, now, model } = this.#options;
    const request = this.#requests++;
    const stream = streamOf(asked.seed, rng, request);
    const stopIds = [...asked.stopIds, ...(asked.ignoreEos ? [] : this.#options.stopIds)];
    const form = conversation?.form;
    const hold = form === undefined ? {} : { plainLength: (text: string) => plainLength(form, text) };
    const text = { stop: asked.stop, skipSpecials: asked.skipSpecials, ...hold };
    const choices = prompts.flatMap(({ prompt, ofRollout }, p) =>
      Array.from({ length: asked.n }, (_, k): Choice => {
        this.#checkRoom(prompt.length, asked.maxTokens);
        const index = p * asked.n + k;
        const calls = { form, name: (n: number) => callName(request, index, n) };
        return { index, prompt, ofRollout, text: new GrowingText(tokenizer, text), tokens: [], sent: 0, calls };
      }),
    );
    const head = {
      id: `${kind === "chat" ? "chatcmpl" : "cmpl"}-${request}`,
      created: Math.floor(now() / 1000),
      model,
    };
    const events = asked.stream ? new EventStream(kind, head, asked, response, this.#options) : undefined;
    // An error before the first token is answered with a status, a later one with an event.
    const results = await Promise.all(
      choices.map(async (choice): Promise<Generation> => {
        const room = engine.capacity - choice.prompt.length;
        const maxTokens = Math.min(asked.maxTokens ?? (kind === "chat" ? room : 16), room);
        const result = await engine.generate({
          prompt: choice.prompt,
          maxTokens,
          sampling: asked.sampling,
          rng: stream.split(choice.index),
          stopIds,
          top: asked.top ?? 0,
          onToken: (token) => {
            choice.tokens.push(token);
            const isStopped = choice.text.push(token.id);
            events?.grown(choice);
            return isStopped;
          },
          signal,
        });
        if (signal.aborted) return result;
        if (choice.ofRollout && rollout && result.finishReason !== "abort") {
          const reply: ChatMessage = { role: "assistant", ...saidIn(choice) };
          const messages = conversation && [...conversation.messages, reply];
          rollout.record(choice.ofRollout, result.tokens, asked.sampling.temperature, messages);
        }
        events?.ended(choice, result);
        return result;
      }),
    );
    if (response.destroyed || response.writableEnded) return;
    if (signal.aborted) {
      if (!response.headersSent)
        throw signal.reason instanceof HttpError
          ? signal.reason
          : new HttpError(409, String((signal.reason as Error).message), { code: "aborted" });
      return void response.destroy();
    }
    const usage = usageOf(choices);
    if (events) return events.close(usage);
    sendJson(response, 200, {
      ...head,
      object: kind === "chat" ? "chat.completion" : "text_completion",
      choices: choices.map((choice, i) => this.#whole(kind, asked, choice, results[i]!)),
      usage,
      // Outside of the choices, where vLLM has it for chat.
      ...(kind === "chat" && asked.returnTokenIds ? { prompt_token_ids: choices[0]!.prompt } : {}),
      weight_version: String(choices[0]!.tokens.at(-1)?.version ?? engine.version),
    });
  }

  #checkRoom(length: number, maxTokens: number | undefined): void {
    const { capacity } = this.#options.engine;
    if (length < capacity && length + (maxTokens ?? 1) <= capacity) return;
    throw new HttpError(
      400,
      `the context has ${capacity} tokens; the prompt has ${length}, and ${maxTokens ?? 1} more are asked for`,
      { code: "context_length_exceeded" },
    );
  }

  #whole(kind: Kind, asked: Asked, choice: Choice, { finishReason }: Generation): Fields {
    const { index, text, tokens, prompt } = choice;
    const ids = tokens.map(({ id }) => id);
    const { content, tool_calls: calls } = saidIn(choice);
    const said = calls ? { content: content === "" ? null : content, tool_calls: calls } : { content };
    return {
      index,
      ...(kind === "chat" ? { message: { role: "assistant", ...said, refusal: null } } : { text: text.text }),
      logprobs: asked.top === undefined ? null : logProbsOf(kind, tokens, 0, this.#options),
      finish_reason: calls && finishReason === "stop" ? "tool_calls" : finishReason,
      stop_reason: stopReasonOf(choice, finishReason, asked),
      ...(asked.returnTokenIds
        ? {
            token_ids: ids,
            ...(kind === "chat" ? {} : { prompt_token_ids: prompt }),
            token_versions: tokens.map(({ version }) => version),
          }
        : {}),
    };
  }
}

/** The stop string or the token that the caller named, if one of them ended the answer. */
function stopReasonOf({ text, tokens }: Choice, reason: string, { stopIds }: Asked): string | number | null {
  if (reason !== "stop") return null;
  if (text.stoppedBy !== undefined) return text.stoppedBy;
  const last = tokens.at(-1)!.id;
  return stopIds.includes(last) ? last : null;
}

function usageOf(choices: readonly Choice[]): Fields {
  const prompts = new Set(choices.map(({ prompt }) => prompt));
  const prompt = [...prompts].reduce((n, { length }) => n + length, 0);
  const completion = choices.reduce((n, { tokens }) => n + tokens.length, 0);
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

/** @param offset characters of the answer before these tokens */
function logProbsOf(kind: Kind, tokens: readonly ServedToken[], offset: number, options: ApiOptions): Fields {
  const { tokenizer, logProbs } = options;
  const of = ({ plainLogProb, samplingLogProb }: ServedToken): number =>
    logProbs === "raw_logprobs" ? plainLogProb : samplingLogProb;
  const name = (id: number): string => tokenizer.decode([id]);
  if (kind === "chat") {
    const entry = (id: number, logprob: number): Fields => ({
      token: name(id),
      logprob,
      bytes: [...tokenizer.decodeBytes([id])],
    });
    return {
      content: tokens.map((token) => ({
        ...entry(token.id, of(token)),
        top_logprobs: (token.top ?? []).map(({ id, plainLogProb }) => entry(id, plainLogProb)),
      })),
      refusal: null,
    };
  }
  let at = offset;
  return {
    text_offset: tokens.map(({ id }) => {
      const start = at;
      at += name(id).length;
      return start;
    }),
    token_logprobs: tokens.map(of),
    tokens: tokens.map(({ id }) => name(id)),
    top_logprobs: tokens.map(({ top = [] }) =>
      Object.fromEntries(top.map(({ id, plainLogProb }) => [name(id), plainLogProb])),
    ),
  };
}

/** An answer as server-sent events. */
class EventStream {
  readonly #kind: Kind;
  readonly #head: Fields;
  readonly #asked: Asked;
  readonly #response: ServerResponse;
  readonly #options: ApiOptions;
  readonly #begun = new Set<number>();

  constructor(kind: Kind, head: Fields, asked: Asked, response: ServerResponse, options: ApiOptions) {
    this.#kind = kind;
    this.#head = { ...head, object: kind === "chat" ? "chat.completion.chunk" : "text_completion" };
    this.#asked = asked;
    this.#response = response;
    this.#options = options;
  }

  /** A token has come. */
  grown(choice: Choice): void {
    const text = choice.text.take();
    if (text === "" && !this.#asked.returnTokenIds && this.#asked.top === undefined) return;
    this.#chunk(choice, text, null);
  }

  /** The answer is complete. */
  ended(choice: Choice, { finishReason }: Generation): void {
    const { content, tool_calls: calls } = saidIn(choice);
    const isCalled = calls !== undefined && finishReason === "stop";
    this.#chunk(choice, choice.text.takeTo(content.length), isCalled ? "tool_calls" : finishReason, calls);
  }

  close(usage: Fields): void {
    if (this.#asked.includeUsage) this.#send({ ...this.#head, choices: [], usage });
    this.#response.end("data: [DONE]\n\n");
  }

  #chunk(choice: Choice, text: string, finishReason: string | null, calls?: readonly ToolCall[]): void {
    const { index, tokens, prompt } = choice;
    const isFirst = !this.#begun.has(index);
    this.#begun.add(index);
    const fresh = tokens.slice(choice.sent);
    choice.sent = tokens.length;
    const { returnTokenIds, top } = this.#asked;
    const ids = returnTokenIds ? { token_ids: fresh.map(({ id }) => id) } : {};
    const promptIds = returnTokenIds && isFirst ? { prompt_token_ids: prompt } : {};
    const isChat = this.#kind === "chat";
    this.#send({
      ...this.#head,
      choices: [
        {
          index,
          ...(isChat
            ? {
                delta: {
                  ...(isFirst ? { role: "assistant" } : {}),
                  content: text,
                  ...(calls ? { tool_calls: calls.map((call, n) => ({ index: n, ...call })) } : {}),
                },
              }
            : { text }),
          logprobs: top === undefined ? null : logProbsOf(this.#kind, fresh, 0, this.#options),
          finish_reason: finishReason,
          ...(finishReason === null
            ? {}
            : { stop_reason: stopReasonOf(choice, calls ? "stop" : finishReason, this.#asked) }),
          ...ids,
          ...(isChat ? {} : promptIds),
        },
      ],
      ...(isChat ? promptIds : {}),
      weight_version: String(tokens.at(-1)?.version ?? this.#options.engine.version),
    });
  }

  #send(event: Fields): void {
    const response = this.#response;
    if (response.destroyed) return;
    if (!response.headersSent) {
      response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
    }
    response.write(`data: ${JSON.stringify(event)}\n\n`);
  }
}
