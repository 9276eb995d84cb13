/**
 * `npm run completion`: prints a script for bash that completes the flags of this repository's programs, and the names
 * that some of them take:
 *
 *     npm run --silent completion > ~/.worldgrad-completion
 *     echo 'source ~/.worldgrad-completion' >> ~/.bashrc
 *
 *     npm start -- --me<TAB>                   --method
 *     npm start -- --method dapo+ac<TAB>       dapo+actfocus
 *     npm run export -- --run runs/<TAB>       the runs
 *
 * What can be said is read from what each program's `--help` and `npm start -- --list` print.
 */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { sectionsOf } from "../run/cli/helpAbout.ts";
import { optionRows } from "../run/settings.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const { name, scripts } = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8")) as {
  readonly name: string;
  readonly scripts: Readonly<Record<string, string>>;
};
/** Programs with a help. */
const PROGRAMS =
  "start generate export metrics evaluate worker serve openenv-serve harbor doctor fit ablate bench gpu".split(" ");
/** Lines of the list that stand among names and are none. */
const NO_NAMES = new Set(["options", "file"]);

/** What a program of package.json prints, with tsx as there. */
async function printed(script: string, flag: string): Promise<string> {
  const file = /\S+\.ts$/.exec(scripts[script]!)![0];
  const { stdout } = await promisify(execFile)(process.execPath, ["--import", "tsx", file, flag], { cwd: ROOT });
  return stdout;
}

/** The flags of a help, and the words of those whose value is one of a few (`auto | wasm`). */
const flagsOf = (help: string): Map<string, readonly string[]> =>
  new Map(
    sectionsOf(help)
      .flatMap(({ entries }) => entries)
      .filter(({ name: flag }) => flag.startsWith("--"))
      .map(({ name: flag, text }) => [flag, /(?<=\s)[a-z][\w-]*(?: \| [\w-]+)+/.exec(text)?.[0].split(" | ") ?? []]),
  );

/** The names in the list that each flag takes, as in the section `Environments (--env)`. */
function namesOf(list: string): Map<string, readonly string[]> {
  const names = new Map<string, readonly string[]>([["--set", optionRows().map((row) => `${row.part}.${row.name}=`)]]);
  for (const { heading, entries } of sectionsOf(list)) {
    const flag = heading.includes("(add-ons)") ? "--method" : /\((--(?!set)[a-z-]+)/.exec(heading)?.[1];
    const own = entries.map((entry) => entry.name).filter((word) => !NO_NAMES.has(word));
    if (flag !== undefined) names.set(flag, [...(names.get(flag) ?? []), ...own]);
  }
  return names;
}

const [list, ...helps] = await Promise.all([
  printed("start", "--list"),
  ...PROGRAMS.map(async (program) => ({ program, flags: flagsOf(await printed(program, "--help")) })),
]);
const names = namesOf(list);

const words = (of: Iterable<string>): string => `words='${[...of].join(" ")}' ;;`;
const values = [
  ...[...names].map(([flag, of]) => `*" ${flag}") ${words(of)}`),
  ...helps.flatMap(({ program, flags }) =>
    [...flags].flatMap(([flag, of]) =>
      of.length === 0 || names.has(flag) ? [] : [`"${program} ${flag}") ${words(of)}`],
    ),
  ),
];
const programs = helps.map(({ program, flags }) => `"${program} "*) ${words(flags.keys())}`);

console.log(String.raw`# Completion of worldgrad's programs in bash; made by npm run completion.
_worldgrad() {
  local cur=${"$"}{COMP_WORDS[COMP_CWORD]} before=$((COMP_CWORD - 1)) script=${"$"}{COMP_WORDS[1]} words= kept=
  [[ $script == run* ]] && script=${"$"}{COMP_WORDS[2]}
  if [[ " ${"$"}{COMP_WORDS[*]:0:COMP_CWORD} " != *" -- "* ]] || ! grep -qs '"name": "${name}"' package.json; then
    declare -F _npm_completion >/dev/null && _npm_completion "$@"
    return
  fi
  # --env=home is three words.
  [[ $cur == = ]] && cur= || [[ ${"$"}{COMP_WORDS[before]} != = ]] || before=$((before - 1))
  case "$script ${"$"}{COMP_WORDS[before]}" in
    *" --run"|*" --resume"|*" --from"|*" --teacher") COMPREPLY=($(compgen -d -- "${"$"}{cur:-runs/}")); return ;;
    ${[...values, ...programs].join("\n    ")}
  esac
  # dapo+echo is two names, and grpo,dapo two.
  [[ $cur == *[+,]* ]] && kept=${"$"}{cur%"${"$"}{cur##*[+,]}"}
  COMPREPLY=($(compgen -P "$kept" -W "$words" -- "${"$"}{cur#"$kept"}"))
  [[ $COMPREPLY == *= ]] && compopt -o nospace 2>/dev/null
}
complete -o default -F _worldgrad npm`);
