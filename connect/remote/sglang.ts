/**
 * SGLang as a sampler, over its own API. Read in sgl-project/sglang (python/sglang/srt/managers/io_struct.py, 001067f,
 * and entrypoints/http_server.py): POST /generate { input_ids, sampling_params, return_logprob }, whose `meta_info` has
 * `output_token_logprobs`, a list of [log-probability, id, text], `finish_reason` { type } and `weight_version`; POST
 * /pause_generation { mode: "abort" | "retract" | "in_place" }, /update_weights_from_disk { model_path, weight_version,
 * flush_cache }, which answers { success, message, num_paused_requests }, and /continue_generation.
 *
 * Log-probabilities are those after the temperature, unless the server runs with SGLANG_RETURN_ORIGINAL_LOGPROB.
 */
import { showValue } from "../../engine/options.ts";
import { isFields } from "../fields.ts";
import { type RemoteOptions, RemoteError, type RemoteSampler, request, tokensOf } from "./sampler.ts";

/** An SGLang server as a sampler. `load` takes folders of whole models. */
export function sglang(options: RemoteOptions): RemoteSampler {
  let expected: string | undefined;
  const generation = async (path: string, body: Readonly<Record<string, unknown>>): Promise<void> =>
    void (await request(options, "POST", path, { body }));
  return {
    name: "sglang",
    async sample({ prompt, maxTokens, temperature, endIds, seed, signal }) {
      const answer = await request(options, "POST", "/generate", {
        body: {
          input_ids: prompt,
          sampling_params: {
            max_new_tokens: maxTokens,
            temperature,
            stop_token_ids: endIds,
            ignore_eos: true,
            sampling_seed: seed,
            skip_special_tokens: false,
          },
          return_logprob: true,
        },
        signal,
      });
      const meta = isFields(answer) ? answer["meta_info"] : undefined;
      if (!isFields(meta)) throw new RemoteError(`sglang: expected meta_info, got ${showValue(answer)}`);
      const { output_token_logprobs: pairs, weight_version: version, finish_reason: reason } = meta;
      if (isFields(reason) && reason["type"] === "abort") {
        throw new RemoteError(`sglang: the server gave the answer up: ${showValue(reason["message"])}`);
      }
      const rows = Array.isArray(pairs) && pairs.every(Array.isArray) ? (pairs as unknown[][]) : undefined;
      const tokens = tokensOf(
        "sglang",
        rows?.map((row) => row[1]),
        rows?.map((row) => row[0]),
      );
      if (expected !== undefined && version !== expected) {
        throw new RemoteError(`sglang: expected weights of version ${expected}, ${showValue(version)} answered`);
      }
      return { tokens, version: typeof version === "string" ? version : undefined };
    },
    async load(folder, version) {
      await generation("/pause_generation", { mode: "retract" });
      try {
        const answer = await request(options, "POST", "/update_weights_from_disk", {
          body: { model_path: folder, weight_version: version, flush_cache: true },
        });
        if (!isFields(answer) || answer["success"] !== true) {
          throw new RemoteError(`sglang: the weights were not loaded: ${showValue(answer)}`);
        }
        expected = version;
      } finally {
        await generation("/continue_generation", {});
      }
    },
  };
}
