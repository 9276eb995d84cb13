/**
 * Instrumentation: puts all mutants of a module into one text, in which each replaceable expression is a choice by the
 * number of the active mutant (switch.ts). One process thus runs a test once for each mutant, and nothing is compiled
 * twice.
 *
 * It changes two further things. A formula given to `fuse` or `evaluator` is traced once, when its module is loaded;
 * here it is traced again for each mutant inside it. Every loop counts its turns, so that an endless one is noticed.
 */
import type { Mutant } from "./mutants.ts";
import { childrenOf, type Node, parse } from "./syntax.ts";

interface Site {
  readonly start: number;
  readonly end: number;
  readonly wrap: (inner: string) => string;
}

/** @param mutants of this text, each with the number that activates it */
export function instrument(text: string, mutants: readonly (readonly [id: number, mutant: Mutant])[]): string {
  const places = new Map<string, (readonly [number, Mutant])[]>();
  for (const entry of mutants) {
    const key = `${entry[1].start} ${entry[1].end}`;
    places.set(key, [...(places.get(key) ?? []), entry]);
  }
  const sites = [...places.values()].map((entries): Site => {
    const { start, end } = entries[0]![1];
    const choices = entries.map(([id, { replacement }]) => `mutation.is(${id}) ? (${replacement}) : `).join("");
    return { start, end, wrap: (inner) => `(${choices}(${inner}))` };
  });
  // Outer expressions come before inner ones, and of equal ranges the wrapper first.
  const all = [...wrappersOf(parse(text)), ...sites].toSorted((a, b) => a.start - b.start || b.end - a.end);
  let next = 0;
  const part = (from: number, to: number): string => {
    let result = "";
    let at = from;
    while (next < all.length && all[next]!.start < to) {
      const site = all[next++]!;
      result += text.slice(at, site.start) + site.wrap(part(site.start, site.end));
      at = site.end;
    }
    return result + text.slice(at, to);
  };
  return part(0, text.length);
}

function wrappersOf(node: Node): Site[] {
  const found: Site[] = [];
  if (/^(For|While|DoWhile|ForOf|ForIn)Statement$/.test(node.type)) {
    const { start, end } = node.body as Node;
    found.push({ start, end, wrap: (inner) => `{ mutation.tick(); ${inner} }` });
  }
  if (node.type === "CallExpression" && ["fuse", "evaluator"].includes(String(node.callee!.name))) {
    found.push({ start: node.start, end: node.end, wrap: (inner) => `mutation.fused(() => ${inner})` });
  }
  return [...found, ...childrenOf(node).flatMap(wrappersOf)];
}
