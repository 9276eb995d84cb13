/**
 * A page's questions about an agent's last step, and their answers. The agent's worker answers them (answers.ts) from
 * the step that the session holds.
 */
import type { TranscriptToken } from "../run/records.ts";
import type { Filled } from "./formulas/formula.ts";
import type { TermFormula, TokenTerm } from "./formulas/step.ts";
import type { TermWords } from "./lossWords.ts";

export type Question =
  /** Holds the last step. The other questions are about the step that is held. */
  | { readonly about: "step" }
  | { readonly about: "episode"; readonly episode: number }
  | { readonly about: "token"; readonly episode: number; readonly token: number };

/** A term of the loss, with the source of the policy loss. */
export interface TermView extends TermFormula, TermWords {
  readonly source?: string;
}

/** A step: its episodes and the terms of its loss. */
export interface StepView {
  readonly step: number;
  /** The terms of the loss that concern a token of the step. */
  readonly terms: Readonly<Record<string, TermView>>;
  readonly metrics: Readonly<Record<string, number>>;
  readonly episodes: readonly EpisodeHead[];
}

export interface EpisodeHead {
  readonly group: number;
  readonly task: string;
  readonly reward: number;
  readonly success: boolean;
  /** The advantage at the agent's first token; NaN if it wrote none. */
  readonly advantage: number;
}

/** A token of the strip; if the environment wrote it, with the token that the agent expected in its place. */
export interface EpisodeToken extends TranscriptToken {
  readonly expected?: string;
}

/** An episode, token by token. */
export interface EpisodeView {
  readonly tokens: readonly EpisodeToken[];
  readonly terms: readonly (readonly EpisodeTerm[])[];
}

/** A term at a token, with the formula of its weight if there is one. */
export interface EpisodeTerm extends TokenTerm {
  readonly ofWeight?: Filled;
}

/** A token of the vocabulary as a candidate at a place. */
export interface LogitView {
  readonly text: string;
  /** Whether it is the token that came. */
  readonly isOwn: boolean;
  readonly logit: number;
  readonly p: number;
  /** ∂L/∂logit */
  readonly gradient: Filled;
}

/** The model's prediction of one token. */
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

/** The answer to each question; null: no step has ended yet. */
export interface Answers {
  readonly step: StepView | null;
  readonly episode: EpisodeView;
  readonly token: PlaceView;
}
export type Answer = Answers[keyof Answers];
