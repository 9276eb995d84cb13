/** A thread that lives and never finishes. In a browser the death of a worker looks the same: nobody tells of it. */
import { expect, it } from "vitest";
import { startThreads } from "../../engine/backends/threads.ts";
import { kernelModule, withSharedMemory } from "../../kernels/wasm/assembler.ts";

it("work that is taken and never finished is an error after the patience, then at once", async () => {
  const memory = { initial: 1, maximum: 65_536, shared: true };
  const { pool } = await startThreads(3, () => new WebAssembly.Memory(memory));
  try {
    const endless = withSharedMemory(
      kernelModule({ begin: "i32", end: "i32" }, (f) => f.loop((again) => f.break(again))),
    );
    // The calling thread lingers over its part, so that the others take theirs.
    const run = (): void => {
      for (const end = performance.now() + 50; performance.now() < end;);
    };
    const submit = (): void => pool.submit({ code: pool.share(endless)!, run, args: [], units: 12, chunks: 12 });
    submit();
    expect(() => pool.drain(1)).toThrow("a worker thread took work and has not finished it for 1 s");
    expect(submit).toThrow("has not finished it for 1 s");
  } finally {
    pool.dispose();
  }
});
