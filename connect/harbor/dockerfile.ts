/**
 * A Dockerfile as a list of steps that a sandbox can take: RUN, COPY and ADD of local files, WORKDIR, ENV, ARG. The
 * tools of this machine stand in for the image of FROM. What cannot be done is refused by its name.
 */
import { quoted } from "../sandbox/files.ts";
import { ROOT_VARIABLES } from "../sandbox/kinds.ts";

/** A command of RUN, or files of COPY, with the directory and the variables at that line. */
export type BuildStep = {
  readonly line: number;
  readonly workdir: string;
  readonly env: Readonly<Record<string, string>>;
} & (
  | { readonly kind: "run"; readonly command: string; readonly shell: readonly string[] }
  | { readonly kind: "copy"; readonly sources: readonly string[]; readonly to: string }
  | { readonly kind: "write"; readonly text: string; readonly to: string }
);

export interface DockerPlan {
  readonly steps: readonly BuildStep[];
  readonly workdir: string;
  /** The variables of ENV. */
  readonly env: Readonly<Record<string, string>>;
  readonly reasons: readonly string[];
  readonly notes: readonly string[];
}

interface Instruction {
  readonly line: number;
  /** In capitals. */
  readonly name: string;
  readonly rest: string;
  readonly heredocs: readonly { readonly word: string; readonly text: string }[];
}

/** Instructions without meaning for a sandbox. Harbor itself replaces CMD. */
const WITHOUT_MEANING = new Set(["LABEL", "MAINTAINER", "EXPOSE", "STOPSIGNAL", "CMD"]);
/** Programs of ENTRYPOINT that start nothing. */
const IDLE = /^\[?\s*"?(\/(usr\/)?bin\/)?(ba|da)?sh\b|^\[?\s*"?(sleep|tail)\b/;
const ARCHIVE = /\.(tar|tgz|tbz2|txz|tar\.(gz|bz2|xz|zst))$/;

/** The instructions of a file, with lines that go on joined and comments left out. */
export function instructionsOf(text: string): Instruction[] {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const escape = /^#\s*escape=`\s*$/im.test(lines.slice(0, 3).join("\n")) ? "`" : "\\";
  const found: Instruction[] = [];
  for (let i = 0; i < lines.length; i++) {
    const line = i + 1;
    if (isIdle(lines[i]!)) continue;
    let whole = "";
    for (; i < lines.length; i++) {
      const here = lines[i]!;
      if (whole !== "" && isIdle(here)) continue;
      const trimmed = here.trimEnd();
      if (!trimmed.endsWith(escape)) {
        whole += here;
        break;
      }
      whole += trimmed.slice(0, -1);
    }
    const [, word, rest] = /^\s*(\S+)\s*([^]*)$/.exec(whole)!;
    const name = word!.toUpperCase();
    const heredocs: { word: string; text: string }[] = [];
    for (const [, dash, quote, end] of ["RUN", "COPY", "ADD"].includes(name)
      ? rest!.matchAll(/(?<!<)<<(-?)(["']?)([A-Za-z_]\w*)\2/g)
      : []) {
      const body: string[] = [];
      for (i++; i < lines.length; i++) {
        const here = dash === "-" ? lines[i]!.replace(/^\t+/, "") : lines[i]!;
        if (here === end) break;
        body.push(here);
      }
      heredocs.push({ word: `${quote}${end!}`, text: body.map((each) => `${each}\n`).join("") });
    }
    found.push({ line, name, rest: rest!.trim(), heredocs });
  }
  return found;
}

const isIdle = (line: string): boolean => /^\s*(#|$)/.test(line);

type Env = Readonly<Record<string, string>>;

/** `$NAME`, `${NAME}`, `${NAME:-word}` and `${NAME:+word}` with the variables of the file so far. */
export function expand(text: string, env: Env): string {
  return text.replace(
    /\\(.)|\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:[-+])([^}]*))?\})/g,
    (_, escaped: string | undefined, plain?: string, braced?: string, sign?: string, word: string = "") => {
      if (escaped !== undefined) return escaped === "$" ? "$" : `\\${escaped}`;
      const value = env[plain ?? braced!] ?? "";
      if (sign === ":-") return value === "" ? expand(word, env) : value;
      if (sign === ":+") return value === "" ? "" : expand(word, env);
      return value;
    },
  );
}

