/** Exercises of chapter 6: the weights of ECHO, and the slope of PaW's loss. */
import { echo, emptyStream, type Role, type Trajectory } from "../../index.ts";
import { expectClose } from "./expect.ts";

/**
 * # The weights of ECHO
 *
 * A batch of episodes is given as the roles of their tokens (chapter 5): `prompt`, `scaffold`, `thought`, `action` or
 * `observation`. Return the weight of −log p of each token in λ · L_env, a list for each episode. It is 0 for all but
 * `observation` tokens after the first `action` token: what stands before it answers nothing. The mean is over an
 * episode's own answer tokens, then over the episodes that have any: an episode without an answer does not count.
 *
 * @difficulty 1
 * @hint Two denominators: the answer tokens of the episode, and the episodes that have any.
 * @hint A prompt may hold an observation: look for the first `action` of each episode.
 */
export function exercise1(episodes: readonly (readonly Role[])[], lambda: number): number[][] {
  throw new Error(`write me: ${episodes.length} episodes and λ = ${lambda} came`);
}

export function check1(answer: typeof exercise1): void {
  const of = (roles: string): Role[] => Array.from(roles, (letter) => ROLE_OF[letter]!);
  for (const batch of [
    ["psaasoos"],
    ["psasooosaso", "psaso"],
    ["psaso", "psa"],
    ["posasoos", "psaso", "psaa"],
    ["po", "psaso"],
    ["ptasoso", "po"],
  ]) {
    const roles = batch.map(of);
    const wanted = echo({ lambda: 0.3 }).weights(roles.map(episodeOf), 0);
    const got = answer(roles, 0.3);
    if (!Array.isArray(got) || got.length !== roles.length || got.some((row) => !Array.isArray(row)))
      throw new Error(`expected a list of numbers for each of ${roles.length} episodes, got ${JSON.stringify(got)}`);
    const answered = wanted.filter((row) => row.some((weight) => weight > 0)).length;
    const where = `of ${roles.length}, ${answered} of them answered, λ = 0.3`;
    const what = (i: number): string => `episode ${i + 1} ${where}: the weights of the roles ${roles[i]!.join(" ")}`;
    wanted.forEach((row, i) => expectClose(got[i]!, row, what(i)));
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
  const targets = roles.map((role) => role === "observation");
  const stream = { ...emptyStream(), ids: roles.map(() => 0), roles, targets };
  const outcome = { group: 0, reward: 0, stepRewards: [], stopReason: "completed", masked: false } as const;
  return { stream, ...outcome, env: "none", task: "", seed: 0, info: {} };
}

export function solution1(episodes: readonly (readonly Role[])[], lambda: number): number[][] {
  const answers = episodes.map((roles) => {
    const first = roles.indexOf("action");
    return roles.map((role, t) => role === "observation" && first >= 0 && t > first);
  });
  const answered = answers.filter((own) => own.includes(true)).length;
  return answers.map((own) => {
    const count = own.filter(Boolean).length;
    return own.map((isAnswer) => (isAnswer ? lambda / (answered * count) : 0));
  });
}

export const wrong1 = [
  function meanOverAllTokens(episodes: readonly (readonly Role[])[], lambda: number): number[][] {
    const answers = episodes.map((roles) =>
      roles.map((role, t) => role === "observation" && t > roles.indexOf("action")),
    );
    const count = answers.flat().filter(Boolean).length;
    return answers.map((own) => own.map((isAnswer) => (isAnswer ? lambda / count : 0)));
  },
  function meanOverAllEpisodes(episodes: readonly (readonly Role[])[], lambda: number): number[][] {
    return episodes.map((roles) => {
      const own = roles.map((role, t) => role === "observation" && t > roles.indexOf("action"));
      const count = own.filter(Boolean).length;
      return own.map((isAnswer) => (isAnswer ? lambda / (episodes.length * count) : 0));
    });
  },
  function beforeTheFirstActionToo(episodes: readonly (readonly Role[])[], lambda: number): number[][] {
    const answered = episodes.filter((roles) => roles.includes("observation")).length;
    return episodes.map((roles) => {
      const count = roles.filter((role) => role === "observation").length;
      return roles.map((role) => (role === "observation" ? lambda / (answered * count) : 0));
    });
  },
  function withoutAnyAction(episodes: readonly (readonly Role[])[], lambda: number): number[][] {
    const answers = episodes.map((roles) =>
      roles.map((role, t) => role === "observation" && t > roles.indexOf("action")),
    );
    const answered = answers.filter((own) => own.includes(true)).length;
    return answers.map((own) =>
      own.map((isAnswer) => (isAnswer ? lambda / (answered * own.filter(Boolean).length) : 0)),
    );
  },
  function tagsToo(episodes: readonly (readonly Role[])[], lambda: number): number[][] {
    return episodes.map((roles) => {
      const own = roles.map((role, t) => role !== "action" && t > roles.indexOf("action"));
      const count = own.filter(Boolean).length;
      return own.map((isAnswer) => (isAnswer ? lambda / (episodes.length * count) : 0));
    });
  },
];

/**
 * # The slope of PaW's loss
 *
 * An answer's tokens have the probabilities p. Its loss is the sum of 1[p ≤ ρ] · (1 − p), divided by the number of
 * **all** its tokens. The condition counts as a constant. Return, for each token, the derivative of that loss (of the
 * loss itself: the chapter's table has the other sign) with respect to the token's own logit. You need ∂p/∂z =
 * p (1 − p), the derivative of the softmax.
 *
 * @difficulty 1
 * @hint The loss of a counted token is (1 − p) / |O|. Its derivative by p is −1 / |O|; then the chain rule.
 */
export function exercise2(p: readonly number[], rho: number): number[] {
  throw new Error(`write me: ${p.length} probabilities and ρ = ${rho} came`);
}

export function check2(answer: typeof exercise2): void {
  // Central differences: z moves by ±h, the other logits stay. Their e^z sum to (1 − p) / p of the token's e^z.
  const h = 1e-4;
  const moved = (p: number, by: number): number => (p * Math.exp(by)) / (p * Math.exp(by) + 1 - p);
  for (const [p, rho] of [
    [[0.05, 0.19, 0.21, 0.9], 0.2],
    [[0.5, 0.01, 0.7], 0.6],
    [[0.3], 0.2],
    [[0.2, 0.4], 0.2],
  ] as const) {
    const wanted = p.map((x) => (x <= rho ? (moved(x, -h) - moved(x, h)) / (2 * h * p.length) : 0));
    expectClose(answer(p, rho), wanted, `the slopes where p is ${p.join(", ")} and ρ is ${rho}`, 1e-6);
  }
}

export function solution2(p: readonly number[], rho: number): number[] {
  return p.map((x) => (x <= rho ? (-x * (1 - x)) / p.length : 0));
}

export const wrong2 = [
  function crossEntropy(p: readonly number[]): number[] {
    return p.map((x) => -(1 - x) / p.length);
  },
  function withoutTheCondition(p: readonly number[]): number[] {
    return p.map((x) => (-x * (1 - x)) / p.length);
  },
  function dividedByTheChosen(p: readonly number[], rho: number): number[] {
    const count = p.filter((x) => x <= rho).length;
    return p.map((x) => (x <= rho ? (-x * (1 - x)) / count : 0));
  },
  function slopeInP(p: readonly number[], rho: number): number[] {
    return p.map((x) => (x <= rho ? -1 / p.length : 0));
  },
];
