/** What a page and the worker of an agent send each other. Messages travel by structured clone, so NaN stays NaN. */
import type { Preset } from "../run/preset.ts";
import type { Evaluation, MetricsRecord, Score, Summary, Transcript } from "../run/records.ts";
import type { Answer, Question } from "./questions.ts";
import type { WarmStart } from "./session.ts";

/** How many agents a page trains: one in a worker for each, side by side. */
export const AGENTS = 2;

export type ToAgent =
  /** Comes first, once. Without a warm start the agent makes its own. */
  | { readonly kind: "begin"; readonly preset: Preset; readonly device: "wasm" | "webgpu"; readonly warm?: WarmStart }
  /** Tells all that it has written down until now; it does not wait for what is under way. */
  | { readonly kind: "tell" }
  /** Goes on until `to` RL steps are done; without it, to the end. */
  | { readonly kind: "play"; readonly to?: number }
  /** Lets the step that is under way end. */
  | { readonly kind: "pause" }
  /** Goes back, or forward, to where `step` RL steps were done. */
  | { readonly kind: "goTo"; readonly step: number }
  /** Looks at the last step. It is answered even while the agent plays: between two steps. */
  | { readonly kind: "ask"; readonly id: number; readonly question: Question };

/** All that an agent has written down, its warm start included. */
export interface AgentLog {
  /** RL steps done. */
  readonly step: number;
  readonly metrics: readonly MetricsRecord[];
  readonly transcripts: readonly Transcript[];
  readonly summary?: Summary;
}

export type FromAgent =
  /** It can play. */
  | { readonly kind: "ready"; readonly executor: string; readonly warm: WarmStart }
  /** How far the warm start is, if it makes its own. */
  | { readonly kind: "warming"; readonly step: number; readonly total: number }
  /** A step of RL has ended. */
  | { readonly kind: "step"; readonly step: number; readonly metrics: Readonly<Record<string, number>> }
  | { readonly kind: "evaluation"; readonly step: number; readonly score: Score }
  | { readonly kind: "transcript"; readonly record: Transcript }
  /** After each play and goTo: it rests, with all that it has written down. `after` is there at the end of the run. */
  | {
      readonly kind: "rests";
      readonly step: number;
      readonly metrics: readonly MetricsRecord[];
      readonly after?: Evaluation;
    }
  /** The answer to `tell`; the summary is there at the end of the run. */
  | ({ readonly kind: "log" } & AgentLog)
  /** To the question of this number. */
  | { readonly kind: "answer"; readonly id: number; readonly answer: Answer }
  | { readonly kind: "refused"; readonly id: number; readonly message: string }
  /** It has ended; nothing further comes. */
  | { readonly kind: "failed"; readonly message: string };
