/** How the reference divides an entry point into pages: by the headings under which its file exports names. */
import { check } from "../../../engine/errors.ts";
import { slug } from "../html.ts";
import type { EntryPoint, Name } from "./reference.ts";

export interface Part {
  /** A heading; "" if the entry point has none, and therefore one page. */
  readonly title: string;
  /** Name of the page: `engine-gradients`. */
  readonly page: string;
  /** Those of one file stand together. */
  readonly names: readonly Name[];
}

/** @throws if an entry point with headings exports a name above the first of them */
export function partsOf({ page, file, names }: EntryPoint): readonly Part[] {
  const titles = new Set(names.map(({ group }) => group));
  return [...titles].map((title) => {
    check(title !== "" || titles.size === 1, () => `${file} exports names above its first heading`);
    const own = names.filter(({ group }) => group === title);
    const together = byFile(own).flatMap((of) => of.names);
    return { title, page: title === "" ? page : `${page}-${slug(title)}`, names: together };
  });
}

/** Names by their files, in the order of the first name of each. */
export function byFile(names: readonly Name[]): readonly { readonly about: string; readonly names: readonly Name[] }[] {
  const files = new Map<string, Name[]>();
  for (const name of names) files.set(name.file, [...(files.get(name.file) ?? []), name]);
  return [...files.values()].map((own) => ({ about: own[0]!.about, names: own }));
}
