/** The contract of environments, on the smallest one that can be written. */
import { describe, expect, it } from "vitest";
import { ENVIRONMENTS } from "../../environments/index.ts";
import { SingleUseEnvironment, type StepResult } from "../../rl/environment.ts";

class Parrot extends SingleUseEnvironment {
  readonly name = "parrot";
  protected begin(seed: number): string {
    return `seed ${seed}`;
  }
  protected act(action: string): StepResult | Promise<StepResult> {
    if (action === "hang") return new Promise(() => {});
    if (action === "crash") throw new Error("wing broken");
    return { observation: action, reward: 0, done: action === "end", info: {} };
  }
}

describe("SingleUseEnvironment", () => {
  it("plays an episode", async () => {
    const env = new Parrot();
    expect(await env.reset(7)).toBe("seed 7");
    expect((await env.step("hi")).observation).toBe("hi");
    expect((await env.step("end")).done).toBe(true);
  });

  it("refuses a second reset, a step before reset and a step after the end", async () => {
    const env = new Parrot();
    await expect(env.step("hi")).rejects.toThrow("parrot.step: called before reset");
    await env.reset(0);
    await expect(env.reset(0)).rejects.toThrow("parrot.reset: called a second time");
    await env.step("end");
    await expect(env.step("hi")).rejects.toThrow("parrot.step: called after the episode ended");
  });

  it("refuses a call while another is running, and aborts one that ignores its signal", async () => {
    const env = new Parrot();
    await env.reset(0);
    const controller = new AbortController();
    const hanging = env.step("hang", { signal: controller.signal });
    await expect(env.step("hi")).rejects.toThrow("while another call is running");
    controller.abort(new Error("time is up"));
    await expect(hanging).rejects.toThrow("time is up");
    await expect(env.step("hi")).rejects.toThrow("make a new environment");
  });

  it("does not start a call whose signal is aborted already", async () => {
    const env = new Parrot();
    await expect(env.reset(0, { signal: AbortSignal.abort(new Error("too late")) })).rejects.toThrow("too late");
    await expect(env.step("hi")).rejects.toThrow("make a new environment");
  });

  it("is broken after an exception of the environment itself", async () => {
    const env = new Parrot();
    await env.reset(0);
    await expect(env.step("crash")).rejects.toThrow("wing broken");
    await expect(env.step("hi")).rejects.toThrow("make a new environment");
  });

  // A branch of `act` without a return, which only programs in JavaScript can have.
  it("is broken after an action that it returned nothing for", async () => {
    const env = new Parrot();
    Object.defineProperty(env, "act", { value: () => undefined });
    await env.reset(0);
    await expect(env.step("hi")).rejects.toThrow(
      "parrot.step: act returned nothing, expected { observation, reward, done, info }",
    );
    await expect(env.step("hi")).rejects.toThrow("make a new environment");
  });

  it.each([-1, 0.5, NaN, 2 ** 53])("refuses the seed %s", async (seed) => {
    await expect(new Parrot().reset(seed)).rejects.toThrow(`seed must be an integer in [0, 2^53), got ${seed}`);
  });
});

it.each(Object.entries(ENVIRONMENTS))(
  "%s says family and level once it is reset, and again with each step",
  async (_, spec) => {
    const levels = new Map(spec.families.map(({ name, level }) => [name, level]));
    for (let seed = 0; seed < 5; seed++) {
      const env = spec.make();
      expect(() => env.info).toThrow("call reset first");
      await env.reset(seed);
      const { family, level } = env.info!;
      expect(levels.get(String(family))).toBe(level);
      expect((await env.step("?")).info).toMatchObject({ family, level });
      expect(env.info).toEqual({ family, level });
    }
  },
);
