/** Work that is captured and done again: the bits of work that is done anew, whatever has changed that may change. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Captured, capture } from "../../engine/capture.ts";
import type { WasmStats } from "../../engine/backends/wasm.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { grad } from "../../engine/grad.ts";
import { full, tensor, zeros } from "../../engine/ops/create.ts";
import { gather, writeRows } from "../../engine/ops/indexing.ts";
import { matmul } from "../../engine/ops/matmul.ts";
import { reshape } from "../../engine/ops/movement.ts";
import { add, mul } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { softmax } from "../../engine/ops/softmax.ts";
import { Rng } from "../../engine/random.ts";
import { outsideScopes, scope } from "../../engine/scope.ts";
import { assign } from "../../engine/state.ts";
import type { Tensor } from "../../engine/tensor.ts";
import { failingMemory } from "../support/failingMemory.ts";
import { everyExecutor } from "../support/rlExecutors.ts";

const threaded = { name: "wasm, 2 threads", open: () => makeDevice("wasm", { threads: 2 }), tolerance: 0 };
const [ROWS, WIDTH] = [6, 8];

describe.each([...everyExecutor, threaded])("on $name", ({ open }) => {
  let device: Device;
  beforeAll(async () => void (device = await open()), 60_000);
  afterAll(() => device.dispose());

  const live = (): number => device.backend.stats().liveBytes;
  const random = (rng: Rng, shape: readonly number[]): Tensor => {
    const values = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => rng.normal());
    return tensor(values, { device, shape });
  };
  /** Looks rows up, in an order that the host says, and mixes them. */
  const mixed = (table: Tensor, weights: Tensor, ids: Int32Array): Tensor =>
    scope(() => {
      const x = gather(table, tensor(ids, { device }));
      return softmax(add(matmul(x, weights), mul(x, 0.5)));
    });
  const capturedMix = (table: Tensor, weights: Tensor, ids: Int32Array): Captured => {
    const { result, captured } = capture([table, weights], () => mixed(table, weights, ids));
    result.dispose();
    return captured!;
  };

  it("other elements, other tensors, other arrays: the bits of the work itself, and no memory is held", async () => {
    const rng = new Rng(1);
    const ids = Int32Array.of(0, 5, 2);
    const table = random(rng, [ROWS, WIDTH]);
    const first = random(rng, [WIDTH, WIDTH]);
    const captured = capturedMix(table, first, ids);
    const before = live();
    for (let n = 0; n < 6; n++) {
      for (let i = 0; i < ids.length; i++) ids[i] = rng.int(ROWS);
      const fresh = random(rng, [ROWS, WIDTH]);
      assign(table, fresh);
      fresh.dispose();
      const weights = n % 2 === 0 ? first : random(rng, [WIDTH, WIDTH]);
      const [again, anew] = [captured.replay([table, weights]), mixed(table, weights, ids)];
      expect([again.shape, again.dtype]).toEqual([anew.shape, anew.dtype]);
      expect([...(await again.read())]).toEqual([...(await anew.read())]);
      for (const x of [again, anew, ...(weights === first ? [] : [weights])]) x.dispose();
      expect(live()).toBe(before);
    }
    for (const x of [table, first]) x.dispose();
  });

  it("what it makes belongs to the scope that it is replayed in", () => {
    const [table, weights] = [random(new Rng(2), [ROWS, WIDTH]), random(new Rng(3), [WIDTH, WIDTH])];
    const captured = capturedMix(table, weights, Int32Array.of(1));
    const before = live();
    const kept = scope(() => {
      captured.replay([table, weights]);
      return captured.replay([table, weights]);
    });
    expect(kept.disposed).toBe(false);
    kept.dispose();
    expect(live()).toBe(before);
    for (const x of [table, weights]) x.dispose();
  });

  it("an input that it overwrites", async () => {
    const rows = zeros([ROWS, 2], { device });
    const places = Int32Array.of(1, 4);
    const chosen = Int32Array.of(1, 2);
    const write = (): Tensor =>
      scope(() => {
        const table = tensor([0, 0, 1, -1, 2, -2, 3, -3], { device, shape: [4, 2] });
        writeRows(rows, tensor(places, { device }), gather(table, tensor(chosen, { device })));
        return mul(rows, 2);
      });
    const { result, captured } = capture([rows], write);
    expect([...(await result.read())]).toEqual([0, 0, 2, -2, 0, 0, 0, 0, 4, -4, 0, 0]);
    places.set([0, 5]);
    chosen.set([3, 1]);
    const again = captured!.replay([rows]);
    expect([...(await again.read())]).toEqual([6, -6, 2, -2, 0, 0, 0, 0, 4, -4, 2, -2]);
    for (const x of [rows, result, again]) x.dispose();
  });

  it("no replay of work that reads, frees what others made, leaves something behind, or returns an input", async () => {
    const x = zeros([4], { device });
    const other = zeros([4], { device });
    const left: Tensor[] = [];
    const reads: Promise<unknown>[] = [];
    const bodies: Record<string, () => Tensor> = {
      reads: () => (reads.push(add(x, 1).read()), add(x, 1)),
      frees: () => (other.dispose(), add(x, 1)),
      leaves: () => (left.push(outsideScopes(() => add(x, 2))), add(x, 1)),
      returns: () => reshape(x, [2, 2]),
      both: () => (left.push(outsideScopes(() => add(x, 3))), reshape(x, [2, 2])),
    };
    for (const [name, body] of Object.entries(bodies)) {
      const { result, captured } = capture([x], () => scope(body));
      expect(captured, name).toBeUndefined();
      result.dispose();
    }
    await Promise.all(reads);
    for (const y of [x, ...left]) y.dispose();
  });

  it("is refused while a gradient is recorded, as it would not be recorded", async () => {
    const x = tensor([1, 2], { device });
    const { result, captured } = capture([x], () => scope(() => mul(x, 3)));
    expect(() => grad((y: Tensor) => sum(mul(captured!.replay([y]), y)))(x)).toThrow("a gradient is being recorded");
    const again = captured!.replay([x]);
    expect([...(await again.read())]).toEqual([3, 6]);
    for (const y of [x, result, again]) y.dispose();
  });

  it("an error leaves the executor as it was", () => {
    const x = zeros([4], { device });
    const { backend } = device;
    expect(() => capture([x], () => matmul(x, x))).toThrow("matmul: expected matrices");
    expect(device.backend).toBe(backend);
    const { captured } = capture([x], () => scope(() => add(mul(x, 2), 1)));
    const other = zeros([5], { device });
    const before = live();
    expect(() => captured!.replay([other])).toThrow(/replay: captured with inputs of \d+ bytes, got f..\[5\]/);
    expect(() => captured!.replay([x, x])).toThrow(/got f..\[4\], f..\[4\]/);
    for (const y of [x, other]) y.dispose();
    expect(() => captured!.replay([x])).toThrow("was used after its scope ended");
    expect(live()).toBeLessThan(before);
  });
});

