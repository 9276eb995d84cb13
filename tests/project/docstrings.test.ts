/** Everything that users can import has a text, which their editor shows where they write its name. */
import { posix } from "node:path";
import { describe, expect, test } from "vitest";
import { readSource } from "./sources.ts";

/** Entry points of the package that are held to it. */
const FACES = [
  "engine/index.ts",
  "nn/index.ts",
  "environments/index.ts",
  "rl/index.ts",
  "connect/chat/index.ts",
  "fastCheck.ts",
];

/** Where a name is declared. */
interface Declaration {
  readonly name: string;
  readonly file: string;
}

const RE_EXPORT = /^export (?:type )?\{([^}]*)\} from "([^"]+)"/gm;
const EXPORT = /^export (?:declare )?(?:async )?(?:function\*?|const|class|abstract class|interface|type) (\w+)/gm;

/** What a module exports, by the name that users see. Re-exports are followed to the file that declares. */
function exportsOf(file: string): Map<string, Declaration> {
  const text = readSource(file);
  const at = (specifier: string): string => posix.normalize(posix.join(posix.dirname(file), specifier));
  const found = new Map<string, Declaration>();
  for (const [, name] of text.matchAll(EXPORT)) found.set(name!, { name: name!, file });
  for (const [, list, specifier] of text.matchAll(RE_EXPORT)) {
    const from = exportsOf(at(specifier!));
    for (const entry of list!.split(",").map((part) => part.trim().replace(/^type /, ""))) {
      if (entry === "") continue;
      const [own, as = own] = entry.split(" as ") as [string, string?];
      const declaration = from.get(own);
      if (declaration === undefined) throw new Error(`${file}: where is ${own} declared? Not in ${specifier}`);
      found.set(as, declaration);
    }
  }
  for (const [, specifier] of text.matchAll(/^export \* from "([^"]+)"/gm)) {
    for (const [name, declaration] of exportsOf(at(specifier!))) found.set(name, declaration);
  }
  return found;
}

/**
 * Whether a comment for editors ends right above the (first) declaration; a file's own, which is above all, is none.
 */
function hasText({ name, file }: Declaration): boolean {
  const text = readSource(file);
  const before = text.slice(0, text.search(new RegExp(`^export [\\w* ]*\\b${name}\\b`, "m")));
  return /\*\/\n(\/\/ prettier-(?:ignore)\n)?$/.test(before) && before.lastIndexOf("/**") > 0;
}

describe.each(FACES)("%s", (face) => {
  test("every name that it exports has a text", () => {
    const names = exportsOf(face);
    expect(names.size).toBeGreaterThan(5);
    const without = [...names.values()].filter((declaration) => !hasText(declaration));
    expect([...new Set(without.map(({ name, file }) => `${file}: ${name}`))]).toEqual([]);
  });
});

test("names are found in every form of declaration, and a file's own comment is no text of its first one", () => {
  expect(exportsOf("engine/index.ts").get("select")).toEqual({ name: "where", file: "kernels/expr.ts" });
  expect([...exportsOf("engine/index.ts").keys()]).toEqual(
    expect.arrayContaining(["Tensor", "zeros", "DType", "OpDef"]),
  );
});
