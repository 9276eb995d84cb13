/** Curricula over single tasks in detail: their options, what they count, and which states they take up. */
import { describe, expect, it } from "vitest";
import { Rng } from "../../engine/random.ts";
import type { Curriculum } from "../../data/curriculum.ts";
import type { TaskChoice, TaskOutcome } from "../../rl/tasks/plugin.ts";
import { DIFFICULTY_POOLS, DifficultyPools, FAILED_TASKS, FailedTasks } from "../../data/pools.ts";

const outcome = (choice: TaskChoice, success: number, seed = choice.seed ?? 0): TaskOutcome => ({
  choice,
  seed,
  success,
});

describe("failed tasks", () => {
  it("the options: defaults, and what is no curriculum", () => {
    expect(FAILED_TASKS.read({})).toEqual({
      base: undefined,
      share: 0.3,
      capacity: 256,
      solvedAt: 0.5,
      variants: 0,
    });
    for (const base of [1, null, {}])
      expect(() => new FailedTasks({ base } as object)).toThrow("FailedTasks: base must be a curriculum, got");
    expect(() => new FailedTasks({ share: 1.5 })).toThrow("share must be in [0, 1], got 1.5");
    expect(() => new FailedTasks({ variants: 1.5 })).toThrow("variants must be in [0, 1], got 1.5");
    expect(new FailedTasks({ capacity: 1, share: 1, solvedAt: 1 }).size).toBe(0);
  });

  it("variants are their share of the tries, and without them no number is drawn for them", () => {
    const base: Curriculum = new FailedTasks();
    /** What is drawn if every number is 0.5, and how many numbers that takes. */
    const drawn = (variants: number): [TaskChoice, number] => {
      const curriculum = new FailedTasks({ base, share: 1, variants });
      curriculum.observe([outcome({ name: "task", options: { levels: [2, 2] } }, 0, 7)]);
      let numbers = 0;
      const rng = Object.assign(new Rng(0), { uniform: () => (numbers++, 0.5) });
      return [curriculum.task(rng), numbers];
    };
    const kind = { name: "task", options: { levels: [2, 2] } };
    const [variant, tries] = drawn(0.6);
    expect(variant).toEqual(kind);
    expect(drawn(0.5)).toEqual([{ ...kind, seed: 7, again: true }, tries]);
    expect(drawn(0)).toEqual([{ ...kind, seed: 7, again: true }, tries - 1]);
  });

  it("with a share of 0 none is tried again, whatever is drawn", () => {
    const curriculum = new FailedTasks({ share: 0 });
    curriculum.observe([outcome({ name: "task" }, 0, 7)]);
    const lowest = Object.assign(new Rng(0), { uniform: () => 0 });
    expect(curriculum.task(lowest)).toEqual({ name: "task" });
  });

  it("the state counts the tries, and is taken up by a run that has room for it", () => {
    const curriculum = new FailedTasks({ capacity: 2 });
    const task = { name: "task", seed: 7 };
    curriculum.observe([outcome(task, 0)]);
    expect(curriculum.state()).toEqual({ tasks: [{ choice: task, tries: 1 }], solved: 0, base: null });
    curriculum.observe([outcome({ ...task, again: true }, 0), outcome({ ...task, again: true }, 0.25)]);
    expect(curriculum.state()).toMatchObject({ tasks: [{ tries: 3 }] });
    curriculum.observe([outcome({ name: "task" }, 0, 8)]);
    const other = new FailedTasks({ capacity: 2 });
    other.restore(curriculum.state());
    expect(other.state()).toEqual(curriculum.state());
    const small = new FailedTasks({ capacity: 1 });
    for (const state of [curriculum.state(), { tasks: [] }, { tasks: 1, solved: 0 }, { solved: 0 }])
      expect(() => small.restore(state)).toThrow("expected { tasks, solved, base } with at most 1 tasks, got");
  });
});

describe("difficulty pools", () => {
  const tasks = [1, 2, 3, 4].map((seed) => ({ name: "t", seed }));

  it("the options: defaults, and rates that are none", () => {
    expect(DIFFICULTY_POOLS.read({ tasks })).toMatchObject({ memory: 0.5, prior: 0.5 });
    for (const option of ["memory", "prior"])
      expect(() => DIFFICULTY_POOLS.read({ tasks, [option]: 1.5 })).toThrow(`${option} must be in [0, 1], got 1.5`);
    expect(new DifficultyPools({ tasks }).pools().map(({ pool }) => pool)).toEqual([
      { name: "hard", from: 0, weight: 1 },
      { name: "normal", from: 0.2, weight: 3 },
      { name: "easy", from: 0.8, weight: 0.5 },
    ]);
  });
});
