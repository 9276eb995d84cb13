/**
 * What of a folder is left when the power goes. A disk may keep what it was told until it is flushed, so two trees are
 * kept of each folder: the names that programs see, and those that a flush of the folder has made last; and of each
 * file the bytes of its last flush. Between the two a disk may be anywhere. Four of the places are tried.
 */
import fs from "node:fs";

export const POWER = [
  "power, flushed only",
  "power, half of the removals",
  "power, all names",
  "power, half of the bytes",
] as const;
/**
 * - flushed only: names and bytes that were flushed. As little as POSIX promises.
 * - half of the removals: the same, but every other file that was removed is gone, also where a folder's new name is
 *   lost.
 * - all names: as a journal that keeps names, in order, and no bytes; a new file is empty.
 * - half of the bytes: the same, but files have their new lengths, and of the bytes that changed the first half. The
 *   rest are zeros, as where room was given to a file before its bytes arrived.
 */
export type PowerLoss = (typeof POWER)[number];

interface Folder {
  readonly live: Map<string, Node>;
  kept: Map<string, Node>;
}
interface File {
  kept: Uint8Array;
  isRemoved?: true;
}
type Node = Folder | File;
const isFolder = (node: Node | undefined): node is Folder => node !== undefined && "live" in node;

function remove(node: Node): void {
  if (isFolder(node)) for (const child of node.live.values()) remove(child);
  else node.isRemoved = true;
}

type Real = Readonly<Record<string, (...args: readonly unknown[]) => unknown>>;

export class Platter {
  readonly #real: Real;
  readonly #path: string;
  readonly #root: Folder;

  /** @param path a folder; all that is in it has been flushed. @param real the functions of `node:fs` */
  constructor(path: string, real: Real) {
    [this.#path, this.#real] = [path, real];
    this.#root = this.#seen(path) as Folder;
  }

  /** Notes a call that was made. @param path what it is about; of a descriptor the file's */
  note(name: string, args: readonly unknown[], path: string): void {
    const [folder, last] = this.#at(path);
    const node = last === "" ? folder : folder?.live.get(last);
    switch (name) {
      case "openSync":
        if (args[1] !== "r" && node === undefined) folder!.live.set(last, { kept: new Uint8Array() });
        break;
      case "writeFileSync":
      case "appendFileSync":
      case "copyFileSync":
        if (node === undefined) folder!.live.set(last, { kept: new Uint8Array() });
        break;
      case "mkdirSync":
        this.#make(path);
        break;
      case "linkSync":
      case "renameSync": {
        const [target, to] = this.#at(String(args[1]));
        target!.live.set(to, node!);
        if (name === "renameSync") folder!.live.delete(last);
        break;
      }
      case "rmSync":
        if (node !== undefined) remove(node);
        folder?.live.delete(last);
        break;
      case "fsyncSync":
        if (isFolder(node)) node.kept = new Map(node.live);
        else if (node !== undefined) node.kept = this.#bytesAt(path);
    }
  }

  /** The power goes: the folder becomes what is left. */
  lose(how: PowerLoss): void {
    const rest =
      how === "power, half of the bytes" ? this.#halves(this.#path, this.#root) : new Map<File, Uint8Array>();
    const isStrict = how === "power, flushed only" || how === "power, half of the removals";
    const write = (path: string, folder: Folder): void => {
      let removed = 0;
      for (const [name, node] of isStrict ? folder.kept : folder.live) {
        const at = `${path}/${name}`;
        if (!isFolder(node)) {
          if (how === "power, half of the removals" && node.isRemoved && removed++ % 2 === 0) continue;
          this.#real["writeFileSync"]!(at, rest.get(node) ?? node.kept);
          continue;
        }
        this.#real["mkdirSync"]!(at);
        write(at, node);
      }
    };
    for (const name of this.#real["readdirSync"]!(this.#path) as string[])
      this.#real["rmSync"]!(`${this.#path}/${name}`, { recursive: true });
    write(this.#path, this.#root);
  }

  /** What the disk holds now, as flushed. */
  #seen(path: string): Node {
    if (!(this.#real["statSync"]!(path) as fs.Stats).isDirectory()) return { kept: this.#bytesAt(path) };
    const names = this.#real["readdirSync"]!(path) as string[];
    const live = new Map(names.map((name) => [name, this.#seen(`${path}/${name}`)]));
    return { live, kept: new Map(live) };
  }

  #bytesAt(path: string): Uint8Array {
    return new Uint8Array(this.#real["readFileSync"]!(path) as Uint8Array);
  }

  /** The folder that a path is in, if it is there, and its name there; the root is "" in itself. */
  #at(path: string): [folder: Folder | undefined, name: string] {
    const names = path.slice(this.#path.length).split("/").filter(Boolean);
    const last = names.pop() ?? "";
    let folder: Node | undefined = this.#root;
    for (const name of names) folder = isFolder(folder) ? folder.live.get(name) : undefined;
    return [isFolder(folder) ? folder : undefined, last];
  }

  #make(path: string): void {
    let folder = this.#root;
    for (const name of path.slice(this.#path.length).split("/").filter(Boolean)) {
      const next = folder.live.get(name) ?? { live: new Map(), kept: new Map() };
      folder.live.set(name, next);
      folder = next as Folder;
    }
  }

  /** Of each file what half of its change leaves. */
  #halves(path: string, folder: Folder, into = new Map<File, Uint8Array>()): Map<File, Uint8Array> {
    for (const [name, node] of folder.live) {
      if (isFolder(node)) {
        this.#halves(`${path}/${name}`, node, into);
        continue;
      }
      const now = this.#bytesAt(`${path}/${name}`);
      let same = 0;
      while (same < now.length && now[same] === node.kept[same]) same++;
      into.set(node, now.fill(0, same + ((now.length - same) >> 1)));
    }
    return into;
  }
}
