/** Exercises of chapter 5: the weights of the tokens, the slope of the clipped loss, and an agent to train. */
import {
  aggregationWeights,
  device,
  emptyStream,
  grad,
  policyMask,
  ppoClip,
  Rng,
  type Role,
  sum,
  tensor,
  type Tensor,
  type Trajectory,
} from "../../index.ts";
import { expectClose } from "./expect.ts";

/**
 * # The weights of the tokens
 *
 * A batch of episodes is given as the roles of their tokens: `prompt`, `thought`, `action`, `observation`, `scaffold`.
 * Return the weight of each token in GRPO's loss with the token mean, a list for each episode: 1 / N for the tokens
 * that the agent drew, where N is the number of all of them in the batch, and 0 for the others. The agent draws
 * actions, and `thought` tokens, too (the chapter's agent has none). Token 0 of an episode is never trained, because
 * nothing stands before it that could predict it.
 *
 * @difficulty 1
 * @hint Make a mask first, true where a token counts. N is the number of trues in *all* episodes.
 */
export function exercise1(episodes: readonly (readonly Role[])[]): number[][] {
  throw new Error(`write me: ${episodes.length} episodes came`);
}

export function check1(answer: typeof exercise1): void {
  const of = (roles: string): Role[] => Array.from(roles, (letter) => ROLE_OF[letter]!);
  for (const batch of [["psaasosaas"], ["psaasoosa", "psttaasos"], ["aasos", "ppsa"], ["psa", "psas"]]) {
    const roles = batch.map(of);
    const wanted = aggregationWeights(
      roles.map((own) => policyMask(episodeOf(own))),
      "token-mean",
    );
    const got = answer(roles);
    if (!Array.isArray(got) || got.length !== roles.length || got.some((row) => !Array.isArray(row)))
      throw new Error(`expected a list of numbers for each of ${roles.length} episodes, got ${JSON.stringify(got)}`);
    wanted.forEach((row, i) =>
      expectClose(got[i]!, row, `the weights of the episode with the roles ${roles[i]!.join(" ")}`),
    );
  }
}

const ROLE_OF: Readonly<Record<string, Role>> = {
  p: "prompt",
  t: "thought",
  a: "action",
  o: "observation",
  s: "scaffold",
};

/** An episode with these roles; all else is empty. */
function episodeOf(roles: Role[]): Trajectory {
  const stream = { ...emptyStream(), ids: roles.map(() => 0), roles };
  const outcome = { group: 0, reward: 0, stepRewards: [], stopReason: "completed", masked: false } as const;
  return { stream, ...outcome, env: "none", task: "", seed: 0, info: {} };
}

export function solution1(episodes: readonly (readonly Role[])[]): number[][] {
  const masks = episodes.map((roles) => roles.map((role, t) => t > 0 && (role === "action" || role === "thought")));
  const N = masks.flat().filter(Boolean).length;
  return masks.map((mask) => mask.map((isAgents) => (isAgents ? 1 / N : 0)));
}

export const wrong1 = [
  function observationsToo(episodes: readonly (readonly Role[])[]): number[][] {
    const masks = episodes.map((roles) => roles.map((role, t) => t > 0 && role !== "prompt" && role !== "scaffold"));
    const N = masks.flat().filter(Boolean).length;
    return masks.map((mask) => mask.map((isAgents) => (isAgents ? 1 / N : 0)));
  },
  function withoutThoughts(episodes: readonly (readonly Role[])[]): number[][] {
    const masks = episodes.map((roles) => roles.map((role, t) => t > 0 && role === "action"));
    const N = masks.flat().filter(Boolean).length;
    return masks.map((mask) => mask.map((isAgents) => (isAgents ? 1 / N : 0)));
  },
  function meanOfEachEpisode(episodes: readonly (readonly Role[])[]): number[][] {
    return episodes.map((roles) => {
      const mask = roles.map((role, t) => t > 0 && (role === "action" || role === "thought"));
      const N = mask.filter(Boolean).length;
      return mask.map((isAgents) => (isAgents ? 1 / (N * episodes.length) : 0));
    });
  },
  function firstTokenToo(episodes: readonly (readonly Role[])[]): number[][] {
    const masks = episodes.map((roles) => roles.map((role) => role === "action" || role === "thought"));
    const N = masks.flat().filter(Boolean).length;
    return masks.map((mask) => mask.map((isAgents) => (isAgents ? 1 / N : 0)));
  },
];

