/**
 * The exactly enumerable task of exact.html: its true gradient, and the moments of estimators, against central
 * differences, against sums over all episodes written down here, and against the gradient that training computes.
 */
import { beforeAll, describe, expect, it } from "vitest";
import { assign, device, Rng, tensor, treeEntries } from "../../engine/index.ts";
import { gradientOf as trainingGradient } from "../../rl/train/update.ts";
import { lossOf, type Trained } from "../../rl/train/loss.ts";
import { type MicroBatch, pack } from "../../rl/train/pack.ts";
import { ratiosOf } from "../../rl/train/score.ts";
import { type Play, playOf, playStep, rowsOf, stepGradient } from "../../site/exact/estimate.ts";
import { angleOf, dot, figuresOf, norm, plus } from "../../site/exact/figures.ts";
import { Laboratory, type Question } from "../../site/exact/laboratory.ts";
import { methodByName, objectiveFor, PAGE_METHODS } from "../../site/exact/methods.ts";
import { exactMoments, partsOf, prepare, sampledMoments } from "../../site/exact/moments.ts";
import { CONTEXTS, EPISODES, freshModel, V } from "../../site/exact/policy.ts";
import { addressOf, DEFAULTS, settingsIn } from "../../site/exact/settings.ts";
import { ANSWER, flat, OWN, predict, probabilitiesOf } from "../../site/exact/space.ts";
import { SEED, type State, stateAfter, STATES } from "../../site/exact/states.ts";
import { TASKS, WORDS } from "../../site/exact/task.ts";
import { truthOf } from "../../site/exact/truth.ts";
import { comparison } from "../../site/exact/words.ts";

let half: State;
let own: Play;
let older: Play;
let expected: number;

beforeAll(async () => {
  half = stateAfter(STATES.half, await device("reference"));
  own = playOf(half.space);
  older = playOf(half.space, half.older);
  expected = sumOver((e, p) => p * EPISODES[e]!.reward);
}, 120_000);

const sumOver = (valueOf: (e: number, p: number) => number): number =>
  EPISODES.reduce((sum, _, e) => sum + valueOf(e, half.space.probabilities[e]!), 0);

/** ∇ log p(e): the sum of the scores of the episode's own words. */
const scoreOf = (e: number): Vector => OWN[e]!.reduce((sum, p) => plus(sum, half.space.scores[p]!), zeros());
type Vector = ReturnType<typeof plus>;
const zeros = (): Vector => new Float64Array(half.space.size);

const objective = (method: string, lambda = 0) => objectiveFor(methodByName(method), lambda, expected);
const exactly = (method: string, group: number, play = own, lambda = 0) => {
  const wanted = objective(method, lambda);
  return exactMoments(wanted, play, prepare(wanted, play), group);
};
/** ‖a − b‖ / ‖b‖ */
const off = (a: Float64Array, b: Float64Array): number => norm(plus(a, b, -1)) / norm(b);

describe("the task", () => {
  it("has 121 episodes of each of four tasks, whose probabilities sum to 1", () => {
    for (const task of TASKS.keys()) {
      const all = [...EPISODES.keys()].filter((e) => EPISODES[e]!.task === task);
      expect(new Set(all.map((e) => EPISODES[e]!.trajectory.stream.ids.join())).size).toBe(121);
      expect(all.reduce((sum, e) => sum + half.space.probabilities[e]!, 0)).toBeCloseTo(1 / 4, 13);
    }
  });

  it("answers look with the coin's cup in the red room, with the other in the blue one, and pays for the cup", () => {
    const told = (room: string, cup: string, first: string, second: string) => {
      const found = EPISODES.find(
        (e) => e.first.join(" ") === first && e.second.join(" ") === second && e.trajectory.task === `${room}, ${cup}`,
      )!;
      return [found.answer, found.reward];
    };
    expect(told("red", "left", "look", "left")).toEqual(["left", 1]);
    expect(told("blue", "left", "look", "left")).toEqual(["right", 1]);
    expect(told("blue", "right", "hm look", "hm left")).toEqual(["left", 0.25]);
    expect(told("blue", "right", "left", "right")).toEqual(["hm", 1]);
    expect(told("red", "right", "hm hm", "look")).toEqual(["hm", 0]);
  });

  it("has two turns: the trained policy's second action depends on the answer, and on the room", () => {
    const chance = (words: string, next: string): number => {
      const ids = words.split(" ").map((word) => WORDS.indexOf(word as "red"));
      const context = CONTEXTS.findIndex((c) => c.ids.join() === ids.join());
      return Math.exp(sure[context * V + WORDS.indexOf(next as "red")]!);
    };
    const model = stateAfter(STATES.sure, half.space.model.params.embedding.device).space.model;
    const sure = predict(model);
    expect(chance("red look left", "left")).toBeGreaterThan(0.9);
    expect(chance("red look right", "left")).toBeLessThan(0.1);
    expect(chance("blue look left", "left")).toBeLessThan(0.1);
    expect(chance("blue look right", "left")).toBeGreaterThan(0.9);
  }, 120_000);
});

