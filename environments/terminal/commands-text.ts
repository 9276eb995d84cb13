/**
 * Commands that show, search and count text: cat, echo, head, tail, wc, grep. See commands.ts for what they imitate.
 */
import { Errno, IS_DIRECTORY } from "./errno.ts";
import { joinPath, sortedChildren, type Node } from "./filesystem.ts";
import { quote, splitLines, type Process } from "./process.ts";
import { compileRegex, PatternError, type Regex } from "./regex.ts";

/** cat [-n] [file…] */
export function cat(process: Process): number {
  const { flags, operands } = process.parse("n", 1, { number: "n" });
  let code = 0;
  let number = 0;
  for (const path of operands.length > 0 ? operands : ["-"]) {
    const ok = process.attempt(
      (reason) => `${path === "" ? "''" : path}: ${reason}`,
      () => {
        const text = process.read(path);
        if (!flags.has("n")) return process.out(text);
        for (const line of splitLines(text)) process.out(`${String(++number).padStart(6)}\t${line}\n`);
      },
    );
    if (!ok) code = 1;
  }
  return code;
}

/** echo [-n] [-e] [word…], the shell's own: what looks like an option but is none is text. */
export function echo(process: Process): number {
  let words = process.args;
  let flags = "";
  while (/^-[neE]+$/.test(words[0] ?? "")) {
    flags += words[0]!;
    words = words.slice(1);
  }
  let text = words.join(" ");
  if (flags.includes("e"))
    text = text.replace(/\\([nt\\])/g, (_, c: string) => (c === "n" ? "\n" : c === "t" ? "\t" : "\\"));
  process.out(flags.includes("n") ? text : `${text}\n`);
  return 0;
}

/** head [-n N | -n -N | -c N | -N] [file…] */
export function head(process: Process): number {
  return showPart(process, (pieces, count, sign) =>
    pieces.slice(0, sign === "-" ? Math.max(pieces.length - count, 0) : count),
  );
}

/** tail [-n N | -n +N | -c N | -N] [file…] */
export function tail(process: Process): number {
  return showPart(process, (pieces, count, sign) =>
    sign === "+" ? pieces.slice(Math.max(count - 1, 0)) : pieces.slice(Math.max(pieces.length - count, 0)),
  );
}

/** The common part of head and tail; `cut` takes the lines (or characters) that are wanted. */
function showPart(process: Process, cut: (pieces: string[], count: number, sign: string) => string[]): number {
  // The old form: head -5.
  const args = process.args.map((arg, i) => (i === 0 && /^-\d+$/.test(arg) ? `-n${arg.slice(1)}` : arg));
  const { flags, operands } = process.parse("n:c:q", 1, { lines: "n", bytes: "c" }, args);
  const unit = flags.has("c") ? "bytes" : "lines";
  const value = flags.get("c") ?? flags.get("n") ?? "10";
  if (!/^[+-]?\d+$/.test(value)) return process.complain(`invalid number of ${unit}: ${quote(value)}`);
  const sign = /^[+-]/.test(value) ? value[0]! : "";
  const count = Math.min(Number(value.replace(/^[+-]/, "")), 1e9);
  let code = 0;
  let isFirst = true;
  for (const path of operands.length > 0 ? operands : ["-"]) {
    const title = path === "-" ? "standard input" : path;
    const announce = (): void => {
      if (operands.length > 1 && !flags.has("q")) process.out(`${isFirst ? "" : "\n"}==> ${title} <==\n`);
      isFirst = false;
    };
    const ok = process.attempt(
      (reason) =>
        reason === IS_DIRECTORY
          ? `error reading ${quote(path)}: ${reason}`
          : `cannot open ${quote(path)} for reading: ${reason}`,
      () => {
        if (process.fs.isDirectory(path)) announce();
        const text = process.read(path);
        announce();
        if (unit === "bytes") return process.out(cut([...text], count, sign).join(""));
        process.out(cut(text.match(/[^\n]*\n|[^\n]+$/g) ?? [], count, sign).join(""));
      },
    );
    if (!ok) code = 1;
  }
  return code;
}

