/** The command line of `npm run ablate`. */
import { type Arm, parseArms, parseWords, type Word } from "../../run/arms.ts";
import { parse } from "../../run/node/flags.ts";
import { folderName, numberFrom, oneOf, UsageError, wholeNumber } from "../../run/usage.ts";
import type { UserFile } from "../../run/preset.ts";
import { DEVICES, MODEL_SIZES } from "../../run/startOptions.ts";
import { parseKnobs, parseOwnKnobs, type TuneOptions } from "./tune.ts";

/** An environment, with its source if it was loaded from a file. */
export interface EnvironmentWord extends Word {
  readonly environmentFile?: UserFile;
}

export const HELP: string = `worldgrad: compare what can be trained from one warm start, over seeds

  npm run ablate -- --env terminal,calculator --arms "grpo,grpo+echo[lambda=0.2],expert" --seeds 5 [flags]

  --env NAMES       environments, or files of your own, with commas: [NAME=]ENVIRONMENT[OPTION=VALUE,…], as in
                    easy=calculator[levels=1-2];
                    PART.OPTION as --set takes it, for this environment alone: terminal[sft.observationWeight=0]
                                                          (default terminal)
  --arms ARMS       what is trained, with commas: [NAME=]METHOD[SETTING,…]; the others are compared with the first.
                    A method as npm start takes it, or sft, expert, random; a setting is one of its flags without
                    dashes, or PART.OPTION: told=grpo+echo[lambda=0.2,rl.lr=5e-4,steps=80,train.levels=1]
                    (default: grpo_token, and with echo, paw, actfocus, echo+actfocus)
  --seeds N | A-B   seeds 0 to N - 1, or A to B, each with a warm start of its own, which all arms share
                                                          (default 5)
  --steps N         RL steps of every arm that does not say its own
                                                          (default: as npm start)
  --set PART.X=V    what all arms have, as often as needed: sft.steps=600, rl.groups=16, env.levels=1
  --every N         RL steps between two evaluations      (default 10)
  --episodes N      held-out tasks of an evaluation       (default 120)
  --pass-at K       before and after RL each of them is tried K times, for pass@1 to pass@K
  --tune SETTINGS   every combination is tried first, and the best of each arm is taken:
                    "lambda=0.05|0.2,rl.lr=5e-4|1e-3"
  --tune-for ARM=…  other settings to try for this arm, as often as needed: "grpo=rl.lr=3e-4|5e-4|1e-3|2e-3";
                    all arms get the same number of trials
  --tune-seeds N | A-B
                    seeds to try them with, none of --seeds
                                                          (default 100-101)
  --threshold X     success to count the steps to, between 0 and 1
                                                          (default 0.6; may be changed later, nothing is trained anew)
  --show NAMES      curves of further metrics: entropy,kl,eval/num_turns/mean (may be changed later, too)
  --model SIZE      tiny | small | base                   (default small)
  --device NAME     auto | wasm | webgpu | reference      (default wasm)
  --jobs N          cells at a time, a process with one thread each
                                                          (default 2)
  --name NAME       the folder in runs/                   (default ablate, with --quick ablate-quick)
  --report          train nothing; tables and page from what is finished
  --quick           a comparison of seconds that shows every part
  --list            every method and environment in a line, with its source
  --help            this text

It may be stopped or killed at any time: the same command goes on. With more arms, seeds or environments it adds those.
`;

/** The flags of the help: one with a word in capitals behind it has a value. */
const FLAGS = Object.fromEntries(
  [...HELP.matchAll(/^ {2}--([\w-]+)( [A-Z])?(.*as often as needed)?/gm)].map(([, name, value, often]) => [
    name!,
    { type: value === undefined ? "boolean" : "string", multiple: often !== undefined } as const,
  ]),
);

const DEFAULT_ARMS = ["", "+echo", "+paw", "+actfocus", "+echo+actfocus"].map((more) => `grpo_token${more}`).join();

/** Folders beside those of the environments. */
const TAKEN = ["warm", "tune"];

/**
 * @returns the options, or what is to be printed instead
 * @throws UsageError with one line that says what was expected
 */
export function parseAblate(args: readonly string[]): AblateOptions | "help" | "list" {
  const values = parse(args, FLAGS);
  return values["help"] ? "help" : values["list"] ? "list" : optionsIn(values);
}