describe("the true gradient", () => {
  it("is that of central differences", async () => {
    const model = freshModel(SEED, half.space.model.params.embedding.device);
    const { device: on } = model.params.embedding;
    const { reward, world, worldWhole } = truthOf(model);
    const p0 = probabilitiesOf(predict(model));
    const values = (): number[] => {
      const logProbs = predict(model);
      const p = probabilitiesOf(logProbs);
      const sum = (valueOf: (e: number) => number): number => EPISODES.reduce((total, _, e) => total + valueOf(e), 0);
      return [
        sum((e) => p[e]! * EPISODES[e]!.reward),
        sum((e) => p0[e]! * logProbs[ANSWER[e]!]!),
        sum((e) => p[e]! * logProbs[ANSWER[e]!]!),
      ];
    };
    const h = 1e-5;
    let start = 0;
    for (const [, leaf] of treeEntries(model.params)) {
      const before = Float64Array.from(leaf.readSync());
      for (const k of new Set([0, 3, leaf.size - 1])) {
        const at = (shift: number): number[] => {
          const moved = before.map((x, i) => (i === k ? x + shift : x));
          assign(leaf, tensor(moved, { device: on, shape: leaf.shape, dtype: "f64" }));
          return values();
        };
        const [up, down] = [at(h), at(-h)];
        const slopes = up.map((x, i) => (x - down[i]!) / (2 * h));
        [reward, world, worldWhole].forEach((g, i) => expect(g[start + k]!).toBeCloseTo(slopes[i]!, 7));
      }
      assign(leaf, tensor(before, { device: on, shape: leaf.shape, dtype: "f64" }));
      start += leaf.size;
    }
    expect(start).toBe(712);
  }, 120_000);

  it("is the sum over all episodes of p·R·∇log p, and the world's that of p·∇log p(answer)", () => {
    let [reward, world, whole] = [zeros(), zeros(), zeros()];
    sumOver((e, p) => {
      const answer = half.space.scores[ANSWER[e]!]!;
      reward = plus(reward, scoreOf(e), p * EPISODES[e]!.reward);
      world = plus(world, answer, p);
      whole = plus(plus(whole, answer, p), scoreOf(e), p * half.space.logProbs[ANSWER[e]!]!);
      return 0;
    });
    expect(off(reward, half.truth.reward)).toBeLessThan(1e-12);
    expect(off(world, half.truth.world)).toBeLessThan(1e-12);
    expect(off(whole, half.truth.worldWhole)).toBeLessThan(1e-12);
  });
});

describe("a step's gradient", () => {
  it.each(PAGE_METHODS.flatMap(({ name }) => [[name, "self"] as const, [name, "older"] as const]))(
    "of %s, played by %s, is the one that training computes through the transformer",
    (name, player) => {
      const play = player === "self" ? own : older;
      const wanted = objective(name, 0.2);
      const episodes = playStep(play, 3, new Rng(7).split(name));
      const rows = rowsOf(wanted, episodes, play);
      const { model } = play.space;
      const ratios = ratiosOf(wanted, { offPolicy: play.isOffPolicy });
      const loss = (tree: Trained, batch: MicroBatch) => lossOf(tree, model, batch, wanted, ratios);
      const { gradient } = trainingGradient({ policy: model.params }, pack(rows, { padId: 0 }), loss);
      const trained = Float64Array.from(flat(gradient.policy).readSync()).map((x) => -x);
      expect(off(stepGradient(wanted, episodes, play), trained)).toBeLessThan(1e-10);
    },
  );

  it.each(PAGE_METHODS.filter(({ isExact }) => isExact).map(({ name }) => name))(
    "of %s is a sum over its episodes, as the exact moments take it",
    (name) => {
      for (const play of [own, older]) {
        const wanted = objective(name, 0.5);
        const parts = partsOf(wanted, play);
        const episodes = playStep(play, 4, new Rng(11).split(name));
        const trajectories = episodes.map((e) => play.trajectories[e]!);
        const { perToken } = wanted.advantage.estimate(trajectories);
        let sum = zeros();
        episodes.forEach((e, i) => {
          const a = perToken[i]![1]!;
          const [up, down, world] = parts[e]!;
          sum = plus(plus(sum, a > 0 ? up : down, Math.abs(a) / episodes.length), world, 1 / episodes.length);
        });
        expect(off(sum, stepGradient(wanted, episodes, play))).toBeLessThan(1e-12);
      }
    },
  );
});

