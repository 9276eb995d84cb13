/**
 * vLLM as a sampler, over its OpenAI-compatible API. Read in vllm-project/vllm: `prompt` as token ids, `logprobs`,
 * `return_token_ids`, `stop_token_ids` (entrypoints/openai/completion/protocol.py, 002032e); a LoRA adapter by
 * POST /v1/load_lora_adapter { lora_name, lora_path } where VLLM_ALLOW_RUNTIME_LORA_UPDATING is set, which answers a
 * text. Full weights are not handed over: vLLM has no request that loads them from a folder.
 *
 * Log-probabilities are those before the temperature unless the server runs with `--logprobs-mode processed_logprobs`,
 * so with its default only temperature 1 can be trained on. Each version of an adapter gets a name of its own, by which
 * requests name the model; so the `model` of an answer tells its version.
 */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { isFields } from "../fields.ts";
import { type RemoteOptions, type RemoteSampler, RemoteError, request, tokensOf } from "./sampler.ts";

/** Options of `vllm`. */
export interface VllmOptions extends RemoteOptions {
  /** The model's name on the server. */
  readonly model: string;
  /** The server's `--logprobs-mode`. Default `raw_logprobs`, which is also vLLM's. */
  readonly logProbs?: "raw_logprobs" | "processed_logprobs";
  /** The first part of the names of adapters; default "worldgrad". */
  readonly adapter?: string;
}

/** A vLLM server as a sampler. `load` takes folders of LoRA adapters. */
export function vllm(options: VllmOptions): RemoteSampler {
  const { model, logProbs = "raw_logprobs", adapter = "worldgrad" } = options;
  /** The adapter that requests name; undefined: the model itself. */
  let current: { readonly name: string; readonly version: string } | undefined;
  return {
    name: "vllm",
    async sample({ prompt, maxTokens, temperature, endIds, seed, signal }) {
      check(
        logProbs === "processed_logprobs" || temperature === 1,
        () =>
          `vllm: temperature must be 1 with raw_logprobs, which are those before it, got ${temperature}; start the ` +
          "server with --logprobs-mode processed_logprobs and say so",
      );
      const asked = current;
      const name = asked?.name ?? model;
      const answer = await request(options, "POST", "/v1/completions", {
        body: {
          model: name,
          prompt,
          max_tokens: maxTokens,
          temperature,
          seed,
          logprobs: 0,
          stop_token_ids: endIds,
          ignore_eos: true,
          return_token_ids: true,
        },
        signal,
      });
      const choice =
        isFields(answer) && Array.isArray(answer["choices"]) ? (answer["choices"] as unknown[])[0] : undefined;
      if (!isFields(choice) || !isFields(choice["logprobs"])) {
        throw new RemoteError(`vllm: expected choices with logprobs, got ${showValue(answer)}`);
      }
      const served = (answer as { model?: unknown }).model;
      if (served !== name) throw new RemoteError(`vllm: asked for the model ${name}, ${showValue(served)} answered`);
      const ids = choice["prompt_token_ids"];
      if (Array.isArray(ids) && (ids.length !== prompt.length || ids.some((id, t) => id !== prompt[t]))) {
        throw new RemoteError("vllm: the server has changed the prompt's tokens");
      }
      const tokens = tokensOf("vllm", choice["token_ids"], choice["logprobs"]["token_logprobs"]);
      return { tokens, version: asked?.version };
    },
    async load(folder, version) {
      const name = `${adapter}-${version}`;
      await request(options, "POST", "/v1/load_lora_adapter", {
        body: { lora_name: name, lora_path: folder },
        isText: true,
      });
      const old = current;
      current = { name, version };
      if (old === undefined) return;
      await request(options, "POST", "/v1/unload_lora_adapter", { body: { lora_name: old.name }, isText: true });
    },
  };
}
