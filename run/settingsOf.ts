/** The settings of a run from its parts: the inverse of `optionsIn` (layout.ts). */
import { ON_TOP, type Parts } from "./layout.ts";
import { DATA_PARTS } from "./parts.ts";
import { isRecord } from "./records.ts";

type Made = Record<string, unknown>;

/** Parts of RL that are not parts of the method. */
const IN_RL = ["kl", "critic", "importanceCorrection", "rolloutFilter", "reward", "outcomeCritic", "entropy"];
/** Parts inside of these, with their names there. */
const INSIDE: Readonly<Record<string, readonly [outer: string, name: string]>> = {
  orm: ["reward", "orm"],
  prm: ["reward", "prm"],
  rejection: ["importanceCorrection", "reject"],
};

/** The place of a part: the names on the way to its object. */
function placeOf(part: string): readonly string[] {
  if (part === "run") return [];
  if (ON_TOP.includes(part)) return [part];
  if (Object.hasOwn(INSIDE, part)) return ["rl", ...INSIDE[part]!];
  return IN_RL.includes(part) ? ["rl", part] : DATA_PARTS.includes(part) ? ["data", part] : ["rl", "options", part];
}

/** The settings with these parts. */
export function settingsOf(parts: Parts): Made {
  const settings: Made = {};
  for (const [part, values] of Object.entries(parts)) {
    let object = settings;
    for (const name of placeOf(part)) object = (object[name] ??= {}) as Made;
    Object.assign(object, values);
  }
  const { rl, rollout } = settings as { rl: Made; rollout: Made };
  const { coefficient, ...controller } = { ...parts["entropy"] };
  if (coefficient !== undefined && Object.keys(controller).length === 0) rl["entropy"] = coefficient;
  // A schedule is for training; evaluations stay at 1.
  if (isRecord(rollout["temperature"])) {
    settings["data"] = { ...(settings["data"] as Made), temperature: rollout["temperature"] };
    rollout["temperature"] = 1;
  }
  return settings;
}
