/** Sums of products by subscripts, beside a loop over every assignment of the subscripts. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkGradient, device, type Device, Rng, setDevice, type Tensor, tensor } from "../../engine/index.ts";
import { einsum } from "../../math/index.ts";

let f64: Device;
let wasm: Device;
beforeAll(async () => {
  [f64, wasm] = [await device("reference"), await device("wasm", { threads: 1 })];
  setDevice(f64);
});
afterAll(() => [f64, wasm].forEach((on) => on.dispose()));

const draw = (seed: number, shape: readonly number[], on: Device = f64): Tensor => {
  const rng = new Rng(seed);
  const size = shape.reduce((a, b) => a * b, 1);
  return tensor(
    Float64Array.from({ length: size }, () => rng.normal()),
    { shape, device: on, dtype: on.float },
  );
};
const nested = (x: Tensor): unknown => {
  const flat = [...x.readSync()];
  const build = (shape: readonly number[]): unknown =>
    shape.length === 0 ? flat.shift() : Array.from({ length: shape[0]! }, () => build(shape.slice(1)));
  return build(x.shape);
};

/** By definition: for each assignment of numbers to letters the product, added where the result has it. */
function byDefinition(inputs: readonly string[], output: string, operands: readonly Tensor[]): number[] {
  const letters = [...new Set(inputs.join(""))];
  const size = (letter: string): number =>
    Math.max(...inputs.flatMap((own, k) => [...own].flatMap((l, d) => (l === letter ? [operands[k]!.shape[d]!] : []))));
  const data = operands.map((x) => x.readSync());
  const place = (names: string, shape: readonly number[], at: Map<string, number>): number =>
    [...names].reduce((flat, l, d) => flat * shape[d]! + (shape[d] === 1 ? 0 : at.get(l)!), 0);
  const shape = [...output].map(size);
  const result = Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => 0);
  const visit = (n: number, at: Map<string, number>): void => {
    if (n < letters.length) {
      for (let i = 0; i < size(letters[n]!); i++) visit(n + 1, new Map([...at, [letters[n]!, i]]));
      return;
    }
    result[place(output, shape, at)]! += inputs.reduce(
      (p, own, k) => p * data[k]![place(own, operands[k]!.shape, at)]!,
      1,
    );
  };
  visit(0, new Map());
  return result;
}

