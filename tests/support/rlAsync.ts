/**
 * Asynchronous runs for tests, and rollout workers: some that play nothing and take their time, some that die.
 */
import { Rng } from "../../engine/random.ts";
import type { Model } from "../../nn/transformer.ts";
import { type Job, requestOf, toWire } from "../../distribute/async/messages.ts";
import type { AsyncOptions, AsyncRlOptions } from "../../distribute/async/train.ts";
import type { RolloutWorkers, WorkerEvents } from "../../distribute/async/workers.ts";
import { type Trajectory, append, emptyStream } from "../../rl/episode/stream.ts";
import type { RlOptions } from "../../rl/train/loop.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { toyRlOptions } from "./rlRuns.ts";
import { letters, toySpec, toyTemplate, trajectoryOf } from "./rlToy.ts";

/** Options of an asynchronous run on this thread, with two workers and staleness 0 unless `how` says otherwise. */
export const toyAsyncOptions = (
  model: Model,
  own: Partial<RlOptions>,
  how: Partial<AsyncOptions> = {},
): AsyncRlOptions => ({ ...toyRlOptions(model, own), workers: 2, maxStaleness: 0, ...how });

/** Metrics of a run without those that only an asynchronous one has. */
export const common = ({ metrics }: StepReport): Readonly<Record<string, number>> =>
  Object.fromEntries(Object.entries(metrics).filter(([name]) => !name.startsWith("async/")));

/** An episode that no model has played: a task, and an action of one token for each version. */
export function unplayed(job: Job, versions: readonly number[]): Trajectory {
  const { rng, group, seed } = requestOf(toWire(job), () => toySpec(letters(2)));
  const stream = emptyStream();
  toyTemplate.appendTask(stream, "ab");
  const stepRewards = versions.map((version, turn) => {
    const id = rng.split(turn).int(6);
    append(stream, "action", turn, [id], { oldLogProbs: [-2 - 0.1 * id], versions: [version] });
    toyTemplate.appendObservation(stream, turn, toyTemplate.tokenizer.encode("b!"), "", turn === versions.length - 1);
    return id / 6;
  });
  return trajectoryOf(stream, { group, seed, stepRewards, reward: stepRewards.reduce((a, b) => a + b, 0) });
}

export interface MoodyOptions {
  readonly count: number;
  readonly seed: number;
  /** Milliseconds that a token takes at most. */
  readonly slowest: number;
  /** Chance that a worker takes no notice of a new policy until it is given something to play. */
  readonly stubborn?: number;
  /** Chance that a worker dies instead of handing over an episode. */
  readonly mortality?: number;
}

/** What moody workers have done so far. */
export interface MoodyLog {
  /** Of every episode that was handed over: its task. */
  readonly handedOver: number[];
  deaths: number;
  started: number;
}

/**
 * Workers without a model: every episode is a task and two actions of one token, each drawn by the policy that the
 * worker has just then, after a random time. They hear of new policies late, and die, by chance.
 */
export function moodyWorkers(options: MoodyOptions): { readonly workers: RolloutWorkers; readonly log: MoodyLog } {
  const { count, seed, slowest, stubborn = 0, mortality = 0 } = options;
  const rng = new Rng(seed);
  const log: MoodyLog = { handedOver: [], deaths: 0, started: 0 };
  const start = (_: number, __: unknown, events: WorkerEvents): ReturnType<RolloutWorkers["start"]> => {
    log.started++;
    let [version, newest, isOver] = [-1, -1, false];
    // One pause in ten is ten times as long, so that others overtake it on a fast machine, too.
    const pause = (): Promise<void> => {
      const ms = rng.int(slowest + 1) * (rng.uniform() < 0.1 ? 10 : 1);
      return new Promise((resolve) => setTimeout(resolve, ms));
    };
    const play = async (job: Job): Promise<void> => {
      const pinned = job.pinned ? version : undefined;
      const versions: number[] = [];
      for (let turn = 0; turn < 2; turn++) {
        await pause();
        if (isOver) return;
        versions.push(pinned ?? version);
      }
      if (rng.uniform() < mortality) {
        isOver = true;
        log.deaths++;
        return events.ended("it was its time");
      }
      const trajectory = unplayed(job, versions);
      log.handedOver.push(trajectory.seed);
      events.receive({ kind: "episode", id: job.id, trajectory });
    };
    return {
      post(message) {
        if (isOver) return;
        if (message.kind === "play") {
          version = newest;
          for (const job of message.jobs) void play(job);
          return;
        }
        newest = message.policy.version;
        if (rng.uniform() >= stubborn) version = newest;
      },
      terminate: () => {
        isOver = true;
        return Promise.resolve();
      },
    };
  };
  return { workers: { count, start }, log };
}
