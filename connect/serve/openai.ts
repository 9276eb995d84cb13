/**
 * The completions and chat API of OpenAI over a `GenerationEngine`: requests become prompts, tokens become answers, as
 * one object or as server-sent events. If a request came to the address of an episode (`Rollout`), the episode keeps
 * what was sampled.
 *
 * `logprobs` are the model's at temperature 1 (`raw_logprobs`, vLLM's default), or with `processed_logprobs` those of
 * the distribution that was sampled from, after penalties, masks, temperature, top-k, top-p and min-p; those of
 * alternatives are always the model's. Trajectories always keep the model's log-probabilities at the sampling
 * temperature over the whole vocabulary, without penalties and masks: a loss computes its ratios from the same ones.
 */
import type { ServerResponse } from "node:http";
import type { Rng } from "../../engine/index.ts";
import type { SamplingOptions, Tokenizer } from "../../nn/index.ts";
import type { Fields } from "../fields.ts";
import { type ChatFormat, readMessages } from "./chat.ts";
import { answerMachine, callableTools, ConstrainedAnswer, formatShape, MARKS } from "./constrain/answers.ts";
import { Vocabulary } from "./constrain/vocabulary.ts";
import { type Conversation, holding, messageOf, saidIn, specialsShown } from "./conversation.ts";
import type { GenerationEngine } from "./engine.ts";
import type { ServedToken } from "./scores.ts";
import { EventStream, type EndedChoice, type StreamedChoice, stopReasonOf } from "./events.ts";
import { HttpError, sendJson } from "./http.ts";
import { type Echo, echoedLogProbs, echoOf, logProbsOf } from "./logProbs.ts";
import { type Asked, readChat, readCompletion, streamOf } from "./requests.ts";
import { inTurn, penaltiesOf } from "./penalties.ts";
import type { Rollout, RolloutPrompt } from "./rollouts.ts";
import { GrowingText } from "./text.ts";
import { THINK, THINK_END } from "../chat/thoughts.ts";
import type { Schemas } from "../chat/markedCalls.ts";

/** Options of `OpenAiApi`. */
export interface ApiOptions {
  readonly engine: GenerationEngine;
  readonly tokenizer: Tokenizer;
  /** The format of conversations; undefined if the model has none. */
  readonly chat: ChatFormat | undefined;
  readonly model: string;
  /** Tokens that end an answer. */
  readonly stopIds: readonly number[];
  readonly rng: Rng;
  readonly logProbs: "raw_logprobs" | "processed_logprobs";
  /** Sampling options that a request may leave out; episodes are sampled from the model as it is. */
  readonly sampling: SamplingOptions;
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

/** One answer. */
interface Choice extends StreamedChoice {
  readonly echo: Echo | undefined;
  readonly ofRollout: RolloutPrompt | undefined;
  readonly tokens: ServedToken[];
  /** Makes the id of its n-th tool call. */
  readonly callName: (n: number) => string;
}

/** The id of a call: nine letters and digits, as Mistral's templates require. */
const callName = (request: number, index: number, n: number): string =>
  `c${(128 * (128 * request + index) + n).toString(36).padStart(8, "0")}`;

/** The number of tokens that hold `<think>` and a line end, whatever the tokenizer. */
const THINK_TAG = 16;
const NO_TOOLS = "this model's conversations have none";

type Kind = "completion" | "chat";

/** The completions and the chat API. */
export class OpenAiApi {
  readonly #options: ApiOptions;
  #requests = 0;
  /** The largest number of characters of a token, once it is known. */
  #longest: number | undefined;
  /** The tokens by their bytes, once an answer has to have a form. */
  #vocabulary: Vocabulary | undefined;

  constructor(options: ApiOptions) {
    this.#options = options;
  }

