/**
 * Reads and checks requests to the completions and chat API. Fields and their meaning are OpenAI's, and those that vLLM
 * adds for tokens (vllm-project/vllm, entrypoints/openai/completion/protocol.py, 002032e): `top_k`, `min_p`,
 * `repetition_penalty`, `bad_words`, `stop_token_ids`, `ignore_eos`, `add_special_tokens`, `skip_special_tokens`,
 * `return_token_ids`, and for templates `chat_template_kwargs`; `separate_reasoning` is SGLang's. Fields that would
 * change the answer and are not supported are refused; those that only label the request are accepted.
 */
import { check, fail } from "../../engine/errors.ts";
import { Rng } from "../../engine/index.ts";
import { showValue } from "../../engine/options.ts";
import { flag, inCode, number, options, text } from "../../engine/optionTable.ts";
import { SAMPLING, type SamplingOptions } from "../../nn/sampler.ts";
import { type Fields, isFields } from "../fields.ts";
import { HttpError } from "./http.ts";
import type { Penalties } from "./penalties.ts";

const isTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((entry) => typeof entry === "string");
const isIds = (value: unknown): value is readonly number[] =>
  Array.isArray(value) && value.every((id) => Number.isInteger(id) && (id as number) >= 0);
const areLists = (value: readonly unknown[]): boolean => value.every(isIds);
const areBiases = (value: unknown): boolean =>
  isFields(value) &&
  Object.entries(value).every(
    ([id, bias]) => /^\d{1,9}$/.test(id) && typeof bias === "number" && Math.abs(bias) <= 100,
  );
const isTool = (value: unknown): boolean => {
  const called = isFields(value) && value["type"] === "function" ? value["function"] : undefined;
  return isFields(called) && typeof called["name"] === "string";
};
const isFormat = (value: unknown): boolean => {
  if (!isFields(value)) return false;
  const { type, json_schema: given } = value;
  if (type !== "json_schema") return (type === "text" || type === "json_object") && given === undefined;
  return isFields(given) && typeof given["name"] === "string" && isFields(given["schema"]);
};
const isToolChoice = (value: unknown): boolean =>
  ["none", "auto", "required"].includes(value as string) || isTool(value);
const anything = (): boolean => true;

const MOST_STOPS = 16;
const MOST_CHOICES = 128;
/** OpenAI's and vLLM's largest number of alternatives for a token. */
const MOST_TOP = 20;

const COMMON = {
  model: text(undefined, "the model's name"),
  n: number(1, "answers", { integer: true, min: 1, max: MOST_CHOICES }),
  temperature: SAMPLING.fields.temperature,
  top_p: number(1, "share of probability that is kept", { above: 0, max: 1 }),
  top_k: number(0, "tokens that are kept; 0 or −1: all", { integer: true, min: -1 }),
  min_p: number(0, "share of the likeliest token's probability that is kept", { min: 0, max: 1 }),
  seed: number(undefined, "makes the answer repeatable", { integer: true }),
  stop: inCode<string | readonly string[]>(
    "texts that end the answer",
    `a text or a list of at most ${MOST_STOPS} texts, none of them empty`,
    (value) =>
      typeof value === "string" ? value !== "" : isTexts(value) && value.length <= MOST_STOPS && !value.includes(""),
  ),
  stop_token_ids: inCode<readonly number[]>("tokens that end the answer", "a list of token ids", isIds),
  ignore_eos: flag(false, "whether the end of a turn is a token like others"),
  skip_special_tokens: flag(true, "whether the text leaves special tokens out"),
  stream: flag(false, "whether the answer comes in parts"),
  stream_options: inCode<{ readonly include_usage?: boolean }>("for streams", "an object", isFields),
  return_token_ids: flag(false, "whether the answer has token ids"),
  // These label a request and change nothing.
  user: inCode("", "anything", anything),
  metadata: inCode("", "anything", anything),
  store: inCode("", "anything", anything),
  service_tier: inCode("", "anything", anything),
  safety_identifier: inCode("", "anything", anything),
  prompt_cache_key: inCode("", "anything", anything),
  frequency_penalty: number(0, "taken from a token's logit for each time it was drawn", { min: -2, max: 2 }),
  presence_penalty: number(0, "taken from the logit of each token that was drawn", { min: -2, max: 2 }),
  repetition_penalty: number(1, "divides positive logits of tokens in prompt and answer, multiplies negative ones", {
    above: 0,
  }),
  logit_bias: inCode<Readonly<Record<string, number>>>(
    "added to logits, by token id",
    "an object of token ids, each with a number in [-100, 100]",
    areBiases,
  ),
  bad_words: inCode<readonly string[]>(
    "texts that are not drawn",
    "a list of texts, none of them empty",
    (value) => isTexts(value) && !value.includes(""),
  ),
  response_format: inCode<{ readonly type: string; readonly json_schema?: { readonly schema: unknown } }>(
    "the form of the answer",
    '{ type: "text" }, { type: "json_object" } or { type: "json_schema", json_schema: { name, schema } }',
    isFormat,
  ),
};