/**
 * # The slope of the clipped loss
 *
 * With the ratio ρ = e^(log p − old), return the derivative of
 *
 *     −min(ρ A, clip(ρ, 1 − low, 1 + high) A)
 *
 * with respect to log p, where log p is that of now and old stays. Think of the cases: A above or below 0; ρ below its
 * bounds, within them or above them. In two of the six the slope is 0.
 *
 * @difficulty 1
 * @hint Where the clip is active its side of the minimum is constant: slope 0.
 * @hint Elsewhere the loss is −ρ A, and ∂ρ/∂log p is ρ.
 */
export function exercise2(ratio: number, A: number, low: number, high: number): number {
  throw new Error(`write me: a ratio of ${ratio}, A = ${A}, bounds ${1 - low} and ${1 + high} came`);
}

export async function check2(answer: typeof exercise2): Promise<void> {
  const on = await device("reference");
  const [low, high] = [0.2, 0.28];
  const clipped = ppoClip({ epsilon: low, epsilonHigh: high });
  const list = (x: number): Tensor => tensor([x], { device: on });
  const segments = { ids: tensor([0], { device: on, dtype: "i32" }), count: 1 };
  for (const A of [1.5, -0.5, 0]) {
    for (const ratio of [0.5, 0.79, 0.9, 1, 1.27, 1.5]) {
      const given = { oldLogProbs: list(-2), advantages: list(A), mask: list(1), segments };
      const slope = grad((logProbs: Tensor) => sum(clipped.tokenLoss({ logProbs, ...given })))(
        list(-2 + Math.log(ratio)),
      );
      const wanted = await slope.item();
      expectClose(answer(ratio, A, low, high), wanted, `the slope where ρ is ${ratio} and A is ${A}`);
    }
  }
}

export function solution2(ratio: number, A: number, low: number, high: number): number {
  const isClipped = A > 0 ? ratio > 1 + high : ratio < 1 - low;
  return isClipped ? 0 : -ratio * A;
}

export const wrong2 = [
  function withoutTheRatio(ratio: number, A: number, low: number, high: number): number {
    return (A > 0 ? ratio > 1 + high : ratio < 1 - low) ? 0 : -A;
  },
  function clippedOnBothSides(ratio: number, A: number, low: number, high: number): number {
    return ratio < 1 - low || ratio > 1 + high ? 0 : -ratio * A;
  },
  function neverClipped(ratio: number, A: number): number {
    return -ratio * A;
  },
  function otherSign(ratio: number, A: number, low: number, high: number): number {
    return (A > 0 ? ratio > 1 + high : ratio < 1 - low) ? 0 : ratio * A;
  },
];

/** Scores of the guesses 1, 2 and 3 in each state; the policy draws by their softmax. Without scores all are 0. */
export type Scores = Record<string, [number, number, number]>;

/** A game that was played: the state and the guess (0, 1 or 2 for the numbers 1, 2 and 3) of each move, the reward. */
export interface Game {
  readonly moves: readonly { readonly state: string; readonly guess: number }[];
  readonly reward: number;
}

/**
 * # Train it
 *
 * The chapter's world with a policy that is a table: in the state `?` it makes its first guess, and in `1>`, `2<` and
 * so on its second, after what the world answered. `play(scores, secret)` plays a game, with 1, 2 or 3 to be found.
 * Train: play groups, change the scores after each, and return them. You have 6,000 games. The check computes how
 * often your policy finds the number if it draws from its scores: at least 93 of 100 games. Listening alone finds 78
 * of 100; the rest is to begin with the right guess.
 *
 * @difficulty 3
 * @hint One step: a secret, a group of 8 games with it, A = reward − mean of the group. Then every move of a game
 * pulls its state's scores by A.
 * @hint ∂log p(guess) / ∂score_k = [k = guess] − p_k, with p the softmax of the state's scores: add rate · A · ([k
 * = guess] − p_k) to score k. Rates from 0.03 to 3 work in this small world.
 */
export function exercise3(play: (scores: Scores, secret: number) => Game): Scores {
  const scores: Scores = {};
  for (let step = 0; step < 100; step++) {
    const group = Array.from({ length: 8 }, () => play(scores, 1 + (step % 3)));
    for (const { moves, reward } of group) {
      for (const { state, guess } of moves) (scores[state] ??= [0, 0, 0])[guess]! += reward;
    }
  }
  return {};
}

const GAMES = 6000;

