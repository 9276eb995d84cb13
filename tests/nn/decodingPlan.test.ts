/** What is read where, and drawn with which numbers: for any parts, and passes of any width. */
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { device as makeDevice } from "../../engine/device.ts";
import { Rng } from "../../engine/random.ts";
import { KvCache } from "../../nn/cache.ts";
import { type Part, type Plan, planStep, refill, type Widths } from "../../nn/decodingPlan.ts";
import { modelConfig } from "../../nn/config.ts";

const [ROWS, CAPACITY, VOCAB, HEADS] = [5, 12, 9, 2];
const device = await makeDevice("reference");
const config = modelConfig({ vocabSize: VOCAB, hiddenSize: 8, layers: 1, heads: HEADS, maxPositions: CAPACITY });

const fixed = (width: number): Widths => ({ most: width, ofPass: () => width, ofDraw: () => width });
const asManyAsThereAre = (most: number): Widths => ({ most, ofPass: (tokens) => tokens, ofDraw: (rows) => rows });

interface Given {
  readonly lengths: readonly number[];
  readonly parts: readonly Part[];
  readonly drawing: readonly Part[];
  readonly draws: number;
  readonly invTemperature: number;
  readonly widths: Widths;
  readonly width: number | undefined;
}
const given: fc.Arbitrary<Given> = fc
  .record({
    rows: fc.shuffledSubarray([0, 1, 2, 3, 4], { minLength: 1 }),
    lengths: fc.array(fc.nat(5), { minLength: ROWS, maxLength: ROWS }),
    texts: fc.array(fc.array(fc.nat(VOCAB - 1), { minLength: 1, maxLength: 6 }), { minLength: ROWS, maxLength: ROWS }),
    draw: fc.array(fc.boolean(), { minLength: ROWS, maxLength: ROWS }),
    draws: fc.nat(3),
    invTemperature: fc.constantFrom(0, 0.5, 1),
    most: fc.integer({ min: 1, max: 20 }),
    isFixed: fc.boolean(),
  })
  .map(({ rows, lengths, texts, draw, most, isFixed, ...rest }) => {
    const parts = rows.map((row): Part => {
      const part = { row, tokens: texts[row]! };
      return draw[row] ? { ...part, rng: new Rng(7).split(row) } : part;
    });
    const width = isFixed ? most + ROWS : undefined;
    const drawing = parts.filter(({ rng }) => rng !== undefined);
    const widths = width === undefined ? asManyAsThereAre(most) : fixed(width);
    return { ...rest, lengths, parts, drawing, width, widths };
  });

function planned({ lengths, parts, drawing, draws, invTemperature, widths }: Given): { cache: KvCache; plan: Plan } {
  const cache = new KvCache(config, ROWS, CAPACITY, device);
  cache.append(lengths.map((count, row) => ({ row, count })));
  const plan = planStep(cache, parts, drawing, { vocabSize: VOCAB, float: "f32", widths, draws, invTemperature });
  cache.dispose();
  return { cache, plan };
}

it("every token is read once, at its place, behind those in front of it; each draws behind its last", () => {
  fc.assert(
    fc.property(given, (g) => {
      const { lengths, parts, drawing, draws, width } = g;
      const { cache, plan } = planned(g);
      const next = [...lengths];
      for (const { ids, places } of plan.passes) {
        expect(ids.length).toBeLessThanOrEqual(width ?? Math.max(g.widths.most, drawing.length));
        expect(ids.length).toBeGreaterThanOrEqual(width ?? 1);
        ids.forEach((id, n) => {
          const [row, position] = [places.rows[n]!, places.positions[n]!];
          const slots = [...places.slots.subarray(n * HEADS, (n + 1) * HEADS)];
          if (row < 0) return void expect([id, position, ...slots]).toEqual([0, 0, -1, -1]);
          expect(position).toBe(next[row]!++);
          expect(id).toBe(parts.find((part) => part.row === row)!.tokens[position - lengths[row]!]);
          expect(slots).toEqual([0, 1].map((h) => (row * HEADS + h) * CAPACITY + position));
        });
      }
      const read = lengths.map((length, row) => length + (parts.find((part) => part.row === row)?.tokens.length ?? 0));
      expect(next).toEqual(read);
      const { ids, places } = plan.passes.at(-1)!;
      expect(plan.last.length).toBe(width ?? drawing.length);
      expect(plan.scale).toEqual(new Float32Array(plan.last.length).fill(g.invTemperature));
      plan.last.forEach((at, i) => {
        const part = drawing[i];
        if (part === undefined) expect([at, plan.keys[2 * i], plan.keys[2 * i + 1]]).toEqual([0, 0, 0]);
        else {
          expect([places.rows[at], ids[at]]).toEqual([part.row, part.tokens.at(-1)]);
          expect([plan.keys[2 * i], plan.keys[2 * i + 1]]).toEqual(part.rng!.key.map((word) => word | 0));
        }
      });
      // Each draw takes the number of the position that it fills; all but the last are read, where there is room.
      expect([plan.counters.length, plan.drawn.length]).toEqual([draws, Math.max(0, draws - 1)]);
      const grown = [...read];
      plan.counters.forEach((counters, n) => {
        if (n > 0) {
          drawing.forEach(({ row }, i) => {
            const hasRoom = grown[row]! < CAPACITY;
            expect(plan.drawn[n - 1]!.rows[i]).toBe(hasRoom ? row : -1);
            if (hasRoom) expect(plan.drawn[n - 1]!.positions[i]).toBe(grown[row]!++);
          });
        }
        expect([...counters.subarray(0, drawing.length)]).toEqual(drawing.map(({ row }) => grown[row]));
      });
      expect([...cache.lengths]).toEqual(grown);
    }),
    { numRuns: 300, seed: 3 },
  );
});

it("refilled, a plan is the other one", () => {
  fc.assert(
    fc.property(given, fc.nat(VOCAB - 1), fc.nat(), (g, id, seed) => {
      const { plan } = planned(g);
      const other = (part: Part): Part => ({
        row: ROWS - 1 - part.row,
        tokens: part.tokens.map(() => id),
        ...(part.rng ? { rng: new Rng(seed).split("other") } : {}),
      });
      const parts = g.parts.map(other);
      const { plan: target } = planned({
        ...g,
        invTemperature: 2,
        lengths: g.lengths.toReversed(),
        parts,
        drawing: parts.filter(({ rng }) => rng !== undefined),
      });
      refill(plan, target);
      expect(plan).toEqual(target);
    }),
    { numRuns: 100, seed: 4 },
  );
});