const COMPLETION = options("completions", {
  ...COMMON,
  prompt: inCode<string | readonly string[] | readonly number[] | readonly (readonly number[])[]>(
    "text or token ids, or a list of them",
    "a text, a list of token ids, or a list of those",
    (value) =>
      typeof value === "string" ||
      (Array.isArray(value) && value.length > 0 && (isTexts(value) || isIds(value) || areLists(value))),
  ),
  add_special_tokens: flag(true, "whether a text gets the tokens that the tokenizer puts around one, such as BOS"),
  max_tokens: number(undefined, "tokens of an answer; 0 only with echo", { integer: true, min: 0 }),
  logprobs: number(undefined, "log-probabilities of this many alternatives", { integer: true, min: 0, max: MOST_TOP }),
  echo: flag(false, "whether the answer begins with the prompt, and its log-probabilities with the prompt's"),
  best_of: inCode("", "left out, or the same as n", anything),
  suffix: inCode("", "left out: it is not supported", (value) => value === ""),
});

const CHAT = options("chat.completions", {
  ...COMMON,
  messages: inCode<readonly unknown[]>("the conversation", "a list of messages", Array.isArray),
  max_tokens: number(undefined, "tokens of an answer", { integer: true, min: 1 }),
  max_completion_tokens: number(undefined, "tokens of an answer", { integer: true, min: 1 }),
  logprobs: flag(false, "whether log-probabilities are told"),
  top_logprobs: number(undefined, "alternatives", { integer: true, min: 0, max: MOST_TOP }),
  tools: inCode<readonly unknown[]>(
    "what the model may call",
    'a list of { type: "function", function: { name, … } }',
    (value) => Array.isArray(value) && value.every(isTool),
  ),
  tool_choice: inCode<"none" | "auto" | "required" | { readonly function: { readonly name: string } }>(
    "whether calls are looked for, or have to come",
    '"none", "auto", "required" or { type: "function", function: { name } }',
    isToolChoice,
  ),
  parallel_tool_calls: flag(true, "whether an answer of calls that have to come may have several"),
  chat_template_kwargs: inCode<Fields>(
    "further variables of the model's chat template, such as enable_thinking (vLLM's field)",
    "an object",
    isFields,
  ),
  separate_reasoning: flag(true, "whether a thought is told apart from the answer (SGLang's field and default)"),
  modalities: inCode("", '["text"]', (value) => isTexts(value) && value.join() === "text"),
});

/** The fields that both kinds of requests have. */
export interface Asked {
  readonly sampling: Required<SamplingOptions>;
  readonly penalties: Penalties;
  readonly n: number;
  /** Undefined: the API's default. */
  readonly maxTokens: number | undefined;
  readonly stop: readonly string[];
  readonly stopIds: readonly number[];
  readonly ignoreEos: boolean;
  readonly skipSpecials: boolean;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly returnTokenIds: boolean;
  readonly seed: number | undefined;
  /** The schema that the answer fits: true for any JSON object; undefined: it is text. */
  readonly schema: unknown;
  /** The number of alternatives that get log-probabilities; undefined: no log-probabilities are reported. */
  readonly top: number | undefined;
}

/** A request for completions. */
export interface CompletionAsked extends Asked {
  readonly prompts: readonly (string | readonly number[])[];
  readonly addSpecialTokens: boolean;
  /** Whether the answer begins with the prompt. */
  readonly echo: boolean;
}

/** A request for chat. */
export interface ChatAsked extends Asked {
  readonly messages: readonly unknown[];
  readonly tools: readonly unknown[];
  /** Further variables of the chat template. */
  readonly variables: Fields | undefined;
  /** Whether calls of tools in the answer are separated from its text. */
  readonly readsCalls: boolean;
  /** The names of tools of which one has to be called; undefined: none has to. */
  readonly mustCall: readonly string[] | undefined;
  /** Whether the request names the tool. */
  readonly isNamed: boolean;
  readonly manyCalls: boolean;
  /** Whether thoughts are told apart, where the model has them. */
  readonly separatesThoughts: boolean;
}

/**
 * The fields of a request, with the server's defaults for those that it does not set. OpenAI's clients write null for
 * a field that is not set.
 */
const withDefaults = (body: Fields, { temperature, topK: top_k, topP: top_p, minP: min_p }: SamplingOptions): Fields =>
  Object.fromEntries(
    [{ temperature, top_k, top_p, min_p }, body].flatMap((fields) =>
      Object.entries(fields).filter(([, value]) => value !== null && value !== undefined),
    ),
  );

