/**
 * One episode in the shell. The first observation is the task. Every action is a line of shell; every observation is what a
 * terminal would show for it, with `[exit N]` as a last line if the exit code is not 0. `answer TEXT` or `done` ends it.
 */
import { check } from "../../engine/errors.ts";
import { checkKeys } from "../../engine/options.ts";
import { Rng } from "../../engine/index.ts";
import { SingleUseEnvironment, type StepInfo, type StepResult } from "../environment.ts";
import { FileSystem, HOME } from "./filesystem.ts";
import { runLine } from "./shell.ts";
import { checkOptions, makeTask, type Task, type TaskOptions } from "./tasks.ts";

export interface TerminalOptions extends TaskOptions {
  /** Longest observation, in characters; longer ones lose their middle. At least 40; default 1,000. */
  readonly maxOutput?: number;
  /**
   * Weight of a second reward component at the end of the episode: the share of commands that ended with exit code 0.
   * Default 0: the reward is 1 if the task is solved and 0 if not.
   */
  readonly formatWeight?: number;
}

export class TerminalEnvironment extends SingleUseEnvironment {
  readonly name = "terminal";
  readonly #options: TerminalOptions;
  readonly #maxOutput: number;
  readonly #formatWeight: number;
  #task: Task | undefined;
  #turns = 0;
  #toolErrors = 0;
  #planned = 0; // how many of the plan's commands have been run

  /** @throws on option values that make no sense */
  constructor(options: TerminalOptions = {}) {
    super();
    checkKeys("terminal", options, ["split", "families", "levels", "size", "maxOutput", "formatWeight"]);
    checkOptions(options);
    const { maxOutput = 1_000, formatWeight = 0 } = options;
    check(
      Number.isInteger(maxOutput) && maxOutput >= 40,
      () => `terminal: maxOutput must be an integer of at least 40, got ${maxOutput}`,
    );
    check(
      formatWeight >= 0 && formatWeight < 1,
      () => `terminal: formatWeight must be in [0, 1), so that solving the task counts most, got ${formatWeight}`,
    );
    this.#options = options;
    this.#maxOutput = maxOutput;
    this.#formatWeight = formatWeight;
  }

  protected begin(seed: number): string {
    const split = this.#options.split ?? "train";
    this.#task = makeTask(new Rng(seed).split(`terminal/${split}`), this.#options);
    return this.#task.text;
  }

  /** @throws before reset */
  get info(): StepInfo {
    const { family, level } = this.#started();
    return { family, level };
  }

  protected act(action: string): StepResult {
    const task = this.#started();
    if (action.trim() === task.plan[this.#planned] && task.fs.cwd === HOME) this.#planned++;
    const { output, code, ending } = runLine(action, task.fs);
    this.#turns++;
    if (code !== 0) this.#toolErrors++;
    const success = ending !== undefined && task.verify(ending, task.fs);
    const format = ending ? this.#formatWeight * (1 - this.#toolErrors / this.#turns) : 0;
    return {
      observation: render(output, code, this.#maxOutput),
      reward: (success ? 1 : 0) + format,
      done: ending !== undefined,
      info: {
        ...this.info,
        success,
        exitCode: code,
        toolErrors: this.#toolErrors,
        turns: this.#turns,
        ending: ending?.kind ?? "none",
      },
    };
  }

  /**
   * What the expert would type now: back home if the agent has wandered off, else the first command of the plan that has not
   * been run. It cannot repair a tree that has been damaged. @throws before reset
   */
  expertAction(): string {
    const task = this.#started();
    return task.fs.cwd === HOME ? (task.plan[this.#planned] ?? "done") : "cd";
  }

  /** The shell leaves nothing to chance, so there is nothing for a seed to change. */
  clone(): TerminalEnvironment {
    const copy = new TerminalEnvironment(this.#options);
    copy.resumeFrom(this);
    copy.#task = this.#task && { ...this.#task, fs: new FileSystem(this.#task.fs) };
    copy.#turns = this.#turns;
    copy.#toolErrors = this.#toolErrors;
    copy.#planned = this.#planned;
    return copy;
  }

  #started(): Task {
    check(this.#task !== undefined, () => "terminal: the episode has no task yet; call reset first");
    return this.#task;
  }
}

/** What the terminal shows: the output without its last line end, cut in the middle if too long, and a non-zero exit code. */
export function render(output: string, code: number, limit: number): string {
  let text = output.endsWith("\n") ? output.slice(0, -1) : output;
  if (text.length > limit) {
    const half = Math.floor((limit - 32) / 2); // 32: room for the marker
    // A surrogate pair is never cut in two.
    const start = /[\uD800-\uDBFF]$/.test(text.slice(0, half)) ? half - 1 : half;
    const end = /^[\uDC00-\uDFFF]/.test(text.slice(-half)) ? half - 1 : half;
    const missing = text.length - start - end;
    text = `${text.slice(0, start)}\n[... ${missing} characters ...]\n${text.slice(text.length - end)}`;
  }
  if (code === 0) return text;
  return text === "" ? `[exit ${code}]` : `${text}\n[exit ${code}]`;
}
