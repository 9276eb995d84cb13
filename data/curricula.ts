/** The curricula by name, with their options as text: `--curriculum NAME`, `--set curriculum.…`. */
import { number, oneOf, REQUIRED } from "../engine/optionTable.ts";
import { Rng } from "../engine/index.ts";
import { armsOf, type Curriculum, LEARNABILITY, Learnability } from "./curriculum.ts";
import { pluginEntry } from "./entry.ts";
import { DIFFICULTY_POOLS, DifficultyPools, FAILED_TASKS, FailedTasks } from "./pools.ts";

const by = oneOf(["family", "level"], "family", "whether a kind of task is a family or a level");
const tasks = number(256, "total number of tasks in `pools`", { integer: true, min: 1, max: 100_000 });

// The options that can be written as text. Variants need the kinds of tasks, which only another curriculum knows.
const { arms: _, ...LEARNABLE } = LEARNABILITY.fields;
const { base: __, ...FAILED } = FAILED_TASKS.fields;
const { variants: ___, ...FAILED_ALONE } = FAILED;
const { tasks: ____, pools: _____, ...POOLS } = DIFFICULTY_POOLS.fields;

/** The curricula, each with its options of `--set curriculum.…`. */
export const CURRICULA = {
  learnability: { by, ...LEARNABLE },
  failed: FAILED_ALONE,
  "failed+learnability": { by, ...LEARNABLE, ...FAILED },
  pools: { tasks, ...POOLS },
} as const;
export type CurriculumName = keyof typeof CURRICULA;

export const curriculumEntry = pluginEntry({
  name: "curriculum",
  flag: {
    name: "curriculum",
    kind: "choice",
    option: "name",
    choices: CURRICULA,
    about: `${Object.keys(CURRICULA).join(" | ")}: which tasks are played`,
  },
  options: {
    name: oneOf(Object.keys(CURRICULA) as CurriculumName[], REQUIRED, "which tasks are played: see --curriculum"),
    ...CURRICULA.pools,
    ...CURRICULA["failed+learnability"],
  },
  make(settings, { env, envOptions, seed }): Curriculum {
    const { name, floor, memory, prior, share, capacity, solvedAt, variants } = settings;
    const learnability = (): Learnability =>
      new Learnability({ arms: armsOf(env, settings.by ?? by.default, envOptions), floor, memory, prior });
    switch (name) {
      case "learnability":
        return learnability();
      case "failed":
        return new FailedTasks({ share, capacity, solvedAt });
      case "failed+learnability":
        return new FailedTasks({ base: learnability(), share, capacity, solvedAt, variants });
      case "pools": {
        const draw = new Rng(seed).split("pools");
        const seeds = new Set<number>();
        const count = settings.tasks ?? tasks.default;
        for (let i = 0; seeds.size < count; i++) seeds.add(draw.split(i).int(2 ** 31)); // a set: no seed twice
        return new DifficultyPools({ tasks: [...seeds].map((seed) => ({ name: "task", seed })), memory, prior });
      }
    }
  },
});