  /** POST /v1/completions */
  async completions({ body, ...call }: Call): Promise<void> {
    const { tokenizer, model, engine } = this.#options;
    const asked = readCompletion(body, model, call.rollout ? {} : this.#options.sampling);
    engine.checkRoom(asked.prompts.length * asked.n);
    const ids: (readonly number[])[] = [];
    for (const prompt of asked.prompts) {
      if (typeof prompt !== "string") ids.push(prompt);
      else {
        this.#checkText(prompt);
        ids.push(tokenizer.encode(prompt, { addSpecialTokens: asked.addSpecialTokens }));
        await new Promise((resolve) => setImmediate(resolve)); // others are served between two long texts
      }
    }
    const prompts = ids.map((prompt, p) => ({
      prompt,
      ofRollout: call.rollout?.promptOfIds(prompt),
      echo: asked.echo ? echoOf(tokenizer, prompt, asked.prompts[p]!, asked.skipSpecials) : undefined,
    }));
    await this.#answer("completion", asked, prompts, call, undefined);
  }

  /** POST /v1/chat/completions */
  async chat({ body, ...call }: Call): Promise<void> {
    const { chat: own, model, engine, tokenizer } = this.#options;
    const asked = readChat(body, model, call.rollout ? {} : this.#options.sampling);
    if (own === undefined) throw new HttpError(400, "this model has no chat format; use /v1/completions");
    const { tools, readsCalls, variables } = asked;
    const chat = variables ? own.withVariables?.(variables) : own;
    if (chat === undefined) {
      const param = "chat_template_kwargs";
      throw new HttpError(400, `${param} must be left out: this model's conversations have no chat template`, {
        param,
      });
    }
    const { toolForm: form, noTools } = chat;
    if (tools.length > 0 && form === undefined)
      throw new HttpError(400, `tools must be left out: ${noTools ?? NO_TOOLS}`, { param: "tools" });
    const messages = readMessages(asked.messages, form !== undefined);
    engine.checkRoom(asked.n);
    // Templates leave out what an assistant thought before.
    const texts = messages.map(({ content }) => content.slice(content.lastIndexOf("</think>") + 1));
    this.#checkText([...texts, ...(tools.length > 0 ? [JSON.stringify(tools)] : [])].join("\n"));
    const ofRollout = call.rollout?.promptOfMessages(messages, chat, tools);
    const { ids: prompt } = ofRollout?.stream ?? chat.begin(messages, tools.length > 0 ? tools : undefined);
    const before = tokenizer.decode(prompt.slice(-THINK_TAG)).trimEnd();
    const isThought = before.endsWith(THINK);
    const separates = asked.separatesThoughts && (chat.thinks ?? false);
    const reading =
      readsCalls && form
        ? { form, names: namesOf(tools), schemas: schemasOf(tools), isThought: isThought && !separates }
        : undefined;
    const { mustCall: names, isNamed, manyCalls: many, schema } = asked;
    const needsCalls = names !== undefined || (schema !== undefined && readsCalls);
    const calls = needsCalls && form ? { form, tools: callableTools(schemasOf(tools), names), many } : undefined;
    // A prompt that has closed a thought asks for none; a thought in the content would make it no JSON.
    const mayThink = separates && !before.endsWith(THINK_END);
    const mustCall = names !== undefined;
    const conversation = { messages, reading, calls, mustCall, isNamed, isThought, mayThink, separates };
    await this.#answer("chat", asked, [{ prompt, ofRollout }], call, conversation);
  }

  async #answer(
    kind: Kind,
    asked: Asked,
    prompts: readonly {
      readonly prompt: readonly number[];
      readonly ofRollout: RolloutPrompt | undefined;
      readonly echo?: Echo | undefined;
    }[],
    { response, signal, rollout }: Omit<Call, "body">,
    conversation: Conversation | undefined,
  ): Promise<void> {
    const { engine, tokenizer, rng, now, model } = this.#options;
    const request = this.#requests++;
    const stream = streamOf(asked.seed, rng, request);
    const stopIds = [...asked.stopIds, ...(asked.ignoreEos ? [] : this.#options.stopIds)];
    const hold = holding(conversation);
    const specials = specialsShown(asked, conversation, tokenizer);
    const roomFor = ({ length }: readonly number[]): number => engine.capacity - length;
    const mostTokens = (prompt: readonly number[]): number =>
      Math.min(asked.maxTokens ?? (kind === "chat" ? Infinity : 16), roomFor(prompt));
    for (const { prompt } of prompts) this.#checkRoom(prompt.length, asked.maxTokens);
    checkLogProbs(
      asked,
      prompts.reduce((n, { prompt, echo }) => n + asked.n * (mostTokens(prompt) + (echo ? prompt.length : 0)), 0),
    );
    const choices = prompts.flatMap(({ prompt, ofRollout, echo }, p) => {
      // A message is a new text; a completion continues the prompt's text, if there is any.
      const continues = kind === "completion" && tokenizer.decodeBytes(prompt, { specials: "skip" }).length > 0;
      return Array.from({ length: asked.n }, (_, k): Choice => {
        const index = p * asked.n + k;
        const text = new GrowingText(tokenizer, {
          stop: asked.stop,
          ...specials,
          continues,
          ...hold,
        });
        return { index, prompt, ofRollout, echo, text, tokens: [], callName: (n) => callName(request, index, n) };
      });
    });
    // Made before the first token is drawn, because they may refuse the request.
    const constrain = this.#constraint(asked, conversation, stopIds);
    const limits = choices.map(({ prompt }) => {
      const penalties = penaltiesOf(asked.penalties, prompt, tokenizer, engine.model.config.vocabSize);
      const constrained = constrain?.();
      return { constrained, process: inTurn(penalties, constrained?.process) };
    });
    const head = {
      id: `${kind === "chat" ? "chatcmpl" : "cmpl"}-${request}`,
      created: Math.floor(now() / 1000),
      model,
    };
    const events = asked.stream ? new EventStream(kind, head, asked, response, this.#options) : undefined;
    // An error before the first token is answered with a status, a later one with an event.
    const ends = await Promise.all(
      choices.map(async (choice): Promise<EndedChoice> => {
        const { constrained, process } = limits[choice.index]!;
        const maxTokens = mostTokens(choice.prompt);
        if (maxTokens === 0) {
          const result = { tokens: [], finishReason: "length" } as const;
          return { said: { content: "" }, result, finishReason: "length" };
        }
        const result = await engine.generate({
          prompt: choice.prompt,
          maxTokens,
          sampling: asked.sampling,
          rng: stream.split(choice.index),
          stopIds,
          top: asked.top ?? 0,
          process,
          onToken: (token) => {
            choice.tokens.push(token);
            const isStopped = choice.text.push(token.id);
            const isOver = constrained?.push(token.id) ?? false;
            events?.grown(choice);
            return isStopped || isOver;
          },
          signal,
        });
        choice.text.end();
        const said = saidIn(choice.text.text, choice.callName, conversation);
        // As OpenAI answers: the reason is "stop" where the request names the tool (vllm-project/vllm#25054).
        const isCall = said.tool_calls !== undefined && result.finishReason === "stop" && !conversation?.isNamed;
        const end = { said, result, finishReason: isCall ? "tool_calls" : result.finishReason };
        if (signal.aborted) return end;
        if (choice.ofRollout && rollout && result.finishReason !== "abort") {
          const messages = conversation && [...conversation.messages, messageOf(said)];
          rollout.record(choice.ofRollout, result.tokens, asked.sampling.temperature, messages);
        }
        events?.ended(choice, end);
        return end;
      }),
    );
    await events?.flushed();
    const scored = new Map<readonly number[], readonly ServedToken[]>();
    if (asked.top !== undefined)
      for (const { prompt, echo } of prompts) if (echo) scored.set(prompt, await engine.score(prompt, asked.top));
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
      choices: choices.map((choice, i) => this.#whole(kind, asked, choice, ends[i]!, scored.get(choice.prompt))),
      usage,
      // Outside of the choices, where vLLM has it for chat.
      ...(kind === "chat" && asked.returnTokenIds ? { prompt_token_ids: choices[0]!.prompt } : {}),
      weight_version: String(choices[0]!.tokens.at(-1)?.version ?? engine.version),
    });
  }

  /** Makes constraints for answers; undefined if the request asks for no form. @throws if it cannot be kept to */
  #constraint(
    { schema }: Asked,
    conversation: Conversation | undefined,
    stopIds: readonly number[],
  ): (() => ConstrainedAnswer) | undefined {
    const { calls, mustCall = false, isThought = false, mayThink = false } = conversation ?? {};
    if (calls === undefined && schema === undefined) return undefined;
    const vocabulary = (this.#vocabulary ??= new Vocabulary(this.#options.tokenizer, MARKS));
    const value = schema === undefined || mustCall ? undefined : formatShape(schema);
    const machine = answerMachine(
      { thought: isThought ? "open" : mayThink ? "allowed" : "none", value, calls },
      vocabulary,
    );
    return () => new ConstrainedAnswer(machine, vocabulary, stopIds, mustCall ? "tool_choice" : "response_format");
  }

  #checkRoom(length: number, maxTokens: number | undefined): void {
    const { capacity } = this.#options.engine;
    if (length + (maxTokens ?? 1) <= capacity) return;
    throw new HttpError(
      400,
      `the context has ${capacity} tokens; the prompt has ${length}, and ${maxTokens ?? 1} more are asked for`,
      { code: "context_length_exceeded" },
    );
  }

  /**
   * Checks that a text can fit before all of it is tokenized, which takes a second for 4 MB: by its length (as vLLM
   * does), and by the tokens of its beginning. A cut may change tokens; half a context is allowed for that.
   * @throws HttpError 400
   */
  #checkText(text: string): void {
    const { engine, tokenizer } = this.#options;
    const { capacity } = engine;
    const refuse = (found: string): never => {
      const message = `the context has ${capacity} tokens with the answer's; the prompt has ${found}`;
      throw new HttpError(400, message, { code: "context_length_exceeded" });
    };
    if (text.length <= 4 * capacity) return;
    this.#longest ??= longestToken(tokenizer);
    if (text.length > capacity * this.#longest)
      refuse(`${text.length} characters, and no token stands for more than ${this.#longest}`);
    for (let length = 4 * capacity; length < text.length; length *= 2) {
      if (tokenizer.encode(text.slice(0, length)).length > 1.5 * capacity) refuse("more");
    }
  }

  /** @param scored the prompt's tokens, if the answer repeats them with log-probabilities */
  #whole(
    kind: Kind,
    asked: Asked,
    choice: Choice,
    end: EndedChoice,
    scored: readonly ServedToken[] | undefined,
  ): Fields {
    const { text, tokens, prompt, echo } = choice;
    const { content, tool_calls: calls, reasoning_content: thought } = end.said;
    const said = {
      content: content === "" && (calls || thought) ? null : content,
      ...(thought === undefined ? {} : { reasoning_content: thought === "" ? null : thought }),
      ...(calls ? { tool_calls: calls } : {}),
    };
    const logprobs =
      asked.top === undefined
        ? null
        : echo && scored
          ? echoedLogProbs(echo, scored, tokens, text.offsets, this.#options)
          : logProbsOf(kind, tokens, text.offsets, this.#options);
    return {
      index: choice.index,
      ...(kind === "chat"
        ? { message: { role: "assistant", ...said, refusal: null } }
        : { text: (echo?.text ?? "") + text.text }),
      logprobs,
      finish_reason: end.finishReason,
      stop_reason: stopReasonOf(choice, end.result, asked),
      ...(asked.returnTokenIds
        ? {
            token_ids: tokens.map(({ id }) => id),
            ...(kind === "chat" ? {} : { prompt_token_ids: prompt }),
            token_versions: tokens.map(({ version }) => version),
          }
        : {}),
    };
  }
}

/** The names of tools whose form has been checked. */
const namesOf = (tools: readonly unknown[]): string[] =>
  tools.map((tool) => (tool as { readonly function: { readonly name: string } }).function.name);

const schemasOf = (tools: readonly unknown[]): Schemas =>
  Object.fromEntries(
    tools.map((tool) => {
      const { name, parameters } = (
        tool as { readonly function: { readonly name: string; readonly parameters?: unknown } }
      ).function;
      return [name, parameters];
    }),
  );

/** The most characters that one token stands for, at most one for each of its bytes. */
function longestToken(tokenizer: Tokenizer): number {
  let longest = 1;
  for (let id = 0; id < tokenizer.vocabSize; id++) longest = Math.max(longest, tokenizer.decodeBytes([id]).length);
  return longest;
}

/** Log-probabilities that one request may ask for: some 100 MB, as numbers and as JSON. */
const MOST_LOG_PROBS = 1_000_000;

/** @param tokens that may be drawn for the request @throws HttpError 400 if their log-probabilities are too many */
function checkLogProbs({ top }: Asked, tokens: number): void {
  const count = top === undefined ? 0 : tokens * (top + 1);
  if (count <= MOST_LOG_PROBS) return;
  throw new HttpError(
    400,
    `the request asks for up to ${count} log-probabilities (${tokens} tokens, each with ${top} alternatives), at ` +
      `most ${MOST_LOG_PROBS} are told; ask for fewer answers, tokens or alternatives`,
  );
}

function usageOf(choices: readonly Choice[]): Fields {
  const prompts = new Set(choices.map(({ prompt }) => prompt));
  const prompt = [...prompts].reduce((n, { length }) => n + length, 0);
  const completion = choices.reduce((n, { tokens }) => n + tokens.length, 0);
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}
