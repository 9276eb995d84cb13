/** The needs of options: an option of a part that a run does not have would silently do nothing. */
import { PROGRAM_REWARDS } from "../papers/rewards/program.ts";
import type { PluginFlag } from "../data/entry.ts";
import type { Settings } from "./layers.ts";
import { DEFAULTS, METHOD_PARTS, PARTS } from "./parts.ts";
import { PLUGINS, showFlag } from "./plugins.ts";
import { UsageError } from "./usage.ts";

/** Options, and the condition under which a run may have them. */
interface Need {
  /** A part, or one option. */
  readonly of: string;
  /** The option that turns the part on or off, which needs nothing itself. */
  readonly but?: string;
  readonly holds: (settings: Settings) => boolean;
  /** The part to add, as on the command line. */
  readonly add: string;
}

const isReward =
  (...names: readonly string[]) =>
  (settings: Settings): boolean =>
    names.includes(settings.get("reward.name") ?? "");
const has =
  (key: string) =>
  (settings: Settings): boolean =>
    settings.has(key);

const NEEDS: readonly Need[] = [
  { of: "kl", but: "kl.beta", holds: (settings) => (settings.get("kl.beta") ?? 0) > 0, add: "--kl X" },
  { of: "kl.horizon", holds: has("kl.target"), add: "--kl-target X" },
  { of: "entropy", but: "entropy.coefficient", holds: has("entropy.target"), add: "--set entropy.target=X" },
  {
    of: "importanceCorrection",
    holds: has("importanceCorrection.mode"),
    add: "--importance-correction tis or icepop",
  },
  { of: "reward.judges", holds: isReward("judges"), add: "--reward judges" },
  { of: "reward.timeout", holds: isReward("judges", "file"), add: "--reward judges or FILE" },
  { of: "reward.matching", holds: isReward("toolrl"), add: "--reward toolrl" },
  {
    of: "reward.control",
    holds: isReward(...Object.keys(PROGRAM_REWARDS)),
    add: `--reward ${Object.keys(PROGRAM_REWARDS).join(" or ")}`,
  },
  { of: "orm", holds: isReward("orm"), add: "--reward orm" },
  { of: "prm", holds: isReward("prm"), add: "--reward prm" },
  {
    of: "outcomeCritic",
    holds: (settings) => settings.get("rl.method")!.split("+").includes("outcome_critic"),
    add: "+outcome_critic",
  },
  { of: "rl.expertsOnly", holds: (settings) => settings.get("rl.method") === "sft", add: "--method sft" },
  { of: "sft.labels", holds: has("sft.labelled"), add: "--set sft.labelled=N" },
  { of: "sft.generalTexts", holds: (settings) => Boolean(settings.get("sft.general")), add: "--set sft.general=0.5" },
  { of: "selfPlay", holds: has("selfPlay.name"), add: "--self-play NAME" },
  { of: "async", holds: has("async.workers"), add: "--workers N" },
  ...PLUGINS.flatMap(({ name, flag }): Need[] => {
    const key = `${name}.${flag.kind === "switch" ? "on" : flag.option}`;
    // 0 turns off a plug-in that has a number.
    const isOn = (settings: Settings): boolean => {
      const value = settings.get(key);
      return value !== undefined && value !== false && !(flag.kind === "count" && value === 0);
    };
    const needs = { of: name, but: key, holds: isOn, add: showFlag(flag) };
    return [needs, ...(flag.kind === "choice" ? needsOfChoice(name, flag) : [])];
  }),
];

/** The options that belong to some of the choices of a flag. */
function needsOfChoice(part: string, { name, option, choices }: PluginFlag & { readonly kind: "choice" }): Need[] {
  const others = Object.keys(PARTS[part]!).filter((name) => name !== option);
  return others.map((other): Need => {
    const names = Object.keys(choices).filter((choice) => Object.hasOwn(choices[choice]!, other));
    return {
      of: `${part}.${other}`,
      holds: (settings) => names.includes(settings.get(`${part}.${option}`) as string),
      add: `--${name} ${names.join(" or ")}`,
    };
  });
}

/**
 * Drops the options of parts that a run does not have, as those of a recipe of which a part was replaced.
 * @throws UsageError if a person has written such an option
 */
export function settleNeeds(settings: Settings): void {
  for (const { of, but, holds, add } of NEEDS) {
    if (holds(settings)) continue;
    for (const key of of.includes(".") ? settings.keys().filter((each) => each === of) : settings.keys(of)) {
      if (key !== but && settings.isWritten(key) && settings.get(key) !== DEFAULTS[key])
        throw new UsageError(`${settings.by(key)} is about ${add}; add it`);
      if (key !== "entropy.coefficient") settings.drop(key);
    }
  }
}

/** Drops the options of parts of other methods. @throws UsageError if a person has written such an option */
export function settleParts(settings: Settings, used: readonly string[]): void {
  for (const part of Object.keys(METHOD_PARTS)) {
    if (used.includes(part)) continue;
    for (const key of settings.keys(part)) {
      if (settings.isWritten(key))
        throw new UsageError(
          `${settings.by(key)}: ${part} is no part of --method ${settings.get("rl.method")!}, whose parts are ` +
            used.join(", "),
        );
      settings.drop(key);
    }
  }
}
