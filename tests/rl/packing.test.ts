/**
 * From the rows of a step to the arrays of a forward pass, column by column. Goldens and properties see them through a
 * model only, where a column that is shifted or left out may look like any other. The columns of the rows themselves:
 * columns.test.ts.
 */
import { describe, expect, it } from "vitest";
import { COLUMN_NAMES, type Columns, COLUMNS, rowOf, type TokenRow } from "../../rl/objective/columns.ts";
import { pack, type PackOptions } from "../../rl/train/pack.ts";
import { episode } from "../support/rlToy.ts";

/** A column of distinct numbers. */
const numbers = (length: number, from: number): Float64Array => Float64Array.from({ length }, (_, t) => from + t / 100);

/** An action of `length` − 1 tokens with nothing to train. */
function plain(length: number): TokenRow {
  const ids = Array.from({ length: length - 1 }, (_, k) => 2 + k);
  const trajectory = episode(
    [
      ["prompt", [1]],
      ["action", ids],
    ],
    { old: (t) => -t / 8 },
  );
  return rowOf(trajectory);
}

describe("packing", () => {
  const padId = 99;

  it("every column has each token's own number, the longest row first", () => {
    const weighted = [3, 4].map((length, i): TokenRow => {
      const { trajectory } = plain(length);
      const temperatures = trajectory.stream.temperatures.map((_, t) => 0.5 + t / 10 + i);
      const given = COLUMN_NAMES.filter((name) => name !== "temperatures");
      const columns = given.map((name, k) => [name, numbers(length, k + 1 + 50 * i)]);
      // The second row alone has a term's columns; the first one has 0 there.
      const own = { weights: { extra: numbers(length, 200) }, more: { "extra.target": numbers(length, 300) } };
      return rowOf(
        { ...trajectory, stream: { ...trajectory.stream, temperatures } },
        { ...(Object.fromEntries(columns) as Partial<Columns>), ...(i === 1 ? own : {}) },
      );
    });
    const batches = [...pack(weighted, { padId, maxTokens: 8 })];
    expect(batches.length).toBe(1);
    const batch = batches[0]!;
    expect([batch.rows, batch.length, batch.segments]).toEqual([2, 4, 2]);
    expect([...batch.ids]).toEqual([1, 2, 3, 4, 1, 2, 3, 99]);
    expect([...batch.episode]).toEqual([1, 1, 1, 0, 0]);
    expect([...batch.token]).toEqual([1, 2, 3, 1, 2]);
    expect([...batch.index]).toEqual([0, 1, 2, 4, 5]);
    expect([...batch.targets]).toEqual([2, 3, 4, 2, 3]);
    expect([...batch.segment]).toEqual([0, 0, 0, 1, 1]);
    /** What the rows have for the batch's tokens. */
    const ofTokens = (columnOf: (row: TokenRow) => ArrayLike<number>): number[] =>
      Array.from(batch.episode, (i, n) => columnOf(weighted[i]!)[batch.token[n]!]!);
    expect([...batch.columns.temperatures]).toEqual(ofTokens((row) => row.trajectory.stream.temperatures));
    expect(Object.keys(batch.columns)).toEqual([...Object.keys(COLUMNS), "weights", "more"]);
    for (const part of ["weights", "more"] as const) {
      const [name] = Object.keys(batch.columns[part]);
      const expected = ofTokens((row) => row[part][name!] ?? [0, 0, 0, 0]);
      expect([...batch.columns[part][name!]!], name).toEqual(expected);
      expect(expected.some((x) => x !== 0)).toBe(true);
    }
    for (const name of COLUMN_NAMES) expect([...batch.columns[name]], name).toEqual(ofTokens((row) => row[name]));
  });

  it("what nobody gave is 0; the old log-probabilities are the recorded ones", () => {
    const [batch] = pack([plain(3)], { padId, scored: () => true });
    const recorded: Readonly<Record<string, number[]>> = { oldLogProbs: [-1 / 8, -2 / 8], temperatures: [1, 1] };
    const { weights, more, ...columns } = batch!.columns;
    expect([weights, more]).toEqual([{}, {}]);
    for (const [name, values] of Object.entries(columns)) {
      expect([...values], name).toEqual(recorded[name] ?? [0, 0]);
    }
  });

  it.each(["mask", "wWorld", "wKl", "a term", "wEntropy", "wValue"] as const)("%s alone has a token scored", (name) => {
    const base = plain(4);
    const values = Float64Array.of(5, 0, 5, 0); // what is at position 0 nothing predicts
    const weighted = name === "a term" ? { ...base, weights: { [name]: values } } : { ...base, [name]: values };
    const [batch] = pack([base, weighted], { padId });
    expect([[...batch!.episode], [...batch!.token]]).toEqual([[1], [2]]);
  });

  it("a mask has its tokens scored whatever their weight, and says what is in the policy term", () => {
    const masked = { ...plain(4), mask: Float64Array.of(0, 0, 1, 1), wPolicy: Float64Array.of(0, 3, 0, 2) };
    const [batch] = pack([masked, plain(4)], { padId });
    expect([...batch!.token]).toEqual([2, 3]);
    expect([...batch!.columns.mask]).toEqual([1, 1]);
    const onlyFirst = { ...plain(4), wWorld: Float64Array.of(1, 0, 0, 0) };
    expect([...pack([plain(4), onlyFirst], { padId })]).toEqual([]);
  });

  it("rows of equal length keep their order; as many as fit exactly; at most 8192 tokens by default", () => {
    /** The rows of each batch, one token of each row scored. */
    const packed = (lengths: number[], options: Partial<PackOptions> = {}): number[][] => {
      const batches = pack(lengths.map(plain), { padId, scored: (_, t) => t === 1, ...options });
      return Array.from(batches, (batch) => [...batch.episode]);
    };
    expect(packed([3, 4, 3, 4, 3], { maxTokens: 8 })).toEqual([[1, 3], [0, 2], [4]]);
    expect(packed([4, 4], { maxTokens: 7 })).toEqual([[0], [1]]);
    expect(packed([4096, 4096])).toEqual([[0, 1]]);
    expect(packed([2731, 2731, 2731])).toEqual([[0, 1], [2]]); // 8193 tokens
  });
});
