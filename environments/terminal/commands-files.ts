/** Commands that change the tree: mkdir, rmdir, touch, rm, cp, mv. See commands.ts for what they imitate. */
import { Errno, NO_ENTRY, NOT_DIRECTORY, NOT_EMPTY } from "./errno.ts";
import { baseName, copyOf, joinPath, raise, sizeOf, type Node, type Place } from "./filesystem.ts";
import { quote, type Process } from "./process.ts";

/** Runs `each` on every operand; 1 if one of them failed. */
function forEach(process: Process, operands: readonly string[], message: string, each: (path: string) => void): number {
  let code = 0;
  for (const path of operands) {
    const ok = process.attempt(
      (reason) => `${message} ${quote(path)}: ${reason}`,
      () => each(path),
    );
    if (!ok) code = 1;
  }
  return code;
}

/** mkdir [-p] directory… */
export function mkdir(process: Process): number {
  const { flags, operands } = process.parse("p", 1, { parents: "p" });
  if (operands.length === 0) process.misuse("missing operand");
  return forEach(process, operands, "cannot create directory", (path) => {
    process.spend(path.length);
    process.fs.makeDirectory(path, flags.has("p"));
  });
}

/** rmdir directory… */
export function rmdir(process: Process): number {
  const { operands } = process.parse("");
  if (operands.length === 0) process.misuse("missing operand");
  return forEach(process, operands, "failed to remove", (path) => {
    const place = process.fs.locate(path);
    if (!place.node) throw new Errno(NO_ENTRY);
    if (place.node.kind === "file") throw new Errno(NOT_DIRECTORY);
    if (place.node.children.size > 0) throw new Errno(NOT_EMPTY);
    if (place.path === "/") throw new Errno("Device or resource busy");
    process.fs.detach(place);
  });
}

/** touch file…: makes empty files; there are no times to change. */
export function touch(process: Process): number {
  const { operands } = process.parse("cam");
  if (operands.length === 0) process.misuse("missing file operand");
  return forEach(process, operands, "cannot touch", (path) => {
    if (!process.fs.locate(path).node) process.fs.write(path, "");
  });
}