/** The words of a line, quotes taken away. */
export function wordsOf(text: string): string[] {
  const words: string[] = [];
  for (const [, word] of text.matchAll(/((?:"(?:\\[^]|[^"\\])*"|'[^']*'|\\[^]|[^\s"'\\])+)/g))
    words.push(
      word!.replace(/"((?:\\[^]|[^"\\])*)"|'([^']*)'|\\([^])/g, (_, a?: string, b?: string, c?: string) =>
        a === undefined ? (b ?? c!) : a.replace(/\\(["\\$])/g, "$1"),
      ),
    );
  return words;
}

/** A list in JSON's form, if the text is one. */
function listOf(text: string): string[] | undefined {
  if (!text.startsWith("[")) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.every((word) => typeof word === "string") ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The flags in front of an instruction's arguments, and the arguments. */
function flagsOf(text: string): { readonly flags: readonly string[]; readonly rest: string } {
  const flags: string[] = [];
  let rest = text;
  for (let found = /^--\S+\s*/.exec(rest); found !== null; found = /^--\S+\s*/.exec(rest)) {
    flags.push(found[0].trim());
    rest = rest.slice(found[0].length);
  }
  return { flags, rest };
}

const joined = (workdir: string, path: string): string =>
  path.startsWith("/") ? path : `${workdir === "/" ? "" : workdir}/${path}`;

/** What a Dockerfile asks for. It never throws: what cannot be done is a reason. */
export function planOf(text: string): DockerPlan {
  const steps: BuildStep[] = [];
  const reasons: string[] = [];
  const notes: string[] = [];
  let workdir = "/";
  let shell: readonly string[] = ["/bin/sh", "-c"];
  const env: Record<string, string> = {};
  const args: Record<string, string> = {};
  let hasFrom = false;
  for (const { line, name, rest, heredocs } of instructionsOf(text)) {
    const known = (): Env => ({ PATH: ROOT_VARIABLES.PATH, ...args, ...env });
    const refuse = (what: string): void => void reasons.push(`line ${line}: ${what}`);
    const at = (): Pick<BuildStep, "line" | "workdir" | "env"> => ({ line, workdir, env: { ...args, ...env } });
    if (WITHOUT_MEANING.has(name)) continue;
    else if (name === "FROM") {
      if (hasFrom) refuse("a second FROM: several stages are not supported");
      else notes.push(`the tools of this machine stand in for ${expand(flagsOf(rest).rest, known()).split(/\s/)[0]}`);
      hasFrom = true;
    } else if (name === "WORKDIR") {
      workdir = joined(workdir, wordsOf(expand(rest, known()))[0] ?? "");
    } else if (name === "ENV") {
      const old = /^([A-Za-z_]\w*)\s+([^=]*[^]*)$/.exec(rest);
      const pairs =
        /^\S+=/.test(rest) || old === null ? wordsOf(expand(rest, known())) : [`${old[1]}=${expand(old[2]!, known())}`];
      for (const pair of pairs) {
        const [, key, value] = /^([A-Za-z_]\w*)=([^]*)$/.exec(pair) ?? [];
        if (key === undefined) refuse(`ENV ${pair}: expected NAME=VALUE`);
        else env[key] = value!;
      }
    } else if (name === "ARG") {
      for (const word of wordsOf(expand(rest, known()))) {
        const [, key, value] = /^([A-Za-z_]\w*)(?:=([^]*))?$/.exec(word) ?? [];
        if (key !== undefined && value !== undefined) args[key] = value;
      }
    } else if (name === "SHELL") {
      const words = listOf(rest);
      if (words === undefined || words.length === 0) refuse("SHELL: expected a list in JSON's form");
      else shell = words;
    } else if (name === "USER") {
      const user = expand(rest, known());
      if (!/^(root|0)(:(root|0))?$/.test(user)) refuse(`USER ${user}: only root is supported`);
    } else if (name === "ENTRYPOINT") {
      if (!IDLE.test(rest)) refuse("ENTRYPOINT is not supported");
    } else if (name === "HEALTHCHECK") {
      if (rest.toUpperCase() !== "NONE") refuse("HEALTHCHECK is not supported");
    } else if (name === "RUN") {
      const { flags, rest: command } = flagsOf(rest);
      const other = flags.find((flag) => !/^--(mount=type=(cache|tmpfs)\b|network=none|security=insecure)/.test(flag));
      if (other !== undefined) refuse(`RUN ${other} is not supported`);
      else if (flags.length > 0) notes.push(`line ${line}: ${flags.join(" ")} is ignored`);
      const [first] = heredocs;
      const isScript = first !== undefined && /^<<-?["']?\w+["']?$/.test(command);
      const whole = isScript
        ? first.text
        : [command, ...heredocs.map(({ word, text: body }) => `${body}${word.replace(/^["']/, "")}\n`)].join("\n");
      const list = listOf(command);
      if (list === undefined) steps.push({ ...at(), kind: "run", command: whole, shell });
      else steps.push({ ...at(), kind: "run", command: list.map(quoted).join(" "), shell: ["/bin/sh", "-c"] });
    } else if (name === "COPY" || name === "ADD") {
      const { flags, rest: paths } = flagsOf(rest);
      for (const flag of flags) {
        if (/^--(chown|chmod|link)\b/.test(flag)) notes.push(`line ${line}: ${flag} is ignored`);
        else refuse(`${name} ${flag} is not supported`);
      }
      const words = listOf(paths)?.map((word) => expand(word, known())) ?? wordsOf(expand(paths, known()));
      const to = words.pop();
      if (to === undefined || words.length === 0) refuse(`${name}: expected files and a destination`);
      else if (heredocs.length > 1) refuse(`${name} of several texts is not supported`);
      else if (heredocs.length === 1)
        steps.push({ ...at(), kind: "write", text: heredocs[0]!.text, to: joined(workdir, to) });
      else {
        for (const word of words) {
          if (/^(https?|git|ssh):|^git@/.test(word)) refuse(`${name} ${word}: there is no network`);
          if (name === "ADD" && ARCHIVE.test(word)) refuse(`ADD ${word}: archives are not supported, only COPY`);
        }
        steps.push({ ...at(), kind: "copy", sources: words, to: joined(workdir, to) });
      }
    } else refuse(`${name} is not supported`);
  }
  if (!hasFrom && text !== "") reasons.push("there is no FROM");
  return { steps, workdir, env, reasons, notes };
}