type Common = ReturnType<typeof COMPLETION.read> | ReturnType<typeof CHAT.read>;

function asked(given: Common, maxTokens: number | undefined, top: number | undefined): Asked {
  const { temperature, top_p, top_k, min_p, stop = [], stop_token_ids = [], stream_options, n, stream } = given;
  const { response_format: format } = given;
  check(stream || stream_options === undefined, () => "stream_options must be left out unless stream is true");
  check(
    n === 1 || temperature > 0,
    () => `n must be 1 with temperature 0, where all answers are the same, got ${showValue(n)}`,
  );
  return {
    sampling: SAMPLING.read({ temperature, topP: top_p, topK: Math.max(0, top_k), minP: min_p }),
    penalties: {
      frequency: given.frequency_penalty,
      presence: given.presence_penalty,
      repetition: given.repetition_penalty,
      bias: Object.entries(given.logit_bias ?? {}).map(([id, bias]) => [Number(id), bias] as const),
      badWords: given.bad_words ?? [],
    },
    n,
    maxTokens,
    stop: typeof stop === "string" ? [stop] : stop,
    stopIds: stop_token_ids,
    ignoreEos: given.ignore_eos,
    skipSpecials: given.skip_special_tokens,
    stream,
    includeUsage: stream_options?.include_usage === true,
    returnTokenIds: given.return_token_ids,
    seed: given.seed,
    schema: format?.type === "json_object" ? true : format?.json_schema?.schema,
    top,
  };
}

/**
 * @param defaults sampling options that the request may leave out
 * @throws HttpError 404 if the request names another model; WorldgradError for fields that make no sense
 */
export function readCompletion(body: Fields, model: string, defaults: SamplingOptions = {}): CompletionAsked {
  const given = COMPLETION.read(withDefaults(body, defaults));
  checkModel(given.model, model);
  const { prompt = fail("completions: prompt must be a text or a list of token ids, got missing"), best_of } = given;
  check(best_of === undefined || best_of === given.n, () => "completions: best_of must be the same as n");
  const isOne = typeof prompt === "string" || isIds(prompt);
  const prompts = isOne ? [prompt] : (prompt as readonly (string | readonly number[])[]);
  const { add_special_tokens: addSpecialTokens, echo, max_tokens: most } = given;
  check(echo || most !== 0, () => "completions: max_tokens must be an integer ≥ 1 unless echo is true, got 0");
  check(!echo || !given.stream, () => "completions: echo must be false with stream, got true");
  return { ...asked(given, given.max_tokens, given.logprobs), prompts, addSpecialTokens, echo };
}

/** @throws as `readCompletion` */
export function readChat(body: Fields, model: string, defaults: SamplingOptions = {}): ChatAsked {
  const given = CHAT.read(withDefaults(body, defaults));
  checkModel(given.model, model);
  const { messages = fail("chat.completions: messages must be a list of messages, got missing"), top_logprobs } = given;
  check(
    given.logprobs || top_logprobs === undefined,
    () => "chat.completions: top_logprobs must be left out unless logprobs is true",
  );
  const most = given.max_completion_tokens ?? given.max_tokens;
  const { tools = [], tool_choice: choice, chat_template_kwargs: variables } = given;
  const readsCalls = tools.length > 0 && choice !== "none";
  const names = tools.map((tool) => (tool as { readonly function: { readonly name: string } }).function.name);
  const named = typeof choice === "object" ? choice.function.name : undefined;
  const isForced = choice === "required" || named !== undefined;
  check(
    !isForced || tools.length > 0,
    () => 'chat.completions: tool_choice must be "none" or "auto" without tools, got ' + showValue(choice),
  );
  check(
    named === undefined || names.includes(named),
    () => `chat.completions: tool_choice must be one of the tools (${names.join(", ")}), got ${showValue(named)}`,
  );
  return {
    ...asked(given, most, given.logprobs ? (top_logprobs ?? 0) : undefined),
    messages,
    tools,
    readsCalls,
    mustCall: isForced ? (named === undefined ? names : [named]) : undefined,
    isNamed: named !== undefined,
    manyCalls: named === undefined && given.parallel_tool_calls,
    separatesThoughts: given.separate_reasoning,
    variables,
  };
}

function checkModel(asked: string | undefined, model: string): void {
  if (asked === undefined || asked === model) return;
  throw new HttpError(404, `there is no model ${showValue(asked)}; this server has "${model}"`, {
    code: "model_not_found",
    param: "model",
  });
}

/**
 * The random stream of an answer. It depends on the request's seed only, or on the server's seed and the request's
 * number.
 */
export const streamOf = (seed: number | undefined, server: Rng, request: number): Rng =>
  seed === undefined ? server.split(request) : new Rng(0).split(`seed ${seed}`);
