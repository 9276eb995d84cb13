/** What the engine holds of a device's memory, for tests that it does not grow. */
import type { Device } from "../../engine/device.ts";

/** What the engine holds, and must not hold more of after a while. */
export function heldBy(device: Device): Readonly<Record<string, number>> {
  const stats = device.backend.stats();
  const { liveBytes, liveBuffers, reservedBytes, compiledKernels } = stats;
  return {
    liveBytes,
    liveBuffers,
    reservedBytes,
    compiledKernels,
    ...("bindGroups" in stats ? { bindGroups: Number(stats.bindGroups) } : {}),
    ...("bufferMisses" in stats ? { bufferMisses: Number(stats.bufferMisses) } : {}),
  };
}