it("a frozen input that it overwrites comes back into the memory first", async () => {
  const device = await makeDevice("wasm", { threads: 1, maxBytes: 2 ** 22 });
  const x = zeros([2 ** 18], { device });
  const body = (): Tensor =>
    scope(() => {
      assign(x, add(x, 1));
      return sum(x);
    });
  const { result, captured } = capture([x], body);
  expect(result.readSync()[0]).toBe(2 ** 18);
  result.dispose();
  x.storage.freeze();
  full([3 * 2 ** 18 + 16384], 0, { device }).dispose(); // needs the room, so that x is moved out
  expect((device.backend.stats() as WasmStats).outsideBytes).toBe(2 ** 20);
  const again = captured!.replay([x]);
  expect([again.readSync()[0], x.readSync()[5]]).toEqual([2 ** 19, 2]);
  device.dispose();
});

it("memory that runs out at any point of a replay leaves nothing, and the next one is right", async () => {
  const device = await makeDevice("wasm", { threads: 1 });
  const failAt = failingMemory(device);
  const x = tensor([1, 2, 3], { device });
  const ids = Int32Array.of(2, 0);
  const chosen = (): Tensor => scope(() => gather(x, tensor(ids, { device })));
  const body = (): Tensor => scope(() => mul(add(chosen(), 1), 3));
  const { result, captured } = capture([x], body);
  result.dispose();
  const before = device.backend.stats();
  let failures = 0;
  for (; ; failures++) {
    failAt(failures + 1);
    try {
      const again = scope(() => captured!.replay([x]), "around");
      expect([...again.readSync()]).toEqual([12, 6]);
      again.dispose();
      break;
    } catch (error) {
      expect((error as Error).message).toMatch(
        /allocation \d+ fails \(open scopes: around holds 0 bytes in 0 tensors\)/,
      );
    }
    expect(device.backend.stats().liveBuffers).toBe(before.liveBuffers);
  }
  expect(failures).toBe(4); // the ids, three results
  expect(device.backend.stats().liveBytes).toBe(before.liveBytes);
  device.dispose();
});