describe("exact moments", () => {
  it.each(["reinforce", "constant", "rloo", "rloo_ratio", "rloo_clip", "rloo_tis", "rloo_sequence"])(
    "of %s: the mean is the true gradient in groups of any size",
    (name) => {
      for (const group of [2, 3, 8]) expect(off(exactly(name, group).mean, half.truth.reward)).toBeLessThan(1e-9);
    },
  );

  it("of R − mean and Dr. GRPO: the mean is the true gradient times (G − 1)/G, and over 4 tokens", () => {
    for (const group of [2, 5]) {
      const shrunk = half.truth.reward.map((x) => (x * (group - 1)) / group);
      expect(off(exactly("centred", group).mean, shrunk)).toBeLessThan(1e-9);
      const quarter = shrunk.map((x) => x / 4);
      expect(off(exactly("dr_grpo", group).mean, quarter)).toBeLessThan(1e-9);
    }
  });

  it("with an older policy: only the ratio of whole episodes keeps the mean", () => {
    const bias = (name: string): number => off(exactly(name, 4, older).mean, half.truth.reward);
    expect(bias("rloo_sequence")).toBeLessThan(1e-9);
    for (const name of ["rloo", "rloo_ratio", "rloo_clip", "rloo_tis"]) expect(bias(name), name).toBeGreaterThan(0.1);
  });

  it("with ECHO: λ times the world's true gradient is added to the mean", () => {
    const wanted = plus(half.truth.reward, half.truth.world, 0.2);
    expect(off(exactly("rloo", 4, own, 0.2).mean, wanted)).toBeLessThan(1e-9);
  });

  it("of GRPO are those of an enumeration of all pairs, and its division by the deviation is a bias", () => {
    // In a group of two, (R − mean)/(std + eps) is ±(d/2)/(d/√2 + eps) with d the difference.
    const advantage = (mine: number, other: number): number => {
      const d = Math.abs(mine - other);
      return mine === other ? 0 : (Math.sign(mine - other) * d) / 2 / (d / Math.SQRT2 + 1e-4);
    };
    const { space, truth } = half;
    let [mean, total] = [zeros(), 0];
    for (const task of TASKS.keys()) {
      const all = [...EPISODES.keys()].filter((e) => EPISODES[e]!.task === task);
      const p = all.map((e) => space.probabilities[e]! * TASKS.length);
      const terms = all.map((e) => scoreOf(e).map((x) => x / OWN[e]!.length / 2 / TASKS.length));
      const products = terms.map((a) => terms.map((b) => dot(a, b)));
      const factors = all.map((a) => all.map((b) => advantage(EPISODES[a]!.reward, EPISODES[b]!.reward)));
      let square = 0;
      let ofTask = zeros();
      for (const i of all.keys()) {
        let weight = 0;
        for (const j of all.keys()) {
          const [a, b] = [factors[i]![j]!, factors[j]![i]!];
          weight += p[i]! * p[j]! * 2 * a;
          square +=
            p[i]! * p[j]! * (a * a * products[i]![i]! + b * b * products[j]![j]! + 2 * a * b * products[i]![j]!);
        }
        ofTask = plus(ofTask, terms[i]!, weight);
      }
      mean = plus(mean, ofTask);
      total += square - dot(ofTask, ofTask);
    }
    const found = exactly("grpo", 2);
    expect(off(found.mean, mean)).toBeLessThan(1e-9);
    expect(found.variance.reduce((a, b) => a + b)).toBeCloseTo(total, 9);

    // Groups without much spread count as much as the others: that turns the mean, the more so the larger the groups.
    const angle = (name: string, group: number): number =>
      angleOf(figuresOf(exactly(name, group), truth.reward, "own"));
    expect(angle("centred", 16)).toBe(0);
    expect(angle("grpo_sum", 16)).toBeGreaterThan(5);
    expect(angle("grpo_sum", 32)).toBeGreaterThan(angle("grpo_sum", 16));
  });

  it.each([
    ["grpo", "self", 0],
    ["rloo", "self", 0.2],
    ["rloo_clip", "older", 0],
    ["max_rl", "self", 0],
  ] as const)("of %s, played by %s, λ %f: sampled steps agree within their errors", (name, player, lambda) => {
    const play = player === "self" ? own : older;
    const wanted = objective(name, lambda);
    const exact = exactly(name, 4, play, lambda);
    const rng = new Rng(3).split(name);
    const n = 400;
    const steps = Array.from({ length: n }, (_, i) => stepGradient(wanted, playStep(play, 4, rng.split(i)), play));
    const sampled = sampledMoments(steps);
    const sum = exact.variance.reduce((a, b) => a + b);
    // The mean of squared distances from the exact mean is the variance: 4 standard errors.
    const squares = Float64Array.from(steps, (step) => norm(plus(step, exact.mean, -1)) ** 2);
    const mean = squares.reduce((a, b) => a + b) / n;
    const error = Math.sqrt(squares.reduce((a, x) => a + (x - mean) ** 2, 0) / (n - 1) / n);
    expect(error).toBeLessThan(0.15 * sum);
    expect(Math.abs(mean - sum)).toBeLessThan(4 * error);
    // The squared distance of the means is Var/n on average.
    expect(norm(plus(sampled.mean, exact.mean, -1)) ** 2 / (sum / n)).toBeLessThan(2);
    // The coordinates of most variance, one by one: 4 standard errors.
    const noisy = [...exact.variance.keys()].toSorted((a, b) => exact.variance[b]! - exact.variance[a]!).slice(0, 100);
    for (const k of noisy)
      expect(Math.abs(sampled.mean[k]! - exact.mean[k]!) / Math.sqrt(exact.variance[k]! / n)).toBeLessThan(4);
  });

  it("fall as 1 / episodes in RLOO, whose baseline is the better the larger the group", () => {
    const variance = (group: number): number => exactly("rloo", group).variance.reduce((a, b) => a + b);
    expect(variance(4) / variance(8)).toBeGreaterThan(2);
    expect(variance(16) / variance(32)).toBeGreaterThan(2);
    expect(variance(16) / variance(32)).toBeLessThan(2.2);
  });
});

