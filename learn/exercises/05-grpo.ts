/** Exercises of chapter 5: the weights of the tokens, and the slope of the clipped loss. */
import {
  aggregationWeights,
  device,
  emptyStream,
  grad,
  policyMask,
  ppoClip,
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
 * with respect to log p, where log p is that of now and old stays. Think of the four cases: A above or below 0, ρ
 * above or below its bounds. In two of them the clip does nothing.
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
