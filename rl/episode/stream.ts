/**
 * The central data structure of the RL layer: an episode as a sequence of tokens, each with the role of its writer.
 *
 * The token ids are the data, and text is only decoded from them: nothing that a model sampled is ever tokenised again.
 * Every method is a table *role → (loss, weight)* over this stream.
 */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";

/**
 * The roles of tokens. The model sampled `thought` and `action` (its end-of-turn token included). `prompt` is the task,
 * and any action that was given and not sampled. `observation` is the environment's answer, `scaffold` are the tags of
 * the chat template, and `pad` fills batches.
 */
export const ROLES = ["prompt", "thought", "action", "observation", "scaffold", "pad"] as const;
/** The role of a token: one of `ROLES`. Only `thought` and `action` tokens can be in the policy term of a loss. */
export type Role = (typeof ROLES)[number];

/** The reasons why an episode ends. */
export const STOP_REASONS = [
  "completed", // the environment said done
  "max_turns",
  "max_tokens", // one action grew longer than allowed
  "context_overflow", // the next observation or action would not fit into the context
  "parse_error", // a strict template found no action in the model's text
  "tool_error", // the environment threw: the whole episode is masked
  "timeout", // the environment took too long: the whole episode is masked
  "aborted", // the run was stopped: the whole episode is masked
] as const;
/** The reason why an episode ended: one of `STOP_REASONS`. After `tool_error`, `timeout` and `aborted` it is masked. */
export type StopReason = (typeof STOP_REASONS)[number];

/** Whether the episode ran out of tokens, a limit that the environment does not know of. */
export const isTruncated = ({ stopReason }: { readonly stopReason: StopReason }): boolean =>
  stopReason === "max_tokens" || stopReason === "context_overflow";

/**
 * Whether the agent's text ended the episode before the environment could judge it: it ran out of tokens, or a strict
 * template found no action.
 */
export const isCutShort = ({ stopReason }: { readonly stopReason: StopReason }): boolean =>
  isTruncated({ stopReason }) || stopReason === "parse_error";

const FAILED: ReadonlySet<StopReason> = new Set(["tool_error", "timeout", "aborted"]);

/**
 * Whether the environment failed or the run was stopped. Then neither the answers nor the outcome mean anything, and
 * the episode is masked.
 */
export const hasFailed = ({ stopReason }: { readonly stopReason: StopReason }): boolean => FAILED.has(stopReason);

/** What environments threw, by the streams of their episodes: for whoever looks for the reason, not for records. */
const causes = new WeakMap<TokenStream, unknown>();
export const keepCause = (stream: TokenStream, cause: unknown): void => void causes.set(stream, cause);
/** What the environment of this episode threw, with its stack, if it did so in this process. */
export const causeOf = (stream: TokenStream): unknown => causes.get(stream);

/** From position `at` of a stream on, the model has read `ids` in the place of what stands before `at`. */
export interface Context {
  readonly at: number;
  readonly ids: readonly number[];
}

/** Tokens of one episode, as columns of equal length T. */
export interface TokenStream {
  readonly ids: number[];
  readonly roles: Role[];
  /** The turn that a token belongs to. The prompt and the first action are in turn 0. */
  readonly turns: number[];
  /** For sampled tokens the log-probability at the sampling temperature, over the whole vocabulary; 0 for others. */
  readonly oldLogProbs: number[];
  /** The temperature that a token was sampled at; 1 for tokens that were not sampled. */
  readonly temperatures: number[];
  /**
   * The number of training steps of the policy that drew a token; −1 for tokens that were not sampled. It may change
   * within an episode.
   */
  readonly versions: number[];
  /**
   * Whether a world model may be trained on a token: true for the tokens of an answer, false for warnings of the
   * harness. The marker in an answer that was cut is such a warning; the token right behind the gap, which nobody can
   * predict, is no target either.
   */
  readonly targets: boolean[];
  /** Where the model began to read something else than all that came before, in order; default nowhere. */
  contexts?: readonly Context[];
}

/** A stream without tokens. */
export const emptyStream = (): TokenStream => ({
  ids: [],
  roles: [],
  turns: [],
  oldLogProbs: [],
  temperatures: [],
  versions: [],
  targets: [],
});

type Read = Pick<TokenStream, "ids" | "contexts">;

/** The parts of a stream that were read with one context each, in order: tokens `from` to `to`, behind `ids`. */
export function readParts({
  ids,
  contexts = [],
}: Read): { readonly ids: readonly number[]; from: number; to: number }[] {
  const starts = [{ at: 0, ids: [] }, ...contexts];
  return starts.map(({ at, ids: before }, i) => ({ ids: before, from: at, to: starts[i + 1]?.at ?? ids.length }));
}

/** What the model has read when it comes to position `end`. */
export function readBefore({ ids, contexts = [] }: Read, end: number = ids.length): number[] {
  const last = contexts.findLast(({ at }) => at <= end);
  return [...(last?.ids ?? []), ...ids.slice(last?.at ?? 0, end)];
}

