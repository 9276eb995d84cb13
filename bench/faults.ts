/**
 * `npx tsx bench/faults.ts [WORDS]`: the kill matrix of workers on other machines, with a real nats-server and real
 * processes, as a table in Markdown for docs/scale.md. WORDS select the faults whose names contain them.
 */
import process from "node:process";
import { device as makeDevice } from "../engine/device.ts";
import { FAULT_NAMES, killLearner, type Outcome, provoke, synchronous } from "../tests/support/natsFaults.ts";
import { Processes } from "../tests/support/natsProcesses.ts";

const words = process.argv.slice(2).join(" ");
const device = await makeDevice("wasm");
const processes = await Processes.compile();
const expected = await synchronous(device);
console.log("| Fault | Tries | Lost | Twice | Bitwise | |\n| --- | ---: | ---: | ---: | --- | --- |");
const show = ({ fault, tries, lost, twice, bitwise, remark }: Outcome): void =>
  console.log(`| ${fault} | ${tries} | ${lost} | ${twice} | ${bitwise ? "yes" : "no"} | ${remark} |`);
try {
  for (const name of FAULT_NAMES) {
    if (name.includes(words)) show(await provoke(name, device, processes, expected));
  }
  if ("learner killed -9 and resumed".includes(words)) show(await killLearner(processes, expected));
} finally {
  processes.close();
}
process.exit();
