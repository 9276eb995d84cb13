/**
 * A Dockerfile as a list of steps that a sandbox can take: RUN, COPY and ADD of local files, WORKDIR, ENV, ARG. The
 * tools of this machine stand in for the image of FROM. What cannot be done is refused by its name.
 */
import { fail, reasonOf, WorldgradError } from "../../engine/errors.ts";
import { quoted } from "../sandbox/files.ts";
import { ROOT_VARIABLES } from "../sandbox/kinds.ts";
import { type Env, expand, expandText, rawWords } from "./dockerWords.ts";
import { type Heredoc, type Instruction, instructionsOf } from "./instructions.ts";

/** A command of RUN, or files of COPY, with the directory and the variables at that line. */
export type BuildStep = {
  readonly line: number;
  readonly workdir: string;
  readonly env: Env;
} & (
  | { readonly kind: "run"; readonly command: string; readonly shell: readonly string[] }
  | { readonly kind: "copy"; readonly sources: readonly string[]; readonly to: string; readonly mode?: string }
  /** `name`: its name if `to` is a directory. */
  | {
      readonly kind: "write";
      readonly text: string;
      readonly name: string;
      readonly to: string;
      readonly mode?: string;
    }
);

export interface DockerPlan {
  readonly steps: readonly BuildStep[];
  readonly workdir: string;
  /** The variables of ENV. */
  readonly env: Env;
  readonly reasons: readonly string[];
  readonly notes: readonly string[];
}

