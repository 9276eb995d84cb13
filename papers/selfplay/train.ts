/**
 * Self-play: a model that makes its own tasks. `trainSelfPlay` is the loop of `trainRl` with another source of episodes
 * (absoluteZero.ts, rZero.ts); objective, optimiser and reports are the same. Tasks that were made are kept in a buffer
 * that is part of the run's state. A run that is resumed with its buffer continues bit for bit.
 */
import { rollout } from "../../rl/play/rollout.ts";
import { checkPlay, type PlayEpisodes } from "../../rl/tasks/play.ts";
import { checkRl, type RlOptions, trainFrom } from "../../rl/train/loop.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { absoluteZero } from "./absoluteZero.ts";
import { checkSelfPlay, SELF_PLAY, type SelfPlayBuffer, type SelfPlayChoice } from "./options.ts";
import { rZero } from "./rZero.ts";

/** Options of `trainSelfPlay`: those of `trainRl`, whose environment is not played, and how tasks are made. */
export interface SelfPlayOptions extends RlOptions {
  readonly selfPlay: SelfPlayChoice;
  /** The tasks that were made so far: save its `state()` with the run. */
  readonly buffer: SelfPlayBuffer;
}

/** Trains with one report per step. @throws on invalid options */
export async function* trainSelfPlay(options: SelfPlayOptions): AsyncGenerator<StepReport, void, void> {
  const { selfPlay, buffer, ...rl } = options;
  checkSelfPlay(selfPlay, rl);
  checkRl(rl);
  checkPlay(rl);
  const settled = SELF_PLAY.read(selfPlay);
  const playEpisodes: PlayEpisodes = (requests, how) => rollout(rl.model, rl.template, requests, how);
  const played = { ...rl, playEpisodes };
  yield* trainFrom(
    rl,
    settled.name === "absolute-zero" ? absoluteZero(played, settled, buffer) : rZero(played, settled, buffer),
  );
}
