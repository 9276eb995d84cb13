/**
 * `npx tsx scripts/passed.ts`: how much code one step of GRPO + ECHO executes, in files and functions by folder, and
 * the number of calls of each function of `engine/errors.ts`. docs/decisions.md has the figures.
 */
import { Session } from "node:inspector/promises";
import { sep } from "node:path";
import { pathToFileURL } from "node:url";
import {
  AdamW,
  device,
  echo,
  grpo,
  initParams,
  modelConfig,
  ppoClip,
  Rng,
  Template,
  trainBpe,
  trainRl,
} from "../index.ts";
import { gridworld, SPECIAL_TOKENS } from "../index.ts";
import { packageFolder } from "./packageFolder.ts";

const on = await device("wasm", { threads: 1 });
const tokenizer = trainBpe(["up down left right wall goal key"], { vocabSize: 300, specials: SPECIAL_TOKENS });
const template = new Template(tokenizer);
const config = modelConfig({ vocabSize: tokenizer.vocabSize, hiddenSize: 32, layers: 2, heads: 4, maxPositions: 256 });
const model = { config, params: initParams(config, new Rng(0), on) };
const objective = { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean", world: echo() } as const;
const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

const play = { env: gridworld, envOptions: {}, groups: 2, groupSize: 4, rollout: { maxTurns: 2, maxActionTokens: 4 } };
const learner = { model, template, optimizer: new AdamW(model.params), lr: () => 1e-3 };
const steps = trainRl({ ...learner, ...play, objective, steps: 2, rng: new Rng(0) });
await steps.next(); // makes kernels and caches
await session.post("Profiler.takePreciseCoverage");
await steps.next();
const { result } = await session.post("Profiler.takePreciseCoverage");

const root = pathToFileURL(packageFolder + sep).href;
const rooms = new Map<string, { files: number; functions: number }>();
const calls: string[] = [];
for (const { url, functions } of result) {
  if (!url.startsWith(root) || url.includes("node_modules") || url.endsWith("scripts/passed.ts")) continue;
  const path = url.slice(root.length);
  const called = functions.filter(({ functionName, ranges }) => functionName !== "" && ranges[0]!.count > 0);
  if (called.length === 0) continue;
  const name = path.split("/")[0]!;
  const room = rooms.get(name) ?? { files: 0, functions: 0 };
  rooms.set(name, { files: room.files + 1, functions: room.functions + called.length });
  if (path.startsWith("engine/errors.ts"))
    for (const { functionName, ranges } of called) calls.push(`${functionName} ${ranges[0]!.count}`);
}
for (const [name, { files, functions }] of rooms) console.log(`${name}: ${files} files, ${functions} functions`);
const total = [...rooms.values()];
console.log(
  `in all ${total.reduce((n, x) => n + x.files, 0)} files, ${total.reduce((n, x) => n + x.functions, 0)} functions`,
);
console.log(`calls: ${calls.join(", ")}`);
on.dispose();