/** What the flags of these names say. */
export type AblateOptions = Readonly<ReturnType<typeof optionsIn>>;
function optionsIn(values: ReturnType<typeof parse>) {
  const text = (flag: string): string | undefined => values[flag] as string | undefined;
  const texts = (flag: string): readonly string[] => (values[flag] as readonly string[] | undefined) ?? [];
  const whole = (flag: string, least = 1): number | undefined =>
    text(flag) === undefined ? undefined : wholeNumber(flag, text(flag)!, least);
  const quick = values["quick"] === true;
  const envs: readonly EnvironmentWord[] = parseWords("env", text("env") ?? "terminal");
  const taken = envs.find(({ slug }) => TAKEN.includes(slug));
  if (taken) throw new UsageError(`--env: "${taken.label}" is the name of another folder; give it a NAME=`);
  const arms = parseArms(text("arms") ?? DEFAULT_ARMS);
  const seeds = seedsIn("seeds", text("seeds") ?? (quick ? "2" : "5"));
  const threshold = numberFrom("threshold", text("threshold") ?? "0.6");
  if (threshold === 0 || threshold > 1)
    throw new UsageError(`--threshold: expected a number in (0, 1], got "${text("threshold")!}"`);
  return {
    envs,
    /** The first one is what the others are compared with. */
    arms,
    seeds,
    steps: whole("steps"),
    set: texts("set"),
    every: whole("every") ?? (quick ? 2 : 10),
    episodes: whole("episodes") ?? (quick ? 10 : 120),
    passAt: whole("pass-at", 2),
    tune: tuneOf(text("tune"), texts("tune-for"), text("tune-seeds"), arms, seeds),
    threshold,
    show: text("show") === undefined ? [] : names("show", text("show")!),
    model: oneOf("model", text("model") ?? "small", MODEL_SIZES),
    device: oneOf("device", text("device") ?? "wasm", DEVICES),
    jobs: whole("jobs") ?? 2,
    name: folderName(text("name") ?? (quick ? "ablate-quick" : "ablate")),
    reportOnly: values["report"] === true,
    quick,
  };
}

function tuneOf(
  tune: string | undefined,
  own: readonly string[],
  seedText: string | undefined,
  arms: readonly Arm[],
  reported: readonly number[],
): TuneOptions | undefined {
  if (tune === undefined) {
    const flag = own.length > 0 ? "tune-for" : "tune-seeds";
    if (own.length === 0 && seedText === undefined) return undefined;
    throw new UsageError(`--${flag} is about --tune; add --tune SETTINGS`);
  }
  const seeds = seedsIn("tune-seeds", seedText ?? "100-101");
  const both = seeds.find((seed) => reported.includes(seed));
  if (both !== undefined) {
    const why = "what was chosen with a seed cannot be reported with it";
    throw new UsageError(`--tune-seeds: seed ${both} is one of --seeds; ${why}`);
  }
  const ofArms = own.map((text) => parseOwnKnobs(text, arms));
  const twice = ofArms.find(([label], i) => ofArms.findIndex(([other]) => other === label) < i);
  if (twice) throw new UsageError(`--tune-for: ${twice[0]} is there twice`);
  return { seeds, knobs: parseKnobs("tune", tune), own: Object.fromEntries(ofArms) };
}

/** `10`: 0 to 9; `100-102`: these three. */
function seedsIn(flag: string, text: string): number[] {
  const range = /^(\d+)-(\d+)$/.exec(text);
  const [low, high] = range === null ? [0, Number(text) - 1] : [Number(range[1]), Number(range[2])];
  if (range !== null && (low > high || !Number.isSafeInteger(high)))
    throw new UsageError(`--${flag}: expected the lower one first, got "${text}"`);
  if (text.trim() === "" || !Number.isSafeInteger(high) || high < 0)
    throw new UsageError(`--${flag}: expected how many seeds, or FIRST-LAST, got "${text}"`);
  return Array.from({ length: high - low + 1 }, (_, i) => low + i);
}

function names(flag: string, value: string): string[] {
  const list = value.split(",").map((name) => name.trim());
  if (list.includes("")) throw new UsageError(`--${flag}: expected names with commas between them, got "${value}"`);
  const twice = list.find((name, i) => list.indexOf(name) < i);
  if (twice !== undefined) throw new UsageError(`--${flag}: "${twice}" is there twice`);
  return list;
}
