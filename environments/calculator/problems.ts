/**
 * The word problems. A problem has numbers too large for mental arithmetic, a plan of calculations, and an answer that
 * is computed here, independently of the calculator and its parser.
 *
 * All quantities have three to six digits and come from one split: a quantity is held out if the sum of its digits
 * leaves 3 when divided by 4. So training and held-out problems have no quantity in common, and each pair of
 * neighbouring digits of a held-out quantity is common in training. The numbers from 2 to 99 that some problems also
 * have (a percentage, people who share) occur in both splits.
 */
import type { Rng } from "../../engine/index.ts";
import { drawUntil, type Split } from "../selection.ts";
import type { ProblemFamily } from "./episode.ts";
import { rational, type Rational, toText } from "./rational.ts";

export interface Problem {
  /** Ways to word it; one is drawn. */
  readonly texts: readonly string[];
  /** The expert's expressions, each worked out by one call of the calculator. */
  readonly plan: readonly string[];
  readonly answer: Rational;
}

/** Whether a quantity of three or more digits is kept for held-out problems. */
export function isHeldOutQuantity(quantity: number): boolean {
  return [...String(quantity)].reduce((sum, digit) => sum + Number(digit), 0) % 4 === 3;
}

/** Draws the numbers and names of a problem. */
export class Numbers {
  readonly rng: Rng;
  readonly #split: Split;

  constructor(rng: Rng, split: Split) {
    this.rng = rng;
    this.#split = split;
  }

