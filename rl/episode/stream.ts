/**
 * The one data structure of the RL layer: what happened in an episode, token by token, with who wrote each token.
 *
 * Token ids are the truth and text is a view of them: nothing that a model sampled is ever tokenised again. Every method is a
 * table *role → (loss, weight)* over this stream.
 */
import { check } from "../../engine/errors.ts";

/**
 * Who wrote a token. `thought` and `action` were sampled by the model (its end-of-turn token included); `prompt` is the task, and
 * any action that was given and not sampled; `observation` what the environment answered, `scaffold` the tags of the chat
 * template; `pad` fills batches.
 */
export const ROLES = ["prompt", "thought", "action", "observation", "scaffold", "pad"] as const;
export type Role = (typeof ROLES)[number];

/** Why an episode ended. */
export const STOP_REASONS = [
  "completed", // the environment said done
  "max_turns",
  "max_tokens", // one action grew longer than allowed
  "context_overflow", // the next observation or action would not fit into the context
  "parse_error", // a strict template found no action in what the model wrote
  "tool_error", // the environment threw: the whole episode is masked
  "timeout", // the environment took too long: the whole episode is masked
  "aborted", // the run was stopped: the whole episode is masked
] as const;
export type StopReason = (typeof STOP_REASONS)[number];

/** Cut short for want of tokens, by a limit that the environment does not know of. */
export const isTruncated = ({ stopReason }: { readonly stopReason: StopReason }): boolean =>
  stopReason === "max_tokens" || stopReason === "context_overflow";

const FAILED: ReadonlySet<StopReason> = new Set(["tool_error", "timeout", "aborted"]);

/** The environment failed, or the run was stopped: neither the answers nor the outcome mean anything, and the episode is masked. */
export const hasFailed = ({ stopReason }: { readonly stopReason: StopReason }): boolean => FAILED.has(stopReason);

/** Tokens of one episode, as columns of equal length T. */
export interface TokenStream {
  readonly ids: number[];
  readonly roles: Role[];
  /** Turn that a token belongs to; the prompt is turn 0 as the first action is. */
  readonly turns: number[];
  /** Sampled tokens: log-probability at the sampling temperature over the whole vocabulary. Others: 0. */
  readonly oldLogProbs: number[];
  /** Temperature that a token was sampled at; 1 for what nobody sampled. */
  readonly temperatures: number[];
  /** Steps of learning behind the policy that drew a token; −1 for what nobody sampled. One episode may hold several. */
  readonly versions: number[];
  /** Observation tokens that a world model may be trained on: the body of the answer, no warnings of the harness. */
  readonly targets: boolean[];
}

export const emptyStream = (): TokenStream => ({
  ids: [],
  roles: [],
  turns: [],
  oldLogProbs: [],
  temperatures: [],
  versions: [],
  targets: [],
});

export interface AppendOptions {
  readonly oldLogProbs?: readonly number[];
  readonly temperature?: number;
  readonly versions?: readonly number[];
  /** Observation tokens only: whether they may be world-model targets. Default true. */
  readonly target?: boolean;
}

/** Appends tokens of one role. */
export function append(
  stream: TokenStream,
  role: Role,
  turn: number,
  ids: readonly number[],
  { oldLogProbs, temperature = 1, versions, target = true }: AppendOptions = {},
): void {
  check(
    oldLogProbs === undefined || oldLogProbs.length === ids.length,
    () => `append: ${ids.length} tokens but ${oldLogProbs?.length} log-probabilities`,
  );
  ids.forEach((id, i) => {
    stream.ids.push(id);
    stream.roles.push(role);
    stream.turns.push(turn);
    stream.oldLogProbs.push(oldLogProbs?.[i] ?? 0);
    stream.temperatures.push(temperature);
    stream.versions.push(versions?.[i] ?? -1);
    stream.targets.push(role === "observation" && target);
  });
}

/** One episode with its outcome. */
export interface Trajectory {
  readonly stream: TokenStream;
  /** Episodes of the same task share a group; advantages compare within it. */
  readonly group: number;
  /** The return of the episode; 0 if it ran out of tokens, NaN if it could not be scored. */
  readonly reward: number;
  /** Reward of each step of the environment, in order. */
  readonly stepRewards: readonly number[];
  readonly stopReason: StopReason;
  /** Nothing of it is trained: the environment failed, so neither its answers nor the outcome mean anything. */
  readonly masked: boolean;
  readonly env: string;
  readonly task: string;
  readonly seed: number;
  /** Facts from the environment's last step (family, level, success, …). */
  readonly info: Readonly<Record<string, number | string | boolean>>;
  /**
   * Rows of one rollout share this number. A history that was rewritten cannot be continued: a new row starts, which repeats what
   * the model saw as `prompt`. Rewards and turns are the rollout's, and so are all statistics. Default: a rollout of one row.
   */
  readonly rollout?: number;
  /** What the return is made of, by name, unweighted; NaN: could not be scored. For metrics, and for estimators that compare it. */
  readonly rewardParts?: Readonly<Record<string, number>>;
  /** The part of the return that is no shaping, where the return has both; see `outcomeOf`. */
  readonly outcome?: number;
  /** Reward of each token, where something finer is known than the reward of a step; see `rewardsOfTokens`. */
  readonly tokenRewards?: ArrayLike<number>;
  /** Return of the greedy rollout of the same task, ReMax's baseline; NaN: that rollout failed, or could not be scored. */
  readonly greedyReward?: number;
}

