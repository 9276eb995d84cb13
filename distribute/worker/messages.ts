/** The messages between a page and the worker of its agent. They travel by structured clone, so NaN stays NaN. */
import type { EndResult, OutsideEnd, StepInfo, StepResult } from "../../rl/environment.ts";
import type { Files } from "../../nn/index.ts";
import type { Metrics } from "../../rl/episode/metrics.ts";
import type { StopReason } from "../../rl/episode/stream.ts";
import type { Turn } from "../../rl/episode/turns.ts";

/** One finished step of `trainRl`: its number, from 0 on, and its metrics. */
export interface TrainedStep {
  readonly step: number;
  readonly metrics: Metrics;
}

/** An episode, in words. */
export interface PlayedEpisode {
  readonly task: string;
  readonly turns: readonly Turn[];
  /** The return of the episode; NaN if it could not be scored. */
  readonly reward: number;
  readonly success: boolean;
  /** `completed`: the environment ended it. Any other value says what cut it short. */
  readonly stopReason: StopReason;
  /** Facts from the environment's last step; `error` is what it threw, if it did. */
  readonly info: StepInfo;
}

/** Options of `AgentWorker.play`. */
export interface AgentPlayOptions {
  /** One episode for each; the same seed is the same task. */
  readonly seeds: readonly number[];
  /** The sampling temperature; default 0: always the most probable token. */
  readonly temperature?: number;
  /** Tasks that training plays too, or tasks that it never sees. Default `heldout`. */
  readonly split?: "train" | "heldout";
}

/** An order of a page to a worker. */
export type Order =
  /** `environment`: the name of the page's environment, if it has one */
  | { readonly kind: "create"; readonly settings: unknown; readonly environment: string | undefined }
  | { readonly kind: "train"; readonly steps: number }
  | { readonly kind: "play"; readonly options: AgentPlayOptions }
  | { readonly kind: "save" }
  | { readonly kind: "load"; readonly files: Files };

/** The answer of an environment in the page: a task, the result of an action, or the result of an end from outside. */
export type PageAnswer = string | StepResult | EndResult | undefined;

/** A call of a worker to an environment that lives in the page. */
export type EnvironmentCall =
  | { readonly kind: "reset"; readonly episode: number; readonly options: object; readonly seed: number }
  | { readonly kind: "step"; readonly episode: number; readonly action: string }
  /** The episode was ended from outside; answered if the environment wants to hear of it. */
  | { readonly kind: "end"; readonly episode: number; readonly reason: OutsideEnd }
  /** The episode is over. Nothing is answered. */
  | { readonly kind: "close"; readonly episode: number };

export type ToWorker =
  /** Asks whether the worker listens. */
  | { readonly to: "hello" }
  | { readonly to: "order"; readonly id: number; readonly order: Order }
  /** Lets the training step that is under way end, and drops those that were asked for after it. */
  | { readonly to: "pause" }
  | { readonly to: "answer"; readonly id: number; readonly answer: Answered<PageAnswer> };

export type FromWorker =
  /** The worker listens. What a page sent before is lost if the worker's script had to wait for something. */
  | { readonly to: "ready" }
  | { readonly to: "step"; readonly id: number; readonly step: TrainedStep }
  /** Of a fault that does not end the training (`WatchOptions.warn`). */
  | { readonly to: "warning"; readonly text: string }
  | { readonly to: "result"; readonly id: number; readonly answer: Answered<unknown> }
  | { readonly to: "environment"; readonly id: number; readonly call: EnvironmentCall };

/** The error of a call, and its stack on the side where it failed. */
export interface Failure {
  readonly error: string;
  readonly stack?: string | undefined;
  /** Of an error of the library (`WorldgradError.code`), and of any other that has one. */
  readonly code?: string | undefined;
}
/** The result of a call, or its failure. */
export type Answered<T> = { readonly value: T } | Failure;

/** One end of a connection: a Worker, the global object in a worker, a MessagePort. */
export interface Port {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  /** A MessagePort that is listened to delivers nothing before it is started. */
  start?(): void;
}

export function failureOf(error: unknown): Failure {
  if (!(error instanceof Error)) return { error: String(error) };
  const { message, stack, code } = error as Error & { readonly code?: unknown };
  return { error: message, stack, ...(typeof code === "string" ? { code } : {}) };
}
