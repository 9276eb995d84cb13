/**
 * What the loop is given for the data settings of a run. Curricula and replay buffers, which have a memory, are made
 * once for a run and saved with its checkpoints.
 */
import { Rng } from "../engine/index.ts";
import type { EnvironmentOptions, EnvironmentSpec } from "../environments/index.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import type { Template } from "../rl/episode/template.ts";
import { SelfPlayBuffer } from "../rl/selfplay/options.ts";
import { armsOf, type Curriculum, LEARNABILITY, Learnability } from "../rl/tasks/curriculum.ts";
import { Exploration } from "../rl/tasks/exploration.ts";
import type { DataOptions } from "../rl/tasks/play.ts";
import { DIFFICULTY_POOLS, DifficultyPools, FAILED_TASKS, FailedTasks } from "../rl/tasks/pools.ts";
import { ReplayBuffer } from "../rl/tasks/replay.ts";
import type { Memory } from "../rl/worker/index.ts";
import type { CurriculumSettings, DataSettings } from "./data.ts";
import { CURRICULA, only } from "./parts.ts";
import type { Preset } from "./preset.ts";
import { scheduleOf } from "./schedules.ts";
import { Scripts } from "./scripts.ts";
import { environmentOf, taskOptions } from "./worlds.ts";

/** The parts of a run that its data depends on. */
interface DataSource {
  readonly env: EnvironmentSpec;
  readonly envOptions: EnvironmentOptions;
  readonly seed: number;
}

/** The options of `trainRl`, and by name those of them that have a memory. @throws if a number is out of range */
export function dataFor(
  settings: DataSettings,
  preset: Preset,
): { options: DataOptions; memories: Record<string, Memory>; buffer: SelfPlayBuffer | undefined } {
  const source = { env: environmentOf(preset), envOptions: taskOptions(preset, "train"), seed: preset.seed };
  const scripts = new Scripts(preset);
  const demonstrate = (template: Template, seed: number): Promise<Trajectory> => scripts.demonstration(template, seed);
  const { temperature, exploration, dynamicSampling, expertPrefix, predictions } = settings;
  const { hindsight, imitateExpert } = settings;
  const curriculum = settings.curriculum ? makeCurriculum(settings.curriculum, source) : undefined;
  const replay = settings.replay ? new ReplayBuffer(settings.replay) : undefined;
  const buffer = settings.selfPlay ? new SelfPlayBuffer(settings.selfPlay) : undefined;
  const options: DataOptions = {
    ...(temperature === undefined ? {} : { temperature: scheduleOf(temperature) }),
    ...(exploration ? { exploration: explorationOf(exploration, source.env) } : {}),
    ...(dynamicSampling ? { dynamicSampling } : {}),
    ...(expertPrefix ? { expertPrefix } : {}),
    ...(predictions ? { predictions } : {}),
    ...(hindsight && source.env.achieved ? { hindsight: { ...hindsight, achieved: source.env.achieved } } : {}),
    ...(imitateExpert ? { imitateExpert: { ...imitateExpert, demonstrate } } : {}),
    ...(curriculum ? { curriculum } : {}),
    ...(replay ? { replay } : {}),
  };
  const memories = {
    ...(curriculum ? { curriculum } : {}),
    ...(replay ? { replay } : {}),
    ...(buffer ? { selfPlay: buffer } : {}),
  };
  return { options, memories, buffer };
}

function explorationOf(
  { epsilon, choose = "random" }: DataSettings["exploration"] & object,
  env: EnvironmentSpec,
): Exploration {
  const schedule = scheduleOf(epsilon);
  return new Exploration({
    epsilon: schedule,
    ...(choose === "expert" ? { choose: (_rng, _task, live): string => env.expert(live) } : {}),
  });
}

function makeCurriculum(settings: CurriculumSettings, { env, envOptions, seed }: DataSource): Curriculum {
  const { name, by = "family", tasks = CURRICULA.pools.tasks.default, ...numbers } = settings;
  const learnability = (): Learnability =>
    new Learnability({ arms: armsOf(env, by, envOptions), ...only(numbers, LEARNABILITY.fields) });
  switch (name) {
    case "learnability":
      return learnability();
    case "failed":
      return new FailedTasks(only(numbers, FAILED_TASKS.fields));
    case "failed+learnability":
      return new FailedTasks({ base: learnability(), ...only(numbers, FAILED_TASKS.fields) });
    case "pools": {
      const draw = new Rng(seed).split("pools");
      const seeds = new Set<number>();
      for (let i = 0; seeds.size < tasks; i++) seeds.add(draw.split(i).int(2 ** 31)); // a set: no seed twice
      return new DifficultyPools({
        tasks: [...seeds].map((own) => ({ name: "task", seed: own })),
        ...only(numbers, DIFFICULTY_POOLS.fields),
      });
    }
  }
}