/** rm [-r] [-f] [-d] path… */
export function rm(process: Process): number {
  const { flags, operands } = process.parse("rRfdv", 1, { recursive: "r", force: "f" });
  const isRecursive = flags.has("r") || flags.has("R");
  if (operands.length === 0) {
    if (flags.has("f")) return 0;
    process.misuse("missing operand");
  }
  let code = 0;
  for (const path of operands) {
    if (isRecursive && /(?:^|\/)\.\.?\/*$/.test(path)) {
      code = process.complain(`refusing to remove '.' or '..' directory: skipping ${quote(path)}`);
      continue;
    }
    if (isRecursive && path !== "" && process.fs.peek(path) === process.fs.root) {
      process.complain(`it is dangerous to operate recursively on ${quote(path)}`);
      code = process.complain("use --no-preserve-root to override this failsafe");
      continue;
    }
    const ok = process.attempt(
      (reason) => `cannot remove ${quote(path)}: ${reason}`,
      () => {
        const place = process.fs.locate(path);
        if (!place.node) return flags.has("f") ? undefined : raise(NO_ENTRY);
        if (place.node.kind === "directory" && !isRecursive) {
          if (!flags.has("d")) throw new Errno("Is a directory");
          if (place.node.children.size > 0) throw new Errno(NOT_EMPTY);
        }
        process.fs.detach(place);
      },
    );
    if (!ok) code = 1;
  }
  return code;
}

/** cp [-r] source… target */
export function cp(process: Process): number {
  const { flags, operands } = process.parse("rRafnv", 1, { recursive: "r", force: "f" });
  const isRecursive = flags.has("r") || flags.has("R") || flags.has("a");
  return transfer(process, operands, (source, target, from, to) => {
    if (from.node.kind === "directory") {
      if (!isRecursive) return process.complain(`-r not specified; omitting directory ${quote(source)}`);
      if (isInside(from, to))
        return process.complain(`cannot copy a directory, ${quote(source)}, into itself, ${quote(target)}`);
    }
    if (from.node === to.node) return process.complain(`${quote(source)} and ${quote(target)} are the same file`);
    const conflict = clash(process, source, target, from.node, to.node);
    if (conflict !== undefined) return conflict;
    if (flags.has("n") && to.node) return 0;
    const kind = from.node.kind === "directory" ? "directory" : "regular file";
    process.spend(sizeOf(from.node).characters);
    return process.attempt(
      (reason) => `cannot create ${kind} ${quote(target)}: ${reason}`,
      () => {
        if (from.node.kind === "file" && !to.node && target.endsWith("/")) throw new Errno(NOT_DIRECTORY);
        merge(process, from.node, to);
      },
    )
      ? 0
      : 1;
  });
}

/** Copies a node to a place; a directory is merged into one that is there. @throws Errno when the disk is full */
function merge(process: Process, node: Node, to: Place): void {
  process.spend(1);
  if (node.kind === "file" && to.node?.kind === "file") {
    process.fs.overwrite(to.node, node.text);
  } else if (node.kind === "directory" && to.node?.kind === "directory") {
    const parent = to.node;
    for (const [name, child] of node.children)
      merge(process, child, { node: parent.children.get(name), parent, name, path: joinPath(to.path, name) });
  } else if (!to.node) process.fs.attach(to, copyOf(node));
  else throw new Errno("File exists");
}

/** mv source… target */
export function mv(process: Process): number {
  const { flags, operands } = process.parse("fnv", 1, { force: "f", "no-clobber": "n" });
  return transfer(process, operands, (source, target, from, to) => {
    if (from.node === to.node) return process.complain(`${quote(source)} and ${quote(target)} are the same file`);
    if (from.node.kind === "directory" && isInside(from, to))
      return process.complain(`cannot move ${quote(source)} to a subdirectory of itself, ${quote(target)}`);
    const conflict = clash(process, source, target, from.node, to.node);
    if (conflict !== undefined) return conflict;
    if (flags.has("n") && to.node) return 0;
    return process.attempt(
      (reason) => `cannot move ${quote(source)} to ${quote(target)}: ${reason}`,
      () => {
        if (to.node?.kind === "directory" && to.node.children.size > 0) throw new Errno(NOT_EMPTY);
        if (from.node.kind === "file" && !to.node && target.endsWith("/")) throw new Errno(NOT_DIRECTORY);
        if (from.path === "/") throw new Errno("Device or resource busy");
        process.fs.move(from, to);
      },
    )
      ? 0
      : 1;
  });
}

type Source = Place & { readonly node: Node };
type One = (source: string, target: string, from: Source, to: Place) => number;

/** The common part of cp and mv: the target rule (into a directory, else onto the path), and the errors on the way. */
function transfer(process: Process, operands: readonly string[], one: One): number {
  if (operands.length === 0) process.misuse("missing file operand");
  if (operands.length === 1) process.misuse(`missing destination file operand after ${quote(operands[0]!)}`);
  const destination = operands.at(-1)!;
  const isInto = process.fs.isDirectory(destination);
  if (operands.length > 2 && !isInto) {
    const reason = process.fs.peek(destination) ? NOT_DIRECTORY : NO_ENTRY;
    return process.complain(`target ${quote(destination)}: ${reason}`);
  }
  let code = 0;
  for (const source of operands.slice(0, -1)) {
    const target = isInto ? joinPath(destination, baseName(source)) : destination;
    let from: Place | undefined;
    const found = process.attempt(
      (reason) => `cannot stat ${quote(source)}: ${reason}`,
      () => {
        from = process.fs.locate(source);
        if (!from.node) throw new Errno(NO_ENTRY);
      },
    );
    if (!found || !from?.node) {
      code = 1;
      continue;
    }
    const kind = from.node.kind === "directory" ? "directory" : "regular file";
    const place: Source = { ...from, node: from.node };
    const problem = process.name === "mv" ? `cannot move ${quote(source)} to` : `cannot create ${kind}`;
    const reached = process.attempt(
      (reason) =>
        reason === NOT_DIRECTORY ? `cannot stat ${quote(target)}: ${reason}` : `${problem} ${quote(target)}: ${reason}`,
      () => {
        if (one(source, target, place, process.fs.locate(target)) !== 0) code = 1;
      },
    );
    if (!reached) code = 1;
  }
  return code;
}

/** Whether `to` is the directory `from` or below it. */
function isInside(from: Place, to: Place): boolean {
  return to.path === from.path || to.path.startsWith(joinPath(from.path, ""));
}

/** A directory never replaces a file, nor a file a directory. */
function clash(process: Process, source: string, target: string, from: Node, to: Node | undefined): number | undefined {
  if (to?.kind === "directory" && from.kind === "file")
    return process.complain(`cannot overwrite directory ${quote(target)} with non-directory`);
  if (to?.kind === "file" && from.kind === "directory")
    return process.complain(`cannot overwrite non-directory ${quote(target)} with directory ${quote(source)}`);
  return undefined;
}
