/**
 * Schedules of a GPU that were measured (`--tune`): once for each adapter, in a file that all runs share, and in the
 * folder of each run that used them, so that it goes on with the same bits.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fail } from "../../engine/errors.ts";
import { type Device, device, type DeviceOptions, type WebgpuOptions } from "../../engine/index.ts";
import { type ScheduleStore, tunedDevice } from "../../tune/index.ts";
import type { StartOptions } from "../startOptions.ts";
import { makeFolder, writeAtomically } from "./disk.ts";
import { sealed, unsealed } from "./sealed.ts";

/** The file of all runs beside their folders. */
const SCHEDULE_FILE = join("runs", "schedules.json");
const OF_RUN = "schedules.json";

/** What a run keeps: the schedules, and the device that they were measured on. */
interface Kept {
  readonly device: string;
  readonly schedules: NonNullable<Device["schedules"]>;
}

/** A store in a JSON file of texts by keys. A file that is none is begun anew. */
export function scheduleFile(path: string): ScheduleStore {
  const read = (): Record<string, unknown> => {
    try {
      return Object(JSON.parse(readFileSync(path, "utf8"))) as Record<string, unknown>;
    } catch {
      return {};
    }
  };
  return {
    getItem: (key) => {
      const value = read()[key];
      return typeof value === "string" ? value : null;
    },
    setItem: (key, value) => {
      makeFolder(dirname(path));
      writeAtomically(path, `${JSON.stringify({ ...read(), [key]: value }, null, 2)}\n`);
    },
  };
}

/** The schedules that a run in `folder` was begun with. @throws WorldgradError if the file was changed */
export function schedulesOf(folder: string): Kept | undefined {
  const path = join(folder, OF_RUN);
  return existsSync(path) ? (unsealed(path, (problem) => fail(`${path}: ${problem}`)) as unknown as Kept) : undefined;
}

/** Keeps the schedules of a device in the folder of a run, if they were measured. */
export function keepSchedules(folder: string, { description, schedules }: Device): void {
  if (schedules === undefined) return;
  const kept: Kept = { device: description, schedules };
  writeAtomically(join(folder, OF_RUN), sealed(kept));
}

/**
 * The device of a run: with the schedules that it was begun with, if its adapter is still the same, or with measured
 * ones, if `tune` asks for them.
 * @param webgpu further options of the adapter
 */
export async function deviceOfRun(
  { device: kind, tune }: Pick<StartOptions, "device" | "tune">,
  kept: Kept | undefined,
  note: (line: string) => void,
  webgpu: WebgpuOptions = {},
): Promise<Device> {
  const options: DeviceOptions = { log: note, webgpu };
  if (kept === undefined) {
    const plain = await device(kind, options);
    if (!tune || plain.kind !== "webgpu") return plain;
    plain.dispose();
    note(`the schedules of this adapter are in ${SCHEDULE_FILE}, or are measured now, for some seconds`);
    return tunedDevice({ store: scheduleFile(SCHEDULE_FILE), webgpu });
  }
  const made = await device(kind, { ...options, webgpu: { ...webgpu, schedules: kept.schedules } });
  if (made.kind !== "webgpu" || made.description === kept.device) return made;
  note(`the schedules of this run were measured on ${kept.device}; here are those of the tables`);
  made.dispose();
  return device(kind, options);
}