/** Instructions without meaning for a sandbox. Harbor itself replaces CMD. */
const WITHOUT_MEANING = new Set(["LABEL", "MAINTAINER", "EXPOSE", "STOPSIGNAL", "CMD"]);
/** Programs of ENTRYPOINT that start nothing. */
const IDLE = /^\[?\s*"?(\/(usr\/)?bin\/)?(ba|da)?sh\b|^\[?\s*"?(sleep|tail)\b/;
const ARCHIVE = /\.(tar|tgz|tbz2|txz|tar\.(gz|bz2|xz|zst))$/;

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

/** Variables that `ARG NAME` finds without a value, as with BuildKit. */
const ARCHITECTURE = { x64: "amd64", ia32: "386" }[process.arch as string] ?? process.arch;
const PLATFORM: Env = Object.fromEntries(
  ["TARGET", "BUILD"].flatMap((side) => [
    [`${side}OS`, "linux"],
    [`${side}ARCH`, ARCHITECTURE],
    [`${side}PLATFORM`, `linux/${ARCHITECTURE}`],
  ]),
);

const MODE = /^(?:[0-7]{3,4}|[ugoa]*[-+=][rwxXst]*(?:,[ugoa]*[-+=][rwxXst]*)*)$/;
const NAME = /^[A-Za-z_]\w*$/;

/** A command that runs a text as RUN does: one with `#!` is a program, the others are the shell's. */
function scriptOf(text: string): { readonly command: string; readonly isProgram: boolean } {
  const program = /^#!\s*(\S[^\n]*)\n/.exec(text)?.[1];
  if (program === undefined) return { command: text, isProgram: false };
  const file = "/dev/shm/.build.script";
  return { command: `printf %s ${quoted(text)} > ${file} && exec ${program.trim()} ${file}`, isProgram: true };
}

/** What a Dockerfile asks for, one instruction after the other. */
class Planner {
  readonly steps: BuildStep[] = [];
  readonly reasons: string[] = [];
  readonly notes: string[] = [];
  readonly env: Record<string, string> = {};
  workdir = "/";
  hasFrom = false;
  /** Those before FROM, which know nothing of those after it. */
  readonly #before: Record<string, string> = {};
  readonly #args: Record<string, string> = {};
  #shell: readonly string[] = ["/bin/sh", "-c"];
  #line = 0;

  get #known(): Env {
    return { PATH: ROOT_VARIABLES.PATH, ...(this.hasFrom ? this.#args : this.#before), ...this.env };
  }

  #at(): Pick<BuildStep, "line" | "workdir" | "env"> {
    return { line: this.#line, workdir: this.workdir, env: { ...this.#args, ...this.env } };
  }

  #refuse(what: string): void {
    this.reasons.push(`line ${this.#line}: ${what}`);
  }

  take(instruction: Instruction): void {
    this.#line = instruction.line;
    try {
      if (instruction.endless !== undefined) fail(`the text <<${instruction.endless} has no end`);
      this.#take(instruction);
    } catch (error) {
      if (!(error instanceof WorldgradError)) throw error;
      this.#refuse(`${instruction.name}: ${reasonOf(error)}`);
    }
  }

  #take(instruction: Instruction): void {
    const { name, rest } = instruction;
    if (WITHOUT_MEANING.has(name)) return;
    else if (name === "FROM") {
      if (this.hasFrom) this.#refuse("a second FROM: several stages are not supported");
      else {
        const image = expand(flagsOf(rest).rest.split(/\s/)[0]!, this.#known);
        this.notes.push(`the tools of this machine stand in for ${image}`);
      }
      this.hasFrom = true;
    } else if (name === "WORKDIR") this.workdir = joined(this.workdir, expand(rest, this.#known));
    else if (name === "ENV") this.#takeEnv(rest);
    else if (name === "ARG") this.#takeArg(rest);
    else if (name === "SHELL") {
      const words = listOf(rest);
      if (words === undefined || words.length === 0) this.#refuse("SHELL: expected a list in JSON's form");
      else this.#shell = words;
    } else if (name === "USER") {
      const user = expand(rest, this.#known);
      if (!/^(root|0)(:(root|0))?$/.test(user)) this.#refuse(`USER ${user}: only root is supported`);
    } else if (name === "ENTRYPOINT") {
      if (!IDLE.test(rest)) this.#refuse("ENTRYPOINT is not supported");
    } else if (name === "HEALTHCHECK") {
      if (rest.toUpperCase() !== "NONE") this.#refuse("HEALTHCHECK is not supported");
    } else if (name === "RUN") this.#takeRun(instruction);
    else if (name === "COPY" || name === "ADD") this.#takeCopy(instruction);
    else this.#refuse(`${name} is not supported`);
  }

  #takeEnv(rest: string): void {
    const [known, words] = [this.#known, rawWords(rest)];
    // The old form, `ENV NAME some text`, is one without `=` in its first word.
    const old = /^(\S+)\s+([^]*)$/.exec(rest);
    const pairs =
      old !== null && !words[0]?.includes("=")
        ? [[old[1]!, old[2]!] as const]
        : words.map((word) => {
            const at = word.indexOf("=");
            return [at < 0 ? word : word.slice(0, at), at < 0 ? undefined : word.slice(at + 1)] as const;
          });
    for (const [key, value] of pairs) {
      const name = expand(key, known);
      if (value === undefined || !NAME.test(name)) this.#refuse(`ENV ${key}: expected NAME=VALUE`);
      else this.env[name] = expand(value, known);
    }
  }

  #takeArg(rest: string): void {
    const args = this.hasFrom ? this.#args : this.#before;
    for (const word of rawWords(rest)) {
      const [, key, value] = /^([A-Za-z_]\w*)(?:=([^]*))?$/.exec(word) ?? [];
      if (key === undefined) this.#refuse(`ARG ${word}: expected NAME or NAME=VALUE`);
      else {
        const found = value === undefined ? (this.#before[key] ?? PLATFORM[key]) : expand(value, this.#known);
        if (found !== undefined) args[key] = found;
      }
    }
  }

  #takeRun({ rest, heredocs }: Instruction): void {
    const { flags, rest: command } = flagsOf(rest);
    const other = flags.find((flag) => !/^--(mount=type=(cache|tmpfs)\b|network=none|security=insecure)/.test(flag));
    if (other !== undefined) this.#refuse(`RUN ${other} is not supported`);
    else if (flags.length > 0) this.notes.push(`line ${this.#line}: ${flags.join(" ")} is ignored`);
    const [first] = heredocs;
    const list = listOf(command);
    const plain = ["/bin/sh", "-c"];
    if (list !== undefined) {
      this.steps.push({ ...this.#at(), kind: "run", command: list.map(quoted).join(" "), shell: plain });
    } else if (first !== undefined && /^<<-?\s*(["']?)[^\s"'<>|&;()]+\1$/.test(command)) {
      const { command: script, isProgram } = scriptOf(first.text);
      this.steps.push({ ...this.#at(), kind: "run", command: script, shell: isProgram ? plain : this.#shell });
    } else {
      const texts = heredocs.map(({ name, text }) => `${text}${name}\n`);
      const whole = [command, ...(texts.length === 0 ? [] : [texts.join("")])].join("\n");
      this.steps.push({ ...this.#at(), kind: "run", command: whole, shell: this.#shell });
    }
  }

  #takeCopy({ name, rest, heredocs }: Instruction): void {
    const { flags, rest: paths } = flagsOf(rest);
    let mode: string | undefined;
    for (const flag of flags) {
      const [, key, value] = /^--(\w+)(?:=(.*))?$/.exec(flag) ?? [];
      if (key === "chmod") {
        mode = expand(value ?? "", this.#known);
        if (!MODE.test(mode)) this.#refuse(`${name} ${flag}: expected a mode, as in --chmod=755`);
      } else if (key === "chown" || key === "link") this.notes.push(`line ${this.#line}: ${flag} is ignored`);
      else this.#refuse(`${name} ${flag} is not supported`);
    }
    const words = listOf(paths) ?? rawWords(paths);
    const [last, ...others] = words.map((word) => expand(word, this.#known)).toReversed();
    const sources = others.toReversed();
    if (last === undefined || sources.length === 0) return this.#refuse(`${name}: expected files and a destination`);
    const files = heredocs.length === 0 ? sources : sources.filter((word) => !word.startsWith("<<"));
    const to = joined(this.workdir, sources.length > 1 && !last.endsWith("/") ? `${last}/` : last);
    const settings = mode === undefined ? {} : { mode };
    this.#write(heredocs, to, settings);
    for (const word of files) {
      if (/^(https?|git|ssh):|^git@/.test(word)) this.#refuse(`${name} ${word}: there is no network`);
      if (name === "ADD" && ARCHIVE.test(word)) this.#refuse(`ADD ${word}: archives are not supported, only COPY`);
    }
    if (files.length > 0) this.steps.push({ ...this.#at(), kind: "copy", sources: files, to, ...settings });
  }

  #write(heredocs: readonly Heredoc[], to: string, settings: { readonly mode?: string }): void {
    for (const { name, isQuoted, text } of heredocs) {
      const filled = isQuoted ? text : expandText(text, this.#known);
      this.steps.push({ ...this.#at(), kind: "write", text: filled, name, to, ...settings });
    }
  }
}

/** What a Dockerfile asks for. It never throws: what cannot be done is a reason. */
export function planOf(text: string): DockerPlan {
  const planner = new Planner();
  for (const instruction of instructionsOf(text)) {
    planner.take(instruction);
    // What follows may be the text or instructions.
    if (instruction.endless !== undefined) break;
  }
  const { steps, workdir, env, reasons, notes, hasFrom } = planner;
  if (!hasFrom && text !== "") reasons.push("there is no FROM");
  return { steps, workdir, env, reasons, notes };
}
