/** Schedules that were measured: the file of all runs, and the record of one. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { Device, WebgpuOptions } from "../../../engine/index.ts";
import { keepSchedules, scheduleFile, schedulesOf } from "../../../run/node/schedules.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-schedules-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Schedules = NonNullable<WebgpuOptions["schedules"]>;
const schedules: Schedules = { matmul: { large: { kind: "subgroup", rows: 8 } }, attention: {} };

describe("the file of all runs", () => {
  it("is made with its folder, and keeps a text for each key", () => {
    const path = join(folder, "deep/er/schedules.json");
    const store = scheduleFile(path);
    expect(store.getItem("a")).toBeNull();
    store.setItem("a", "1");
    store.setItem("b", "2");
    store.setItem("a", "3");
    expect([store.getItem("a"), scheduleFile(path).getItem("b"), store.getItem("toString")]).toEqual(["3", "2", null]);
  });

  it.each(["", "{", "null", "7", "[]", '{"a":7}'])("is begun anew where it is none: %s", (text) => {
    const path = join(folder, "broken.json");
    writeFileSync(path, text);
    const store = scheduleFile(path);
    expect(store.getItem("a")).toBeNull();
    store.setItem("a", "1");
    expect(JSON.parse(readFileSync(path, "utf8"))).toEqual({ a: "1" });
  });
});

describe("the record of a run", () => {
  const device = (of?: Schedules): Device => ({ description: "webgpu: one", schedules: of }) as Device;

  it("is what was kept, and is not made without schedules", () => {
    keepSchedules(folder, device());
    expect(schedulesOf(folder)).toBeUndefined();
    keepSchedules(folder, device(schedules));
    expect(schedulesOf(folder)).toEqual({ device: "webgpu: one", schedules });
  });

  it("is refused if it was changed", () => {
    const path = join(folder, "schedules.json");
    writeFileSync(path, readFileSync(path, "utf8").replace("webgpu: one", "webgpu: two"));
    expect(() => schedulesOf(folder)).toThrow(`${path}: changed since it was written`);
  });
});
