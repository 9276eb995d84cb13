/** A step of made-up tokens, as the live page looks at it: formulas of its terms, and their numbers at every token. */
import { append, emptyStream, type Trajectory } from "../../rl/episode/stream.ts";
import { type Columns, rowOf, type TermColumnsByName } from "../../rl/objective/columns.ts";
import type { LossParts } from "../../rl/train/loss.ts";
import type { Filled } from "../../site/formulas/formula.ts";
import type { MathNode } from "../../site/mathml.ts";
import { type StepTerms, stepTerms } from "../../site/formulas/step.ts";
import type { Drawn } from "./rlTokens.ts";

/** What a token's row has beside what was drawn. */
export interface Told extends Partial<Columns<number>> {
  /** Of terms of their own. */
  readonly weights?: Readonly<Record<string, number>>;
  readonly more?: Readonly<Record<string, number>>;
  /** What heads say. */
  readonly predictions?: Readonly<Record<string, number>>;
  readonly entropy?: number;
}

/** @param told of each token; each row is a sequence */
export async function tracedSteps(
  objective: LossParts,
  drawn: readonly (readonly Drawn[])[],
  told: (token: Drawn, row: number, t: number) => Told,
  role: "action" | "observation" = "action",
): Promise<StepTerms> {
  /** In front stands a token that nothing predicts. */
  const column = (values: readonly (number | undefined)[]): Float64Array =>
    Float64Array.from([NaN, ...values], (x) => x ?? 0);
  const all = drawn.map((row, i) => row.map((token, t) => told(token, i, t)));
  const named = (i: number, key: "weights" | "more" | "predictions"): Record<string, Float64Array> =>
    Object.fromEntries(
      Object.keys(all[i]![0]?.[key] ?? {}).map((name) => [name, column(all[i]!.map((token) => token[key]?.[name]))]),
    );
  const rows = drawn.map((row, i) => {
    const stream = emptyStream();
    for (let t = 0; t <= row.length; t++) append(stream, role, 0, [t]);
    const own: Record<string, Float64Array> = {
      oldLogProbs: column(row.map(({ old }) => old)),
      refLogProbs: column(row.map(({ ref }) => ref)),
      advantages: column(row.map(({ advantage }) => advantage)),
    };
    for (const name of Object.keys(all[i]![0] ?? {}) as (keyof Columns)[])
      if (typeof all[i]![0]![name] === "number") own[name] = column(all[i]!.map((token) => token[name]));
    const further: TermColumnsByName = { weights: named(i, "weights"), more: named(i, "more") };
    return rowOf({ stream, group: 0 } as unknown as Trajectory, { ...own, ...further }, i);
  });
  const predictions = Object.fromEntries(
    Object.keys(all[0]?.[0]?.predictions ?? {}).map((name) => [
      name,
      rows.map((_, i) => named(i, "predictions")[name]!),
    ]),
  );
  const scores = {
    logProbs: drawn.map((row) => column(row.map(({ lp }) => lp))),
    entropy: all.map((row) => column(row.map(({ entropy }) => entropy))),
    predictions,
  };
  const found = await stepTerms({ step: 0, metrics: {}, rows, scores, ratios: "recorded" }, objective);
  return { ...found, tokens: found.tokens.map((row) => row.slice(1)) };
}

/** The formula of a term at a token. */
export function filledAt({ formulas, tokens }: StepTerms, name: string, row: number, t: number): Filled {
  const term = tokens[row]![t]!.find((own) => own.name === name)!;
  return { formula: formulas[name]!.formula, ...term };
}

/** The formula in one line, as it is read: sub- and superscripts with _ and ^, fractions with a slash. */
export function readMath(node: MathNode | string): string {
  if (typeof node === "string") return node.replace(/[\u2061\u2062]/g, "").replaceAll("\u2009", " ");
  const parts = node.children.map(readMath);
  if (node.tag === "msub") return parts.join("_");
  if (node.tag === "msup") return `${parts[0]}^{${parts[1]}}`;
  if (node.tag === "mfrac") return `(${parts[0]})/(${parts[1]})`;
  if (node.tag === "mtr") return `${parts.join(" ")};`;
  return parts.join("");
}
