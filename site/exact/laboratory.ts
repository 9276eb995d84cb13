/**
 * Answers the page's questions: the mean and variance of a method's gradient, and sampled gradients in a plane. It
 * keeps its results. It runs in a worker of the page or in Node.
 */
import { type Device, Rng } from "../../engine/index.ts";
import { type Play, playOf, playStep, stepGradient } from "./estimate.ts";
import {
  cosine,
  dot,
  type Figures,
  figuresOf,
  norm,
  plus,
  type ParameterShare,
  type Scale,
  sharesOf,
} from "./figures.ts";
import { methodByName, objectiveFor } from "./methods.ts";
import { exactMoments, type Moments, type Prepared, prepare, sampledMoments } from "./moments.ts";
import { EPISODES } from "./policy.ts";
import { parametersOf } from "./space.ts";
import { type State, stateAfter, type StateName, STATES } from "./states.ts";

/** The setting in which a method is examined. */
export interface Question {
  readonly state: StateName;
  /** The policy that plays the episodes: the learning one, or the one a step older. */
  readonly player: "self" | "older";
  readonly method: string;
  /** G, the episodes of each task in a step. */
  readonly group: number;
  /** λ of ECHO; 0: no world-model loss. */
  readonly lambda: number;
}

/** The second direction of the plane; the first is the true gradient. */
export type Plane = "bias" | "noise" | "world";

export type Point = readonly [along: number, across: number];

/** Sampled gradients in a plane. The unit is the true gradient's length. */
export interface Sample {
  readonly points: readonly Point[];
  readonly mean: Point;
  /** Covariance of the points' mean: along, across, and of the two. */
  readonly meanCovariance: readonly [number, number, number];
  /** The mean of all possible steps, where it can be computed. */
  readonly expected: Point | undefined;
  /** The world model's true gradient, drawn as long as the policy's. */
  readonly world: Point;
  /** The second direction that was taken: that of the noise if there is no bias across. */
  readonly plane: Plane;
  /** The cosine between one step's gradient and the true one, on average. */
  readonly meanCosine: number;
}

/** Figures of a policy. */
export interface StateFacts {
  readonly expectedReward: number;
  /** The probability that the first action looks. */
  readonly looks: number;
  readonly parameters: number;
  readonly gradientNorm: number;
  /** Cosine of the world model's gradient, as ECHO follows it, with the reward's. */
  readonly worldCosine: number;
  readonly worldNorm: number;
  /** Cosine of ECHO's gradient with the whole derivative of the expected world-model loss. */
  readonly worldWholeCosine: number;
}

/** Steps from which moments are estimated where they cannot be computed. */
const SAMPLED_STEPS = 200;
const SEED = 1;

export class Laboratory {
  readonly #device: Device;
  readonly #states = new Map<StateName, State>();
  readonly #plays = new Map<string, Play>();
  readonly #prepared = new Map<string, Prepared>();
  readonly #moments = new Map<string, Moments>();
  /** Gradients that were sampled for one question at a time, in order. */
  #sampled: { readonly key: string; readonly gradients: Float64Array[] } = { key: "", gradients: [] };

  /** @param device the reference executor, for 64 bits */
  constructor(device: Device) {
    this.#device = device;
  }

