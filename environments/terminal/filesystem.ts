/**
 * A file system in memory: a tree of directories and text files, with POSIX path resolution and the errors of
 * `strerror`.
 *
 * Not modelled: links, permissions, owners, times, binary files. Everything that an agent can make grow has a limit,
 * and the limit fails as a full disk would.
 */

import { Errno, NO_ENTRY, NOT_DIRECTORY, IS_DIRECTORY, EXISTS, NO_SPACE } from "./errno.ts";

export interface FileNode {
  readonly kind: "file";
  text: string;
}
export interface DirectoryNode {
  readonly kind: "directory";
  readonly children: Map<string, Node>;
}
export type Node = FileNode | DirectoryNode;

/** Limits, in UTF-16 code units and nodes: far above what a task needs, far below what could slow a rollout down. */
export const MAX_FILE = 32_768;
export const MAX_TOTAL = 262_144;
export const MAX_NODES = 1_000;
const MAX_PATH = 1_024;
const MAX_NAME = 255;

export const HOME = "/home/user";

export function directory(): DirectoryNode {
  return { kind: "directory", children: new Map() };
}

/** Children in the order in which `ls` shows them in the C locale: by code unit. */
export function sortedChildren(node: DirectoryNode): [string, Node][] {
  return [...node.children].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** A deep copy that shares nothing. */
export function copyOf(node: Node): Node {
  if (node.kind === "file") return { kind: "file", text: node.text };
  const copy = directory();
  for (const [name, child] of node.children) copy.children.set(name, copyOf(child));
  return copy;
}

/** Nodes and characters in a subtree. */
export function sizeOf(node: Node): { nodes: number; characters: number } {
  if (node.kind === "file") return { nodes: 1, characters: node.text.length };
  const total = { nodes: 1, characters: 0 };
  for (const child of node.children.values()) {
    const size = sizeOf(child);
    total.nodes += size.nodes;
    total.characters += size.characters;
  }
  return total;
}

/** `name` under `base` as text: `joinPath("a/", "b")` is `a/b`. */
export function joinPath(base: string, name: string): string {
  return base.endsWith("/") ? base + name : `${base}/${name}`;
}

/** The last component of a path: of `a/b/` it is `b`. */
export function baseName(path: string): string {
  const trimmed = path.replace(/\/+$/, "");
  return trimmed === "" ? path.slice(0, 1) : trimmed.slice(trimmed.lastIndexOf("/") + 1);
}

/** The end of a path: the node if there is one, and the directory and the name under which it is or would be. */
export interface Place {
  readonly node: Node | undefined;
  readonly parent: DirectoryNode;
  readonly name: string;
  /** Absolute and normalised, without `.` and `..`. */
  readonly path: string;
}

export class FileSystem {
  readonly root: DirectoryNode;
  cwd: string = HOME;
  /** The directory to which `cd -` leads. */
  previous: string | undefined;
  /** Nodes and characters of the whole tree, kept up to date: a write must not cost a walk. */
  readonly #used = { nodes: 1, characters: 0 };

  /** @param original a file system to copy; without it, an empty home and what every tree has */
  constructor(original?: FileSystem) {
    this.root = directory();
    if (original) {
      for (const [name, child] of original.root.children) this.root.children.set(name, copyOf(child));
      Object.assign(this.#used, original.#used);
      this.cwd = original.cwd;
      this.previous = original.previous;
      return;
    }
    this.makeDirectory(HOME, true);
    this.makeDirectory("/tmp");
    this.makeDirectory("/dev");
  }

  /** A deep copy, with the same working directory. */
  copy(): FileSystem {
    return new FileSystem(this);
  }

  /** Whether the working directory is home. */
  get isAtHome(): boolean {
    return this.cwd === HOME;
  }

  /**
   * Follows a path from the working directory.
   * @throws Errno if a component on the way is missing or no directory; the last one may be missing
   */
  locate(path: string): Place {
    if (path === "") throw new Errno(NO_ENTRY);
    const full = path.startsWith("/") ? path : `${this.cwd}/${path}`;
    if (full.length > MAX_PATH) throw new Errno("File name too long");
    const names: string[] = [];
    const chain: DirectoryNode[] = [this.root]; // names[i] lies in chain[i]; a directory itself is on top
    let node: Node | undefined = this.root;
    for (const part of full.split("/")) {
      if (part === "") continue;
      if (node === undefined) throw new Errno(NO_ENTRY);
      if (node.kind === "file") throw new Errno(NOT_DIRECTORY);
      if (part === ".") continue;
      if (part === "..") {
        names.pop();
        if (chain.length > 1) chain.pop();
        node = chain.at(-1)!;
        continue;
      }
      if (part.length > MAX_NAME) throw new Errno("File name too long");
      names.push(part);
      node = node.children.get(part);
      if (node?.kind === "directory") chain.push(node);
    }
    if (node?.kind === "file" && path.endsWith("/")) throw new Errno(NOT_DIRECTORY);
    const parent = chain[Math.max(names.length - 1, 0)]!;
    return { node, parent, name: names.at(-1) ?? "/", path: `/${names.join("/")}` };
  }

  /** The node at a path. @throws Errno if there is none */
  get(path: string): Node {
    return this.locate(path).node ?? raise(NO_ENTRY);
  }

  /** The node at a path, or undefined if there is none (for whatever reason). */
  peek(path: string): Node | undefined {
    try {
      return this.locate(path).node;
    } catch {
      return undefined;
    }
  }

  isDirectory(path: string): boolean {
    return this.peek(path)?.kind === "directory";
  }

  /** The text of a file. @throws Errno */
  read(path: string): string {
    if (this.#isNull(path)) return "";
    const node = this.get(path);
    if (node.kind === "directory") throw new Errno(IS_DIRECTORY);
    return node.text;
  }

  /** Makes or overwrites a file, or appends to it. @throws Errno */
  write(path: string, text: string, append = false): void {
    if (this.#isNull(path)) return;
    const place = this.locate(path);
    if (place.node?.kind === "directory" || (!place.node && path.endsWith("/"))) throw new Errno(IS_DIRECTORY);
    const old = place.node?.text ?? "";
    const next = append ? old + text : text;
    if (next.length > MAX_FILE) throw new Errno("File too large");
    this.checkSpace(place.node ? 0 : 1, next.length - old.length);
    if (place.node) this.#rewrite(place.node, next);
    else this.#put(place, { kind: "file", text: next });
  }

  /** Gives a file another text. @throws Errno if the disk is full */
  overwrite(file: FileNode, text: string): void {
    this.checkSpace(0, text.length - file.text.length);
    this.#rewrite(file, text);
  }

  #rewrite(file: FileNode, text: string): void {
    this.#used.characters += text.length - file.text.length;
    file.text = text;
  }

  #put({ parent, name }: Place, node: Node): void {
    this.#count(parent.children.get(name), -1);
    parent.children.set(name, node);
    this.#count(node, 1);
  }

  #count(node: Node | undefined, sign: 1 | -1): void {
    if (node === undefined) return;
    const { nodes, characters } = sizeOf(node);
    this.#used.nodes += sign * nodes;
    this.#used.characters += sign * characters;
  }

  /** Makes a directory, with `parents` also those above it. @throws Errno */
  makeDirectory(path: string, parents = false): void {
    if (parents) {
      const above = path.replace(/\/+$/, "").lastIndexOf("/");
      const upper = path.slice(0, Math.max(above, 0));
      if (upper !== "" && this.peek(upper)?.kind === "file") throw new Errno(NOT_DIRECTORY);
      if (upper !== "" && !this.isDirectory(upper)) this.makeDirectory(upper, true);
    }
    const place = this.locate(path);
    if (place.node) {
      if (parents && place.node.kind === "directory") return;
      throw new Errno(EXISTS);
    }
    this.attach(place, directory());
  }

  /** Puts a node at a place, replacing what is there. @throws Errno if the disk is full */
  attach(place: Place, node: Node): void {
    const size = sizeOf(node);
    this.checkSpace(size.nodes, size.characters);
    this.#put(place, node);
  }

  /** Takes a node from one place to another, replacing what is there. */
  move(from: Place & { readonly node: Node }, to: Place): void {
    this.detach(from);
    this.#put(to, from.node);
  }

  /** Nodes and characters of the whole tree. */
  get used(): { readonly nodes: number; readonly characters: number } {
    return this.#used;
  }

  /** Takes the node at a place out of the tree. */
  detach(place: Place): void {
    this.#count(place.parent.children.get(place.name), -1);
    place.parent.children.delete(place.name);
  }

  /** @throws Errno if that many more nodes and characters do not fit */
  checkSpace(nodes: number, characters: number): void {
    const used = this.#used;
    const full =
      (nodes > 0 && used.nodes + nodes > MAX_NODES) || (characters > 0 && used.characters + characters > MAX_TOTAL);
    if (full) throw new Errno(NO_SPACE);
  }

  /** Changes the working directory. @throws Errno */
  changeDirectory(path: string): void {
    const place = this.locate(path);
    if (!place.node) throw new Errno(NO_ENTRY);
    if (place.node.kind === "file") throw new Errno(NOT_DIRECTORY);
    this.previous = this.cwd;
    this.cwd = place.path;
  }

  /**
   * Everything under a directory, as `relative path → text` (null for a directory), in order: what verifiers compare.
   * A missing directory is an empty map.
   */
  snapshot(path: string = HOME): Map<string, string | null> {
    const result = new Map<string, string | null>();
    const visit = (node: DirectoryNode, prefix: string): void => {
      for (const [name, child] of sortedChildren(node)) {
        result.set(prefix + name, child.kind === "file" ? child.text : null);
        if (child.kind === "directory") visit(child, `${prefix}${name}/`);
      }
    };
    const top = this.peek(path);
    if (top?.kind === "directory") visit(top, "");
    return result;
  }

  /** `/dev/null`, the one device: reads as empty, swallows what is written. */
  #isNull(path: string): boolean {
    return path === "/dev/null";
  }
}

/** Throws `Errno`; an expression, so that it can stand after `??`. */
export function raise(message: string): never {
  throw new Errno(message);
}
