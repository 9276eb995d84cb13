/** An episode of a task: commands of bash until the agent is done or its time is up, then the verifier. */
import {
  type EndResult,
  type OutsideEnd,
  SingleUseEnvironment,
  type StepInfo,
  type StepResult,
} from "../../environments/index.ts";
import { Rng } from "../../engine/index.ts";
import { check } from "../../engine/errors.ts";
import { joinResults } from "../mcp/toolCall.ts";
import { actionsOf } from "./action.ts";
import { engineOf } from "./engines.ts";
import { playable } from "./folder.ts";
import type { Machine } from "./machine.ts";
import { type HarborSettings, scaled } from "./options.ts";
import type { Verdict } from "./reward.ts";
import type { HarborTask } from "./task.ts";
import { verify } from "./verify.ts";

/** The line below a task's text. */
const HOW = "Write one bash command at a time, and done when the task is solved.";

/** A live episode. */
export class HarborEpisode extends SingleUseEnvironment {
  readonly name = "harbor";
  readonly #settings: HarborSettings;
  #task: HarborTask | undefined;
  #machine: Machine | undefined;
  #isClosed = false;
  #turns = 0;
  #toolErrors = 0;
  /** Seconds that the agent's commands have taken. */
  #spent = 0;

  constructor(settings: HarborSettings) {
    super();
    this.#settings = settings;
  }

  /** The name of the task is its family. @throws before reset */
  get info(): StepInfo {
    const { name, level } = this.task;
    return { family: name, level };
  }

  /** The task, for tests and programs. @throws before reset */
  get task(): HarborTask {
    check(this.#task !== undefined, () => `${this.name}: the episode has no task yet; call reset first`);
    return this.#task;
  }

  protected async begin(seed: number): Promise<string> {
    const settings = this.#settings;
    const task = new Rng(seed).split(`${this.name}/${settings.split}`).choice(playable(settings));
    this.#task = task;
    const machine = await engineOf(settings).start(task);
    this.#machine = machine;
    // The caller may have given up meanwhile.
    if (this.#isClosed) machine.close();
    return `${task.instruction}\n\n${HOW}`;
  }

  protected async act(text: string): Promise<StepResult> {
    this.#turns++;
    const actions = actionsOf(text);
    const results: string[] = [];
    const observed = (): string => joinResults(results, actions.length);
    for (const action of actions) {
      if (action.kind === "end") return this.#verified(observed(), "done");
      if (action.kind === "mistake") {
        this.#toolErrors++;
        results.push(`${action.what}\n[exit 2]`);
        continue;
      }
      const result = await this.#run(action.command);
      results.push(result ?? "[the shell is gone]");
      // An agent can bring this about, so it is the end of its episode, and not the end of the world.
      if (result === undefined)
        return this.#ended(observed(), "broken", { reward: 0, keys: {}, problem: "the shell is gone" });
      if (this.#spent >= this.#seconds) return this.#verified(observed(), "agent_timeout");
    }
    return this.#going(observed());
  }

  /** Runs a command; returns what the agent reads, or undefined if the shell is gone. */
  async #run(command: string): Promise<string | undefined> {
    const { seconds, maxOutput } = this.#settings;
    const left = this.#seconds - this.#spent;
    const start = performance.now();
    const limits = { seconds: Math.min(seconds, left), outputBytes: maxOutput };
    const { output, code, problem } = await this.#machine!.run(command, limits);
    this.#spent += (performance.now() - start) / 1000;
    if (code !== 0) this.#toolErrors++;
    if (problem === "gone") return undefined;
    const note = problem !== undefined ? [`[${problem}]`] : code === 0 ? [] : [`[exit ${code}]`];
    const shown = output.replace(/\n$/, "");
    return [...(shown === "" ? [] : [shown]), ...note].join("\n");
  }

  protected override async finish(reason: OutsideEnd): Promise<EndResult> {
    const { reward, info } = await this.#verified("", reason);
    return { reward, info };
  }

  /** Seconds that the agent's commands may take together. */
  get #seconds(): number {
    return scaled(this.task.agentSeconds ?? Infinity, this.#settings);
  }

  #going(observation: string): StepResult {
    return { observation, reward: 0, done: false, info: { ...this.info, ...this.#counts, success: false } };
  }

  get #counts(): StepInfo {
    return { toolErrors: this.#toolErrors, turns: this.#turns };
  }

  async #verified(observation: string, ending: string): Promise<StepResult> {
    return this.#ended(observation, ending, await verify(this.#machine!, this.task, this.#settings));
  }

  #ended(observation: string, ending: string, { reward, keys, problem, suspects }: Verdict): StepResult {
    this.close();
    const info = {
      ...Object.fromEntries(Object.entries(keys).map(([key, value]) => [`reward.${key}`, value])),
      ...this.info,
      ...this.#counts,
      success: reward >= 1,
      score: reward,
      ending,
      ...(problem === undefined ? {} : { problem }),
      ...(suspects === undefined ? {} : { suspects }),
    };
    return { observation, reward, done: true, info };
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#machine?.close();
  }
}
