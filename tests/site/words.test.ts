/** An experiment as words and as an address: there and back, and what is wrong with a word is said where it stands. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { experimentOf } from "../../site/experiment.ts";
import { AGENT_FIELDS, METHOD_WORDS, SHARED_FIELDS, wrongIn } from "../../site/fields.ts";
import { addressOf, type ExperimentWords, wordsOf } from "../../site/words.ts";

const read = (address: string): ExperimentWords => wordsOf(new URLSearchParams(address));

describe("an address", () => {
  const ADDRESSES = [
    "",
    "quick=true&seed=3&steps=5",
    "env=castle&arms=grpo_token%2Cgrpo_token%2Becho%5Blambda%3D0.2%5D",
    "env=gridworld&set=env.levels%3D1&arms=a%3Dgrpo%5Btemperature%3D0%3A1%2C10%3A0.5%5D%2Cb%3Ddapo",
    "device=webgpu&model=tiny&arms=grpo%5Bdynamic-sampling%2Crl.lr%3D1e-3%5D%2Csft",
  ];
  test.each(ADDRESSES)("%s gives words, and these give an address of the same experiment", (address) => {
    const words = read(address);
    const again = addressOf(words).toString();
    expect(read(again)).toEqual(words);
    const settings = (text: string): unknown => {
      const { warm, agents } = experimentOf(new URLSearchParams(text));
      return { warm, agents };
    };
    expect(settings(again)).toEqual(settings(address));
  });

  test("of what the page shows by itself is empty", () => {
    expect(addressOf(read("")).toString()).toBe("");
    expect(read("").agents.map(({ name, method }) => [name, method])).toEqual([
      ["plain", "grpo_token"],
      ["predictor", "grpo_token+echo"],
    ]);
  });

  test("any words come back from their address", () => {
    const numbers = fc.nat(1000).map(String);
    const shared = fc.record({ seed: numbers, steps: numbers, "rl.groupSize": numbers }, { requiredKeys: [] });
    const settings = fc.record({ lambda: numbers, "rl.lr": numbers, "expert-prefix": fc.constant(undefined) });
    const agent = fc.record({ method: fc.constantFrom("grpo", "dapo+echo", "reinforce++"), settings });
    fc.assert(
      fc.property(shared, agent, agent, (shared, a, b) => {
        const words = {
          shared,
          agents: [
            { ...a, name: "one" },
            { ...b, name: "the other" },
          ],
        };
        expect(wordsOf(addressOf(words))).toEqual(words);
      }),
    );
  });

  test.each([
    ["sed=3", 'unknown setting "sed" in the address; did you mean "seed"?'],
    ["seed=1&seed=2", "seed is there twice in the address"],
    ["lambda=0.1", "lambda sets one agent: write it with the agent, as in arms=grpo,grpo+echo[lambda=0.1]"],
    ["name=x", 'unknown setting "name" in the address'],
    ["env.size=3", "env.size: an option is written as set=env.size=3"],
    ["set=groups", 'set: expected PART.OPTION=VALUE, as in paw.alpha=0.5, got "groups"'],
    ["arms=grpo", 'arms: expected 2 agents, got "grpo"'],
    ["arms=grpo,rft,dapo", 'arms: expected 2 agents, got "grpo,rft,dapo"'],
    ["env=castle", "env: castle names no agents to compare; say which with arms=…"],
  ])("%s: %s", (address, message) => expect(() => read(address)).toThrow(message));
});

describe("the fields of the form", () => {
  const words = read("");
  const { warm, agents } = experimentOf(new URLSearchParams());

  test("say what holds where nothing is said, in every world", () => {
    const shown = Object.fromEntries(SHARED_FIELDS.map(({ key, inForce }) => [key, inForce(warm)]));
    expect(shown).toMatchObject({ env: "home", "env.levels": "2-2", seed: "0", steps: "200", "rl.groupSize": "8" });
    const own = agents.map(({ preset }) => AGENT_FIELDS.map(({ inForce }) => inForce(preset)));
    expect(own).toEqual([
      ["no world model", "0.0005", "1"],
      ["0.5", "0.001", "1"],
    ]);
  });

  test("have the texts and ranges of the option tables", () => {
    const about = Object.fromEntries([...SHARED_FIELDS, ...AGENT_FIELDS].map((field) => [field.key, field.about]));
    expect(about["rl.groupSize"]).toBe("number of episodes of each task; an integer ≥ 1");
    expect(about["rl.lr"]).toBe("learning rate; > 0");
    expect(about["temperature"]).toContain("> 0, or a schedule");
  });

  test("offer methods that can all be trained", () => {
    const broken = METHOD_WORDS.filter((method) => {
      const second = { name: "other", method, settings: {} };
      return wrongIn({ shared: {}, agents: [{ name: "one", method: "grpo", settings: {} }, second] }) !== null;
    });
    expect(broken).toEqual([]);
  });

  test("a wrong word is named with its place", () => {
    const [first, second] = words.agents as [ExperimentWords["agents"][number], ExperimentWords["agents"][number]];
    const with_ = (change: Partial<typeof second>): ExperimentWords => ({
      ...words,
      agents: [first, { ...second, ...change }],
    });
    expect(wrongIn(words)).toBeNull();
    expect(wrongIn({ ...words, shared: { seed: "x" } })).toMatchObject({ key: "seed" });
    expect(wrongIn({ ...words, shared: { seed: "1", "rl.groupSize": "0" } })).toEqual({
      key: "rl.groupSize",
      message: "--set rl.groupSize must be an integer ≥ 1, got 0",
    });
    expect(wrongIn({ ...words, shared: { "env.levels": "9" } })).toMatchObject({ key: "env.levels" });
    expect(wrongIn(with_({ method: "grp" }))).toMatchObject({ agent: 1, key: "method" });
    expect(wrongIn(with_({ settings: { "rl.lr": "-1" } }))).toMatchObject({ agent: 1, key: "rl.lr" });
    expect(wrongIn(with_({ method: "grpo", name: undefined, settings: { lambda: "0.5" } }))).toMatchObject({
      agent: 1,
      key: "lambda",
    });
    expect(wrongIn(with_({ name: "plain" }))).toMatchObject({ key: "name" });
  });

  test("device=reference: an executor that is not on the page", () =>
    expect(() => experimentOf(new URLSearchParams("device=reference"))).toThrow(
      "device: expected auto, wasm or webgpu, which train here, got reference",
    ));
});
