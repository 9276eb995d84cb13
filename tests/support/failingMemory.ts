/** A device whose memory runs out when a test says so. */
import type { Device } from "../../engine/device.ts";
import { OutOfMemoryError } from "../../engine/errors.ts";

/** Makes the n-th allocation from now on fail (0: none), and says how many there were since the last call. */
export function failingMemory({ backend }: Device): (n: number) => number {
  const alloc = backend.alloc.bind(backend);
  let [count, fails] = [0, 0];
  backend.alloc = (bytes) => {
    if (++count === fails) throw new OutOfMemoryError(`allocation ${count} fails`);
    return alloc(bytes);
  };
  return (n) => {
    const before = count;
    [count, fails] = [0, n];
    return before;
  };
}
