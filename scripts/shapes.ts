/** Shapes of published checkpoints, for measurements and counts. */
import { type ModelConfig, modelConfig } from "../nn/index.ts";

/** Sizes from the `config.json` of the checkpoints. */
export const SHAPES = {
  "SmolLM2-135M": modelConfig({
    family: "llama",
    vocabSize: 49152,
    hiddenSize: 576,
    intermediateSize: 1536,
    layers: 30,
    heads: 9,
    kvHeads: 3,
    maxPositions: 8192,
    ropeTheta: 100_000,
    normEps: 1e-5,
    tieEmbeddings: true,
  }),
  "Qwen3-0.6B": modelConfig({
    family: "qwen3",
    vocabSize: 151936,
    hiddenSize: 1024,
    intermediateSize: 3072,
    layers: 28,
    heads: 16,
    kvHeads: 8,
    headDim: 128,
    maxPositions: 40960,
    ropeTheta: 1_000_000,
    normEps: 1e-6,
    tieEmbeddings: true,
  }),
  "Qwen3-1.7B": modelConfig({
    family: "qwen3",
    vocabSize: 151936,
    hiddenSize: 2048,
    intermediateSize: 6144,
    layers: 28,
    heads: 16,
    kvHeads: 8,
    headDim: 128,
    maxPositions: 40960,
    ropeTheta: 1_000_000,
    normEps: 1e-6,
    tieEmbeddings: true,
  }),
} satisfies Readonly<Record<string, ModelConfig>>;