/** The number of tokens in the longest part: the positions that a model needs for the episode. */
export const longestRead = (stream: Read): number =>
  Math.max(...readParts(stream).map(({ ids, from, to }) => ids.length + to - from));

/**
 * The record that `append` makes of tokens. A list has one entry for each token. By default tokens count as not
 * sampled: log-probability 0, temperature 1, version −1.
 */
export interface AppendOptions {
  readonly oldLogProbs?: readonly number[];
  readonly temperature?: number;
  readonly versions?: readonly number[];
  /** Whether observation tokens may be world-model targets: all of them, or one by one. Default true. */
  readonly target?: boolean | readonly boolean[];
}

/** Appends tokens of one role and turn. */
export function append(
  stream: TokenStream,
  role: Role,
  turn: number,
  ids: readonly number[],
  { oldLogProbs, temperature = 1, versions, target = true }: AppendOptions = {},
): void {
  check(
    oldLogProbs === undefined || oldLogProbs.length === ids.length,
    () => `append: expected a log-probability for each of ${ids.length} tokens, got ${oldLogProbs?.length}`,
  );
  const isList: boolean = Array.isArray(ids);
  check(isList, () => `append: the tokenizer gave ${showValue(ids)} for the ids of a text`);
  const wrong = ids.findIndex((id) => !Number.isInteger(id) || id < 0);
  check(
    wrong < 0,
    () =>
      `append: the tokenizer gave ${showValue(ids[wrong])} as an id (${role}, turn ${turn}), expected an integer ` +
      "≥ 0; does it know every character?",
  );
  ids.forEach((id, i) => {
    stream.ids.push(id);
    stream.roles.push(role);
    stream.turns.push(turn);
    stream.oldLogProbs.push(oldLogProbs?.[i] ?? 0);
    stream.temperatures.push(temperature);
    stream.versions.push(versions?.[i] ?? -1);
    stream.targets.push(role === "observation" && (typeof target === "boolean" ? target : target[i]!));
  });
}

/** One episode with its outcome. */
export interface Trajectory {
  readonly stream: TokenStream;
  /** Episodes of the same task share this number; advantages compare them with each other. */
  readonly group: number;
  /**
   * The return of the episode, NaN if it could not be scored. As played it is `returnOf`; training replaces it where
   * `truncatedReward` applies, and a `reward` function replaces all.
   */
  readonly reward: number;
  /**
   * True: the return is a bound from above, since the episode was cut short and no other of its batch came to an end
   * with which to compare it (`truncatedReward`).
   */
  readonly rewardIsBound?: boolean;
  /**
   * The reward of each step of the environment, in order. A reward for an end from outside is in that of the last turn,
   * which may have no answer.
   */
  readonly stepRewards: readonly number[];
  readonly stopReason: StopReason;
  /** True: nothing of the episode is trained, because the environment failed or the run was stopped. */
  readonly masked: boolean;
  /** True: the environment was told of the end from outside and scored it, so that no option replaces the return. */
  readonly scoredAtEnd?: boolean;
  readonly env: string;
  readonly task: string;
  readonly seed: number;
  /** Facts from the environment's last step (family, level, success, …). */
  readonly info: Readonly<Record<string, number | string | boolean>>;
  /**
   * Rows of one rollout share this number. If the history of an episode is rewritten (a fork), its tokens do not
   * continue those before: a new row starts, in which the text that the model saw stands as `prompt`. Rewards, turns
   * and statistics belong to the rollout. Default: the row is a rollout by itself.
   */
  readonly rollout?: number;
  /**
   * The components of the return by name, unweighted, for metrics and for estimators that compare components; NaN if
   * one could not be scored.
   */
  readonly rewardParts?: Readonly<Record<string, number>>;
  /** The return without shaping, if the return contains shaping; see `outcomeOf`. */
  readonly outcome?: number;
  /** The reward of each token, where rewards are known more finely than per step; see `rewardsOfTokens`. */
  readonly tokenRewards?: ArrayLike<number>;
  /** A critic's estimate of how much each token caused the outcome; see `outcomeCritic`. */
  readonly tokenShares?: readonly number[];
  /**
   * The return of the greedy rollout of the same task, ReMax's baseline; NaN if that rollout failed or could not be
   * scored.
   */
  readonly greedyReward?: number;
}

/** The sum of the step rewards: the environment's payment. */
export const paid = ({ stepRewards }: Pick<Trajectory, "stepRewards">): number =>
  stepRewards.reduce((a, b) => a + b, 0);

/**
 * The return of an episode as it was played: the sum of its step rewards, but at most 0 if it was cut short and the
 * environment has not scored that. With rewards of 0 or 1 at the end it is 0 then (arXiv 2605.24517).
 */
