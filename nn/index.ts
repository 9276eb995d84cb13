/**
 * `worldgrad/nn`: one transformer, its tokenizers, optimiser, sampler and checkpoints. Models are functions over plain
 * trees of parameters. Only names are handed on here; the definitions are in the files that each line names.
 */

// The model
export { configFromHuggingFace, configToHuggingFace } from "./config/huggingface.ts";
export { estimateParameters, longestText, modelConfig, validateConfig } from "./config.ts";
export type { Family, ModelConfig, ModelOptions, RopeScaling } from "./config.ts";
export { type Frequencies, ropeFrequencies } from "./rope.ts";
export { countParameters, huggingFaceName, initParams, replaceWeights } from "./parameters.ts";
export type { AttentionParams, LayerParams, Linear, MlpParams, Norm, TransformerParams } from "./parameters.ts";
export { forward, type ForwardOptions, linear, logits, type Model, outputMatrix, pickHidden } from "./transformer.ts";
export { rowsOf, type Trainable, trainableOf, type TrainingOptions } from "./transformer.ts";
export { type AttentionHeads } from "./transformer.ts";
export { attentionWeights, type Reading, readText } from "./attentionWeights.ts";
export { headValues, initValueHead, type ValueHead } from "./valueHead.ts";

// Training
export { accumulateGrads, AdamW, globalNorm } from "./optimizer.ts";
export type { AdamWOptions, AdamWState } from "./optimizer.ts";
export { type Schedule, schedule, type ScheduleOptions } from "./optimizer.ts";

// Adapters
export { addLora, disposeLora, isLora, type LoraAdapter, type LoraModel, mergeLora } from "./lora.ts";
export type { LoraPair, LoraParams } from "./lora.ts";
export { LORA, type LoraOptions, type LoraSettings } from "./loraOptions.ts";
export { loraFromFiles, loraToFiles } from "./loraFiles.ts";

// Text in, text out
export { byteTokenizer, DEFAULT_PATTERN, encodeWithOffsets, trainBpe } from "./tokenizer.ts";
export { tokenizerFromJSON } from "./tokenizers/json.ts";
export type { AddedToken, DecodeOptions, EncodedPart, EncodeOptions, Range, Tokenizer } from "./tokenizer.ts";
export type { TrainBpeOptions } from "./tokenizer.ts";
export { TextStream, type TextStreamOptions } from "./textStream.ts";
export { Decoder, type DecoderOptions, type DrawOptions, type Part } from "./decoder.ts";
export { generate, type Generated, type GenerateOptions, type OnToken } from "./generate.ts";
export { type Beam, beamSearch, type BeamSearchOptions } from "./beamSearch.ts";
export { type SampledToken, sampleToken, type SamplingOptions } from "./sampler.ts";
export { KvCache } from "./cache.ts";

// Files
export {
  ADAPTER_FILES,
  modelFromFiles,
  modelFromTensors,
  modelFromWeights,
  modelFiles,
  type ModelFilesOptions,
  modelToFiles,
  type WeightStorage,
  WEIGHT_STORAGES,
  type WeightDtype,
} from "./checkpoint.ts";
export { type Files, optimizerToFiles, restoreOptimizer } from "./optimizerFiles.ts";
export { type ByteReader, openSafetensors, openShards, type WeightSource } from "./weightFiles.ts";
export { llama2cConfig, modelFromLlama2c, tokenizerFromLlama2c } from "./llama2c.ts";
export { type GenerationConfig, generationFromHuggingFace } from "./config/generation.ts";
export { readSafetensors, readSafetensorsHeader, writeSafetensors } from "./safetensors.ts";
export type { SafeDtype, SafeTensor, SafeTensorInfo, SafeTensorInput, SafetensorsHeader } from "./safetensors.ts";

// Frozen weights in 16 and 8 bits
export { packedBytes, packedFromHost, PackedMatrix, packMatrix, packModel } from "./packedMatrix.ts";
export type { MatrixBytes, PackableDtype, PackedFormat, PackedWords, PackOptions } from "./packedMatrix.ts";
