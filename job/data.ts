/**
 * The data settings of a run: temperatures, exploration, a curriculum, refills, the expert prefix, replay, predictions,
 * hindsight, an expert that is imitated. They are plain data in `config.json`; dataOptions.ts makes of them what the
 * loop is given.
 */
import type { OptionsOf } from "../engine/optionTable.ts";
import { nearest } from "../engine/options.ts";
import type { LEARNABILITY } from "../rl/tasks/curriculum.ts";
import type { DynamicSamplingOptions } from "../rl/tasks/dynamic.ts";
import type { ExpertPrefixOptions } from "../rl/tasks/expertPrefix.ts";
import type { HindsightOptions } from "../rl/tasks/hindsight.ts";
import type { ImitateExpertOptions } from "../rl/tasks/imitateExpert.ts";
import type { PredictionOptions } from "../rl/tasks/predictions.ts";
import type { FAILED_TASKS } from "../rl/tasks/pools.ts";
import type { ReplayOptions } from "../rl/tasks/replay.ts";
import type { SelfPlayChoice } from "../rl/selfplay/options.ts";
import { UsageError } from "./usage.ts";
import type { DataFlags, MethodFlags } from "./startOptions.ts";
import { CURRICULA } from "./parts.ts";
import { parseSchedule, type ScheduleData, valuesOfSchedule } from "./schedules.ts";
import { once } from "./settings.ts";
import type { Settings } from "./shownSettings.ts";
import { checkYardstick, isYardstick } from "./yardsticks.ts";

export type CurriculumName = keyof typeof CURRICULA;
const CURRICULUM_NAMES = Object.keys(CURRICULA) as CurriculumName[];

export interface CurriculumSettings
  extends Omit<OptionsOf<typeof LEARNABILITY>, "arms">, Omit<OptionsOf<typeof FAILED_TASKS>, "base"> {
  readonly name: CurriculumName;
  readonly by?: "family" | "level";
  readonly tasks?: number;
}

export interface DataSettings {
  /** The temperature in training, in place of the rollout's; evaluations keep the rollout's. */
  readonly temperature?: ScheduleData;
  readonly exploration?: { readonly epsilon: ScheduleData; readonly choose?: "random" | "expert" };
  readonly curriculum?: CurriculumSettings;
  readonly dynamicSampling?: DynamicSamplingOptions;
  readonly expertPrefix?: Pick<ExpertPrefixOptions, "maxPrefix">;
  readonly replay?: Omit<ReplayOptions, "priority">;
  readonly predictions?: PredictionOptions;
  readonly hindsight?: Omit<HindsightOptions, "achieved">;
  readonly imitateExpert?: Omit<ImitateExpertOptions, "demonstrate">;
  readonly selfPlay?: SelfPlayChoice;
}

/**
 * The data settings that the flags and `--set` describe; undefined if there are none.
 * @throws UsageError with one line if a flag is wrong, or if an option needs a flag that is missing
 */