export function check3(answer: typeof exercise3): void {
  for (const seed of [0, 1, 2]) {
    const rng = new Rng(seed);
    let games = 0;
    const play = (scores: Scores, secret: number): Game => {
      if (++games > GAMES) throw new Error(`expected at most ${GAMES} games, got more`);
      if (![1, 2, 3].includes(secret)) throw new Error(`play: expected the secret 1, 2 or 3, got ${String(secret)}`);
      const moves: { state: string; guess: number }[] = [];
      for (let state = "?"; ;) {
        const u = rng.uniform();
        const [one, two] = probabilities(scores[state], state);
        const guess = u < one! ? 0 : u < one! + two! ? 1 : 2;
        moves.push({ state, guess });
        if (guess + 1 === secret) return { moves, reward: 1 };
        if (moves.length === 2) return { moves, reward: 0 };
        state = answered(guess, secret);
      }
    };
    const scores = answer(play);
    if (games < 100) throw new Error(`expected a policy that was trained by playing, got one after ${games} games`);
    const found = mean([1, 2, 3].map((secret) => chance(scores, secret)));
    const shown = `${(100 * found).toFixed(0)} of 100`;
    if (!(found >= 0.93))
      throw new Error(`expected to find the number in 93 of 100 games, got ${shown} (seed ${seed})`);
  }
}

const mean = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0) / x.length;
/** What the world answers: the guess, and whether the number is greater. */
const answered = (guess: number, secret: number): string => `${guess + 1}${guess + 1 < secret ? ">" : "<"}`;

/** The softmax of a state's scores. @throws Error if they are no numbers */
function probabilities(scores: readonly number[] = [0, 0, 0], state: string): number[] {
  if (scores.length !== 3 || !scores.every(Number.isFinite))
    throw new Error(`the scores of ${state}: expected three finite numbers, got ${JSON.stringify(scores)}`);
  const most = Math.max(...scores);
  const e = scores.map((x) => Math.exp(x - most));
  return e.map((x) => x / e.reduce((a, b) => a + b));
}

/** The probability that a policy finds a number. */
function chance(scores: Scores, secret: number): number {
  const first = probabilities(scores["?"], "?");
  return first.reduce((sum, p, guess) => {
    if (guess + 1 === secret) return sum + p;
    const state = answered(guess, secret);
    return sum + p * probabilities(scores[state], state)[secret - 1]!;
  }, 0);
}

export function solution3(play: (scores: Scores, secret: number) => Game): Scores {
  const scores: Scores = {};
  for (let step = 0; step < 750; step++) {
    const group = Array.from({ length: 8 }, () => play(scores, 1 + (step % 3)));
    const baseline = group.reduce((sum, { reward }) => sum + reward, 0) / group.length;
    for (const { moves, reward } of group) {
      for (const { state, guess } of moves) {
        const own = (scores[state] ??= [0, 0, 0]);
        const e = own.map((x) => Math.exp(x));
        const total = e.reduce((a, b) => a + b);
        for (const k of [0, 1, 2]) own[k]! += 0.3 * (reward - baseline) * (Number(k === guess) - e[k]! / total);
      }
    }
  }
  return scores;
}

/** Trains as the solution does, with a rate and an advantage of its own, in some of the moves. */
const trainedWith =
  (rate: number, weigh: (reward: number, baseline: number) => number, from = 0, steps = 750): typeof exercise3 =>
  (play) => {
    const scores: Scores = {};
    for (let step = 0; step < steps; step++) {
      const group = Array.from({ length: 8 }, () => play(scores, 1 + (step % 3)));
      const baseline = mean(group.map(({ reward }) => reward));
      for (const { moves, reward } of group) {
        for (const { state, guess } of moves.slice(from)) {
          const own = (scores[state] ??= [0, 0, 0]);
          const p = probabilities(own, state);
          for (const k of [0, 1, 2]) own[k]! += rate * weigh(reward, baseline) * (Number(k === guess) - p[k]!);
        }
      }
    }
    return scores;
  };

export const wrong3: readonly (typeof exercise3)[] = [
  () => ({ "?": [0, 50, 0], "2<": [50, 0, 0], "2>": [0, 0, 50] }), // made by hand
  trainedWith(0, () => 0), // guesses blindly
  trainedWith(0.3, (reward, baseline) => baseline - reward), // the other sign
  trainedWith(0.3, (reward, baseline) => reward - baseline, 1), // learns to listen only
  trainedWith(0.005, (reward, baseline) => reward - baseline), // too small a rate
  trainedWith(0.3, (reward, baseline) => reward - baseline, 0, 1500), // too many games
  trainedWith(0.3, () => 1), // makes everything likelier that was done
  trainedWith(NaN, (reward) => reward), // no numbers
];
