/**
 * Rows of values in which each two values of two factors occur, as far as they may: most faults of combinations show
 * with two settings already (Kuhn, Wallace and Gallo 2004, "Software Fault Interactions and Implications for Software
 * Testing"). Each row begins with a pair that is still missing, in a row that is accepted, and takes the values of
 * other factors one by one that bring the most missing pairs (after AETG, Cohen et al. 1997).
 */
import type { Rng } from "../../engine/random.ts";

/** The values of each factor by its name. */
export type Factors = Readonly<Record<string, readonly string[]>>;
/** A value of each factor. */
export type Row = Readonly<Record<string, string>>;
/** Two values of two factors. */
export interface Pair {
  readonly a: string;
  readonly x: string;
  readonly b: string;
  readonly y: string;
}

/** All pairs, each once. */
export function* pairsOf(factors: Factors): Generator<Pair> {
  const names = Object.keys(factors);
  for (const [i, a] of names.entries())
    for (const b of names.slice(i + 1)) for (const x of factors[a]!) for (const y of factors[b]!) yield { a, x, b, y };
}

export interface Cover {
  /** An accepted row with these two values; undefined if there is none, and then they need not meet. */
  readonly witness: (pair: Pair) => Row | undefined;
  /** Whether a whole row is accepted. */
  readonly accepts: (row: Row) => boolean;
  /** What a value is for another factor: values that are the same for it count as one beside it. */
  readonly seen: (factor: string, value: string, other: string) => string;
  readonly rng: Rng;
}

/** Rows that are accepted; each pair with a witness occurs in one of them, or one that is the same for both factors. */
export function coveringRows(factors: Factors, { witness, accepts, seen, rng }: Cover): Row[] {
  const names = Object.keys(factors);
  const key = ({ a, x, b, y }: Pair): string => `${a}=${seen(a, x, b)} ${b}=${seen(b, y, a)}`;
  const missing = new Map<string, { readonly pair: Pair; readonly start: Row }>();
  for (const pair of rng.shuffle([...pairsOf(factors)])) {
    const start = missing.has(key(pair)) ? undefined : witness(pair);
    if (start) missing.set(key(pair), { pair, start });
  }
  const pairsIn = (row: Row): string[] =>
    names.flatMap((a, i) => names.slice(i + 1).map((b) => key({ a, x: row[a]!, b, y: row[b]! })));
  /** How many missing pairs a value of a factor makes with the values of others. */
  const gain = (row: Row, name: string, others: readonly string[]): number =>
    others.filter((other) => {
      const isFirst = names.indexOf(name) < names.indexOf(other);
      const [a, b] = isFirst ? [name, other] : [other, name];
      return missing.has(key({ a, x: row[a]!, b, y: row[b]! }));
    }).length;
  const rows: Row[] = [];
  for (let [next] = missing; next !== undefined; [next] = missing) {
    const { pair, start } = next[1];
    const chosen = [pair.a, pair.b];
    let row = start;
    for (const name of rng.shuffle(names.filter((other) => !chosen.includes(other)))) {
      const ranked = factors[name]!.map((value) => ({ ...row, [name]: value }))
        .map((grown) => ({ grown, gain: gain(grown, name, chosen) + rng.uniform() }))
        .toSorted((p, q) => q.gain - p.gain);
      // With its value so far the row is accepted; it stays where no other brings a missing pair.
      const found = ranked.find(({ grown, gain: n }) => n < 1 || grown[name] === row[name] || accepts(grown))!;
      if (found.gain >= 1) row = found.grown;
      chosen.push(name);
    }
    rows.push(row);
    for (const pair of pairsIn(row)) missing.delete(pair);
  }
  return rows;
}
