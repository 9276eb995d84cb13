/**
 * `worldgrad/pretrained`: published models, tokenizers and adapters: Hugging Face's files, llama2.c's, LoRA, weights
 * in 16 and 8 bits.
 */

// Models as files
export { configFromHuggingFace, configToHuggingFace } from "./config/huggingface.ts";
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
export { type ByteReader, openSafetensors, openShards, type WeightSource } from "./weightFiles.ts";
export { llama2cConfig, modelFromLlama2c, tokenizerFromLlama2c } from "./llama2c.ts";
export { type GenerationConfig, generationFromHuggingFace } from "./config/generation.ts";

// LoRA
export { addLora, checkLora, disposeLora, isLora, type LoraAdapter, type LoraModel, mergeLora } from "./lora.ts";
export type { LoraPair, LoraParams } from "./lora.ts";
export { LORA, type LoraOptions, type LoraSettings } from "./loraOptions.ts";
export { loraFromFiles, loraToFiles } from "./loraFiles.ts";

// Tokenizers and streams of text
export { tokenizerFromJSON } from "./tokenizers/json.ts";
export { TextStream, type TextStreamOptions } from "./textStream.ts";

// Matrices in 16 and 8 bits
export { packedBytes, packedFromHost, PackedMatrix, packMatrix, packModel } from "./packed/matrix.ts";
export type { MatrixBytes, PackableDtype, PackedFormat, PackedWords, PackOptions } from "./packed/matrix.ts";
