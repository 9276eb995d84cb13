/**
 * `worldgrad/tune`: a WebGPU device whose schedules were measured on the adapter at hand. The tables of
 * `kernels/wgsl/` were measured on three adapters, and the GPU of a visitor is another.
 */
import { createWebgpuBackend } from "../engine/backends/webgpu.ts";
import { check } from "../engine/errors.ts";
import { type Device, device, type WebgpuOptions } from "../engine/index.ts";
import { type ScheduleStore, tunedSchedules } from "./measure.ts";

export type { ScheduleStore } from "./measure.ts";

/** Options of `tunedDevice`. */
export interface TuneOptions {
  /** Where schedules are kept by the adapter's name; without it they are measured each time. */
  readonly store?: ScheduleStore;
  /** Options of the WebGPU executor. */
  readonly webgpu?: WebgpuOptions;
}

/**
 * A WebGPU device with the schedules that are fastest on its adapter. Measuring takes some seconds, most of them for
 * compilation. Other schedules add in another order, so results differ in their last bits from those of the tables:
 * who wants the same bits again gives `Device.schedules` to `device("webgpu", { webgpu: { schedules } })`.
 * @throws WorldgradError if there is no WebGPU, or with `webgpu.adapter`: an adapter can be opened once
 * @example
 * const on = await tunedDevice({ store: localStorage });
 */
export async function tunedDevice({ store, webgpu = {} }: TuneOptions = {}): Promise<Device> {
  check(
    webgpu.adapter === undefined,
    () => "tunedDevice: it opens the adapter several times, so it cannot have webgpu.adapter",
  );
  const schedules = await tunedSchedules(() => createWebgpuBackend(webgpu), store);
  return device("webgpu", { webgpu: { ...webgpu, schedules } });
}
