/** Tuning on a machine whose clock and kernels are made up: what is chosen, and what is not. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { BackendOf, Buffer } from "../../engine/backends/backend.ts";
import { type ScheduleStore, tunedSchedules } from "../../tune/measure.ts";
import type { AdapterProfile, Program, Schedules, WgslKernel } from "../../kernels/kernel.ts";
import { generatorsFor } from "../../kernels/wgsl/generators.ts";

type Gpu = BackendOf<"webgpu">;

/** What a made-up adapter does with a kernel. */
interface Kernels {
  /** Milliseconds of a kernel with this key. */
  readonly time: (key: string) => number;
  /** The number that a kernel writes everywhere; 1 unless given, undefined for one that writes nothing. */
  readonly result?: (key: string) => number | undefined;
  /** Whether a driver loses the device over it. */
  readonly breaks?: (key: string) => boolean;
}

const profile: AdapterProfile = { schedule: "software", adapter: "llvmpipe" };
let clock = 0;
const opened: { isDisposed: boolean; live: number }[] = [];

function open({ time, result = () => 1, breaks = () => false }: Kernels): Gpu {
  const state = { isDisposed: false, live: 0 };
  opened.push(state);
  let isLost = false;
  let last = 1;
  const run = ({ steps }: Program<WgslKernel>): void => {
    for (const { kernel } of steps) {
      clock += time(kernel.key);
      last = result(kernel.key) ?? last;
      isLost ||= breaks(kernel.key);
    }
  };
  const usable = <R>(value: R): Promise<R> => (isLost ? Promise.reject(new Error("lost")) : Promise.resolve(value));
  return {
    kind: "webgpu",
    description: "made up",
    profile,
    generators: generatorsFor(profile),
    alloc: (bytes: number): Buffer => {
      state.live++;
      return { bytes };
    },
    free: () => void state.live--,
    write: (_: Buffer, data: Float32Array) => void (last = data[0]!),
    run,
    read: (_: Buffer, bytes: number) => usable(new Float32Array(bytes / 4).fill(last).buffer),
    synchronize: () => usable(undefined),
    dispose: () => void (state.isDisposed = true),
  } as unknown as Gpu;
}

const measure = (kernels: Kernels, store?: ScheduleStore): Promise<Schedules> =>
  tunedSchedules(() => Promise.resolve(open(kernels)), store);

/** The kernels of large products on llvmpipe: the table's, with one step at a time, and the same with four. */
const isLargeBySteps = (key: string): boolean => key.includes("direct16x4") && key.includes("by1");
const isLargeByFours = (key: string): boolean => key.includes("direct16x4") && key.includes("quads");

beforeEach(() => {
  clock = 0;
  opened.length = 0;
  vi.spyOn(performance, "now").mockImplementation(() => clock);
});
afterEach(() => {
  vi.restoreAllMocks();
  const left = opened.filter(({ isDisposed, live }) => !isDisposed || live > 0);
  if (left.length > 0) throw new Error(`a device was left open, or buffers: ${JSON.stringify(left)}`);
});