describe("the laboratory", () => {
  const question: Question = { state: "half", player: "self", method: "grpo", group: 4, lambda: 0 };

  it("takes the noise of a sampled mean off its bias, and says how far the rest may be wrong", async () => {
    const lab = new Laboratory(await device("reference"));
    // GRPO with a mean over tokens differs little from the mean over sequences, which is exact.
    const sampled = lab.figures({ ...question, method: "grpo_token" }, "own");
    const exact = lab.figures(question, "own");
    // Without the control variate the standard error would be √(variance / 200), which is 0.2.
    expect(sampled.biasError).toBeGreaterThan(0);
    expect(sampled.biasError).toBeLessThan(0.1);
    expect(Math.abs(sampled.bias - exact.bias)).toBeLessThan(0.2);
    expect(sampled.variance / exact.variance).toBeGreaterThan(0.7);
    expect(sampled.variance / exact.variance).toBeLessThan(1.4);

    const sample = lab.sample(question, 60, "bias", "own");
    expect(sample.points).toHaveLength(60);
    expect(lab.sample(question, 30, "bias", "own").points).toEqual(sample.points.slice(0, 30));
    // The place of the expected step: along is ⟨E, g⟩/‖g‖², the rest of its length lies across, by the plane's choice.
    const figures = lab.figures(question, "own");
    expect(sample.expected![0]).toBeCloseTo(figures.length * figures.cosine, 9);
    expect(Math.hypot(...sample.expected!)).toBeCloseTo(figures.length, 9);
    expect(lab.sample({ ...question, method: "rloo" }, 20, "bias", "own").plane).toBe("noise");
    expect(lab.shares(question).reduce((sum, { variance }) => sum + variance, 0)).toBeCloseTo(1, 9);
    expect(
      comparison(
        [
          { method: "grpo", figures: exact },
          { method: "grpo_token", figures: sampled },
        ],
        4,
      ),
    ).toMatch(/^Of the methods in the table, in groups of 4, /);
  }, 120_000);
});

describe("the address", () => {
  it("says what differs from the usual, and is read back", () => {
    expect(addressOf(DEFAULTS)).toBe("");
    const other = { ...DEFAULTS, method: "reinforce++", lambda: 0.2, compare: ["rloo", "dapo"], steps: 300 };
    const address = addressOf(other);
    expect(address).toBe("?method=reinforce%2B%2B&lambda=0.2&compare=rloo,dapo&steps=300");
    expect(settingsIn(new URLSearchParams(address))).toEqual(other);
    expect(settingsIn(new URLSearchParams(addressOf({ ...DEFAULTS, compare: [] }))).compare).toEqual([]);
  });

  it.each([
    ["methd=grpo", 'unknown setting "methd" in the address; did you mean "method"?'],
    ["group=5", 'group: expected 2, 4, 8, 16, 32, got "5"'],
    ["group=2&group=4", "group is there twice in the address"],
    ["steps=1e9", 'steps: expected a whole number from 2 to 2000, got "1e9"'],
    ["compare=rloo,nothing", /^compare: expected reinforce, .*, got "nothing"$/],
    ["state=start&player=older", 'player: expected "self" with state=start, which has no older policy, got "older"'],
  ])("%s is refused in one sentence", (address, message) => {
    expect(() => settingsIn(new URLSearchParams(address))).toThrow(message);
  });
});
