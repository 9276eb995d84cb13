/**
 * `npx tsx scripts/opTable.ts`: writes docs/ops.md, the table of all ops, from their definitions. Its columns on tests
 * describe what tests/ops/ops.test.ts does with these definitions. tests/project/opTable.test.ts fails if the file is
 * not up to date.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { format } from "prettier";
import * as ops from "../engine/ops/index.ts";
import type { Call } from "../engine/op.ts";
import { isFloat } from "../engine/types.ts";
import { type Generators, programOf } from "../kernels/program.ts";
import * as wasm from "../kernels/wasm/index.ts";
import { generatorsFor } from "../kernels/wgsl/generators.ts";
import { type AnyOp, type AnySample, allOps, samplesOf } from "../tests/support/opChecks.ts";
import { packageFolder } from "./packageFolder.ts";

const INTRODUCTION = `# All ops

Made by \`npx tsx scripts/opTable.ts\` from the definitions in \`engine/ops/\`, and of ops from outside of the engine in
\`pretrained/packed/ops.ts\`; do not edit by hand.

- **Inputs**: element types, one list per form that the samples have. f32 stands for the device's float type.
- **Kind**: \`formula\` — one scalar expression, from which both kernels and the derivative come; \`kernel\` — a kernel
  family of its own in \`kernels/\`; \`outside\` — kernels that the op brings along; \`view\` — shares the input's
  memory; \`in place\` — overwrites an input. \`, linear\`: see the next column.
- **Gradient**: the orders that are checked against differences in f64 (1e-7). A linear op's first order is the identity
  ⟨g, Ax⟩ = ⟨Aᵀg, x⟩ (1e-12). "0": a step, whose derivative is 0 and is checked to be 0.
- **Tolerance**: of the f32 executors against the f64 reference, relative to max(1, the largest element).
- **Calls**: kernels that run on wasm · webgpu, the most over the samples.
`;

const STEPS = new Set(["sign", "floor", "lt", "le", "gt", "ge", "eq", "ne"]);

function inputForms(samples: readonly AnySample[]): string {
  const forms = samples.map((s) => s.inputs.map((x) => x.dtype).join(" "));
  return [...new Set(forms)].map((form) => form || "none").join(" or ");
}

const callsAt = (op: AnyOp, samples: readonly AnySample[]): Call<unknown>[] =>
  samples.map(({ inputs, params }) => ({ inputs, outputs: op.infer(inputs, params), params }));

function kindOf(op: AnyOp, samples: readonly AnySample[], formulas: ReadonlySet<string>): string {
  if (op.view) return "view, linear";
  if (op.overwrites !== undefined) return "in place";
  const isCustom = callsAt(op, samples)
    .flatMap((call) => op.kernel(call))
    .some(({ family }) => family === "custom");
  return (formulas.has(op.name) ? "formula" : isCustom ? "outside" : "kernel") + (op.linear ? ", linear" : "");
}

function gradientOf(op: AnyOp, samples: readonly AnySample[]): string {
  const differentiable = samples.some((s) =>
    s.inputs.some((x, i) => isFloat(x.dtype) && (s.differentiable?.[i] ?? true)),
  );
  const isInteger = samples.every((s) => op.infer(s.inputs, s.params).every((y) => !isFloat(y.dtype)));
  if (op.overwrites !== undefined || !differentiable || isInteger) return "none";
  if (STEPS.has(op.name)) return "0";
  return op.linear ? "adjoint, 2" : "1, 2";
}

function callsOf(op: AnyOp, samples: readonly AnySample[]): string {
  if (op.view) return "0 · 0";
  const calls = callsAt(op, samples);
  const most = (generators: Generators<unknown>): number =>
    Math.max(...calls.map((call) => programOf(op.kernel(call), 0, generators).steps.length));
  return `${most(wasm)} · ${most(generatorsFor({ schedule: "gpu" }))}`;
}

/** Text of docs/ops.md. */
export function opTable(): Promise<string> {
  const values = Object.values(ops) as unknown[];
  const formulas = new Set(values.flatMap((f) => (typeof f === "function" && "op" in f ? [(f.op as AnyOp).name] : [])));
  const listed = allOps().filter((op) => op.name !== "inPlace"); // exists in the tests only
  const rows = listed
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map((op) => {
      const samples = samplesOf(op);
      const tolerance = (op.tolerance ?? 1e-5).toExponential();
      const cells = [
        `\`${op.name}\``,
        inputForms(samples),
        kindOf(op, samples, formulas),
        gradientOf(op, samples),
        tolerance,
        samples.length,
        callsOf(op, samples),
      ];
      return `| ${cells.join(" | ")} |`;
    });
  const header = "| Op | Inputs | Kind | Gradient | Tolerance | Samples | Calls |\n|-|-|-|-|-|-:|-|";
  const text = `${INTRODUCTION}\n${header}\n${rows.join("\n")}\n\n${listed.length} ops.\n`;
  return format(text, { parser: "markdown", printWidth: 120 });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(join(packageFolder, "docs/ops.md"), await opTable());
}
