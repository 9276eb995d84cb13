/** The device of a run that was begun with schedules that were measured. */
import { describe, expect, it } from "vitest";
import type { Device, WebgpuOptions } from "../../../engine/index.ts";
import { deviceOfRun } from "../../../run/node/schedules.ts";
import { gpuOptions, openWebgpu } from "../../support/gpu.ts";

const schedules: NonNullable<WebgpuOptions["schedules"]> = {
  matmul: { large: { kind: "subgroup", rows: 8 } },
  attention: {},
};

describe("the device of a run that goes on", () => {
  const lines: string[] = [];
  const open = (kind: "webgpu" | "wasm", description: string): Promise<Device> => {
    lines.length = 0;
    return deviceOfRun(
      { device: kind },
      { device: description, schedules },
      (line) => void lines.push(line),
      gpuOptions,
    );
  };

  it("has the schedules of the run on the same adapter, and those of the tables on another", async () => {
    const backend = await openWebgpu();
    const { description } = backend;
    backend.dispose();
    const same = await open("webgpu", description);
    expect(same.schedules).toEqual(schedules);
    expect(lines).toEqual([]);
    same.dispose();
    const other = await open("webgpu", "webgpu: another");
    expect(other.schedules).toBeUndefined();
    expect(lines).toEqual(["the schedules of this run were measured on webgpu: another; here are those of the tables"]);
    other.dispose();
  });

  it("has none where it is no GPU", async () => {
    const made = await open("wasm", "webgpu: another");
    expect([made.kind, made.schedules, lines]).toEqual(["wasm", undefined, []]);
    made.dispose();
  });
});
