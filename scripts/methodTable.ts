/**
 * `npx tsx scripts/methodTable.ts`: writes docs/methods.md, the table of all methods, from the tables that the tests
 * run: tests/support/rlMethods.ts (properties), rlOtherMethods.ts (named tests) and rlGoldens.ts (numbers of other
 * systems). It also writes the head of docs/rows.md, the outcomes of runs, from rows.ts.
 * tests/project/methodTable.test.ts fails if a file is not up to date, or if a row has neither golden entries nor
 * properties.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { format } from "prettier";
import { ADVANTAGES } from "../methods/advantages/index.ts";
import { POLICY_LOSSES } from "../methods/losses/index.ts";
import { METHODS } from "../methods/choice.ts";
import {
  ADVANTAGE_CASES,
  CORRECTION_CASES,
  KL_CASES,
  LOSS_CASES,
  OTHER_CASES,
  TRL_CASES,
} from "../tests/support/rlGoldens.ts";
import {
  ADVANTAGE_NOTES,
  ADVANTAGE_PROPERTIES,
  ADVANTAGE_ROWS,
  KL_PROPERTIES,
  KL_ROWS,
  LOSS_PROPERTIES,
  LOSS_ROWS,
} from "../tests/support/rlMethods.ts";
import { OTHER_ROWS } from "../tests/support/rlOtherMethods.ts";
import { RECIPES } from "../run/recipes.ts";
import { optionRows } from "../run/settings.ts";
import { packageFolder } from "./packageFolder.ts";
import { anchorOf, rowPage, sortedRows } from "./rows.ts";

const INTRODUCTION = `# All methods

Made by \`npx tsx scripts/methodTable.ts\` from the tables that the tests run; do not edit by hand.

lp is the new log-probability of a token, old the recorded one, ref a frozen reference's, A the advantage,
ρ = e^(lp − old), sg(·) a value without its gradient, R the return of a rollout. Losses are minimised. **Golden**:
entries of \`tests/fixtures/rl_losses.json\` and \`rl_losses_wide.json\` (verl, TRL, prime-rl, verl-agent, RAGEN), whose
value and gradient are compared to 1e-6 on the f64 reference and to 1e-5 on the f32 executors, and of \`trl.json\` (TRL
1.13 in float64), to 1e-9. **Properties**: random batches, or the named tests, which also hold values by hand.
`;

/** Golden entries by method. */
const GOLDEN: ReadonlyMap<string, readonly string[]> = (() => {
  const map = new Map<string, string[]>();
  const add = (method: string, entry: string): void => void map.set(method, [...(map.get(method) ?? []), entry]);
  for (const c of [...LOSS_CASES, ...KL_CASES, ...ADVANTAGE_CASES, ...CORRECTION_CASES]) add(c.method, c.entry);
  for (const [entry, method] of Object.entries({ ...OTHER_CASES, ...TRL_CASES })) add(method, entry);
  return map;
})();

export interface MethodRow {
  readonly section: string;
  readonly name: string;
  readonly formula: string;
  readonly source: string;
  readonly golden: readonly string[];
  readonly properties: readonly string[];
  /** Properties that it cannot have, and why. */
  readonly exceptions: Readonly<Record<string, string>>;
}

function rowOf(
  section: string,
  name: string,
  { formula, source }: { readonly formula: string; readonly source: string },
  all: readonly string[],
  exceptions: Readonly<Record<string, string>> = {},
): MethodRow {
  const properties = all.filter((p) => !Object.hasOwn(exceptions, p));
  return { section, name, formula, source, golden: GOLDEN.get(name) ?? [], properties, exceptions };
}

const SCHULMAN = "Schulman 2020, “Approximating KL divergence”";

/** All rows, section by section. */
export function methodRows(): MethodRow[] {
  return [
    ...Object.entries(POLICY_LOSSES).map(([name, entry]) =>
      rowOf("Policy losses", name, entry, Object.keys(LOSS_PROPERTIES), LOSS_ROWS[name]?.exceptions),
    ),
    ...Object.entries(KL_ROWS).map(([name, { formula, exceptions }]) =>
      rowOf("KL estimators", name, { formula, source: SCHULMAN }, Object.keys(KL_PROPERTIES), exceptions),
    ),
    ...Object.entries(ADVANTAGES).map(([name, entry]) =>
      rowOf("Advantages", name, entry, Object.keys(ADVANTAGE_PROPERTIES), ADVANTAGE_ROWS[name]?.exceptions),
    ),
    ...Object.entries(OTHER_ROWS).flatMap(([section, rows]) =>
      Object.entries(rows).map(([name, row]) =>
        rowOf(
          section,
          name,
          row,
          row.tests.map(([file, title]) => `${file.replace(/.*\/(.*)\.test\.ts/, "$1")}: ${title}`),
        ),
      ),
    ),
  ];
}

