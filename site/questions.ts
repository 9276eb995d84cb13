/**
 * What a page asks an agent about its last step, and what it is answered. Questions are answered in the agent's worker
 * (answers.ts), from the step that the session holds.
 */
import type { TranscriptToken } from "../run/records.ts";
import type { TokenNumbers } from "./formulas/language.ts";
import type { TokenTerm } from "./formulas/step.ts";
import type { LossForm } from "./formulas/terms.ts";
import type { WeightNote } from "./formulas/weights.ts";

export type Question =
  /** Holds the last step. The other questions are about the step that is held. */
  | { readonly about: "step" }
  | { readonly about: "episode"; readonly episode: number }
  | { readonly about: "token"; readonly episode: number; readonly token: number };

/** A step: which episodes it has, and what its loss is made of. */
export interface StepView {
  readonly step: number;
  readonly form: LossForm;
  readonly metrics: Readonly<Record<string, number>>;
  readonly episodes: readonly EpisodeHead[];
}

export interface EpisodeHead {
  readonly group: number;
  readonly task: string;
  readonly reward: number;
  readonly success: boolean;
  /** A of the agent's first token; NaN if it wrote none. */
  readonly advantage: number;
}

/** A token of the strip, with the token that the agent expected in its place, if the world wrote it. */
export interface EpisodeToken extends TranscriptToken {
  readonly expected?: string;
}

/** An episode, token by token. */
export interface EpisodeView {
  readonly tokens: readonly EpisodeToken[];
  readonly numbers: readonly TokenNumbers[];
  readonly terms: readonly (readonly TokenTerm[])[];
  /** How the weights of the terms of each token came about. */
  readonly weights: readonly (readonly WeightNote[])[];
}

/** A token of the vocabulary where a token was predicted. */
export interface LogitView {
  readonly text: string;
  /** Whether it is the token that came. */
  readonly isOwn: boolean;
  readonly logit: number;
  readonly p: number;
  /** ∂L/∂logit */
  readonly gradient: number;
}

/** What the model had where a token was predicted. */
export interface PlaceView {
  readonly temperature: number;
  /** Entropy of the distribution, in nats. */
  readonly entropy: number;
  /** The likeliest tokens, and the one that came. */
  readonly logits: readonly LogitView[];
  /** The size of the vocabulary. */
  readonly vocabulary: number;
  /** By layer and head: the weights with which the position before the token looks at all tokens before it. */
  readonly attention: readonly (readonly Float32Array[])[];
}

/** What is answered to each question; null: no step has ended yet. */
export interface Answers {
  readonly step: StepView | null;
  readonly episode: EpisodeView;
  readonly token: PlaceView;
}
export type Answer = Answers[keyof Answers];
