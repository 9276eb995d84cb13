/**
 * A run of the main job: warm start, evaluation, RL, evaluation. It can be stopped after any step and continued from
 * its last checkpoint, bitwise as if it had never stopped (times excepted).
 */
import { type Device, type Tree, treeLeaves } from "../engine/index.ts";
import { check, fail } from "../engine/errors.ts";
import {
  type AdamW,
  countParameters,
  estimateParameters,
  type Model,
  optimizerToFiles,
  restoreOptimizer,
} from "../nn/index.ts";
import type { Template } from "../rl/episode/template.ts";
import { EventLoop } from "../rl/play/eventLoop.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { StepReport } from "../rl/train/report.ts";
import { TrainingState } from "./trainingState.ts";
import { fileOf, filesOfModel, modelFromCheckpoint, MOMENTS, partsToSave } from "./modelFiles.ts";
import type { Observer, Watch } from "./observer.ts";
import { bestOf, isBetter } from "./best.ts";
import { Experiment } from "./experiment.ts";
import { FailedSteps, placeOf } from "./failures.ts";
import { metricsOfScore, overlapNote, recordOf } from "./heldOut.ts";
import type { RunParts } from "./runParts.ts";
import type { Preset } from "./preset.ts";
import type { Evaluation, MetricsRecord, State, Summary } from "./records.ts";
import type { Checkpoint, RunStore } from "./runStore.ts";
import { factsOf } from "./facts.ts";
import { fittingTeacher } from "./teacher.ts";
import { templateFor } from "./template.ts";
import { phaseOf } from "./baselines.ts";
import { stopwatch, timed } from "./stopwatch.ts";
import { describeEpisodes, describeHeldOut, pickEpisodes } from "./transcripts.ts";

const TRANSCRIPTS_EVERY = 5;
/**
 * The number of held-out episodes of each evaluation that get a transcript, always of the same tasks, so that progress
 * is visible.
 */
const HELD_OUT_SHOWN = 4;
const CHECKPOINTS_KEPT = 2; // of the newest; the best one (best.ts) stays, too

type Scored = Omit<Evaluation, "label">;

/** A run and the place where it is kept. */
export class Run {
  readonly #store: RunStore;
  readonly #preset: Preset;
  readonly #parts: RunParts;
  #experiment!: Experiment;
  readonly #device: Device;
  readonly #observer: Observer;
  readonly #signal: AbortSignal;
  /** Lets signals, timers and messages through: on the CPU training only awaits settled promises, which run earlier. */
  readonly #eventLoop = new EventLoop();
  #model!: Model;
  #template!: Template;
  #optimizer: AdamW<Tree> | undefined;
  #teacher: Model | undefined;
  /** The state of RL; undefined until RL starts. */
  #trainingState: TrainingState | undefined;
  #state: State = { phase: "sft", done: 0, optimizerStep: 0, evaluated: 0, before: null, seconds: 0 };
  /** The texts of training's tasks, in a world that is not the library's. */
  readonly #trained = new Set<string>();
  /** The evaluation of the best checkpoint. */
  #best: MetricsRecord | undefined;
  /** The wall time of earlier sessions, and when this session began. */
  #earlierSeconds = 0;
  #started = 0;

  /** @param parts workers that play, and other parts that its settings cannot hold */
  constructor(
    store: RunStore,
    preset: Preset,
    device: Device,
    observer: Observer,
    signal: AbortSignal,
    parts: RunParts = {},
  ) {
    this.#store = store;
    this.#preset = preset;
    this.#parts = parts;
    this.#device = device;
    this.#observer = observer;
    this.#signal = signal;
    const { pretrained, teacher } = preset;
    check(
      !pretrained || parts.source !== undefined,
      () => `run: the model in ${pretrained!.path} that it begins with is not given`,
    );
    check(!teacher || parts.teacher !== undefined, () => `run: the teacher in ${teacher!.path} is not given`);
  }

