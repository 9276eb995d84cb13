/** Folders of tasks on this machine: their files, hashes, and archives of them. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join, posix } from "node:path";
import { fail } from "../../engine/errors.ts";

/** Bytes of a folder of a task. */
const MOST_BYTES = 2 ** 28;

/**
 * Paths below a folder, relative to it, in order; links are not followed.
 * @throws WorldgradError in one line if a name is no UTF-8
 */
export function pathsIn(folder: string): string[] {
  const found: string[] = [];
  const visit = (path: string): void => {
    const entries = readdirSync(join(folder, path), { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const entry of entries) {
      const here = path === "" ? entry.name : `${path}/${entry.name}`;
      // A name of other bytes is read as one that is not there.
      if (entry.name.includes("\ufffd") && lstatSync(join(folder, here), { throwIfNoEntry: false }) === undefined)
        fail(`${join(folder, here)}: its name is no UTF-8`);
      found.push(here);
      if (entry.isDirectory()) visit(here);
    }
  };
  if (existsSync(folder)) visit("");
  return found;
}

/** The SHA-256 of the names, kinds, modes and contents of what is below a folder. */
export function hashOf(folder: string): string {
  const hash = createHash("sha256");
  for (const path of pathsIn(folder)) {
    const full = join(folder, path);
    const stat = lstatSync(full);
    const content = stat.isSymbolicLink() ? readlinkSync(full) : stat.isFile() ? readFileSync(full) : "";
    hash.update(`${path}\0${stat.isFile() ? "f" : stat.isDirectory() ? "d" : "l"}${stat.mode & 0o111}\0`);
    hash.update(`${content.length}\0`).update(content);
  }
  return hash.digest("hex");
}

/**
 * The paths of a build's context that its .dockerignore leaves in. Of its patterns `*`, `?`, `**`, `[…]` and `!` are
 * known.
 */
export function contextPaths(folder: string): string[] {
  const paths = pathsIn(folder);
  const file = join(folder, ".dockerignore");
  if (!existsSync(file)) return paths;
  const rules = readFileSync(file, "utf8")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const isKept = line.startsWith("!");
      // `./a`, `/a` and `a/` are `a`.
      const path = posix.normalize(line.replace(/^!\s*/, "")).replace(/^\/+|\/+$/g, "");
      return { isKept, pattern: patternOf(path) };
    });
  return paths.filter((path) => {
    const parents = path.split("/").map((_, i, parts) => parts.slice(0, i + 1).join("/"));
    const last = rules.findLast(({ pattern }) => parents.some((each) => pattern.test(each)));
    return last?.isKept ?? true;
  });
}

function patternOf(glob: string): RegExp {
  const source = glob
    .split(/(\*\*\/|\*\*|\*|\?|\[[^\]\\]+\])/)
    .map((part) => GLOBS[part] ?? (isClass(part) ? part : part.replace(/[.+^${}()|[\]\\]/g, "\\$&")))
    .join("");
  return new RegExp(`^${source}$`);
}
/** Whether a part is one of letters, `[a-z]`, that can be read. */
function isClass(part: string): boolean {
  if (!/^\[.+\]$/s.test(part)) return false;
  try {
    return new RegExp(part).source !== "";
  } catch {
    return false;
  }
}
const GLOBS: Readonly<Record<string, string>> = { "**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]" };

/** The time of all files: an age would be noise in what an agent reads. */
const TIME = "2026-01-01T00:00:00Z";

/**
 * An archive of a folder, in the format of tar, with `root` as the owner of everything.
 * @param paths those of `pathsIn` that go in. Default: all
 * @throws WorldgradError in one line
 */
export async function archiveOf(folder: string, paths: readonly string[] = pathsIn(folder)): Promise<Buffer> {
  const words = [
    ["--create", "--file=-", "--format=gnu", "--blocking-factor=20", `--directory=${folder}`, `--mtime=${TIME}`],
    ["--owner=root:0", "--group=root:0", "--no-recursion", "--null", "--files-from=-"],
  ].flat();
  const child = spawn("tar", words, { stdio: ["pipe", "pipe", "pipe"] });
  const pieces: Buffer[] = [];
  let [size, said] = [0, ""];
  child.stdout.on("data", (piece: Buffer) => {
    size += piece.length;
    if (size <= MOST_BYTES) pieces.push(piece);
    else child.kill();
  });
  child.stderr.on("data", (piece: Buffer) => (said = (said + piece.toString()).slice(0, 500)));
  child.stdin.on("error", () => undefined).end(paths.map((path) => `./${path}\0`).join(""));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  if (size > MOST_BYTES) fail(`${folder} has more than ${MOST_BYTES} bytes`);
  if (code !== 0) fail(`${folder} cannot be packed: ${said.trim().split("\n")[0]}`);
  return Buffer.concat(pieces);
}