export function dataSettings(flags: DataFlags & Pick<MethodFlags, "method">, set: Settings): DataSettings | undefined {
  if (flags.method !== undefined && isYardstick(flags.method)) {
    const { explore, curriculum, dynamicSampling, expertPrefix, replay, predict, hindsight, imitateExpert, selfPlay } =
      flags;
    checkYardstick(flags.method, {
      explore,
      curriculum,
      "dynamic-sampling": dynamicSampling,
      "expert-prefix": expertPrefix,
      replay,
      predict,
      hindsight,
      "imitate-expert": imitateExpert,
      "self-play": selfPlay,
    });
  }
  const temperature = temperatureOf(flags, set);
  const { choose } = set["exploration"] ?? {};
  const explore = once("--explore", scheduleDataOf("--explore", flags.explore), "exploration.epsilon", set);
  if (explore === undefined && choose !== undefined) {
    throw new UsageError("--set exploration.choose is about --explore; add --explore X");
  }
  const largest = explore === undefined ? 0 : Math.max(...valuesOfSchedule(explore));
  if (largest > 1) throw new UsageError(`--explore: expected probabilities, got ${largest}`);
  const curriculum = curriculumOf(flags.curriculum, set["curriculum"] ?? {});
  const perStep = once("--replay", flags.replay, "replay.perStep", set);
  const predict = once("--predict", flags.predict, "predictions.perStep", set);
  const relabels = once("--hindsight", flags.hindsight, "hindsight.perStep", set);
  const shows = once("--imitate-expert", flags.imitateExpert, "imitateExpert.perStep", set);
  const chooser = choose === undefined ? {} : { choose: choose as "random" | "expert" };
  const refills = switchedOn(flags.dynamicSampling, "dynamic-sampling", "dynamicSampling", set);
  const prefixes = switchedOn(flags.expertPrefix, "expert-prefix", "expertPrefix", set);
  const replays = switchedOn(perStep !== undefined && perStep > 0, "replay N", "replay", set);
  const predicts = switchedOn(predict !== undefined && predict > 0, "predict N", "predictions", set);
  const looksBack = switchedOn(relabels !== undefined && relabels > 0, "hindsight N", "hindsight", set);
  const imitates = switchedOn(shows !== undefined && shows > 0, "imitate-expert N", "imitateExpert", set);
  const name = once("--self-play", flags.selfPlay, "selfPlay.name", set);
  const plays = switchedOn(name !== undefined, "self-play NAME", "selfPlay", set);
  const settings: DataSettings = {
    ...(typeof temperature === "object" ? { temperature } : {}),
    ...(explore === undefined ? {} : { exploration: { epsilon: explore, ...chooser } }),
    ...(curriculum ? { curriculum } : {}),
    ...(refills ? { dynamicSampling: set["dynamicSampling"] ?? {} } : {}),
    ...(prefixes ? { expertPrefix: set["expertPrefix"] ?? {} } : {}),
    ...(replays ? { replay: { ...set["replay"], perStep: perStep! } } : {}),
    ...(predicts ? { predictions: { ...set["predictions"], perStep: predict! } } : {}),
    ...(looksBack ? { hindsight: { ...set["hindsight"], perStep: relabels! } } : {}),
    ...(imitates ? { imitateExpert: { ...set["imitateExpert"], perStep: shows! } } : {}),
    ...(plays ? { selfPlay: { ...set["selfPlay"], name: name! } } : {}),
  };
  return Object.keys(settings).length > 0 ? settings : undefined;
}

/** The sampling temperature that the flags name. */
export function temperatureOf(flags: Pick<DataFlags, "temperature">, set: Settings): ScheduleData | undefined {
  const schedule = once(
    "--temperature",
    scheduleDataOf("--temperature", flags.temperature),
    "rollout.temperature",
    set,
  );
  if (schedule !== undefined && valuesOfSchedule(schedule).includes(0)) {
    throw new UsageError("--temperature: expected numbers > 0; greedy play has no groups to compare");
  }
  return schedule;
}

const scheduleDataOf = (flag: string, text: string | undefined): ScheduleData | undefined =>
  text === undefined ? undefined : parseSchedule(flag, text);

/** Whether a flag is on. @throws UsageError if it is off, and `--set` has an option that needs it */
function switchedOn(isOn: boolean | undefined, flag: string, part: string, set: Settings): boolean {
  const option = Object.keys(set[part] ?? {}).find((name) => name !== "perStep");
  if (!isOn && option !== undefined) {
    throw new UsageError(`--set ${part}.${option} is about --${flag.split(" ")[0]!}; add --${flag}`);
  }
  return isOn === true;
}

function curriculumOf(name: string | undefined, options: Settings[string]): CurriculumSettings | undefined {
  const [first] = Object.keys(options);
  if (name === undefined) {
    if (first !== undefined)
      throw new UsageError(`--set curriculum.${first} is about --curriculum; add --curriculum NAME`);
    return undefined;
  }
  const found = CURRICULUM_NAMES.find((known) => known === name);
  if (found === undefined) {
    const near = nearest(name, CURRICULUM_NAMES);
    const hint = near === undefined ? `expected ${CURRICULUM_NAMES.join(", ")}` : `did you mean "${near}"?`;
    throw new UsageError(`--curriculum: unknown name "${name}"; ${hint}`);
  }
  const own = Object.keys(CURRICULA[found]);
  const foreign = Object.keys(options).find((option) => !own.includes(option));
  if (foreign !== undefined)
    throw new UsageError(`--set curriculum.${foreign}: --curriculum ${found} has ${own.join(", ")}`);
  return { name: found, ...options };
}