  /** A quantity of the split with `digits` digits, three to six. */
  quantity(digits: number): number {
    const low = 10 ** (digits - 1);
    for (;;) {
      const quantity = low + this.rng.int(9 * low);
      if (isHeldOutQuantity(quantity) === (this.#split === "heldout")) return quantity;
    }
  }

  /** An integer in [low, high]. */
  between(low: number, high: number): number {
    return low + this.rng.int(high - low + 1);
  }

  name(): string {
    return this.rng.choice(NAMES);
  }

  thing(): string {
    return this.rng.choice(THINGS);
  }
}

export const NAMES: readonly string[] = ["Ada", "Ben", "Eva", "Ida", "Leo", "Max", "Mia", "Tom"];
export const THINGS: readonly string[] = ["beads", "books", "cards", "coins", "nails", "seeds", "shells", "tiles"];

const whole = (value: number): Rational => rational(BigInt(value));

/** Draws a problem; undefined if the numbers make a bad one. */
type Draft = (draw: Numbers) => Problem | undefined;

/** The generator of each family's problems. */
export const DRAFTS: Readonly<Record<ProblemFamily["name"], Draft>> = {
  gain: (draw) => {
    const [who, what, a, b] = [draw.name(), draw.thing(), draw.quantity(6), draw.quantity(5)];
    const texts = [
      `${who} has ${a} ${what} and gets ${b} more. How many now?`,
      `${who} adds ${b} ${what} to ${a}. How many now?`,
    ];
    return { texts, plan: [`${a}+${b}`], answer: whole(a + b) };
  },
  loss: (draw) => {
    const [who, what, a, b] = [draw.name(), draw.thing(), draw.quantity(6), draw.quantity(5)];
    const texts = [
      `${who} has ${a} ${what} and loses ${b}. How many are left?`,
      `${who} takes ${b} of ${a} ${what}. How many are left?`,
    ];
    return { texts, plan: [`${a}-${b}`], answer: whole(a - b) };
  },
  boxes: (draw) => {
    const [what, a, b] = [draw.thing(), draw.quantity(4), draw.quantity(3)];
    const texts = [
      `${a} boxes hold ${b} ${what} each. How many ${what}?`,
      `How many ${what} are in ${a} boxes of ${b}?`,
    ];
    return { texts, plan: [`${a}*${b}`], answer: whole(a * b) };
  },
  packs: (draw) => {
    const [what, a, b] = [draw.thing(), draw.quantity(6), draw.quantity(3)];
    const texts = [
      `How many full packs of ${b} are in ${a} ${what}?`,
      `${a} ${what} go into packs of ${b}. How many packs get full?`,
    ];
    return { texts, plan: [`${a}//${b}`], answer: whole(Math.floor(a / b)) };
  },
  rest: (draw) => {
    const [what, a, b] = [draw.thing(), draw.quantity(6), draw.quantity(3)];
    const texts = [
      `${a} ${what} go into packs of ${b}. How many are left over?`,
      `What remains of ${a} ${what} in packs of ${b}?`,
    ];
    return { texts, plan: [`${a}%${b}`], answer: whole(a % b) };
  },
  percent: (draw) => {
    const [a, b, p] = [draw.quantity(3), draw.quantity(3), draw.between(11, 99)];
    const texts = [
      `A field is ${a} by ${b}. How large is ${p} percent of it?`,
      `What is ${p} percent of ${a} times ${b}?`,
    ];
    return { texts, plan: [`${a}*${b}`, `${a * b}*${p}/100`], answer: rational(BigInt(a * b * p), 100n) };
  },
  share: (draw) => {
    const [what, a, b, n] = [draw.thing(), draw.quantity(5), draw.quantity(5), draw.between(3, 29)];
    const texts = [
      `${n} people share ${a} and ${b} ${what}. How many each?`,
      `Split ${a} and ${b} ${what} into ${n} equal parts. How large is one?`,
    ];
    return { texts, plan: [`${a}+${b}`, `${a + b}/${n}`], answer: rational(BigInt(a + b), BigInt(n)) };
  },
  bill: (draw) => {
    const [a, b, c, d] = [draw.quantity(3), draw.quantity(3), draw.quantity(3), draw.quantity(3)];
    const [one, two] = draw.rng.shuffle(THINGS);
    const texts = [
      `What do ${a} ${one} at ${b} and ${c} ${two} at ${d} cost?`,
      `${a} ${one} at ${b} and ${c} ${two} at ${d}: how much is that?`,
    ];
    return { texts, plan: [`${a}*${b}`, `${c}*${d}`, `${a * b}+${c * d}`], answer: whole(a * b + c * d) };
  },
  gap: (draw) => {
    const [a, b, c, d] = [draw.quantity(3), draw.quantity(3), draw.quantity(3), draw.quantity(3)];
    const [p, q] = [a * b, c * d];
    // Nearer than a factor of 1.5, so that a look at the leading digits does not tell.
    if (p === q || Math.max(p, q) > 1.5 * Math.min(p, q)) return undefined;
    const [one, two] = draw.rng.shuffle(NAMES);
    const what = draw.thing();
    const texts = [
      `${one} has ${a} bags of ${b} ${what}, ${two} ${c} of ${d}. How many more has the richer?`,
      `${one} has ${a} bags of ${b} ${what}, ${two} ${c} of ${d}. How many fewer has the poorer?`,
    ];
    const last = p > q ? `${p}-${q}` : `${q}-${p}`;
    return { texts, plan: [`${a}*${b}`, `${c}*${d}`, last], answer: whole(Math.abs(p - q)) };
  },
  change: (draw) => {
    const [sum, a, b, c, d] = [
      draw.quantity(6),
      draw.quantity(3),
      draw.quantity(3),
      draw.quantity(3),
      draw.quantity(3),
    ];
    const [p, q] = [a * b, c * d];
    if (sum <= p + q) return undefined;
    const [one, two] = draw.rng.shuffle(THINGS);
    const who = draw.name();
    const texts = [
      `${who} has ${sum} and buys ${a} ${one} at ${b} and ${c} ${two} at ${d}. What is left?`,
      `${who} pays ${a} ${one} at ${b} and ${c} ${two} at ${d} out of ${sum}. What is left?`,
    ];
    const plan = [`${a}*${b}`, `${c}*${d}`, `${p}+${q}`, `${sum}-${p + q}`];
    return { texts, plan, answer: whole(sum - p - q) };
  },
};

/**
 * A problem whose answer does not stand in any of its texts, nor could be read as a fraction of two
 * numbers there.
 */
export function drawProblem(rng: Rng, draft: Draft, split: Split): Problem {
  const draw = new Numbers(rng, split);
  return drawUntil("calculator", () => {
    const problem = draft(draw);
    return problem !== undefined && !givesItselfAway(problem) ? problem : undefined;
  });
}

function givesItselfAway({ texts, answer }: Problem): boolean {
  const numbers = texts[0]!.match(/\d+/g) ?? [];
  const said = numbers.flatMap((a) => [a, ...numbers.map((b) => `${a}/${b}`)]);
  return said.includes(toText(answer));
}