describe("what is chosen", () => {
  it("nothing, where all take the same time", async () => {
    expect(await measure({ time: () => 1 })).toEqual({ matmul: {}, attention: {} });
    expect(opened).toHaveLength(1);
  });

  it("nothing, where the clock stands", async () => {
    expect(await measure({ time: () => 0 })).toEqual({ matmul: {}, attention: {} });
  });

  it("a schedule that is faster by a margin, and none that is faster by less", async () => {
    const fast = (share: number): Promise<Schedules> =>
      measure({ time: (key) => (key.startsWith("attention/") && key.includes("/64x4x1/1x1/") ? share : 1) });
    const keys = (schedules: Schedules): string[] => Object.keys(schedules.attention);
    const found = keys(await fast(0.5));
    expect(found).toEqual(["forward/few"]);
    expect(keys(await fast(0.9))).toEqual(found);
    expect(keys(await fast(0.95))).toEqual([]);
  });

  it("nothing that is slower on one of the problems", async () => {
    // Faster by half on average, and slower where the second matrix is not transposed.
    const time = (slow: number) => (key: string) => {
      if (!key.includes("direct8x1/")) return 1;
      return key.includes("/NN/") ? slow : 0.3;
    };
    expect((await measure({ time: time(1.02) })).matmul.large).toMatchObject({ rows: 8, quads: 1 });
    expect((await measure({ time: time(1.05) })).matmul.large).toBeUndefined();
  });

  it("the fastest of several", async () => {
    const { matmul } = await measure({
      time: (key) => (key.includes("direct8x1/") ? 0.2 : key.includes("direct8x2/") ? 0.4 : 1),
    });
    expect(matmul.large).toMatchObject({ kind: "direct", rows: 8, quads: 1 });
  });

  it("nothing that was fast once by chance", async () => {
    const isIt = (key: string): boolean => key.startsWith("attention/") && key.includes("/64x4x1/1x1/");
    let calls = 0;
    const fastBefore = (end: number) =>
      measure({ time: (key) => (isIt(key) && calls++ < end ? 0.1 : 1) }).then(({ attention }) => attention);
    expect(await fastBefore(Infinity)).toHaveProperty(["forward/few"]);
    // It runs once to be compiled and once for its result; in half of its other turns the two meet again.
    const first = 2 + (calls - 2) / 2;
    calls = 0;
    expect(await fastBefore(first)).toEqual({});
    calls = 0;
    expect(await fastBefore(first + 1e6)).toHaveProperty(["forward/few"]);
  });

  it("nothing that is computed wrongly, however fast", async () => {
    const time = (key: string): number => (key.includes("direct8x1/") ? 0.1 : 1);
    expect((await measure({ time })).matmul.large).toBeDefined();
    for (const wrong of [1.01, NaN, Infinity, undefined]) {
      const { matmul } = await measure({ time, result: (key) => (key.includes("direct8x1/") ? wrong : 1) });
      expect(matmul.large).toBeUndefined();
    }
  });

  it("the table's for a class whose candidate ends the device; the others are measured on another one", async () => {
    const { matmul, attention } = await measure({
      time: (key) =>
        key.includes("direct8x1/") || (key.startsWith("attention/") && key.includes("/64x4x1/1x1/")) ? 0.1 : 1,
      breaks: isLargeByFours,
    });
    expect(matmul).toEqual({});
    expect(attention["forward/few"]).toBeDefined();
    expect(opened.length).toBeGreaterThan(1);
  });
});

describe("what is kept", () => {
  const time = (key: string): number => (isLargeBySteps(key) ? 3 : 1);
  const memory = (): ScheduleStore & { readonly texts: Map<string, string> } => {
    const texts = new Map<string, string>();
    return { texts, getItem: (key) => texts.get(key) ?? null, setItem: (key, value) => void texts.set(key, value) };
  };

  it("is measured once for an adapter", async () => {
    const store = memory();
    const first = await measure({ time }, store);
    expect(first.matmul.large).toBeDefined();
    expect([...store.texts.keys()]).toEqual(["worldgrad schedules 1: made up, "]);
    clock = 0;
    expect(await measure({ time }, store)).toEqual(first);
    expect(clock).toBe(0);
  });

  it.each([
    "",
    "{",
    "null",
    '{"matmul":null,"attention":null}',
    "[]",
    '"x"',
    '{"matmul":1,"attention":{}}',
    '{"matmul":{}}',
  ])("is measured again where it cannot be read: %s", async (text) => {
    const store = memory();
    store.setItem("worldgrad schedules 1: made up, ", text);
    expect((await measure({ time }, store)).matmul.large).toBeDefined();
    expect(clock).toBeGreaterThan(0);
  });
});