const NOTES: Readonly<Record<string, string>> = {
  ...ADVANTAGE_NOTES,
  vespo: "golden: its gradient also flows through φ, as ours does with `detached: false`",
  optimal_token_baseline:
    "`verl.optimal_token_baseline` lines rollouts up by column, gaps included: equal up to the first gap",
};

function listOf(properties: Readonly<Record<string, string>>): string {
  return Object.entries(properties)
    .map(([name, text]) => `- **${name}**: ${text}.`)
    .join("\n");
}

/** Cell of a row without numbers of other systems. */
const NO_GOLDEN = "properties only";

/** Text of a cell with its pipes escaped. */
const cell = (text: string): string => text.replaceAll("|", "\\|");

function tableOf(rows: readonly MethodRow[]): string {
  const lines = rows.map(({ name, formula, source, golden, properties, exceptions }) => {
    const not = Object.entries(exceptions).map(([property, why]) => `not *${property}*: ${why}`);
    const notes = Object.hasOwn(NOTES, name) ? [NOTES[name]!] : [];
    const held = [properties.join(", "), ...not, ...notes].filter((text) => text !== "").join("; ");
    const numbers = golden.map((g) => `\`${g}\``).join(", ") || NO_GOLDEN;
    const cells = [`\`${name}\``, formula, source, numbers, held];
    return `| ${cells.map(cell).join(" | ")} |`;
  });
  return ["| Method | Formula | Source | Golden | Properties |", "| - | - | - | - | - |", ...lines].join("\n");
}

const PROPERTIES_OF: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "Policy losses": LOSS_PROPERTIES,
  "KL estimators": KL_PROPERTIES,
  Advantages: ADVANTAGE_PROPERTIES,
};

/** Text of docs/methods.md. */
export function methodTable(): Promise<string> {
  const rows = methodRows();
  const sections = [...new Set(rows.map((row) => row.section))].map((section) => {
    const properties = PROPERTIES_OF[section];
    const table = tableOf(rows.filter((row) => row.section === section));
    return `## ${section}\n\n${properties ? `${listOf(properties)}\n\n` : ""}${table}\n`;
  });
  const presets = Object.entries(METHODS).map(
    ([name, m]) => `| \`${name}\` | ${m.advantage} | ${m.loss} | ${m.aggregation} | ${m.description} | ${m.source} |`,
  );
  const presetTable = [
    "| Method | Advantage | Loss | Aggregation | In words | Source |",
    "| - | - | - | - | - | - |",
    ...presets,
  ].join("\n");
  const recipes = Object.entries(RECIPES).map(([name, recipe]) => {
    const { method, set, description, source } = recipe;
    const flags = [`--method ${method}`, ...set];
    return `| \`${name}\` | \`${flags.join(" ")}\` | ${description} | ${source} |`;
  });
  const recipeTable = ["| Method | Stands for | In words | Source |", "| - | - | - | - |", ...recipes].join("\n");
  const options = optionRows().map(
    ({ part, name, default: value, allowed, about }) =>
      `| \`${part}.${name}\` | ${value} | ${cell(allowed)} | ${cell(about)} |`,
  );
  const optionTable = ["| Option | Default | Allowed | What it does |", "| - | - | - | - |", ...options].join("\n");
  const runs = sortedRows().map(({ name, flag, outcome, evidence }) => {
    const where = "run" in evidence ? ` ([figures](rows.md#${anchorOf(evidence.run)}))` : `: ${evidence.why}`;
    return `| ${name} | \`${cell(flag)}\` | ${outcome}${where} |`;
  });
  const runTable = ["| Method | Flags | Outcome |", "| - | - | - |", ...runs].join("\n");
  const text = `${INTRODUCTION}
${sections.join("\n")}
## Presets

The methods of \`--method\`. \`tests/methods/presets.test.ts\` trains with each, with one and with two passes over its
episodes. A plus sign adds world models and token weights: \`dapo+echo+actfocus\`.

${presetTable}

Names of a paper's method with its data and rewards. Each stands for flags, which the user's own flags override:

${recipeTable}

## In a run

Outcomes of methods that are more than a loss in a run of the main job, good or bad. [rows.md](rows.md) has the promise
of each, the commands and the figures.

${runTable}

## Options

Options of \`--set PART.OPTION=VALUE\` and of options objects in code. A table in the source declares each option once \
(\`engine/optionTable.ts\`); functions and objects, which no command line can express, are left out here. Defaults \
of **tokenizer**, **sft**, **rl** and **rollout** hold unless the environment sets others; **derived**: from what the \
last column says; **none**: the part works without it; **needed**: it must be given.

${optionTable}

${rows.length} rows.
`;
  return format(text, { parser: "markdown", printWidth: 120 });
}

/** Text of docs/rows.md, with the sections of the existing page. */
export const rowsText = (page: string): Promise<string> =>
  format(rowPage(page), { parser: "markdown", printWidth: 120 });

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(join(packageFolder, "docs/methods.md"), await methodTable());
  const rows = join(packageFolder, "docs/rows.md");
  writeFileSync(rows, await rowsText(readFileSync(rows, "utf8")));
}