  state(name: StateName): State {
    return remember(this.#states, name, () => stateAfter(STATES[name], this.#device));
  }

  factsOf(name: StateName): StateFacts {
    const { space, truth } = this.state(name);
    const look = ({ first }: (typeof EPISODES)[number]): number => Number(first.at(-1) === "look");
    return {
      expectedReward: this.#expected(name, ({ reward }) => reward),
      looks: this.#expected(name, look),
      parameters: space.size,
      gradientNorm: norm(truth.reward),
      worldCosine: cosine(truth.world, truth.reward),
      worldNorm: norm(truth.world),
      worldWholeCosine: cosine(truth.world, truth.worldWhole),
    };
  }

  moments(question: Question): Moments {
    return remember(this.#moments, keyOf(question), () => {
      const objective = this.#objective(question);
      const play = this.#play(question);
      if (methodByName(question.method).isExact) {
        const prepared = remember(this.#prepared, keyOf({ ...question, group: 0 }), () => prepare(objective, play));
        return exactMoments(objective, play, prepared, question.group);
      }
      return this.#sampledMoments(question);
    });
  }

  /** Moments from sampled steps; an exact method on the same episodes (`like`) serves as a control variate. */
  #sampledMoments(question: Question): Moments {
    const { like } = methodByName(question.method);
    const steps = (asked: Question): Float64Array[] => {
      const rng = new Rng(SEED).split("moments");
      return Array.from({ length: SAMPLED_STEPS }, (_, i) => this.#step(asked, rng.split(i)));
    };
    if (like === undefined) return sampledMoments(steps(question));
    const other = { ...question, method: like };
    return sampledMoments(steps(question), { gradients: steps(other), mean: this.moments(other).mean });
  }

  figures(question: Question, scale: Scale): Figures {
    return figuresOf(this.moments(question), this.state(question.state).truth.reward, scale);
  }

  shares(question: Question): ParameterShare[] {
    const { space, truth } = this.state(question.state);
    return sharesOf(parametersOf(space.model), truth.reward, this.moments(question));
  }

  /** The first `count` steps of a fixed random stream, in a plane. */
  sample(question: Question, count: number, plane: Plane, scale: Scale): Sample {
    const key = keyOf(question);
    if (this.#sampled.key !== key) this.#sampled = { key, gradients: [] };
    const { gradients } = this.#sampled;
    const rng = new Rng(SEED).split("sample");
    while (gradients.length < count) gradients.push(this.#step(question, rng.split(gradients.length)));
    return this.#inPlane(question, gradients.slice(0, count), plane, scale);
  }

  #inPlane(question: Question, gradients: readonly Float64Array[], wanted: Plane, scale: Scale): Sample {
    const { truth } = this.state(question.state);
    const moments = this.moments(question);
    const { factor } = figuresOf(moments, truth.reward, scale);
    const size = norm(truth.reward);
    const along = truth.reward.map((x) => x / size);
    const across = (x: Float64Array): Float64Array => plus(x, along, -dot(x, along));
    const bias = across(moments.mean);
    const hasBias = norm(bias) > 1e-6 * size;
    const plane = wanted === "bias" && !hasBias ? "noise" : wanted;
    const direction =
      plane === "bias" ? bias : plane === "world" ? across(truth.world) : mainDirection(gradients.map(across));
    const unit = direction.map((x) => x / norm(direction));
    const place = (x: Float64Array, by: number): Point => [(by * dot(x, along)) / size, (by * dot(x, unit)) / size];
    const points = gradients.map((x) => place(x, factor));
    const n = points.length;
    const mean = [0, 1].map((i) => points.reduce((sum, p) => sum + p[i]!, 0) / n) as unknown as Point;
    const covariance = (i: 0 | 1, j: 0 | 1): number =>
      points.reduce((sum, p) => sum + (p[i] - mean[i]) * (p[j] - mean[j]), 0) / ((n - 1) * n);
    const turned = gradients.filter((x) => norm(x) > 0).map((x) => cosine(x, truth.reward));
    return {
      points,
      mean,
      meanCovariance: [covariance(0, 0), covariance(1, 1), covariance(0, 1)],
      expected: moments.uncertainty === 0 ? place(moments.mean, factor) : undefined,
      world: place(truth.world, size / norm(truth.world)),
      plane,
      meanCosine: turned.reduce((sum, x) => sum + x, 0) / turned.length,
    };
  }

  #step(question: Question, rng: Rng): Float64Array {
    const play = this.#play(question);
    return stepGradient(this.#objective(question), playStep(play, question.group, rng), play);
  }

  #objective({ state, method, lambda }: Question): ReturnType<typeof objectiveFor> {
    return objectiveFor(
      methodByName(method),
      lambda,
      this.#expected(state, ({ reward }) => reward),
    );
  }

  #play({ state, player }: Question): Play {
    return remember(this.#plays, `${state} ${player}`, () => {
      const { space, older } = this.state(state);
      if (player === "older" && older === undefined) throw new Error(`the policy "${state}" has no older one`);
      return playOf(space, player === "older" ? older : undefined);
    });
  }

  #expected(state: StateName, valueOf: (episode: (typeof EPISODES)[number]) => number): number {
    const { probabilities } = this.state(state).space;
    return EPISODES.reduce((sum, episode, e) => sum + probabilities[e]! * valueOf(episode), 0);
  }
}

const keyOf = ({ state, player, method, group, lambda }: Question): string =>
  [state, player, method, group, lambda].join(" ");

function remember<K, T>(map: Map<K, T>, key: K, make: () => T): T {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

/**
 * The direction in which vectors differ most: the first principal component of their deviations, by power iteration.
 */
function mainDirection(vectors: readonly Float64Array[]): Float64Array {
  const mean = vectors.reduce((sum, x) => plus(sum, x, 1 / vectors.length), new Float64Array(vectors[0]!.length));
  const deviations = vectors.map((x) => plus(x, mean, -1));
  const longest = deviations.reduce((a, b) => (norm(b) > norm(a) ? b : a));
  let direction = longest.map((x) => x / (norm(longest) || 1));
  for (let round = 0; round < 40; round++) {
    const next = new Float64Array(direction.length);
    for (const x of deviations) {
      const weight = dot(x, direction);
      for (let k = 0; k < next.length; k++) next[k]! += weight * x[k]!;
    }
    const size = norm(next);
    if (size === 0) break;
    direction = next.map((x) => x / size);
  }
  return direction;
}
