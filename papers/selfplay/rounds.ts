/**
 * The parts that both kinds of self-play share: asking for proposals, having tasks solved, and reading the results. A
 * proposal, like a solution, is an episode of the environment `riddle`, played by the same model; the task that it
 * makes is in the info of its last step.
 */
import type { Rng } from "../../engine/index.ts";
import {
  drawRiddle,
  proposingTask,
  type Riddle,
  type RiddleKind,
  solvingTask,
  taskWorld,
} from "../../environments/riddle/selfPlay.ts";
import type { Trajectory } from "../../rl/episode/stream.ts";
import type { EpisodeRequest, RolloutOptions } from "../../rl/play/rollout.ts";
import type { PlayEpisodes } from "../../rl/tasks/play.ts";
import type { RlOptions } from "../../rl/train/loop.ts";
import { type KeptRiddle, PROPOSAL_REWARDS, type SelfPlayBuffer } from "./options.ts";

/** The number of earlier tasks that a proposer sees. */
const SHOWN = { references: 2 };

/** The task of the buffer before the first proposal: the identity, as in Absolute Zero. */
const IDENTITY: Readonly<Record<RiddleKind, Riddle>> = {
  deduction: { kind: "deduction", program: "x", inputs: [5], outputs: [5] },
  abduction: { kind: "abduction", program: "x", inputs: [5], outputs: [5] },
  induction: { kind: "induction", program: "x", inputs: [5, 3, 8, 2], outputs: [5, 3, 8, 2] },
};

/** A task that has been proposed earlier, or the identity. */
export function drawKept(buffer: SelfPlayBuffer, kind: RiddleKind, rng: Rng): KeptRiddle {
  const kept = buffer.of(kind);
  return kept.length === 0 ? { riddle: IDENTITY[kind] } : rng.choice(kept);
}

/** A proposal, and the task that it makes, if it makes one. */
export interface Proposal {
  readonly episode: Trajectory;
  /** Undefined if it makes no task. */
  readonly riddle: Riddle | undefined;
  readonly isWellFormed: boolean;
}

/** The model that plays the episodes, and how it plays. */
export interface Rounds {
  readonly playEpisodes: PlayEpisodes;
  readonly rollout: RolloutOptions;
}

/** The properties of a run that a source of episodes needs. */
export interface SelfPlayed extends Rounds, Pick<RlOptions, "groups" | "groupSize" | "rng"> {}

/** Has the model propose a task of each of these kinds. The group of a proposal is its place in the list. */
export async function propose(
  { playEpisodes, rollout: sampling }: Rounds,
  kinds: readonly RiddleKind[],
  buffer: SelfPlayBuffer,
  rng: Rng,
  version: number,
): Promise<Proposal[]> {
  const requests = kinds.map((kind, group): EpisodeRequest => {
    const draw = rng.split("references").split(group);
    // To propose an induction the model gets a program, from a task of any kind.
    const from = kind === "induction" ? draw.choice(["deduction", "abduction", "induction"] as const) : kind;
    const references = Array.from({ length: SHOWN.references }, () => drawKept(buffer, from, draw).riddle);
    const spec = taskWorld(proposingTask(kind, references));
    return { spec, options: {}, seed: group, group, rng: rng.split("proposal").split(group) };
  });
  const episodes = await playEpisodes(requests, { ...sampling, version });
  return episodes.map((played) => {
    const { form, riddle } = played.info;
    // A proposal of a held-out program is not learnt from at all, not even as something to avoid.
    const episode = form === "held out" ? { ...played, masked: true } : played;
    const isWellFormed = form === "valid" || form === "void";
    const task = form === "valid" ? (JSON.parse(String(riddle)) as Riddle) : undefined;
    return { episode, riddle: task, isWellFormed };
  });
}

/** Tasks of the generator, which replace proposals. */
export const generated = (kinds: readonly RiddleKind[], rng: Rng): Riddle[] =>
  kinds.map((kind, i) => drawRiddle(rng.split("generated").split(i), kind));

/**
 * Has each task tried `attempts` times.
 * @param first the group of the first task
 * @returns the attempts, task by task
 */
export async function solve(
  { playEpisodes, rollout: sampling }: Rounds,
  riddles: readonly Riddle[],
  attempts: number,
  rng: Rng,
  { version, first }: Required<Pick<RolloutOptions, "version">> & { readonly first: number },
): Promise<Trajectory[][]> {
  const requests = riddles.flatMap((riddle, i) => {
    const spec = taskWorld(solvingTask(riddle));
    return Array.from({ length: attempts }, (_, k): EpisodeRequest => {
      const own = rng.split("attempt").split(i * attempts + k);
      return { spec, options: {}, seed: i, group: first + i, rng: own };
    });
  });
  const episodes = await playEpisodes(requests, { ...sampling, version });
  return riddles.map((_, i) => episodes.slice(i * attempts, (i + 1) * attempts));
}

/** Whether the episode ended with an answer that can be read. */
export const isAnswered = ({ stopReason, info }: Trajectory): boolean =>
  stopReason === "completed" && info["form"] === "answer";

/** The episode with this return in place of the environment's. */
export const paid = (t: Trajectory, reward: number): Trajectory => ({ ...t, reward });

/** The reward of a valid proposal: `learnt`, or in a control 0.5 or chance, which do not depend on the solver. */
export function controlReward(reward: (typeof PROPOSAL_REWARDS)[number], learnt: number, rng: Rng): number {
  if (reward === "learnability") return learnt;
  return reward === "constant" ? 0.5 : rng.uniform();
}
