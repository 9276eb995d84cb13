/**
 * The time of each kernel of four training steps by the GPU's own clock: `WORLDGRAD_DEBUG=1` gives every dispatch a
 * pass with time stamps, and prints the table when the process ends. A part of `npm run gpu`.
 */
import { allCases } from "../cases/index.ts";
import { openEngine } from "../contenders/open.ts";

const [name = "step/B4-T64-C128-L2"] = process.argv.slice(2);
const test = allCases().find((one) => one.name === name);
if (test === undefined) throw new Error(`there is no case "${name}"`);
const engine = await openEngine("worldgrad-webgpu", { threads: 1 });
const prepared = await engine.prepare(test.task);
if (typeof prepared === "string") throw new Error(prepared);
console.error(`${name}, four steps: losses ${(await prepared.check()).map((loss) => loss.toFixed(4)).join(", ")}`);
process.exit(0); // Dawn keeps the process alive; the table is printed at the exit
