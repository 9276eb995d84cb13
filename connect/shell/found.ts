/** What is found in the home directory at the end of an episode, by which it is judged. */
import type { Tree } from "../../environments/terminal/shared.ts";
import type { FoundEntry } from "../sandbox/files.ts";

/** The files at the end of an episode. */
export type FoundFiles = ReadonlyMap<string, FoundEntry>;

/** What tools leave in a home directory, behind a dot. */
export const LITTER = ["viminfo", "bash_history", "python_history", "lesshst", "wget-hsts", "cache", "config", "local"];
/** Whether a path is such litter. */
export const isLitter = (path: string): boolean => LITTER.some((name) => path.split("/", 1)[0] === `.${name}`);

/** The texts of the files that were found, without litter; undefined if anything is neither a file nor a directory. */
export function textsOf(found: FoundFiles): Tree | undefined {
  const tree: Tree = new Map();
  for (const [path, { kind, content }] of found) {
    if (isLitter(path)) continue;
    if (kind !== "file" && kind !== "directory") return undefined;
    tree.set(path, kind === "file" ? Buffer.from(content, "latin1").toString("utf8") : null);
  }
  return tree;
}
