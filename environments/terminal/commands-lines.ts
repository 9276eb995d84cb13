/** Commands on lines: sort, uniq, cut. See commands.ts for what they imitate. */
import { quote, splitLines, joinLines, type Process } from "./process.ts";
import { IS_DIRECTORY } from "./errno.ts";

interface Key {
  /** First and last field, counted from 1; the last may be Infinity. */
  readonly from: number;
  readonly to: number;
  readonly numeric: boolean;
  readonly reverse: boolean;
}

/** sort [-n] [-r] [-u] [-f] [-t c] [-k from[,to][nr]] [file…]; ties are broken by the whole line, as GNU sort does. */
export function sort(process: Process): number {
  const { flags, operands } = process.parse("nruft:k:", 2, {
    numeric: "n",
    reverse: "r",
    unique: "u",
    "ignore-case": "f",
  });
  const separator = flags.get("t");
  if (separator !== undefined && [...separator].length > 1)
    return process.complain(`multi-character tab ${quote(separator)}`, 2);
  const key = sortKey(process, flags);
  const lines: string[] = [];
  for (const path of operands.length > 0 ? operands : ["-"]) {
    const ok = process.attempt(
      (reason) => `${reason === IS_DIRECTORY ? "read failed" : "cannot read"}: ${path === "" ? "''" : path}: ${reason}`,
      () => {
        for (const line of splitLines(process.read(path))) lines.push(line);
      },
    );
    if (!ok) return 2;
  }
  const fold = (text: string): string => (flags.has("f") ? text.toUpperCase() : text);
  const rows = lines.map((line) => {
    const text = fold(keyOf(line, key, separator));
    return { line, text, number: key.numeric ? Number(/^\s*(-?\d*\.?\d*)/.exec(text)![1]) || 0 : 0 };
  });
  type Row = (typeof rows)[number];
  const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
  const byKey = (a: Row, b: Row): number => {
    const order = key.numeric ? a.number - b.number : byText(a.text, b.text);
    return key.reverse ? -order : order;
  };
  rows.sort((a, b) => byKey(a, b) || (flags.has("u") ? 0 : (flags.has("r") ? -1 : 1) * byText(a.line, b.line)));
  const kept = flags.has("u") ? rows.filter((row, i) => i === 0 || byKey(rows[i - 1]!, row) !== 0) : rows;
  process.out(joinLines(kept.map((row) => row.line)));
  return 0;
}

/** The key of -k, or the whole line. */
function sortKey(process: Process, flags: ReadonlyMap<string, string>): Key {
  const given = flags.get("k");
  const global = { numeric: flags.has("n"), reverse: flags.has("r") };
  if (given === undefined) return { from: 1, to: Infinity, ...global };
  const match = /^(\d+)([nr]*)(?:,(\d+)([nr]*))?$/.exec(given);
  if (!match) process.refuse(`invalid number at field start: invalid count at start of ${quote(given)}`, 2);
  const [, from, first = "", to, second = ""] = match;
  if (Number(from) === 0) process.refuse(`field number is zero: invalid field specification ${quote(given)}`, 2);
  const own = first + second;
  const modes = own === "" ? global : { numeric: own.includes("n"), reverse: own.includes("r") };
  return { from: Number(from), to: to === undefined ? Infinity : Number(to), ...modes };
}

/** The part of a line that is compared. Without -t a field is a run of blanks and the text after it. */
function keyOf(line: string, key: Key, separator: string | undefined): string {
  if (key.from === 1 && key.to === Infinity) return line;
  if (separator !== undefined && separator !== "") {
    return line
      .split(separator)
      .slice(key.from - 1, Math.min(key.to, 1e9))
      .join(separator);
  }
  return (line.match(/[ \t]*[^ \t]+|[ \t]+$/g) ?? []).slice(key.from - 1, Math.min(key.to, 1e9)).join("");
}

/** uniq [-c] [-d] [-u] [input]: repeated neighbours become one line. */
export function uniq(process: Process): number {
  const { flags, operands } = process.parse("cdui", 1, { count: "c", repeated: "d", unique: "u" });
  if (operands.length > 1) return process.complain("writing to a second operand is not supported here; use >");
  const fold = (text: string): string => (flags.has("i") ? text.toLowerCase() : text);
  const ok = process.attempt(
    (reason) => (reason === IS_DIRECTORY ? `error reading ${quote(operands[0]!)}` : `${operands[0]}: ${reason}`),
    () => {
      const groups: { line: string; count: number }[] = [];
      for (const line of splitLines(process.read(operands[0] ?? "-"))) {
        const last = groups.at(-1);
        if (last && fold(last.line) === fold(line)) last.count++;
        else groups.push({ line, count: 1 });
      }
      for (const { line, count } of groups) {
        if ((flags.has("d") && count === 1) || (flags.has("u") && count > 1)) continue;
        process.out(`${flags.has("c") ? `${String(count).padStart(7)} ` : ""}${line}\n`);
      }
    },
  );
  return ok ? 0 : 1;
}

/** cut -f LIST [-d c] [-s] | -c LIST [file…]; LIST is 1, 2-4, 3- or -2, joined by commas. */
export function cut(process: Process): number {
  const { flags, operands } = process.parse("f:d:c:b:s", 1, { fields: "f", delimiter: "d", characters: "c" });
  const list = flags.get("f") ?? flags.get("c") ?? flags.get("b");
  if (list === undefined) process.misuse("you must specify a list of bytes, characters, or fields");
  const delimiter = flags.get("d") ?? "\t";
  if ([...delimiter].length !== 1) process.misuse("the delimiter must be a single character");
  const ranges = list.split(",").map((item): [number, number] => {
    const match = /^(\d+)$|^(\d*)-(\d*)$/.exec(item);
    if (!match || item === "-")
      process.misuse(`invalid ${flags.has("f") ? "field" : "byte/character position"} value ${quote(item)}`);
    if (match[1] !== undefined) return [Number(match[1]), Number(match[1])];
    return [Number(match[2] || 1), match[3] ? Number(match[3]) : Infinity];
  });
  const isWanted = (position: number): boolean => ranges.some(([low, high]) => low <= position && position <= high);
  let code = 0;
  for (const path of operands.length > 0 ? operands : ["-"]) {
    const ok = process.attempt(
      (reason) => `${path}: ${reason}`,
      () => {
        for (const line of splitLines(process.read(path))) {
          process.spend(line.length * ranges.length);
          if (!flags.has("f")) process.out(`${[...line].filter((_, i) => isWanted(i + 1)).join("")}\n`);
          else if (line.includes(delimiter))
            process.out(
              `${line
                .split(delimiter)
                .filter((_, i) => isWanted(i + 1))
                .join(delimiter)}\n`,
            );
          else if (!flags.has("s")) process.out(`${line}\n`); // a line without the delimiter is passed on whole
        }
      },
    );
    if (!ok) code = 1;
  }
  return code;
}
