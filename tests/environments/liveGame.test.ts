/** Games with live states: those that hold something outside this program, such as a machine (`GameRules.close`). */
import { setTimeout as wait } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { withFaults } from "../../environments/faults.ts";
import { defineGame, type GameRules, option } from "../../environments/index.ts";
import { Rng } from "../../engine/random.ts";
import type { EnvironmentOptions } from "../../rl/environment.ts";

interface Machine {
  turns: number;
  isOpen: boolean;
}
const machines: Machine[] = [];
const OPTIONS = {
  seconds: option.number(3, "seconds for a command", { above: 0 }),
  slow: option.number(0, "milliseconds until a machine is there", { min: 0 }),
};
type Options = EnvironmentOptions & { readonly seconds?: number; readonly slow?: number };
const HEAD = {
  name: "live",
  description: "count on a machine",
  families: [{ name: "one", level: 1, description: "count" }],
  options: OPTIONS,
};
const RULES: GameRules<typeof OPTIONS, (typeof HEAD.families)[0], { text: string }, Machine> = {
  makeTask: () => ({ text: "count" }),
  async start(_, { slow }) {
    await wait(slow);
    const machine = { turns: 0, isOpen: true };
    machines.push(machine);
    return machine;
  },
  async play({ state }, action) {
    await wait(0);
    if (action === "crash") throw new Error("the machine is on fire");
    state.turns++;
    const ending = action === "end" ? { kind: "end", score: 1 } : undefined;
    return { observation: String(state.turns), ending };
  },
  expert: ({ state }) => (state.turns === 2 ? "end" : "on"),
  random: () => "on",
  close(state) {
    if (!state.isOpen) throw new Error("closed twice");
    state.isOpen = false;
  },
};
const live = defineGame({
  ...HEAD,
  ...RULES,
  atOnce: ({ seconds }) => 10 * seconds,
  limits: ({ seconds }) => ({ step: 1000 * seconds }),
  check: async ({ seconds }) => {
    await wait(0);
    if (seconds > 100) throw new Error("live: no machine is that patient");
  },
  fingerprint: ({ seconds }) => Promise.resolve(`hash of ${seconds}`),
});

describe("a game with live states", () => {
  it("closes its state once: at its end, when it is closed, and after an error", async () => {
    for (const actions of [["on", "end"], ["on"], [], ["crash"]]) {
      const env = live.make();
      await env.reset(0);
      const machine = machines.at(-1)!;
      for (const action of actions) await env.step(action).catch(() => undefined);
      expect(machine.isOpen).toBe(!actions.includes("end"));
      env.close!();
      env.close!();
      expect(machine.isOpen).toBe(false);
    }
  });

  it("closes a state that comes after the episode was given up, and needs none to be closed", async () => {
    const env = live.make({ slow: 20 });
    const controller = new AbortController();
    const reset = env.reset(0, { signal: controller.signal });
    await wait(1);
    controller.abort(new Error("late"));
    await expect(reset).rejects.toThrow("late");
    const before = machines.length;
    env.close!();
    await expect.poll(() => machines.length).toBe(before + 1);
    await expect.poll(() => machines.at(-1)!.isOpen).toBe(false);
    live.make().close!();
  });

  it("has no clone, as one whose rules say so when they are loaded; others have one", () => {
    expect(live.make().clone).toBeUndefined();
    const loaded = defineGame({ ...HEAD, expert: true, close: true }, () => Promise.resolve({ rules: RULES }));
    expect(loaded.make().clone).toBeUndefined();
    const { close: _, ...others } = RULES;
    expect(defineGame({ ...HEAD, ...others }).make().clone).toBeTypeOf("function");
  });

  it("is refused if head and rules do not agree about it", async () => {
    const unsaid = defineGame({ ...HEAD, expert: true }, () => Promise.resolve({ rules: RULES }));
    await expect(unsaid.make().reset(0)).rejects.toThrow("live: close is not in the head and in the rules");
    const none = defineGame({ ...HEAD, close: true }, () => Promise.resolve({ rules: RULES }));
    await expect(none.make().reset(0)).rejects.toThrow("live: expert is not in the head and in the rules");
  });

  it("says what its options make of room, time and whether it can be played; with faults among them, too", async () => {
    for (const spec of [live, withFaults(live)]) {
      const options = { seconds: 7, ...(spec === live ? {} : { noise: 0.5 }) } as Options;
      expect(spec.atOnce!(options)).toBe(70);
      expect(spec.limits!(options)).toEqual({ step: 7000 });
      await expect(spec.check!(options)).resolves.toBeUndefined();
      await expect(spec.check!({ ...options, seconds: 101 })).rejects.toThrow("no machine is that patient");
      await expect(spec.fingerprint!(options)).resolves.toBe("hash of 7");
      expect(spec.limits!()).toEqual({ step: 3000 });
      expect(() => spec.limits!({ seconds: 0 })).toThrow("live: seconds must be");
    }
    const { atOnce, limits, check, fingerprint } = withFaults(defineGame({ ...HEAD, ...RULES }));
    expect([atOnce, limits, check, fingerprint]).toEqual([undefined, undefined, undefined, undefined]);
  });
});

describe("a game whose rules are loaded later", () => {
  const HELD = { expert: true, close: true } as const;
  it("loads them once, when it is checked: no reset waits for that, and the random player is there", async () => {
    let loads = 0;
    const late = defineGame({ ...HEAD, ...HELD }, async () => {
      await wait(1);
      loads++;
      return { rules: RULES };
    });
    expect(() => late.random(new Rng(0), "count")).toThrow("live.random: nobody has played live yet");
    await late.check!();
    expect(late.random(new Rng(0), "count")).toBe("on");
    const env = late.make();
    expect(await env.reset(0)).toBe("count");
    env.close!();
    expect(loads).toBe(1);
  });

  it("fails its check if they cannot be loaded", async () => {
    const gone = defineGame({ ...HEAD, ...HELD }, () => Promise.reject(new Error("live: not there")));
    await expect(gone.check!()).rejects.toThrow("live: not there");
  });
});
