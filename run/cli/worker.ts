/**
 * `npm run worker -- --server nats://…`: plays episodes for a learner on another machine (`npm start -- --workers
 * nats://…`) until Ctrl-C. It may start before the learner and go on after it has ended.
 */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { visibleLine } from "../visible.ts";
import { serveNats } from "../../distribute/nats/index.ts";
import { report } from "../node/flags.ts";
import { outliveOutput, outputTaken } from "../node/output.ts";
import { stopOnInterrupt } from "../node/interrupt.ts";
import { HELP, parseWorker } from "./workerOptions.ts";

async function main(): Promise<number> {
  outliveOutput();
  const options = await parseWorker(process.argv.slice(2));
  if (options === "help") {
    process.stdout.write(HELP);
    return 0;
  }
  const { connection, plays, ready } = options;
  let isIn = false;
  const note = (told: string): void => {
    const line = visibleLine(told);
    console.log(line);
    // Writes nothing before the server has accepted the connection; if that fails, the program ends.
    if (!isIn && ready !== undefined) writeFileSync(ready, `${line}\n`);
    isIn = true;
  };
  const signal = stopOnInterrupt(() => console.log("gives back what it does, and ends"));
  const { episodes, tokens } = await serveNats({ ...connection, ...plays, note, signal });
  note(`played ${episodes} episodes, ${tokens} tokens`);
  return 0;
}

process.exitCode = await main().catch(report);
await outputTaken();
process.exit();
