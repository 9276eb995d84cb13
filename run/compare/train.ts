/**
 * Trains the agents of a comparison: the warm start, then all agents at the same time, each in a process of its own
 * with one thread, at most as many as there are processors. The display shows their messages, a column for each agent.
 */
import { availableParallelism } from "node:os";
import { isFinished, type Job, stepsOf } from "../arms/job.ts";
import type { Message } from "../arms/messages.ts";
import { trainAll } from "../arms/pool.ts";
import type { Display } from "../display/display.ts";
import type { Transcript } from "../records.ts";
import type { ArmJob, Comparison } from "./settings.ts";

/** The agents that the comparison is about: their ways through a task are shown side by side. */
export const SHOWN = 2;

/** @returns whether all were completed; if not, the signal stopped them */
export async function trainComparison(
  { warm, arms }: Comparison,
  display: Display,
  signal: AbortSignal,
): Promise<boolean> {
  if (!isFinished(warm)) {
    const onMessage = (_: Job, message: Message): void => show(message, display, 0);
    const options = { jobs: 1, threads: availableParallelism(), signal, onMessage, onFinished: () => undefined };
    if (!(await trainAll([warm], options))) return false;
  }
  const waiting = arms.filter((job) => !isFinished(job));
  if (waiting.length === 0) return true;
  const names = arms.map(({ arm }) => arm.label);
  const total = Math.max(...arms.map(stepsOf));
  display.phase("the same world, the same episodes: what each agent learns", total, 0, names);
  for (const [lane, job] of arms.entries()) if (isFinished(job)) display.update(total, {}, lane);
  const pairs = new Pairs(arms, display);
  return trainAll(waiting, {
    jobs: availableParallelism(),
    signal,
    onMessage(job, message) {
      const lane = arms.indexOf(job);
      if (message.kind === "transcript") pairs.hear(lane, message.record);
      else if (message.kind !== "phase" && message.kind !== "note") show(message, display, lane);
    },
    onFinished: (job) => display.update(total, {}, arms.indexOf(job)),
  });
}

function show(message: Message, display: Display, lane: number): void {
  if (message.kind === "phase") display.phase(message.name, message.total, message.done);
  else if (message.kind === "step") display.update(message.step, message.metrics, lane);
  else if (message.kind === "evaluation") display.evaluation(message.step, message.score, lane);
  else if (message.kind === "note") display.note(message.text);
}

/** Held-out episodes of the shown agents, kept until all have played the same task at the same step. */
class Pairs {
  readonly #arms: readonly ArmJob[];
  readonly #display: Display;
  readonly #waiting = new Map<string, Map<number, Transcript>>();

  constructor(arms: readonly ArmJob[], display: Display) {
    this.#arms = arms.slice(0, SHOWN);
    this.#display = display;
  }

  hear(lane: number, record: Transcript): void {
    if (record.phase !== "eval" || lane >= this.#arms.length) return;
    const key = `${record.step} ${record.task}`;
    const records = this.#waiting.get(key) ?? new Map<number, Transcript>();
    this.#waiting.set(key, records.set(lane, record));
    if (records.size < this.#arms.length) return;
    this.#waiting.delete(key);
    this.#display.sideBySide(this.#arms.map(({ arm }, i) => ({ name: arm.label, record: records.get(i)! })));
  }
}
