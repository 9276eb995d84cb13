/**
 * Sampling on somebody else's server: the interface of such a sampler, and HTTP requests with time limits. Token ids
 * and log-probabilities come from the server; nothing is tokenised again. Every answer is checked before it is used.
 */
import { check, WorldgradError } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import type { Fields } from "../fields.ts";
import { endOfCall } from "../../rl/play/deadline.ts";

/** A prompt for a remote sampler. */
export interface RemotePrompt {
  readonly prompt: readonly number[];
  readonly maxTokens: number;
  readonly temperature: number;
  /** The tokens that end an action; the one that is drawn is part of the sample. */
  readonly endIds: readonly number[];
  /** Makes the answer repeatable, as far as the server supports that. */
  readonly seed: number;
  readonly signal?: AbortSignal | undefined;
}

/** The completion that a server sampled. */
export interface RemoteSample {
  /** The tokens, with log-probabilities at the sampling temperature over the whole vocabulary. */
  readonly tokens: readonly { readonly id: number; readonly logProb: number }[];
  /** The version of the weights that the server reports; undefined if it reports none. */
  readonly version: string | undefined;
}

/** A server that samples from our policy. `vllm` and `sglang` make one. */
export interface RemoteSampler {
  readonly name: string;
  sample(prompt: RemotePrompt): Promise<RemoteSample>;
  /**
   * Has the server load weights from a folder, which it must be able to read. Resolves when all later requests are
   * answered with them.
   * @param folder a model or an adapter, depending on the sampler
   */
  load(folder: string, version: string): Promise<void>;
}

/** The error if a server fails or its answer makes no sense. */
export class RemoteError extends WorldgradError {
  /** The HTTP status; undefined if there was no answer. */
  readonly status: number | undefined;
  constructor(message: string, status?: number) {
    super(message);
    this.status = status;
  }
}

/** The address of a server, its key and its time limit. */
export interface RemoteOptions {
  /** `http://host:port`, without a path. */
  readonly url: string;
  /** Is sent as `Authorization: Bearer KEY`. */
  readonly apiKey?: string;
  /** Milliseconds for an answer; default 600,000. */
  readonly timeout?: number;
}

/** A request with a JSON answer. @throws RemoteError, or the signal's reason */
export async function request(
  { url, apiKey, timeout = 600_000 }: RemoteOptions,
  method: "GET" | "POST",
  path: string,
  {
    body,
    signal,
    isText = false,
  }: { readonly body?: Fields; readonly signal?: AbortSignal | undefined; readonly isText?: boolean } = {},
): Promise<unknown> {
  const where = `${method} ${url}${path}`;
  let isLate = false;
  const end = endOfCall(timeout, signal, () => {
    isLate = true;
    return new Error("too late");
  });
  let status: number;
  let text: string;
  try {
    const response = await fetch(`${url.replace(/\/+$/, "")}${path}`, {
      method,
      headers: {
        // A connection of its own: a training step holds the event loop for longer than servers keep idle ones (5 s in
        // uvicorn and Node), and a request on one that the server has closed meanwhile is lost.
        connection: "close",
        ...(body ? { "content-type": "application/json" } : {}),
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
      signal: end.signal,
    });
    ({ status } = response);
    text = await response.text();
  } catch (error) {
    signal?.throwIfAborted();
    if (isLate) throw new RemoteError(`${where}: no answer within ${timeout} ms`);
    const { cause, message } = error as Error;
    throw new RemoteError(`${where}: ${cause instanceof Error ? cause.message : message}`);
  } finally {
    end.forget();
  }
  if (status < 200 || status > 299) throw new RemoteError(`${where}: status ${status}: ${text.slice(0, 300)}`, status);
  if (isText) return text;
  try {
    return JSON.parse(text);
  } catch {
    throw new RemoteError(`${where}: expected JSON, got ${showValue(text)}`);
  }
}

/** The sampled tokens of an answer. @throws RemoteError unless there is a finite log-probability for each token */
export function tokensOf(where: string, ids: unknown, logProbs: unknown): RemoteSample["tokens"] {
  const isIds = Array.isArray(ids) && ids.every((id) => Number.isInteger(id) && (id as number) >= 0);
  if (!isIds) throw new RemoteError(`${where}: expected a list of token ids, got ${showValue(ids)}`);
  const isFinite = Array.isArray(logProbs) && logProbs.every((p) => typeof p === "number" && p <= 0 && p > -Infinity);
  if (!isFinite)
    throw new RemoteError(`${where}: expected a log-probability for each token, got ${showValue(logProbs)}`);
  check(
    ids.length === logProbs.length,
    () => `${where}: ${logProbs.length} log-probabilities for ${ids.length} tokens`,
  );
  return (ids as number[]).map((id, i) => ({ id, logProb: (logProbs as number[])[i]! }));
}