export const returnOf = (episode: Pick<Trajectory, "stepRewards" | "stopReason" | "scoredAtEnd">): number =>
  isCutShort(episode) && !episode.scoredAtEnd ? Math.min(0, paid(episode)) : paid(episode);

/**
 * The outcome of an episode: its return without shaping. It decides whether an episode succeeded and whether the
 * episodes of a group differ. Shaping (the form of an action, say) varies in nearly every group, so returns have spread
 * even where outcomes are equal.
 */
export const outcomeOf = ({ outcome, reward }: Pick<Trajectory, "outcome" | "reward">): number => outcome ?? reward;

/** Whether the model sampled tokens of this role. */
export const isAgentToken = (role: Role): boolean => role === "action" || role === "thought";

/** The rows (positions in the list) of each rollout, in order of first appearance. */
export function rolloutRows(trajectories: readonly Pick<Trajectory, "rollout">[]): number[][] {
  const rows: number[][] = [];
  const known = new Map<number, number[]>();
  trajectories.forEach(({ rollout }, i) => {
    const earlier = rollout === undefined ? undefined : known.get(rollout);
    if (earlier) return void earlier.push(i);
    const ofRollout = [i];
    rows.push(ofRollout);
    if (rollout !== undefined) known.set(rollout, ofRollout);
  });
  return rows;
}

/** The place of an agent's token: its row in the list of trajectories, its position in the row, and its turn. */
export interface TokenPlace {
  readonly row: number;
  readonly t: number;
  readonly turn: number;
}

/**
 * A rollout as estimators read it: its reward, and the agent's trained tokens in order, without the tokens between
 * them.
 */
export interface Rollout {
  readonly rows: readonly number[];
  readonly group: number;
  readonly reward: number;
  /** True if no row is masked and the reward is not NaN; others are in no statistics and not in the policy term. */
  readonly scorable: boolean;
  readonly first: Trajectory;
  readonly tokens: readonly TokenPlace[];
}

/** The rollouts of these rows, in order of first appearance. */
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
 * The reward of each turn of the environment, from turn 0 on; they sum to the return. Turns whose action was given (by
 * an expert or by exploration) are among them. The policy's last turn also gets the difference between the return and
 * the sum of the step rewards (shaping, or the end of an episode that was cut short). Where such an episode has a
 * return above the sum of its step rewards, the last turn gets all of it and the others nothing: its costs are void
 * (`truncatedReward`), and the tokens that ran out of room must not be praised for them.
 */
export function rewardsOfTurns(
  { tokens, first, rows, reward }: Rollout,
  trajectories: readonly Trajectory[],
): number[] {
  const last = tokens.at(-1)?.turn;
  if (last === undefined) return [...first.stepRewards]; // no turn of the policy can get the difference
  const turns = Math.max(first.stepRewards.length, last + 1);
  if (rows.every((row) => trajectories[row]!.tokenRewards)) {
    const rewards = new Array<number>(turns).fill(0);
    for (const { row, t, turn } of tokens) rewards[turn]! += trajectories[row]!.tokenRewards![t]!;
    return rewards;
  }
  const rewards = Array.from({ length: turns }, (_, turn) => first.stepRewards[turn] ?? 0);
  const rest = reward - rewards.reduce((a, b) => a + b, 0);
  const isVoid = rest > 0 && isCutShort(first) && !first.scoredAtEnd && first.rewardParts === undefined;
  if (isVoid) return rewards.map((_, turn) => (turn === last ? reward : 0));
  // A difference that is only rounding, as between 0.1 + 0.2 and 0.3, is not a reward.
  if (Math.abs(rest) > 1e-12 * Math.max(1, Math.abs(reward))) rewards[last]! += rest;
  return rewards;
}

/**
 * The reward of each of the rollout's tokens. If the trajectories do not give it per token, the reward of a turn is on
 * the last token of its action. If the action of a turn was given, the reward is on the policy's last token before that
 * turn, as if the environment's answer to that token had just been longer. So it counts in the returns of earlier
 * tokens and not in those of later ones. A reward before the policy's first token counts for no token.
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

/** The number of turns in which the agent acted. */
export function turnCount({ stream }: Trajectory): number {
  return new Set(stream.turns.filter((_, t) => isAgentToken(stream.roles[t]!))).size;
}

/** The number of tokens that the model sampled. */
export function sampledCount({ stream }: Trajectory): number {
  return stream.roles.filter(isAgentToken).length;
}

/**
 * The policy mask: which tokens were sampled; none in a masked episode. Position 0 is never trained, because no
 * position predicts it.
 * @returns one boolean per token
 */
export function policyMask({ stream, masked }: Trajectory): boolean[] {
  return stream.roles.map(isAgentToken).fill(false, 0, masked ? undefined : 1);
}

/** The number of tokens of these episodes. */
export const tokensIn = (trajectories: readonly Trajectory[]): number =>
  trajectories.reduce((n, { stream }) => n + stream.ids.length, 0);
