/**
 * `npx tsx scripts/with-adapter.ts npx tsx scripts/familyTable.ts`: measures how far each variant of each family is
 * from Transformers on every executor, and writes the table into docs/pretrained.md. tests/pretrained/families.test.ts
 * bounds these differences, and fails if the table differs from what it measures on reference and wasm.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { format } from "prettier";
import { type Difference, difference, names, variants } from "../tests/support/families.ts";
import { type Executor, everyExecutor } from "../tests/support/rlExecutors.ts";
import { packageFolder } from "./packageFolder.ts";

const BEGIN = "<!-- families: scripts/familyTable.ts -->";
const END = "<!-- /families -->";
const FAMILIES: Readonly<Record<string, string>> = {
  llama: "Llama",
  mistral: "Mistral",
  qwen2: "Qwen2",
  qwen3: "Qwen3",
  smollm3: "SmolLM3",
  gpt2: "GPT-2",
};

const cellsOf = ({ logits, gradient, sameText }: Difference): string =>
  `${logits.toExponential(1)} | ${gradient.toExponential(1)} | ${sameText ? "equal" : "**differs**"}`;

/** Cells of all variants on one executor. */
async function column({ open }: Executor): Promise<{ readonly on: string; readonly cells: readonly string[] }> {
  const device = await open();
  const cells: string[] = [];
  for (const name of names) cells.push(cellsOf(await difference(name, device)));
  const on = device.description;
  device.dispose();
  return { on, cells };
}

async function familyTable(): Promise<string> {
  const columns: Awaited<ReturnType<typeof column>>[] = [];
  for (const executor of everyExecutor) columns.push(await column(executor));
  const titles = everyExecutor.map(({ name }) => `${name}: logits | gradient | text`);
  const rows = names.map((name, i) => {
    const family = FAMILIES[variants[name]!.config["model_type"] as string]!;
    return `| ${family} | \`${name}\` | ${columns.map(({ cells }) => cells[i]).join(" | ")} |`;
  });
  return [
    `| Family | Variant | ${titles.join(" | ")} |`,
    `| --- | --- |${" ---: | ---: | --- |".repeat(columns.length)}`,
    ...rows,
    "",
    `WebGPU here: ${columns.at(-1)!.on}.`,
  ].join("\n");
}

const file = join(packageFolder, "docs/pretrained.md");
const text = readFileSync(file, "utf8");
const [from, to] = [text.indexOf(BEGIN) + BEGIN.length, text.indexOf(END)];
const changed = `${text.slice(0, from)}\n\n${await familyTable()}\n\n${text.slice(to)}`;
writeFileSync(file, await format(changed, { parser: "markdown", printWidth: 120 }));
process.exit();
