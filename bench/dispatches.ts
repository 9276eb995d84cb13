/**
 * How many kernels a training step, a drawn token and a GRPO step dispatch with the schedules of software adapters and
 * of GPUs. Writes bench/dispatches.md, which `npm run bench -- --report` puts into docs/performance.md:
 *
 *     npx tsx bench/dispatches.ts
 *
 * No adapter is needed: WebAssembly computes the results, and the WGSL that each op would run is counted.
 */
import { writeFileSync } from "node:fs";
import { format, resolveConfig } from "prettier";
import type { Buffer } from "../engine/backends/backend.ts";
import { device } from "../engine/index.ts";
import { programOf } from "../kernels/program.ts";
import { generatorsFor } from "../kernels/wgsl/generators.ts";
import { allCases } from "./cases/index.ts";
import type { Task } from "./cases/task.ts";
import { prepareModelTask } from "./contenders/worldgradModel.ts";
import { markdownTable } from "./table.ts";

/** The dispatches of one run of a task with both schedules: of software adapters, and of GPUs. */
async function count(task: Task): Promise<number[]> {
  const on = await device("wasm", { threads: 1 });
  const generators = (["software", "gpu"] as const).map((schedule) => generatorsFor({ schedule }));
  const counts = generators.map(() => 0);
  // Captured work runs its programs again without the ops.
  const ofProgram = new WeakMap<object, number[]>();
  let next: number[] = [];
  const { backend } = on;
  const [execute, run] = [on.execute.bind(on), backend.run.bind(backend)];
  on.execute = (op, inputs, outputs, params) => {
    const problems = op.kernel({ inputs, outputs, params });
    const operands = inputs.length + outputs.length;
    next = generators.map((each) => programOf(problems, operands, each).steps.length);
    execute(op, inputs, outputs, params);
  };
  backend.run = (program: never, buffers: readonly Buffer[], label: () => string) => {
    const own = ofProgram.get(program) ?? next;
    ofProgram.set(program, own);
    own.forEach((n, i) => (counts[i]! += n));
    run(program, buffers, label);
  };
  const prepared = await prepareModelTask(on, task);
  if (typeof prepared === "string") throw new Error(prepared);
  await prepared.check();
  counts.fill(0);
  await prepared.run();
  prepared.dispose();
  return counts;
}

function taskOf(name: string): Task {
  const found = allCases().find((one) => one.name === name);
  if (found === undefined) throw new Error(`there is no case "${name}"`);
  return found.task;
}

const decode = (tokens: number): Promise<number[]> =>
  count({ op: "decode", B: 1, prompt: 8, tokens, T: 64, C: 128, H: 4, L: 2, V: 65 });
const [few, many] = [await decode(8), await decode(24)];
const rows: [name: string, counts: number[]][] = [
  ["a training step, `step/B4-T64-C128-L2`", await count(taskOf("step/B4-T64-C128-L2"))],
  ["a drawn token of that model, one row", many.map((all, i) => (all - few[i]!) / 16)],
  ["a step of GRPO, `grpo/27K`", await count(taskOf("grpo/27K"))],
];
const table = markdownTable(
  ["", "software adapters", "GPUs"],
  rows.map(([name, counts]) => [name, ...counts.map(String)]),
);
console.log(table);
const page = `## Dispatches

Kernels that are dispatched on WebGPU, with the schedules of software adapters and of GPUs, counted by
\`bench/dispatches.ts\`. A dispatch costs a host 24 to 71 µs (arXiv 2604.02344), which bounds small models.

${table}

Before the residual was an operand of the product before it: 146 and 120, 41 and 43, 1,154 and 1,167.
`;
writeFileSync("bench/dispatches.md", await format(page, { ...(await resolveConfig("README.md")), parser: "markdown" }));