  /**
   * The first part of a run: up to the start of RL, where a checkpoint is saved, from which a run of any method can
   * start.
   * @returns the score of the warm start, or `null` if the run was stopped
   */
  warmUp(resume: boolean): Promise<Evaluation | null> {
    return this.#unlessStopped(this.#warmUp(resume));
  }

  async #warmUp(resume: boolean): Promise<Evaluation | null> {
    this.#started = performance.now();
    await this.#prepare(resume);
    const parameters = estimateParameters(this.#model.config).toLocaleString("en");
    const { vocabSize } = this.#template.tokenizer;
    this.#observer.note(`model: ${parameters} parameters, ${vocabSize} tokens in the vocabulary`);
    await this.#warmStart();
    return this.#signal.aborted ? null : this.#evaluateBefore();
  }

  /**
   * Runs to the end, or until the signal is aborted; then the progress is saved.
   * @returns the summary, or `null` if the run was stopped
   */
  async run(resume: boolean): Promise<Summary | null> {
    const before = await this.warmUp(resume);
    if (before === null) return null;
    const final = await this.#unlessStopped(this.#reinforce());
    if (final === null) return null;
    return {
      before,
      after: { ...final, label: phaseOf(this.#preset.rl.method).after },
      facts: factsOf(this.#preset, this.#model, this.#device, this.#seconds()),
    };
  }

  async #prepare(resume: boolean): Promise<void> {
    this.#experiment = await Experiment.of(this.#preset, this.#parts.playAhead);
    const checkpoint = resume ? this.#store.loadLatestCheckpoint() : null;
    await this.#load(checkpoint);
    // Only now, after all checks: a run that cannot be continued keeps all of its files.
    this.#store.rewindTo(checkpoint);
    if (checkpoint === null) return;
    this.#best = bestOf(this.#store.readMetrics(), this.#store.listCheckpoints());
    this.#prune(); // a process that dies between saving and pruning leaves one checkpoint too many
    const [{ phase, done }, { from }] = [this.#state, this.#preset];
    this.#observer.note(
      from && checkpoint.step === 0
        ? `beginning with the weights of ${from.path} after step ${from.step}`
        : `continuing after ${phase === "sft" ? "warm-start" : "RL"} step ${done}`,
    );
  }

  /** Makes the model, optimiser and state that a run begins or continues with. Changes nothing in the store. */
  async #load(checkpoint: Checkpoint | null): Promise<void> {
    const teacher = await this.#parts.teacher?.(this.#device);
    if (checkpoint === null) {
      check(!this.#preset.from, () => "run: the weights that it begins with are in no checkpoint; begin it anew");
      const source = await this.#parts.source?.(this.#device);
      const given = source?.tokenizer ?? teacher?.tokenizer;
      this.#template = templateFor(this.#preset, given ?? (await this.#experiment.trainTokenizer(this.#signal)));
      this.#teacher = teacher && fittingTeacher(teacher, this.#template.tokenizer, this.#preset);
      this.#model = source?.model ?? this.#experiment.newModel(this.#template.tokenizer, this.#device);
      // Now, and not after a warm start.
      await this.#experiment.checkAdapter(this.#model);
      return;
    }
    const { model, tokenizer } = await modelFromCheckpoint(checkpoint, this.#device, this.#parts.source);
    this.#model = model;
    this.#template = templateFor(this.#preset, tokenizer);
    this.#teacher = teacher && fittingTeacher(teacher, this.#template.tokenizer, this.#preset);
    this.#state = JSON.parse(new TextDecoder().decode(fileOf(checkpoint, "state.json"))) as State;
    this.#earlierSeconds = this.#state.seconds;
    const isWarmStart = this.#state.phase === "rl" && this.#state.done === 0;
    if (isWarmStart) await this.#adapt();
    this.#optimizer = this.#newOptimizer();
    // Before the first update the moments are 0, as a new optimiser has them: a warm start may come without them, or
    // with those of a run that trains something else.
    const { optimizerStep } = this.#state;
    if (optimizerStep > 0 || (MOMENTS in checkpoint.files && !isWarmStart))
      restoreOptimizer(model.config, this.#optimizer, fileOf(checkpoint, MOMENTS), optimizerStep);
    if (this.#state.phase === "rl") {
      // Before the first step they are made from the warm start, which may come from a run with another method.
      this.#trainingState =
        this.#state.done === 0
          ? await this.#newTrainingState()
          : TrainingState.ofFiles(this.#experiment, this.#model, checkpoint.files, this.#teacher);
    }
  }

  /** Chooses what RL trains, as the settings say: all weights, or an adapter. */
  async #adapt(): Promise<void> {
    this.#model = await this.#experiment.adapted(this.#model);
    if (this.#model.trainable === undefined) return;
    const { trainable, all } = countParameters(this.#model);
    const share = ((100 * trainable) / all).toPrecision(3);
    this.#observer.note(`adapter: ${trainable.toLocaleString("en")} parameters are trained, ${share} % of all`);
  }

  #newOptimizer(): AdamW<Tree> {
    return this.#state.phase === "sft"
      ? this.#experiment.sftOptimizer(this.#model)
      : this.#experiment.rlOptimizer(this.#model);
  }

  /** The training state that the method needs beside the model. */
  async #newTrainingState(): Promise<TrainingState> {
    const state = await TrainingState.ofWarmStart(
      this.#experiment,
      this.#model,
      this.#template,
      this.#watch(),
      this.#teacher,
    );
    if (state.note !== undefined) this.#observer.note(state.note);
    return state;
  }

  /** The result of `work`, or `null` if it rejects because the run was stopped. */
  async #unlessStopped<T>(work: Promise<T>): Promise<T | null> {
    try {
      return await work;
    } catch (error) {
      if (this.#signal.aborted && error === this.#signal.reason) return null;
      throw error;
    }
  }

  #watch(): Watch {
    return { observer: this.#observer, eventLoop: this.#eventLoop, signal: this.#signal };
  }

  async #warmStart(): Promise<void> {
    const { steps } = this.#preset.sft;
    if (this.#state.phase !== "sft" || this.#state.done >= steps) return;
    const all = await this.#experiment.demonstrations(this.#template, this.#signal);
    const parts = { experiment: this.#experiment, template: this.#template, device: this.#device, ...this.#watch() };
    const lessons = !this.#preset.sft.labelled
      ? { demonstrations: all, metrics: {} }
      : await (await import("./inverse.ts")).label(parts, all);
    if (lessons === null) return;
    this.#observer.phase("warm start: learning from demonstrations", steps, this.#state.done);
    this.#optimizer ??= this.#newOptimizer();
    const clock = stopwatch();
    const loop = this.#experiment.sft({
      model: this.#model,
      template: this.#template,
      optimizer: this.#optimizer,
      demonstrations: lessons.demonstrations,
      startStep: this.#state.done,
    });
    for await (const report of loop) {
      const metrics = { ...timed(report, clock()), ...lessons.metrics };
      this.#store.appendMetrics({ step: report.step, phase: "sft", ...metrics });
      this.#observer.update(report.step + 1, metrics);
      this.#state = { ...this.#state, done: report.step + 1 };
      await this.#eventLoop.turn();
      if (this.#signal.aborted || this.#state.done % this.#preset.sft.checkpointEvery === 0) await this.#save();
      if (this.#signal.aborted) return;
    }
    if (this.#state.done % this.#preset.sft.checkpointEvery !== 0) await this.#save();
  }

  /** The score of the warm start on held-out tasks; a resumed run may know it already. */
  async #evaluateBefore(): Promise<Evaluation | null> {
    if (this.#state.before !== null) return this.#state.before;
    const label = this.#preset.sft.steps === 0 ? "model as it came" : "warm start";
    const score = await this.#evaluateAsPhase(`evaluating the ${label} on held-out tasks`);
    if (score === null) return null;
    this.#optimizer?.dispose();
    this.#state = { ...this.#state, phase: "rl", done: 0, evaluated: 0, before: { ...score, label } };
    await this.#adapt();
    this.#optimizer = this.#newOptimizer();
    this.#trainingState = await this.#newTrainingState(); // stopped in here: the end of the warm start was saved last
    await this.#save();
    return this.#state.before;
  }

  async #reinforce(): Promise<Scored | null> {
    const { steps, method } = this.#preset.rl;
    // Without a step the model is the one that was evaluated before.
    if (steps === 0 && method !== "random" && this.#state.before !== null) return this.#state.before;
    const { every, episodes } = this.#preset.evaluation;
    this.#observer.phase(phaseOf(method).during, steps, this.#state.done);
    this.#optimizer ??= this.#newOptimizer();
    const due = (): boolean => {
      const { done, evaluated } = this.#state;
      return done % every === 0 && done < steps && evaluated < done;
    };
    // An evaluation that was interrupted is played now, so that the logs are those of a run that never stopped.
    if (due()) await this.#evaluate(episodes);
    const clock = stopwatch();
    const { reference, heads, reader } = this.#trainingState ?? fail("reinforce: the warm start has not ended");
    const loop = this.#experiment.rl({
      model: this.#model,
      template: this.#template,
      optimizer: this.#optimizer,
      reference,
      heads,
      reader,
      startStep: this.#state.done,
      signal: this.#signal,
      warn: (text, cause) => this.#observer.note(text + placeOf(cause), true),
    });
    await this.#parts.witness?.begins(this.#model, this.#template);
    const failed = new FailedSteps();
    for await (const report of loop) {
      if (failed.isFirst(report.rows)) await this.#save();
      const metrics = timed(report, clock());
      if (this.#preset.environmentFile) for (const { trajectory } of report.rows) this.#trained.add(trajectory.task);
      this.#parts.witness?.ended(report);
      this.#store.appendMetrics({ step: this.#globalStep(report.step), phase: "rl", ...metrics });
      if (report.step % TRANSCRIPTS_EVERY === 0) await this.#transcribe(report);
      this.#observer.update(report.step + 1, metrics);
      this.#state = { ...this.#state, done: report.step + 1 };
      await this.#eventLoop.turn();
      if (this.#state.done < steps) await failed.pause({ observer: this.#observer, signal: this.#signal });
      const best = this.#best;
      if (due()) await this.#evaluate(episodes, 1, failed.count > 0 ? undefined : () => this.#save());
      if (failed.count > 0)
        this.#best = best; // nothing is saved here, and the weights are those of an earlier step
      else if (this.#state.done % this.#preset.checkpointEvery === 0 || this.#best !== best) await this.#save();
      await this.#parts.witness?.begins(this.#model, this.#template);
      clock();
    }
    if (failed.count > 0 || this.#state.done % this.#preset.checkpointEvery !== 0) await this.#save();
    if (this.#signal.aborted) return null;
    // Random play takes no steps; its evaluation counts as the one after the last step.
    if (method === "random") this.#state = { ...this.#state, done: steps };
    return this.#evaluateAsPhase("evaluating on held-out tasks").finally(() => this.#prune()); // the last may be best
  }

  /** An evaluation before or after training, as a separate phase. */
  async #evaluateAsPhase(name: string): Promise<Scored | null> {
    this.#observer.phase(name, 1);
    const { finalEpisodes, tries = 1 } = this.#preset.evaluation;
    const score = await this.#evaluate(finalEpisodes, tries);
    if (score !== null) this.#observer.update(1, {}); // otherwise the phase would be shown as not begun
    return score;
  }

  /**
   * Plays held-out tasks and writes a line of metrics; `null` if the run was stopped meanwhile.
   * @param lost called if they cannot be played, to save the trained state; --resume begins with them
   */
  async #evaluate(episodes: number, tries = 1, lost?: () => Promise<void>): Promise<Scored | null> {
    const player = this.#state.phase === "rl" && this.#preset.rl.method === "random" ? "random" : "model";
    const options = { signal: this.#signal, tries, player, reader: this.#trainingState?.reader } as const;
    const playing = this.#experiment.evaluate(this.#model, this.#template, episodes, options);
    const score = await playing.catch(async (error: unknown) => {
      await lost?.();
      throw error;
    });
    if (score === null) return null;
    const line = { step: this.#globalStep(this.#state.done), phase: "eval", ...metricsOfScore(score) } as const;
    this.#store.appendMetrics(line);
    if (player === "model" && isBetter(line, this.#best)) this.#best = line;
    if (this.#state.phase === "rl") this.#state = { ...this.#state, evaluated: this.#state.done };
    const note = this.#state.done === this.#preset.rl.steps && overlapNote(score.trajectories, this.#trained);
    if (note) this.#observer.note(note, true);
    const result = recordOf(score);
    this.#observer.evaluation(this.#state.phase === "rl" ? this.#state.done : 0, result);
    if (player === "model") await this.#transcribeHeldOut(score.trajectories);
    return result;
  }

  async #transcribeHeldOut(episodes: readonly Trajectory[]): Promise<void> {
    const shown = episodes.slice(0, HELD_OUT_SHOWN).filter(({ masked }) => !masked);
    if (shown.length === 0) return;
    const step = this.#globalStep(this.#state.done);
    const { maxObservationTokens } = this.#preset.rollout;
    const records = await describeHeldOut(this.#model, this.#template, shown, step, maxObservationTokens, episodes);
    for (const record of records) this.#store.appendTranscript(record);
    // Each evaluation shows a different task.
    const turn = this.#state.phase === "rl" ? this.#state.done / this.#preset.evaluation.every : 0;
    this.#observer.transcript(records[Math.floor(turn) % records.length]!);
  }

  async #transcribe(report: StepReport): Promise<void> {
    const chosen = pickEpisodes(report.rows);
    if (chosen.length === 0) return;
    const step = this.#globalStep(report.step);
    const played = report.rows.map(({ trajectory }) => trajectory);
    const records = await describeEpisodes(this.#model, this.#template, chosen, "rl", step, played);
    for (const record of records) this.#store.appendTranscript(record);
    this.#observer.transcript(records[0]!);
  }

  /**
   * Saves a checkpoint. The metrics of a step must be written before, because a checkpoint records the lengths of the
   * logs.
   */
  async #save(): Promise<void> {
    const model = this.#model;
    const optimizer = this.#optimizer ?? fail("save: there is no optimiser yet");
    const state: State = { ...this.#state, optimizerStep: optimizer.state.step, seconds: this.#seconds() };
    this.#store.saveCheckpoint(this.#globalStep(this.#state.done), {
      ...(await filesOfModel({ model, tokenizer: this.#template.tokenizer }, partsToSave(this.#preset, this.#state))),
      ...(await optimizerToFiles(model.config, optimizer)),
      ...(await this.#trainingState?.files()),
      "state.json": JSON.stringify(state),
    });
    this.#prune();
  }

  #prune(): void {
    this.#store.pruneCheckpoints(CHECKPOINTS_KEPT, this.#best?.step);
  }

  /** The wall time of the run so far, including earlier sessions. */
  #seconds(): number {
    return this.#earlierSeconds + (performance.now() - this.#started) / 1000;
  }

  /** The number of steps since the start of the run. */
  #globalStep(step: number): number {
    return this.#state.phase === "sft" ? step : this.#preset.sft.steps + step;
  }

  dispose(): void {
    this.#eventLoop.close();
    this.#optimizer?.dispose();
    this.#trainingState?.dispose();
    if (this.#model) for (const x of treeLeaves(this.#model.params)) x.dispose();
  }
}
