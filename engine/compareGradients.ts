/**
 * The search for wrong derivatives: gradients of the sweep against slopes by differences, one by one or many at once.
 */
import { type Point, type Problem, type Slope, slopeAlong, unitOf } from "./differences.ts";
import type { Rng } from "./random.ts";

export interface Accuracy {
  readonly epsilon: number | undefined;
  readonly absolute: number | undefined;
  readonly relative: number | undefined;
}

/** A part of all elements, in their flat order, compared as one slope. */
export interface Comparison {
  readonly from: number;
  readonly to: number;
  /** "kink": the differences contradict each other as much as they contradict the gradient, so they prove nothing. */
  readonly verdict: "right" | "wrong" | "kink";
  readonly analytic: number;
  readonly slope: Slope;
  readonly difference: number;
  readonly allowed: number;
  /** The ratio of the difference to the allowed one; Infinity if it is no number. */
  readonly margin: number;
}

/** A random number, ± 0.5 to 1.5 in sixteenths: so few digits that f32 holds it and its products with steps exactly. */
export const signed = (rng: Rng): number => (rng.int(2) === 0 ? 1 : -1) * (0.5 + rng.int(17) / 16);

/** The gradient of a problem, and the rule by which slopes are compared with it. */
export class GradientComparison {
  /** Number of derivatives. */
  readonly elements: number;
  readonly #problem: Problem;
  readonly #point: Point;
  readonly #gradients: readonly Float64Array[];
  readonly #accuracy: Accuracy;
  readonly #rng: Rng;
  /** The offset of each variable in the flat order of all elements, and the end of the last. */
  readonly #starts: readonly number[];
  /** The unit roundoff of the coarsest element type. */
  readonly #unit: number;
  readonly #epsilon: number;

  constructor(problem: Problem, point: Point, gradients: readonly Float64Array[], accuracy: Accuracy, rng: Rng) {
    this.#problem = problem;
    this.#point = point;
    this.#gradients = gradients;
    this.#accuracy = accuracy;
    this.#rng = rng;
    const starts = [0];
    for (const { data } of problem.variables) starts.push(starts.at(-1)! + data.length);
    this.#starts = starts;
    this.elements = starts.at(-1)!;
    this.#unit = unitOf([...problem.variables, ...point.base]);
    this.#epsilon = accuracy.epsilon ?? (this.#isExact ? 2 ** -13 : 2 ** -6);
  }

  get #isExact(): boolean {
    return this.#unit === unitOf([{ dtype: "f64" }]);
  }

  /** The variable and the position in it of the element at a place in the flat order. */
  locate(at: number): { variable: number; position: number } {
    const variable = this.#starts.findLastIndex((start) => start <= at);
    return { variable, position: at - this.#starts[variable]! };
  }

  /** The derivative by one element, or the slope along a random direction within a range of them. */
  async compare(from: number, to: number): Promise<Comparison> {
    const { steps, unit } = this.#steps(from, to);
    const slope = await slopeAlong(this.#problem, this.#point, steps, unit);
    let [analytic, squares, lengths] = [0, 0, 0];
    steps.forEach((step, k) =>
      step?.forEach((length, i) => {
        const part = length === 0 ? 0 : (this.#gradients[k]![i]! * length) / unit;
        analytic += part;
        squares += part ** 2;
        lengths += (length / unit) ** 2;
      }),
    );
    const { absolute, relative = this.#isExact ? 1e-6 : 1e-3 } = this.#accuracy;
    const size = Math.max(...[Math.sqrt(squares), Math.abs(slope.numeric)].filter(Number.isFinite), 0);
    const allowed = (absolute === undefined ? slope.rounding : absolute * Math.sqrt(lengths)) + relative * size;
    const difference = Math.abs(analytic - slope.numeric);
    const rough = slope.roughness === Infinity || difference <= 2 * slope.roughness;
    const verdict = difference <= allowed ? "right" : rough ? "kink" : "wrong";
    const margin = difference === 0 ? 0 : difference / allowed;
    return {
      from,
      to,
      verdict,
      analytic,
      slope,
      difference,
      allowed,
      margin: Number.isNaN(margin) ? Infinity : margin,
    };
  }

  /** Steps from the point, an array per variable, and the length by which a slope along them is divided. */
  #steps(from: number, to: number): { steps: (Float64Array | undefined)[]; unit: number } {
    const alone = to - from === 1;
    // n elements that do not mix can take full steps, n that are added up only 1 / √n of a step: this is halfway
    // between.
    const scale = alone ? 1 : 2 ** -Math.round(Math.log2(to - from) / 4);
    const direction = this.#rng.split(from).split(to);
    let unit = this.#epsilon;
    const steps = this.#problem.variables.map(({ data }, k) => {
      const [start, end] = [Math.max(from, this.#starts[k]!), Math.min(to, this.#starts[k + 1]!)];
      if (start >= end) return undefined;
      const step = new Float64Array(data.length);
      for (let i = start - this.#starts[k]!; i < end - this.#starts[k]!; i++) {
        const length = this.#stepAt(data[i]!);
        step[i] = alone ? length : length * scale * signed(direction);
        if (alone) unit = length;
      }
      return step;
    });
    return { steps, unit };
  }

  /** Epsilon, or more where x is so large that x ± epsilon would lose digits of epsilon. */
  #stepAt(x: number): number {
    const smallest = Math.abs(x) * this.#unit * 4096;
    return smallest <= this.#epsilon ? this.#epsilon : 2 ** Math.ceil(Math.log2(smallest));
  }
}

/** The number of elements that are computed together: on a GPU, waiting for a result takes longer than computing it. */
const AT_ONCE = 16;

/**
 * Compares up to `samples` elements one by one and, if there are more, all together along a direction; if that is not
 * right, its halves, the worse one first, down to single elements.
 * @param enough whether to stop after this element, which is not right
 * @returns the comparisons of single elements, and the largest margin of directions that were right
 */
export async function findWrong(
  comparison: GradientComparison,
  samples: number,
  rng: Rng,
  enough: (found: Comparison) => boolean,
): Promise<{ singles: Comparison[]; margin: number }> {
  const { elements } = comparison;
  const singles = new Map<number, Comparison>();
  let margin = 0;
  const drawn = new Set<number>();
  if (elements <= samples) for (let i = 0; i < elements; i++) drawn.add(i);
  else while (drawn.size < samples) drawn.add(rng.int(elements));
  const places = [...drawn];
  for (let i = 0; i < places.length; i += AT_ONCE) {
    const group = places.slice(i, i + AT_ONCE).map((at) => comparison.compare(at, at + 1));
    for (const found of await Promise.all(group)) singles.set(found.from, found);
  }

  /** @returns whether to go on */
  const look = async (found: Comparison): Promise<boolean> => {
    if (found.to - found.from === 1) singles.set(found.from, found);
    if (found.verdict === "right") {
      margin = Math.max(margin, found.margin);
      return true;
    }
    if (found.to - found.from === 1) return !enough(found);
    const middle = (found.from + found.to) >>> 1;
    const [low, high] = [await comparison.compare(found.from, middle), await comparison.compare(middle, found.to)];
    const [worse, better] = high.margin > low.margin ? [high, low] : [low, high];
    return (await look(worse)) && look(better);
  };
  const done = [...singles.values()].some((found) => found.verdict !== "right" && enough(found));
  if (!done && elements > samples) await look(await comparison.compare(0, elements));
  return { singles: [...singles.values()], margin };
}
