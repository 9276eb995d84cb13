/**
 * An adapter on a packed model that is larger than the WebAssembly memory, trained with threads that play, all of them
 * in memories as small: the run of one process that has room, bit for bit.
 */
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import type { WasmStats } from "../../engine/backends/wasm.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { treeLeaves } from "../../engine/tree.ts";
import type { LoraModel } from "../../pretrained/lora.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { trainRl, type RlOptions } from "../../rl/train/loop.ts";
import { programAt } from "../support/programs.ts";
import { common } from "../support/rlAsync.ts";
import { readAll } from "../support/rlExecutors.ts";
import { reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { adapterOn, packedWeights, SMALL_MEMORY } from "../support/smallMemory.ts";

// Compiled: a thread that compiles the sources for itself takes about a second to start.
const compiled = (path: string): string => pathToFileURL(programAt(path)).href;
const { threadWorkers } = (await import(compiled("run/node/threads.ts"))) as typeof import("../../run/node/threads.ts");
const module = compiled("tests/support/smallRollouts.ts");

const MIB = 2 ** 20;
const open = (maxBytes?: number): Promise<Device> =>
  makeDevice("wasm", { threads: 1, ...(maxBytes === undefined ? {} : { maxBytes }) });
const outside = (device: Device): number => (device.backend.stats() as WasmStats).outsideBytes / MIB;
const optionsOf = (model: LoraModel): RlOptions => toyRlOptions(model, { steps: 2, gradientCheckpointing: true });
const adapterOf = ({ trainable }: LoraModel): Promise<number[][]> => readAll(treeLeaves(trainable.params));

describe.each([
  ["bf16", 4],
  ["q8", 1],
] as const)("packed in %s", (format, least) => {
  it("plays in threads and learns as one process with room", async () => {
    const weights = await packedWeights(format);
    const roomy = await open();
    const one = adapterOn(weights, roomy);
    const sync = await reportsOf(trainRl(optionsOf(one)));
    expect(outside(roomy)).toBe(0);

    const tight = await open(SMALL_MEMORY);
    const other = adapterOn(weights, tight);
    const workers = threadWorkers(2, { module });
    const reports = await reportsOf(trainRlAsync({ ...optionsOf(other), workers, maxStaleness: 0 }));
    expect(outside(tight)).toBeGreaterThan(least);
    expect(reports.map(common)).toEqual(sync.map((report) => report.metrics));
    expect(await adapterOf(other)).toEqual(await adapterOf(one));
    for (const device of [roomy, tight]) device.dispose();
  });
});
