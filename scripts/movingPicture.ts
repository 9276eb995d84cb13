/**
 * `npx tsx scripts/movingPicture.ts`: the moving picture of README, from a real run of the live page's experiment: what
 * each of its two agents knows of the computer, every few steps, and how many new tasks it solves. It trains both
 * agents, which takes minutes, and writes docs/plots/agents.svg.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { device } from "../engine/index.ts";
import type { Observer } from "../run/observer.ts";
import type { KnownFact } from "../run/records.ts";
import { experimentOf } from "../site/experiment.ts";
import { Session, warmUp } from "../site/session.ts";
import { type Followed, pictureOf } from "./movingPicture/picture.ts";
import { packageFolder } from "./packageFolder.ts";

const quiet: Observer = { phase() {}, update() {}, evaluation() {}, transcript() {}, note() {} };
const { warm: preset, agents } = experimentOf(new URLSearchParams());
const executor = await device("wasm");
const warm = (await warmUp(preset, executor, quiet, new AbortController().signal))!;
const followed: Followed[] = [];
for (const agent of agents) {
  const knowledge: { readonly step: number; readonly facts: readonly KnownFact[] }[] = [];
  const hear = (step: number, facts: readonly KnownFact[]): void => void knowledge.push({ step, facts });
  const session = new Session(agent.preset, warm, executor, quiet, hear);
  await session.playTo();
  const success = session.metrics.flatMap((line) =>
    line.phase === "eval" ? [{ step: line.step - preset.sft.steps, share: Number(line["success"]) }] : [],
  );
  const label = agent.preset.rl.method.replace("_token", ""); // as in the terminal, of which README speaks
  followed.push({ label, knowledge, success });
  console.log(`${label}: ${JSON.stringify(success)}`);
}
executor.dispose();
const path = join(packageFolder, "docs/plots/agents.svg");
writeFileSync(path, pictureOf(followed, agents[0]!.preset.rl.steps));
console.log(path);