describe("einsum", () => {
  // A dot product, an outer product, a matrix times a vector, both ways round, batches, a sum over one operand alone,
  // a diagonal, a trace, a diagonal beside a sum, three and four operands, scalars, an element by element product.
  const CASES: readonly (readonly [subscripts: string, shapes: readonly (readonly number[])[]])[] = [
    ["i,i->", [[5], [5]]],
    ["i,j->ij", [[3], [4]]],
    ["i,j->ji", [[3], [4]]],
    ["ij,j->i", [[3, 4], [4]]],
    ["ij,i->j", [[3, 4], [3]]],
    [
      "ij,jk->ik",
      [
        [3, 4],
        [4, 2],
      ],
    ],
    [
      "ij,kj->ki",
      [
        [3, 4],
        [2, 4],
      ],
    ],
    [
      "ji,jk->ik",
      [
        [4, 3],
        [4, 2],
      ],
    ],
    [
      "bqd,bkd->bqk",
      [
        [2, 3, 5],
        [2, 4, 5],
      ],
    ],
    [
      "bqhd,bkhd->bhqk",
      [
        [2, 3, 2, 5],
        [2, 4, 2, 5],
      ],
    ],
    ["ij->", [[3, 4]]],
    ["ij->ji", [[3, 4]]],
    ["ij,k->k", [[3, 4], [2]]],
    ["ii->i", [[4, 4]]],
    ["ii->", [[4, 4]]],
    ["iji->j", [[3, 2, 3]]],
    ["iii->i", [[3, 3, 3]]],
    [
      "ii,ij->j",
      [
        [3, 3],
        [3, 2],
      ],
    ],
    [
      "ij,jk,kl->il",
      [
        [2, 3],
        [3, 4],
        [4, 2],
      ],
    ],
    ["a,b,c,abc->", [[2], [3], [4], [2, 3, 4]]],
    [",->", [[], []]],
    [",i->i", [[], [3]]],
    [
      "ij,ij->ij",
      [
        [3, 4],
        [3, 4],
      ],
    ],
    [
      "ij,ji->ij",
      [
        [3, 4],
        [4, 3],
      ],
    ],
    [
      "ij,ij->i",
      [
        [3, 4],
        [3, 4],
      ],
    ],
    [
      "Aa,aB->BA",
      [
        [2, 3],
        [3, 4],
      ],
    ],
    // Sizes of 1, which broadcast: of one operand, of all, in the result, summed over.
    [
      "ij,jk->ik",
      [
        [3, 1],
        [4, 2],
      ],
    ],
    [
      "ij,jk->ik",
      [
        [3, 4],
        [1, 2],
      ],
    ],
    [
      "ij,ij->ij",
      [
        [1, 4],
        [3, 1],
      ],
    ],
    ["i,i->i", [[1], [1]]],
    ["i->", [[1]]],
  ];
  test.each(CASES)("%s is the sum by definition, and so is its gradient", async (subscripts, shapes) => {
    const [left, output] = subscripts.split("->") as [string, string];
    const operands = shapes.map((shape, i) => draw(i, shape));
    const expected = byDefinition(left.split(","), output, operands);
    const own = [...einsum(subscripts, ...operands).readSync()];
    expect(own).toHaveLength(expected.length);
    own.forEach((y, i) => expect(y).toBeCloseTo(expected[i]!, 12));
    const inF32 = [...einsum(subscripts, ...shapes.map((shape, i) => draw(i, shape, wasm))).readSync()];
    inF32.forEach((y, i) => expect(y).toBeCloseTo(expected[i]!, 4));
    await checkGradient((xs: Tensor[]) => einsum(subscripts, ...xs), operands, { order: 2 });
  });

  test("subscripts drawn at random: the sum by definition", () => {
    const letters = fc.string({ unit: fc.constantFrom(..."abcd"), maxLength: 3 });
    fc.assert(
      fc.property(
        fc.array(letters, { minLength: 1, maxLength: 3 }),
        fc.infiniteStream(fc.boolean()),
        (inputs, picks) => {
          const output = [...new Set(inputs.join(""))].filter(() => picks.next().value).join("");
          const sizes: Record<string, number> = { a: 1, b: 2, c: 3, d: 2 };
          const operands = inputs.map((own, i) =>
            draw(
              i,
              [...own].map((letter) => sizes[letter]!),
            ),
          );
          const expected = byDefinition(inputs, output, operands);
          const y = einsum(`${inputs.join(", ")} -> ${output}`, ...operands);
          expect(y.shape).toEqual([...output].map((letter) => sizes[letter]!));
          [...y.readSync()].forEach((value, i) => expect(value).toBeCloseTo(expected[i]!, 10));
        },
      ),
    );
  });

  test("an ellipsis stands for any number of axes, which broadcast", () => {
    const [a, b] = [draw(1, [2, 1, 3, 4]), draw(2, [5, 4, 2])];
    const y = einsum("...ij,...jk->...ik", a, b);
    expect(y.shape).toEqual([2, 5, 3, 2]);
    expect(nested(y)).toEqual(nested(einsum("xyij,yjk->xyik", a, b)));
    expect(nested(einsum("...ii->...i", draw(3, [2, 3, 3])))).toEqual(nested(einsum("bii->bi", draw(3, [2, 3, 3]))));
    expect(nested(einsum("...i->...", draw(4, [2, 3])))).toEqual(nested(einsum("bi->b", draw(4, [2, 3]))));
    expect(einsum("i...->...i", draw(4, [2, 3, 4])).shape).toEqual([3, 4, 2]);
    // No axes at all; axes that the result lacks are summed over, as in PyTorch.
    expect(nested(einsum("...i,...i->...", draw(5, [3]), draw(6, [3])))).toBeCloseTo(
      nested(einsum("i,i->", draw(5, [3]), draw(6, [3]))) as number,
      12,
    );
    expect(nested(einsum("...i->i", draw(4, [2, 3])))).toEqual(nested(einsum("bi->i", draw(4, [2, 3]))));
  });

  test("without an arrow the result has what occurs once, in alphabetical order", () => {
    const [a, b] = [draw(1, [2, 3]), draw(2, [3, 4])];
    expect(nested(einsum("zj,ja", a, b))).toEqual(nested(einsum("zj,ja->az", a, b)));
    expect(nested(einsum("ii", draw(3, [3, 3])))).toEqual(nested(einsum("ii->", draw(3, [3, 3]))));
    expect(einsum("...ij,jk", draw(1, [5, 2, 3]), b).shape).toEqual([5, 2, 4]);
  });

  test.each([
    ["ij,jk->ik", [[2, 3]], 'einsum: "ij,jk->ik" has 2 operands, got 1 tensors'],
    ["ij->ik", [[2, 3]], "a subscript of the result is in no operand"],
    ["ij->ii", [[2, 3]], "the result has a subscript twice"],
    ["ij->i", [[2]], '"ij" has 2 subscripts, and its tensor the shape [2]'],
    ["...ij->i", [[2]], '"...ij" has 2 subscripts, and its tensor the shape [2]'],
    [
      "ij,jk->ik",
      [
        [2, 3],
        [4, 5],
      ],
      "subscript j has sizes 3 and 4",
    ],
    ["ii->i", [[2, 3]], "subscript i has sizes 2 and 3"],
    ["ii->i", [[1, 3]], "einsum: no diagonal of axes with sizes 1 and 3"],
    ["i1->i", [[2, 3]], 'expected letters, commas, "..." and one "->", as in "ij,jk->ik"'],
    ["i->i->i", [[2]], 'expected letters, commas, "..." and one "->"'],
    ["i..j->i", [[2, 3]], 'expected letters, commas, "..." and one "->"'],
    ["...i...->i", [[2]], '"...i..." has "..." twice'],
  ] as const)("%s of %j is refused", (subscripts, shapes, message) => {
    expect(() => einsum(subscripts, ...shapes.map((shape, i) => draw(i, shape)))).toThrow(message);
  });

  test("what is no text or no tensor is refused", () => {
    expect(() => einsum(draw(0, [2]) as never, "i->" as never)).toThrow("einsum: subscripts must be a text first");
    expect(() => einsum("i->", [1, 2] as never)).toThrow("einsum: expected a tensor, got [1,2]");
  });
});
