/**
 * Process of one contender, which `process.ts` compiles and starts. It reads requests from standard input, one JSON
 * object a line, and answers on file descriptor 3, because libraries print to standard output. `peers/protocol.py` does
 * so in Python.
 */
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Prepared } from "./contenders/engine.ts";
import { openEngine } from "./contenders/open.ts";
import type { Answer, Request } from "./protocol.ts";

const answer = (message: Answer): void => void writeSync(3, `${JSON.stringify(message)}\n`);
const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

async function main(contender: string, threads: number): Promise<void> {
  const engine = await openEngine(contender, { threads });
  answer({ description: engine.description });
  let current: Prepared | undefined;

  async function respond(request: Request): Promise<Answer> {
    if (request.do === "prepare") {
      current?.dispose();
      current = undefined;
      const prepared = await engine.prepare(request.task);
      if (typeof prepared === "string") return { cannot: prepared };
      current = prepared;
      return { check: await prepared.check() };
    }
    if (request.do === "memory") {
      return { ...engine.memory?.(), peakRss: process.resourceUsage().maxRSS * 1024 };
    }
    if (current === undefined) return { error: "nothing is prepared" };
    if (request.do === "figures") return { figures: (await current.figures?.()) ?? {} };
    const [begin, before] = [performance.now(), process.cpuUsage()];
    for (let i = 0; i < request.calls; i++) {
      const pending = current.run();
      if (pending !== undefined) await pending;
    }
    await current.finish?.();
    const { user, system } = process.cpuUsage(before);
    return { ms: performance.now() - begin, processorMs: (user + system) / 1000 };
  }

  for await (const line of createInterface({ input: process.stdin })) {
    try {
      answer(await respond(JSON.parse(line) as Request));
    } catch (error) {
      answer({ error: reasonOf(error) });
    }
  }
}

const [contender, threads] = process.argv.slice(2);
try {
  await main(contender!, Number(threads));
  process.exit(0); // Dawn keeps a process with a device alive
} catch (error) {
  answer({ error: reasonOf(error) });
  process.exit(1);
}
