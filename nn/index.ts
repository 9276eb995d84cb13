/**
 * `worldgrad/nn`: one transformer, a tokenizer that is trained here, optimiser, sampler, files. Models are functions
 * over plain trees of parameters. Only names are handed on here; the definitions are in the files that each line names.
 */

// The model: settings and parameters
export { estimateParameters, longestText, modelConfig, validateConfig } from "./config.ts";
export type { Family, ModelConfig, ModelOptions } from "./config.ts";
export type { RopeScaling } from "./ropeScaling.ts";
export { type Frequencies, ropeFrequencies } from "./rope.ts";
export { countParameters, huggingFaceName, initParams, replaceWeights } from "./parameters.ts";
export type { AttentionParams, LayerParams, Linear, MlpParams, Norm, TransformerParams } from "./parameters.ts";

// The forward pass
export { forward, type ForwardOptions, linear, logits, type Model, outputMatrix, pickHidden } from "./transformer.ts";
export { type AttentionHeads, rowsOf, type Trainable, trainableOf, type TrainingOptions } from "./transformer.ts";
export { attentionWeights, type Reading, readText } from "./attentionWeights.ts";
export { headValues, initValueHead, type ValueHead } from "./valueHead.ts";

// Training
export { accumulateGrads, AdamW, globalNorm } from "./optimizer.ts";
export { type AdamWOptions, type AdamWState, type Schedule, schedule, type ScheduleOptions } from "./optimizer.ts";

// Tokenizers
export { byteTokenizer, DEFAULT_PATTERN, encodeWithOffsets, trainBpe, type TrainBpeOptions } from "./tokenizer.ts";
export type { AddedToken, DecodeOptions, EncodedPart, EncodeOptions, Range, Tokenizer } from "./tokenizer.ts";

// Generating text
export { Decoder, type DecoderOptions, type DrawOptions, type Part } from "./decoder.ts";
export { generate, type Generated, type GenerateOptions, type OnToken } from "./generate.ts";
export { type SampledToken, sampleToken, type SamplingOptions } from "./sampler.ts";
export { type CacheCopy, KvCache } from "./cache.ts";

// Files
export { type Files, optimizerToFiles, restoreOptimizer } from "./optimizerFiles.ts";
export { readSafetensors, readSafetensorsHeader, writeSafetensors } from "./safetensors.ts";
export type { SafeDtype, SafeTensor, SafeTensorInfo, SafeTensorInput, SafetensorsHeader } from "./safetensors.ts";
