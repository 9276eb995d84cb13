/** Messages between a page and an agent's worker. They travel by structured clone, so NaN stays NaN. */
import type { Preset } from "../run/preset.ts";
import type { Evaluation, KnownFact, MetricsRecord, Score, Summary, Transcript } from "../run/records.ts";
import type { Answer, Question } from "./questions.ts";
import type { WarmStart } from "../run/warmStart.ts";

/** Number of agents that a page trains side by side, each in a worker of its own. */
export const AGENTS = 2;

export type ToAgent =
  /** Comes first, once. Without a warm start the agent makes its own. */
  | { readonly kind: "begin"; readonly preset: Preset; readonly device: "wasm" | "webgpu"; readonly warm?: WarmStart }
  /** Asks for the log so far; it does not wait for the order under way. */
  | { readonly kind: "tell" }
  /** Goes on until `to` RL steps are done; without it, to the end. */
  | { readonly kind: "play"; readonly to?: number }
  /** Stops after the current step. */
  | { readonly kind: "pause" }
  /** Goes back or forward to the point after `step` RL steps. */
  | { readonly kind: "goTo"; readonly step: number }
  /** Asks about the last step. While the agent plays, it answers between two steps. */
  | { readonly kind: "ask"; readonly id: number; readonly question: Question };

/** The log of an agent, its warm start included. */
export interface AgentLog {
  /** RL steps done. */
  readonly step: number;
  readonly metrics: readonly MetricsRecord[];
  readonly transcripts: readonly Transcript[];
  readonly summary?: Summary;
}

export type FromAgent =
  /** The agent can play. */
  | { readonly kind: "ready"; readonly executor: string; readonly warm: WarmStart }
  /** Progress of the warm start, if the agent makes its own. */
  | { readonly kind: "warming"; readonly step: number; readonly total: number }
  /** A step of RL has ended. */
  | { readonly kind: "step"; readonly step: number; readonly metrics: Readonly<Record<string, number>> }
  | { readonly kind: "evaluation"; readonly step: number; readonly score: Score }
  | { readonly kind: "transcript"; readonly record: Transcript }
  /** What the agent knows of its world after so many RL steps. */
  | { readonly kind: "knows"; readonly step: number; readonly facts: readonly KnownFact[] }
  /** The end of each `play` and `goTo`, with all metrics so far. `after` is there at the end of the run. */
  | {
      readonly kind: "rests";
      readonly step: number;
      readonly metrics: readonly MetricsRecord[];
      readonly after?: Evaluation;
    }
  /** The answer to `tell`; the summary is there at the end of the run. */
  | ({ readonly kind: "log" } & AgentLog)
  /** The answer to the question with this number. */
  | { readonly kind: "answer"; readonly id: number; readonly answer: Answer }
  | { readonly kind: "refused"; readonly id: number; readonly message: string }
  /** An order has failed, or the worker did not start. */
  | { readonly kind: "failed"; readonly message: string };