/**
 * What the episode came to, without what shapes the return on the way there. Success, and whether the episodes of a group differ, are
 * asked of this: form varies in nearly every group, and a group of equal outcomes would pass for one that has something to teach.
 */
export const outcomeOf = ({ outcome, reward }: Pick<Trajectory, "outcome" | "reward">): number => outcome ?? reward;

export const isAgentToken = (role: Role): boolean => role === "action" || role === "thought";

/** The rows (positions in the list) of each rollout, in order of first appearance. */
export function rolloutRows(trajectories: readonly Pick<Trajectory, "rollout">[]): number[][] {
  const rows: number[][] = [];
  const known = new Map<number, number[]>();
  trajectories.forEach(({ rollout }, i) => {
    const earlier = rollout === undefined ? undefined : known.get(rollout);
    if (earlier) return void earlier.push(i);
    const own = [i];
    rows.push(own);
    if (rollout !== undefined) known.set(rollout, own);
  });
  return rows;
}

/** A token of the agent: its row in the list of trajectories, its place in the row, its turn. */
export interface TokenPlace {
  readonly row: number;
  readonly t: number;
  readonly turn: number;
}

/** A rollout as the estimators see it: outcomes, and the agent's trained tokens in order, with everything between them left out. */
export interface Rollout {
  readonly rows: readonly number[];
  readonly group: number;
  readonly reward: number;
  /** Neither masked nor without a reward: it counts in statistics and is trained by the policy term. */
  readonly scorable: boolean;
  readonly first: Trajectory;
  readonly tokens: readonly TokenPlace[];
}

export function rolloutsOf(trajectories: readonly Trajectory[]): Rollout[] {
  return rolloutRows(trajectories).map((rows) => rolloutOf(rows, trajectories));
}

function rolloutOf(rows: readonly number[], trajectories: readonly Trajectory[]): Rollout {
  const first = trajectories[rows[0]!]!;
  const tokens: TokenPlace[] = [];
  for (const row of rows) {
    const { turns } = trajectories[row]!.stream;
    const mask = policyMask(trajectories[row]!);
    for (let t = 0; t < mask.length; t++) if (mask[t]) tokens.push({ row, t, turn: turns[t]! });
  }
  const masked = rows.some((row) => trajectories[row]!.masked);
  const { group, reward } = first;
  return { rows, group, reward, first, tokens, scorable: !masked && !Number.isNaN(reward) };
}

/**
 * Reward of each turn of the environment, from turn 0 on; they sum to the return. Turns that the policy did not write (given by a guide,
 * or by exploration) are among them. What the steps leave of the return (shaping, a truncation) is on the policy's last turn.
 */
export function rewardsOfTurns(
  { tokens, first, rows, reward }: Rollout,
  trajectories: readonly Trajectory[],
): number[] {
  const last = tokens.at(-1)?.turn;
  if (last === undefined) return [...first.stepRewards]; // nobody whom the rest could be paid to
  const turns = Math.max(first.stepRewards.length, last + 1);
  if (rows.every((row) => trajectories[row]!.tokenRewards)) {
    const rewards = new Array<number>(turns).fill(0);
    for (const { row, t, turn } of tokens) rewards[turn]! += trajectories[row]!.tokenRewards![t]!;
    return rewards;
  }
  const rewards = Array.from({ length: turns }, (_, turn) => first.stepRewards[turn] ?? 0);
  const rest = reward - rewards.reduce((a, b) => a + b, 0);
  // Rounding is no reward: 0.1 + 0.2 and 0.3 are the same return.
  if (Math.abs(rest) > 1e-12 * Math.max(1, Math.abs(reward))) rewards[last]! += rest;
  return rewards;
}

/**
 * Reward of each of the rollout's tokens, unless the trajectories say it per token: a turn's reward is on the last token of its action.
 * Of a turn that the policy did not write it is on the policy's last token before that turn: seen from the policy the world answered
 * for longer. So returns of what came before count it, returns of what came after do not; and what was earned before the policy's
 * first token is nobody's.
 */
export function rewardsOfTokens(rollout: Rollout, trajectories: readonly Trajectory[]): number[] {
  const { tokens, rows } = rollout;
  if (rows.every((row) => trajectories[row]!.tokenRewards)) {
    return tokens.map(({ row, t }) => trajectories[row]!.tokenRewards![t]!);
  }
  const rewards = tokens.map(() => 0);
  for (const [turn, reward] of rewardsOfTurns(rollout, trajectories).entries()) {
    const place = tokens.findLastIndex((token) => token.turn <= turn);
    if (place >= 0) rewards[place]! += reward;
  }
  return rewards;
}

/** Number of actions that the agent took. */
export function turnCount({ stream }: Trajectory): number {
  return new Set(stream.turns.filter((_, t) => isAgentToken(stream.roles[t]!))).size;
}

/** Number of tokens that the model sampled. */
export function sampledCount({ stream }: Trajectory): number {
  return stream.roles.filter(isAgentToken).length;
}

/**
 * The policy mask: sampled tokens of an episode that counts. Position 0 has no prediction and is never trained.
 * @returns one boolean per token
 */
export function policyMask({ stream, masked }: Trajectory): boolean[] {
  return stream.roles.map(isAgentToken).fill(false, 0, masked ? undefined : 1);
}
