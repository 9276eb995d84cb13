/**
 * A call that is refused says so in one sentence, leaves nothing behind, and the device works on, on every executor;
 * and what outlives its device goes quietly, so that the first error stays the one that is seen.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import * as wg from "../../engine/index.ts";
import { apply } from "../../engine/op.ts";
import { gpuEnabled, gpuOptions } from "../support/gpu.ts";
import { allOps, samplesOf } from "../support/opChecks.ts";

const KINDS = ["reference", "wasm", ...(gpuEnabled ? (["webgpu"] as const) : [])] as const;
const open = (kind: (typeof KINDS)[number]): Promise<wg.Device> => wg.device(kind, { webgpu: gpuOptions });
let devices: wg.Device[] = [];
beforeAll(async () => {
  devices = await Promise.all(KINDS.map(open));
});
afterAll(() => devices.forEach((d) => d.dispose()));

/** Live memory before, the call, and then: the same memory, and a sum that is right. */
async function worksAfter(device: wg.Device, what: string, refused: () => unknown): Promise<void> {
  const { liveBytes, liveBuffers } = device.backend.stats();
  refused();
  expect(device.backend.stats(), what).toMatchObject({ liveBytes, liveBuffers });
  const x = wg.tensor([1, 2, 3], { device });
  const y = wg.add(x, 1);
  expect([...(await y.read())], `${device.kind} after ${what}`).toEqual([2, 3, 4]);
  [x, y].forEach((t) => t.dispose());
}

