/**
 * `worldgrad/remote`: rollouts on other people's servers over HTTP: vLLM, SGLang, and Atropos' trajectories.
 */
export {
  type Atropos,
  atropos,
  type AtroposRegistration,
  fromScoredData,
  type ScoredData,
  toScoredData,
} from "./atropos.ts";
export { mismatch, remoteRollout, type RemoteRolloutOptions } from "./rollout.ts";
export {
  RemoteError,
  type RemoteOptions,
  type RemotePrompt,
  type RemoteSample,
  type RemoteSampler,
} from "./sampler.ts";
export { sglang } from "./sglang.ts";
export { vllm, type VllmOptions } from "./vllm.ts";
