/** Commands about where things are: cd, pwd, ls, find. See commands.ts for the versions that they imitate. */
import { Errno } from "./errno.ts";
import { HOME, sortedChildren, type DirectoryNode, type Node } from "./filesystem.ts";
import { globMatches, globWork } from "./glob.ts";
import { CommandFailure, quote, walk, type Process } from "./process.ts";

export function cd(process: Process): number {
  if (process.args.length > 1) return process.complain("too many arguments");
  let target = process.args[0] ?? HOME;
  if (target === "") return 0;
  if (target === "-") {
    target = process.fs.previous ?? "";
    if (target === "") return process.complain("OLDPWD not set");
    process.out(`${target}\n`);
  }
  return process.attempt(
    (reason) => `${target}: ${reason}`,
    () => process.fs.changeDirectory(target),
  )
    ? 0
    : 1;
}

export function pwd(process: Process): number {
  process.out(`${process.fs.cwd}\n`);
  return 0;
}

/** ls [-a] [-A] [-1] [-d] [-l] [-R] [path…]: one name a line, as when the output is no terminal. */
export function ls(process: Process): number {
  const { flags, operands } = process.parse("aA1dlR", 2, {
    all: "a",
    "almost-all": "A",
    directory: "d",
    recursive: "R",
  });
  const files: string[] = [];
  const directories: [string, DirectoryNode][] = [];
  let code = 0;
  for (const path of operands.length > 0 ? [...operands].sort() : ["."]) {
    const found = process.attempt(
      (reason) => `cannot access ${quote(path)}: ${reason}`,
      () => {
        const node = process.fs.get(path);
        if (node.kind === "file" || flags.has("d")) files.push(line(process, flags.has("l"), path, node));
        else directories.push([path, node]);
      },
    );
    if (!found) code = 2;
  }
  for (const text of files) process.out(text);
  const needsHeader = operands.length > 1 || flags.has("R");
  let isFirst = files.length === 0;
  const list = (path: string, node: DirectoryNode): void => {
    if (!isFirst) process.out("\n");
    if (needsHeader) process.out(`${path}:\n`);
    isFirst = false;
    let names = sortedChildren(node);
    if (!flags.has("a") && !flags.has("A")) names = names.filter(([name]) => !name.startsWith("."));
    if (flags.has("l")) process.out(`total ${names.filter(([, child]) => child.kind === "directory").length * 4}\n`);
    if (flags.has("a")) for (const name of [".", ".."]) process.out(line(process, flags.has("l"), name, node));
    for (const [name, child] of names) process.out(line(process, flags.has("l"), name, child));
    if (!flags.has("R")) return;
    for (const [name, child] of names)
      if (child.kind === "directory") list(path.endsWith("/") ? path + name : `${path}/${name}`, child);
  };
  for (const [path, node] of directories) list(path, node);
  return code;
}

/** A line of `ls`. The long form has fixed owner and time, which the tree does not keep. */
function line(process: Process, isLong: boolean, name: string, node: Node): string {
  process.spend(1 + name.length);
  if (!isLong) return `${name}\n`;
  const size = node.kind === "file" ? new TextEncoder().encode(node.text).length : 4096;
  const mode = node.kind === "file" ? "-rw-r--r-- 1" : "drwxr-xr-x 2";
  return `${mode} user user ${String(size).padStart(4)} Jan  1 00:00 ${name}\n`;
}

type Predicate = (path: string, node: Node) => boolean;

/** find [path…] [-name p] [-iname p] [-type f|d] [-maxdepth n] [-print], predicates joined by "and". */
export function find(process: Process): number {
  const args = [...process.args];
  const starts: string[] = [];
  while (args.length > 0 && !args[0]!.startsWith("-")) starts.push(args.shift()!);
  const { predicates, maxDepth } = findExpression(process, args);
  let code = 0;
  for (const start of starts.length > 0 ? starts : ["."]) {
    const found = process.attempt(
      (reason) => `${quote(start)}: ${reason}`,
      () =>
        walk(process, start, process.fs.get(start), (path, node, depth) => {
          if (predicates.every((accepts) => accepts(path, node))) process.out(`${path}\n`);
          return depth < maxDepth;
        }),
    );
    if (!found) code = 1;
  }
  return code;
}

function findExpression(process: Process, args: readonly string[]): { predicates: Predicate[]; maxDepth: number } {
  const predicates: Predicate[] = [];
  let maxDepth = Infinity;
  for (let i = 0; i < args.length; i++) {
    const name = args[i]!;
    if (name === "-print") continue;
    if (!name.startsWith("-")) {
      const hint =
        /^-i?name$/.test(args[i - 2] ?? "") && process.fs.peek(name)
          ? `\nfind: possible unquoted pattern after predicate \`${args[i - 2]}'?`
          : "";
      throw new CommandFailure(`find: paths must precede expression: \`${name}'${hint}`, 1);
    }
    if (!["-name", "-iname", "-type", "-maxdepth"].includes(name))
      throw new CommandFailure(`find: unknown predicate \`${name}'`, 1);
    const value = args[++i];
    if (value === undefined) throw new CommandFailure(`find: missing argument to \`${name}'`, 1);
    if (name === "-maxdepth") {
      if (!/^\d+$/.test(value)) {
        const expected = "Expected a positive decimal integer argument to -maxdepth";
        throw new CommandFailure(`find: ${expected}, but got ${quote(value)}`, 1);
      }
      maxDepth = Number(value);
    } else if (name === "-type") {
      if (value !== "f" && value !== "d") throw new CommandFailure(`find: Unknown argument to -type: ${value}`, 1);
      predicates.push((_, node) => node.kind === (value === "f" ? "file" : "directory"));
    } else {
      const fold = (text: string): string => (name === "-iname" ? text.toLowerCase() : text);
      predicates.push((path) => {
        process.spend(globWork(value, path));
        return globMatches(fold(value), fold(lastName(path)));
      });
    }
  }
  return { predicates, maxDepth };
}

/** The name that -name looks at: of `./a/` it is `a`, of `.` it is `.`. */
function lastName(path: string): string {
  const trimmed = path.replace(/\/+$/, "");
  if (path === "") throw new Errno("No such file or directory");
  return trimmed === "" ? "/" : trimmed.slice(trimmed.lastIndexOf("/") + 1);
}
