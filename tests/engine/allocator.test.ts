/** The allocator against a simple model: a list of live blocks. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Allocator, blockSize } from "../../engine/backends/allocator.ts";

const MiB = 2 ** 20;

interface Block {
  readonly at: number;
  readonly bytes: number;
}

/** The longest run of bytes below `end` that no live block has. */
function longestGap(live: readonly Block[], end: number): number {
  let [gap, from] = [0, 0];
  for (const { at, bytes } of live.toSorted((a, b) => a.at - b.at)) {
    gap = Math.max(gap, Math.min(at, end) - from);
    from = at + blockSize(bytes);
  }
  return Math.max(gap, end - from);
}

type Action = number | { readonly free: number };
/** Sizes of all kinds: within a class, around the end of the classes, large. */
const action: fc.Arbitrary<Action> = fc.oneof(
  fc.nat(3000),
  fc.nat(6 * MiB),
  fc.integer({ min: 4 * MiB - 100, max: 4 * MiB + 100 }),
  fc.integer({ min: 4 * MiB, max: 40 * MiB }),
  fc.record({ free: fc.nat(40) }),
  fc.record({ free: fc.nat(40) }),
);

/** Does the actions, keeps the books, and looks on after each allocation. */
function play(
  allocator: Allocator,
  actions: readonly Action[],
  look: (at: number | undefined, bytes: number, before: readonly Block[]) => void = () => undefined,
): Block[] {
  const live: Block[] = [];
  for (const act of actions) {
    if (typeof act === "number") {
      const before = [...live];
      const at = allocator.alloc(act);
      look(at, act, before);
      if (at !== undefined) live.push({ at, bytes: act });
      allocator.reserved = Math.max(allocator.reserved, allocator.top); // as a memory that never shrinks
    } else if (live.length > 0) {
      const [block] = live.splice(act.free % live.length, 1);
      allocator.free(block!.at, block!.bytes);
    }
  }
  return live;
}

describe("block sizes", () => {
  it("up to 4 MiB are classes, multiples of 64, at most a quarter larger than asked", () => {
    for (let bytes = 0; bytes <= 4 * MiB; bytes = Math.ceil(bytes * 1.02) + 13) {
      const size = blockSize(bytes);
      const fits = size % 64 === 0 && size >= bytes && size < Math.max(64, bytes) * 1.25 + 64;
      expect(fits && blockSize(size) === size, `${bytes} → ${size}`).toBe(true);
    }
  });

  it("above are what is asked, to 64 KiB", () => {
    expect(blockSize(4 * MiB)).toBe(4 * MiB);
    expect(blockSize(4 * MiB + 1)).toBe(4 * MiB + 65536);
    expect(blockSize(513 * MiB)).toBe(513 * MiB);
    expect(blockSize(4 * 2 ** 30 - 1)).toBe(4 * 2 ** 30);
  });
});

describe("in any order of use", () => {
  const limit = 128 * MiB;
  const anyActions = fc.array(action, { maxLength: 120 });
  const allActions = (property: (actions: Action[]) => void): void =>
    fc.assert(fc.property(anyActions, property), { numRuns: 100, seed: 14 });

  it("blocks do not overlap and end before the limit; a refusal means that there is no gap", () => {
    allActions((actions) => {
      const allocator = new Allocator(limit);
      play(allocator, actions, (at, bytes, before) => {
        const end = (at ?? 0) + blockSize(bytes);
        if (at === undefined) return expect(longestGap(before, limit)).toBeLessThan(blockSize(bytes));
        expect(at % 64).toBe(0);
        expect(end).toBeLessThanOrEqual(limit);
        expect(before.every((other) => end <= other.at || other.at + blockSize(other.bytes) <= at)).toBe(true);
      });
    });
  });

  it("the memory grows only when nothing fits, and no further than needed", () => {
    allActions((actions) => {
      const allocator = new Allocator(limit);
      play(allocator, actions, (_, bytes, before) => {
        const { reserved, top } = allocator;
        if (top <= reserved) return;
        expect(longestGap(before, reserved)).toBeLessThan(blockSize(bytes));
        const highest = Math.max(0, ...before.map((block) => block.at + blockSize(block.bytes)));
        expect(top).toBe(highest + blockSize(bytes));
      });
    });
  });

  it("after all is freed there is one block of everything", () => {
    allActions((actions) => {
      const allocator = new Allocator(limit);
      for (const { at, bytes } of play(allocator, actions)) allocator.free(at, bytes);
      expect(allocator.alloc(limit)).toBe(0);
    });
  });

  it("addresses are a function of the requests alone", () => {
    allActions((actions) => {
      const [a, b] = [new Allocator(limit), new Allocator(limit)];
      const addresses = (allocator: Allocator): (number | undefined)[] => {
        const list: (number | undefined)[] = [];
        const left = play(allocator, actions, (at) => list.push(at));
        for (const { at, bytes } of left.toReversed()) allocator.free(at, bytes);
        return list;
      };
      expect(addresses(a)).toEqual(addresses(b));
    });
  });
});

describe("what a training run asks for", () => {
  it("a steady loop gets the same addresses, and misses none", () => {
    const allocator = new Allocator(2 ** 30);
    const sizes = [100, 5000, 100, 70_000, 5 * MiB + 3, 4 * MiB, 33 * MiB];
    const step = (): number[] => {
      const offsets = sizes.map((size) => allocator.alloc(size)!);
      sizes.forEach((size, i) => allocator.free(offsets[i]!, size));
      return offsets.toSorted((a, b) => a - b);
    };
    const first = step();
    const { misses } = allocator;
    for (let i = 0; i < 5; i++) expect(step()).toEqual(first);
    expect([allocator.misses, allocator.hits]).toEqual([misses, 5 * sizes.length]);
  });

  it("two moments of 513 MiB fit into 1.1 GiB: as classes of 640 they did not", () => {
    const allocator = new Allocator(1.1 * 2 ** 30);
    expect(allocator.alloc(513 * MiB)).toBe(0);
    expect(allocator.alloc(513 * MiB)).toBe(513 * MiB);
  });

  it("a long batch after short ones takes their room", () => {
    const allocator = new Allocator(2 ** 32);
    for (const tokens of [64, 96, 128, 192, 256]) {
      // Activations of a step, each as long as the batch; all are freed before the next step.
      const sizes = Array.from({ length: 30 }, (_, i) => tokens * 2304 * (4 + (i % 5)));
      const offsets = sizes.map((size) => allocator.alloc(size)!);
      allocator.reserved = Math.max(allocator.reserved, allocator.top);
      const together = sizes.reduce((sum, size) => sum + blockSize(size), 0);
      expect(allocator.reserved).toBeLessThan(1.05 * together); // with lists alone: the sum over all batches
      offsets.forEach((at, i) => allocator.free(at, sizes[i]!));
    }
  });
});
