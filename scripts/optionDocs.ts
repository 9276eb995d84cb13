/**
 * Comments of options for editors. The sentence of an option stands in its table (engine/optionTable.ts), where only
 * the running program sees it; the build writes it as a comment over the option in the declarations of `dist/`.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Option, OptionTable } from "../engine/optionTable.ts";

/** Writes comments into every declaration of `dist` that has a table. @returns the number of new comments */
export async function documentOptions(dist: string): Promise<number> {
  let count = 0;
  for (const file of readdirSync(dist, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".d.ts")) continue;
    const path = join(dist, file);
    const before = readFileSync(path, "utf8");
    if (!/^export declare const \w+: .*OptionTable<\{$/m.test(before)) continue;
    const module = (await import(pathToFileURL(path.replace(/\.d\.ts$/, ".js")).href)) as Record<string, unknown>;
    const { text, added } = documented(before, module);
    writeFileSync(path, text);
    count += added;
  }
  return count;
}

/**
 * A declaration with a comment over each option that had none.
 * @param module the exports of the module, by name
 */
export function documented(
  declaration: string,
  module: Readonly<Record<string, unknown>>,
): { readonly text: string; readonly added: number } {
  let added = 0;
  let fields: OptionTable["fields"] | undefined;
  let last = "";
  const lines = declaration.split("\n").flatMap((line) => {
    const name = /^export declare const (\w+): .*OptionTable<\{$/.exec(line)?.[1];
    if (name !== undefined) fields = (module[name] as OptionTable | undefined)?.fields;
    if (line.startsWith("}")) fields = undefined;
    const option = fields?.[/^ {4}(\w+): /.exec(line)?.[1] ?? ""];
    const isBare = option !== undefined && !last.trim().endsWith("*/");
    last = line;
    if (!isBare) return [line];
    added++;
    return [`    /** ${sentence(option)} */`, line];
  });
  return { text: lines.join("\n"), added };
}

/** Description and default of an option. `*` + `/` would end the comment. */
function sentence({ about, default: value, required }: Option<unknown>): string {
  const text = `${about.replace(/^[a-z]/, (letter) => letter.toUpperCase())}.`.replaceAll("*/", "* /");
  const isPlain = ["number", "string", "boolean"].includes(typeof value);
  return required ? `${text} Required.` : isPlain ? `${text} Default ${JSON.stringify(value)}.` : text;
}
