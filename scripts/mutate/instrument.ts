/**
 * Puts all mutants of a module into one text: each expression that can be replaced becomes a choice by the number of
 * the mutant that is on (switch.ts). So one process runs a test once for each mutant, and nothing is compiled twice.
 *
 * It also changes four other things. A formula given to `fuse` is traced once, when its module is loaded; here it is
 * traced again for a mutant inside it. A table of options is made once, when its module is loaded; here it is made
 * again for a mutant inside it. A number that a module has as a constant is computed anew wherever it is named. And
 * every loop counts its turns, so that an endless one is noticed.
 */
import type { Mutant } from "./mutants.ts";
import { bare, childrenOf, type Node, parse } from "./syntax.ts";

interface Site {
  readonly start: number;
  readonly end: number;
  readonly wrap: (inner: string) => string;
}

/** @param mutants of this text, each with the number that switches it on */
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
  const tree = parse(text);
  const constants = new Map(
    [...numbersOf(tree)].map(([name, { start, end }]) => {
      const own = sites.filter((site) => site.start >= start && site.end <= end);
      return [name, own.length > 0 ? render(text, start, end, own) : name];
    }),
  );
  const all = [...loadedObjects(tree), ...wrappersOf(tree), ...namedIn(tree, constants), ...sites];
  return render(text, 0, text.length, all);
}

/** The part of the text with what the sites make of their parts. */
function render(text: string, from: number, to: number, sites: readonly Site[]): string {
  // Outer ones come before inner ones, and of equal ranges the wrapper first.
  const all = sites.toSorted((a, b) => a.start - b.start || b.end - a.end);
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
  return part(from, to);
}

function wrappersOf(node: Node): Site[] {
  const own: Site[] = [];
  if (/^(For|While|DoWhile|ForOf|ForIn)Statement$/.test(node.type)) {
    const { start, end } = node.body as Node;
    own.push({ start, end, wrap: (inner) => `{ mutation.tick(); ${inner} }` });
  }
  if (node.type === "CallExpression" && node.callee!.name === "fuse") {
    own.push({ start: node.start, end: node.end, wrap: (inner) => `mutation.fused(() => ${inner})` });
  }
  return [...own, ...childrenOf(node).flatMap(wrappersOf)];
}

/** The constants of a module that are numbers, named in capitals (`const MOST = 20`), and the numbers. */
const numbersOf = (program: Node): Map<string, Node> =>
  new Map(
    constantsOf(program).flatMap(({ id, init }): [string, Node][] =>
      init?.type === "Literal" && typeof init.value === "number" && /^[A-Z\d_]+$/.test(id!.name!)
        ? [[id!.name!, init]]
        : [],
    ),
  );

/** Where one of these is named; nothing else in a module is written in capitals. */
const namedIn = (node: Node, constants: ReadonlyMap<string, string>): Site[] => {
  const { type, start, end, name = "" } = node;
  if (type === "Property" && node.shorthand === true && constants.has(node.key!.name!))
    return [{ start, end, wrap: () => `${node.key!.name!}: ${constants.get(node.key!.name!)!}` }];
  if (type === "Identifier" && constants.has(name)) return [{ start, end, wrap: () => constants.get(name)! }];
  const isDeclared = (child: Node): boolean => type === "VariableDeclarator" && child === node.id;
  const isProperty = (child: Node): boolean =>
    type === "MemberExpression" && child === node.property && node.computed !== true;
  const inner = childrenOf(node).filter((child) => !isDeclared(child) && !isProperty(child));
  return inner.flatMap((child) => namedIn(child, constants));
};

/** The tables of options, and the objects of which they are made, that a module has as constants. */
function loadedObjects(program: Node): Site[] {
  return constantsOf(program)
    .flatMap(({ init }) => (init && isLoadedObject(bare(init)) ? [init] : []))
    .map(({ start, end }) => ({ start, end, wrap: (inner) => `mutation.loaded(() => (${inner}))` }));
}

const constantsOf = (program: Node): readonly Node[] =>
  (program.body as readonly Node[]).flatMap((statement) => (statement.declaration ?? statement).declarations ?? []);

const isLoadedObject = ({ type, callee }: Node): boolean =>
  type === "ObjectExpression" ||
  type === "ArrayExpression" ||
  (type === "CallExpression" && callee!.name === "options");
