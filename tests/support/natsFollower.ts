/** A learner without a run as a process of its own, which tests kill: natsFollower.ts URL NAME. */
import process from "node:process";
import { serveLearner } from "../../nats/serve.ts";
import { toyObjective } from "./rlRuns.ts";

const [, , server, name] = process.argv;
const note = (line: string): void => console.log(line);
await serveLearner({ server: server!, name: name!, objective: toyObjective, threads: 1, note });