type Call = (device: wg.Device) => unknown;
const REFUSED: Readonly<Record<string, readonly [call: Call, says: RegExp]>> = {
  "more elements than numbers count": [
    (d) => wg.zeros([1e200, 1e200], { device: d }),
    /^zeros: \[1e\+200, 1e\+200\] has/,
  ],
  "more than any memory": [(d) => wg.zeros([2 ** 30, 2 ** 17], { device: d }), /asked for|exceeds this adapter's/],
  "more numbers than i32 has": [
    (d) => wg.arange(2 ** 33, { device: d }),
    /^arange: expected a whole number from 1 to 2\^31/,
  ],
  "half a number": [(d) => wg.arange(1.5, { device: d }), /^arange: expected a whole number.*got 1.5/],
  "no number": [(d) => wg.arange(NaN, { device: d }), /^arange: expected a whole number.*got NaN/],
  "a mask that no host holds": [
    (d) => wg.causalMask(2 ** 20, { device: d }),
    /^causalMask: \[1048576, 1048576\] is made/,
  ],
  "its like": [(d) => wg.triuMask(2 ** 20, 2 ** 20, 1, { device: d }), /^triuMask: \[1048576, 1048576\] is made/],
  "random numbers without end": [
    (d) => wg.randomNormal(new wg.Rng(1), [1e6, 1e6], { device: d }),
    /^randomNormal: \[1000000, 1000000\] is made on the host/,
  ],
  "classes without end": [
    (d) => wg.scope(() => wg.oneHot(wg.tensor([1], { device: d, dtype: "i32" }), 1e10)),
    /^oneHot: 10000000000 columns are made/,
  ],
  "shapes that do not fit": [
    (d) => wg.scope(() => wg.matmul(wg.ones([2, 3], { device: d }), wg.ones([2, 3], { device: d }))),
    /^matmul: /,
  ],
  "an id outside the table": [
    (d) => wg.scope(() => wg.gather(wg.ones([2, 3], { device: d }), wg.tensor([7], { device: d, dtype: "i32" }))),
    /id 7 at position 0 is outside a table of 2 rows/,
  ],
  "a broadcast beyond memory": [
    (d) => wg.scope(() => wg.broadcastTo(wg.ones([1], { device: d }), [1e6, 1e6])),
    /asked for|exceeds this adapter's/,
  ],
};

test.each(Object.entries(REFUSED))("%s", async (what, [call, says]) => {
  for (const device of devices) {
    await worksAfter(device, what, () => {
      let error: unknown;
      try {
        call(device);
      } catch (caught) {
        error = caught;
      }
      expect(error, `${device.kind}: ${what}`).toMatchObject({ name: "WorldgradError" });
      expect((error as Error).message, device.kind).toMatch(says);
    });
  }
});

/** Every function that is told a size, with a size that cannot be: too many, too few, or no whole number. */
const x = (device: wg.Device): wg.Tensor => wg.ones([2, 3], { device });
const id = (device: wg.Device): wg.Tensor => wg.tensor([1], { device, dtype: "i32" });
const MAKERS: Readonly<Record<string, (device: wg.Device, n: number) => unknown>> = {
  zeros: (device, n) => wg.zeros([2, n], { device }),
  ones: (device, n) => wg.ones([n], { device }),
  full: (device, n) => wg.full([n, 2], 1, { device }),
  tensor: (device, n) => wg.tensor([1, 2], { device, shape: [n] }),
  arange: (device, n) => wg.arange(n, { device }),
  causalMask: (device, n) => wg.causalMask(n, { device }),
  triuMask: (device, n) => wg.triuMask(2, n, 0, { device }),
  randomUniform: (device, n) => wg.randomUniform(new wg.Rng(1), [n], { device }),
  randomNormal: (device, n) => wg.randomNormal(new wg.Rng(1), [n], { device }),
  rotaryTables: (device, n) => wg.rotaryTables(n, 4, 100, { device }),
  oneHot: (device, n) => wg.oneHot(id(device), n),
  scatterAdd: (device, n) => wg.scatterAdd(wg.ones([1, 3], { device }), id(device), n),
  scatterAlong: (device, n) => wg.scatterAlong(wg.ones([1], { device }), id(device), n),
  broadcastTo: (device, n) => wg.broadcastTo(x(device), [n, 2, 3]),
  reshape: (device, n) => wg.reshape(x(device), [n, 4]), // −1 asks for the size that is left: 6 has none
  pad: (device, n) => wg.pad(x(device), [n < 1 ? n - 1 : n, 0], [0, 0]),
  split: (device, n) => wg.split(x(device), n),
};

test("every function that is told a size, given one that cannot be", async () => {
  for (const device of devices) {
    for (const [name, make] of Object.entries(MAKERS)) {
      for (const n of [0, -1, 1.5, NaN, Infinity, 2 ** 45]) {
        await worksAfter(device, `${name} of ${n}`, () => {
          expect(() => wg.scope(() => void make(device, n)), `${device.kind}: ${name} of ${n}`).toThrow(
            wg.WorldgradError,
          );
        });
      }
    }
  }
});

test("every op, given scalars, integers, or operands that do not fit together", async () => {
  for (const device of devices) {
    const wrong = (count: number): wg.Tensor[][] => [
      Array.from({ length: count }, () => wg.tensor(1.5, { device })),
      Array.from({ length: count }, () => wg.tensor([3, 4], { device, dtype: "i32" })),
      Array.from({ length: count }, (_, i) => wg.ones([i + 2, i + 3], { device })),
    ];
    let refusals = 0;
    await worksAfter(device, "all ops", () => {
      for (const op of allOps()) {
        const { inputs, params } = samplesOf(op)[0]!;
        for (const k of [0, 1, 2]) {
          try {
            wg.scope(() => void apply(op, wrong(inputs.length)[k]!, params));
          } catch {
            refusals++;
          }
        }
      }
    });
    expect(refusals).toBeGreaterThan(allOps().length);
  }
});

test("a tensor that outlives its device is disposed of in silence: the first error is the one seen", async () => {
  for (const kind of KINDS) {
    const device = await open(kind);
    const x = wg.ones([3], { device });
    const work = (): void => {
      try {
        device.dispose();
        throw new Error("the first error");
      } finally {
        x.dispose();
      }
    };
    expect(work, kind).toThrow("the first error");
    // The reference holds nothing that could be given back, and so goes on.
    if (kind !== "reference") expect(() => wg.ones([3], { device }), kind).toThrow(/dispose/);
  }
});
