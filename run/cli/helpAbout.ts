/**
 * `npm start -- --help WORD`: what the help and the list say about a flag, a kind of thing (`methods`, `environments`),
 * a name (`grpo`, `sokoban`) or an option and its part (`ppo`, `rl.lr`).
 */
import { nearest } from "../../engine/options.ts";
import { UsageError } from "../usage.ts";

/** An entry of the texts: two spaces, its name, what it says, and the lines under it, which are indented further. */
interface Entry {
  readonly name: string;
  readonly text: string;
}

/** Lines that belong together: a heading, which may have several lines, and entries. */
interface Section {
  readonly heading: string;
  readonly entries: readonly Entry[];
}

export function sectionsOf(text: string): Section[] {
  return text.split(/\n{2,}/).map((block) => {
    const lines = block.split("\n");
    const entries: { name: string; text: string }[] = [];
    const heading: string[] = [];
    for (const line of lines) {
      const name = /^ {2}(\S+)/.exec(line)?.[1];
      if (name !== undefined) entries.push({ name, text: line });
      else if (line.startsWith("   ") && entries.length > 0) entries.at(-1)!.text += `\n${line}`;
      else heading.push(line);
    }
    return { heading: heading.join("\n").trim(), entries };
  });
}

/** Whether an option is meant by this word: by its name, or by what stands behind the point (`topP`). */
const isOption = (name: string, word: string): boolean => name === word || name.endsWith(`.${word}`);

/** An entry with the one line under it that is about an option, such as `env.hints`; none if there is no such line. */
function withOption({ name, text }: Entry, option: string): Entry[] {
  const [first, ...lines] = text.split("\n");
  const own = lines.filter((line) => isOption(line.trimStart().split(" ")[0]!, option));
  return own.length === 0 ? [] : [{ name, text: [first, ...own].join("\n") }];
}

/** The words by which all of a section is meant: its first, in both numbers, and the flag that it is about. */
function wordsFor(heading: string): string[] {
  const first = /^[A-Za-z]+/.exec(heading)?.[0].toLowerCase() ?? "";
  const flag = /\(--([a-z-]+)\b/.exec(heading)?.[1];
  return [first, first.replace(/s$/, ""), ...(flag === undefined ? [] : [flag])].filter((word) => word !== "");
}

/**
 * What the texts say about a word.
 * @param help the flags @param list the names and options, in sections
 * @throws UsageError in one line, with the nearest word, if they say nothing
 */
export function helpAbout(word: string, help: string, list: string): string {
  const wanted = word.replace(/^--/, "");
  const named = (entry: Entry): boolean => {
    const name = entry.name.replace(/^--/, "");
    return isOption(name, wanted) || name.startsWith(`${wanted}.`);
  };
  const flags = sectionsOf(help).map((section) => ({ ...section, entries: section.entries.filter(named) }));
  const things = sectionsOf(list).filter(({ entries }) => entries.length > 0);
  const found = things.map((section) =>
    wordsFor(section.heading).includes(wanted)
      ? section
      : {
          ...section,
          entries: section.entries.flatMap((entry) => (named(entry) ? [entry] : withOption(entry, wanted))),
        },
  );
  const told = [
    ...flags.flatMap(({ entries }) => entries.map(({ text }) => text)),
    ...found
      .filter(({ entries }) => entries.length > 0)
      .map(({ heading, entries }) => [heading, ...entries.map(({ text }) => text)].join("\n")),
  ];
  if (told.length > 0) return `${told.join("\n\n")}\n`;
  const known = [...sectionsOf(help), ...things].flatMap(({ entries }) =>
    entries.flatMap(({ name }) => [name.replace(/^--/, ""), name.slice(name.lastIndexOf(".") + 1)]),
  );
  const near = nearest(wanted, [...new Set([...known, ...things.flatMap(({ heading }) => wordsFor(heading))])]);
  throw new UsageError(
    `--help: there is nothing about "${word}"${near === undefined ? "" : `; did you mean ${near}?`} ` +
      "(a flag, methods, environments, options, or one of their names)",
  );
}
