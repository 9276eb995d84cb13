/**
 * The similarity of a program to a reference: the two matches of CodeBLEU (Ren et al. 2020, arXiv 2009.10297) that
 * PPOCoder rewards beside compiling (Shojaee et al. 2023, arXiv 2301.13816).
 *
 * - Syntax: the share of the reference's subtrees (all its expressions and assignments) that the program has, too; a
 *   subtree that the reference has twice must occur twice. Names and numbers are compared literally.
 * - Data flow: the share of the reference's flows that the program has. A flow says from which names a name, or the
 *   result, gets its value; names are numbered in the order of their assignments, so that renaming changes nothing.
 */
import { type Expression, INPUT, type Program } from "./syntax.ts";

/** Share of the reference's subtrees that `program` has, in [0, 1]. */
export const syntaxMatch = (program: Program, reference: Program): number =>
  shareOf(subtrees(program), subtrees(reference));

/** Share of the reference's data flows that `program` has, in [0, 1]. */
export const dataFlowMatch = (program: Program, reference: Program): number =>
  shareOf(flows(program), flows(reference));

function shareOf(given: readonly string[], wanted: readonly string[]): number {
  const left = new Map<string, number>();
  for (const one of given) left.set(one, (left.get(one) ?? 0) + 1);
  const found = wanted.filter((one) => {
    const count = left.get(one) ?? 0;
    left.set(one, count - 1);
    return count > 0;
  });
  return found.length / wanted.length;
}

function subtrees({ statements, result }: Program): string[] {
  const all: string[] = [];
  const visit = (expression: Expression): string => {
    const text = textOf(expression, visit);
    all.push(text);
    return text;
  };
  for (const { name, value } of statements) all.push(`(= ${name} ${visit(value)})`);
  visit(result);
  return all;
}

function textOf(expression: Expression, visit: (part: Expression) => string): string {
  switch (expression.kind) {
    case "number":
      return String(expression.value);
    case "name":
      return expression.name;
    case "operation":
      return `(${expression.operator} ${visit(expression.left)} ${visit(expression.right)})`;
    case "call": {
      const { name, of, argument } = expression;
      return `(${name} ${visit(of)}${argument ? ` ${visit(argument)}` : ""})`;
    }
  }
}

function flows({ statements, result }: Program): string[] {
  const numbers = new Map<string, number>([[INPUT, 0]]);
  let assigned = 0;
  const sourcesOf = (expression: Expression): number[] => {
    switch (expression.kind) {
      case "number":
        return [];
      case "name":
        return [numbers.get(expression.name)!];
      case "operation":
        return [...sourcesOf(expression.left), ...sourcesOf(expression.right)];
      case "call":
        return [...sourcesOf(expression.of), ...(expression.argument ? sourcesOf(expression.argument) : [])];
    }
  };
  const from = (value: Expression): string => [...new Set(sourcesOf(value))].toSorted((a, b) => a - b).join();
  const all = statements.map(({ name, value }) => {
    const flow = `${assigned + 1} from ${from(value)}`;
    numbers.set(name, ++assigned);
    return flow;
  });
  return [...all, `result from ${from(result)}`];
}