/** wc [-l] [-w] [-c] [-m] [file…]: numbers in columns, as wide as the total of bytes. */
export function wc(process: Process): number {
  const { flags, operands } = process.parse("lwcm", 1, { lines: "l", words: "w", bytes: "c", chars: "m" });
  const shown = flags.size > 0 ? ["l", "w", "m", "c"].filter((flag) => flags.has(flag)) : ["l", "w", "c"];
  const paths = operands.length > 0 ? operands : ["-"];
  const totals = shown.map(() => 0);
  const bytes = (text: string): number => new TextEncoder().encode(text).length;

  // The width is known before anything is counted: from the sizes of the files; 7 if one of them is no plain file.
  let width = 1;
  if (shown.length > 1 || paths.length > 1) {
    const nodes = operands.map((path) => (path === "-" ? undefined : process.fs.peek(path)));
    const size = nodes.reduce((sum, node) => sum + (node?.kind === "file" ? bytes(node.text) : 0), 0);
    const isOdd = operands.length === 0 || operands.includes("-") || nodes.some((node) => node?.kind === "directory");
    width = isOdd ? 7 : String(size).length;
  }
  const show = (numbers: number[], name: string): void =>
    process.out(`${[...numbers.map((n) => String(n).padStart(width)), ...(name ? [name] : [])].join(" ")}\n`);

  let code = 0;
  for (const path of paths) {
    const ok = process.attempt(
      (reason) => `${path === "" ? "''" : path}: ${reason}`,
      () => {
        const text = process.read(path);
        const all: Record<string, number> = {
          l: text.split("\n").length - 1,
          w: text.match(/\S+/g)?.length ?? 0,
          c: bytes(text),
          m: [...text].length,
        };
        const numbers = shown.map((flag) => all[flag]!);
        show(numbers, operands.length > 0 ? path : "");
        for (const [i, n] of numbers.entries()) totals[i]! += n;
      },
    );
    if (ok) continue;
    code = 1;
    if (process.fs.isDirectory(path))
      show(
        shown.map(() => 0),
        path,
      );
  }
  if (paths.length > 1) show(totals, "total");
  return code;
}

/** grep [-cEFhHilLnqrRsv] pattern [file…]; exit code 0 if a line was selected, 1 if none, 2 after an error. */
export function grep(process: Process): number {
  const usage = "Usage: grep [OPTION]... PATTERNS [FILE]...\nTry 'grep --help' for more information.\n";
  const long = {
    count: "c",
    "ignore-case": "i",
    "line-number": "n",
    recursive: "r",
    "files-with-matches": "l",
    "invert-match": "v",
    "extended-regexp": "E",
    "fixed-strings": "F",
  };
  const { flags, operands } = process.parse("cEFhHilLnqrRsve:", 2, long);
  const [pattern, ...rest] = flags.has("e") ? [flags.get("e")!, ...operands] : operands;
  if (pattern === undefined) {
    process.err(usage);
    return 2;
  }
  const isRecursive = flags.has("r") || flags.has("R");
  let regex: Regex;
  try {
    regex = compileRegex(pattern, { extended: flags.has("E"), fixed: flags.has("F"), ignoreCase: flags.has("i") });
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
    return process.complain(error.message, 2);
  }
  const paths = rest.length > 0 ? rest : [isRecursive ? "." : "-"];
  const named =
    flags.has("H") ||
    (!flags.has("h") && (isRecursive ? process.fs.isDirectory(paths[0]!) || paths.length > 1 : paths.length > 1));
  let anySelected = false;
  let anyError = false;

  const search = (text: string, name: string): void => {
    const prefix = named ? `${name}:` : "";
    let selected = 0;
    for (const [index, line] of splitLines(text).entries()) {
      process.spend((line.length + 1) * regex.size);
      if (regex.test(line) === flags.has("v")) continue;
      selected++;
      if (flags.has("q") || flags.has("c") || flags.has("l") || flags.has("L")) continue;
      process.out(`${prefix}${flags.has("n") ? `${index + 1}:` : ""}${line}\n`);
    }
    anySelected ||= selected > 0;
    if (flags.has("q")) return;
    if (flags.has("l") || flags.has("L")) {
      if (selected > 0 === flags.has("l")) process.out(`${name}\n`);
    } else if (flags.has("c")) process.out(`${prefix}${selected}\n`);
  };
  const visit = (path: string, node: Node): void => {
    process.spend(1 + path.length);
    if (node.kind === "file") {
      process.spend(node.text.length);
      search(node.text, path);
    } else for (const [name, child] of sortedChildren(node)) visit(path === "" ? name : joinPath(path, name), child);
  };

  for (const path of paths) {
    try {
      const isDefault = isRecursive && rest.length === 0; // then names carry no "./"
      if (isRecursive && process.fs.isDirectory(path)) visit(isDefault ? "" : path, process.fs.get(path));
      else search(process.read(path), path === "-" ? "(standard input)" : path);
    } catch (error) {
      if (!(error instanceof Errno)) throw error;
      anyError = true;
      if (!flags.has("s")) process.complain(`${path}: ${error.message}`, 2);
    }
  }
  if (anyError && !(flags.has("q") && anySelected)) return 2;
  return anySelected ? 0 : 1;
}
