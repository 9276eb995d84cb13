/** A program that trains with threads and then has nothing left to do. Its argument says how the run is to end. */
import { extname } from "node:path";
import { threadWorkers } from "../../run/node/threads.ts";
import { device } from "../../engine/device.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { toyRlOptions } from "./rlRuns.ts";
import { endingModel, letters, toySpec } from "./rlToy.ts";

const how = process.argv[2];
const model = endingModel(await device("wasm", { threads: 1 }));
const module =
  how === "nowhere"
    ? "file:///nowhere/rollouts.js"
    : new URL(`./toyRollouts${extname(import.meta.url)}`, import.meta.url);
const workers = threadWorkers(2, { module });
const env = how === "unknown" ? { ...toySpec(letters(2)), name: "unheard" } : toySpec(letters(2));
const options = { ...toyRlOptions(model, { steps: 4, env }), workers, maxStaleness: 1, maxRestarts: 1 };
try {
  for await (const { step } of trainRlAsync(options)) {
    console.log(`step ${step}`);
    if (how === "leave" && step === 1) break;
  }
} catch (error) {
  console.log(error instanceof Error ? error.message : error);
}
