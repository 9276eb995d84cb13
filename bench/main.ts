/**
 * `npm run bench -- NAME [argument…]`: runs one benchmark, a file beside this one that exports `run(args)`. Without a name: lists
 * them. Benchmarks measure; what must hold is in tests/.
 */
import { readdirSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

interface Benchmark {
  run(args: readonly string[]): Promise<void> | void;
}

const names = readdirSync(dirname(fileURLToPath(import.meta.url)))
  .filter((file) => file.endsWith(".ts") && file !== "main.ts")
  .map((file) => file.slice(0, -3));
const [name, ...args] = process.argv.slice(2);
if (name === undefined || !names.includes(name)) {
  if (name !== undefined) console.error(`bench: there is no "${name}"`);
  console.error(`usage: npm run bench -- NAME [argument…], with NAME one of: ${names.join(", ")}`);
  process.exit(2);
}
const benchmark = (await import(`./${name}.ts`)) as Benchmark;
await benchmark.run(args);
