/** ToolRL's reward: the vectors of its formula, matching, and what an episode of `tools` earns. */
import { describe, expect, it } from "vitest";
import { type ToolCall, toolCallReward, toolRlReward } from "../../papers/rewards/toolCalls.ts";

const f = (parameters: ToolCall["parameters"], name = "f"): ToolCall => ({ name, parameters });
const gold = [f({ a: 1, b: 2 })];

describe("correctness", () => {
  it.each<[string, ToolCall[] | undefined, ToolCall[], number]>([
    ["all right", [f({ a: 1, b: 2 })], gold, 3],
    ["in another order", [f({ b: 2, a: 1 })], gold, 3],
    ["one wrong value", [f({ a: 1, b: 3 })], gold, 1.5],
    ["one wrong parameter", [f({ a: 1, c: 2 })], gold, 0.5],
    ["another tool", [f({ a: 1, b: 2 }, "g")], gold, -3],
    ["no parameters", [f({})], gold, -1.5],
    ["twice", [f({ a: 1, b: 2 }), f({ a: 1, b: 2 })], gold, 2.25],
    ["a value of another type", [f({ a: "1", b: 2 })], gold, 1.5],
    ["a name that objects have", [f({ toString: 1, a: 1 })], [f({ valueOf: 1, a: 1 })], 0.5],
    ["no call", [], gold, -3],
    ["unreadable", undefined, gold, -3],
    ["none wanted", [f({ a: 1 })], [], 0],
    ["none wanted, and unreadable", undefined, [], -3],
    ["half of two", [f({ a: 1 })], [f({ a: 1 }), f({ b: 1 }, "g")], 0],
    ["a tool without parameters", [f({})], [f({})], 3],
  ])("test vectors: %s", (_, said, wanted, reward) => expect(toolCallReward(said, wanted)).toBeCloseTo(reward, 12));

  it("matches each wanted call with another one, greedily or best", () => {
    const wanted = [f({ a: 1, b: 2 }), f({ a: 1, b: 3 })];
    const said = [f({ a: 1, b: 3 }), f({ a: 1, b: 9 })];
    // Greedily the first wanted call takes the first of two that are equally like it: 2 + 2, where 2 + 3 was possible.
    expect(toolCallReward(said, wanted)).toBeCloseTo((6 * (1 + 4)) / 7 - 3, 12);
    expect(toolCallReward(said, wanted, { matching: "best" })).toBeCloseTo((6 * (1 + 5)) / 7 - 3, 12);
    expect(toolCallReward(wanted.toReversed(), wanted, { matching: "greedy" })).toBeCloseTo(3, 12);
    // A call that is like no wanted one is not used up, and none is used twice.
    expect(toolCallReward([f({ a: 1 })], [f({ a: 1 }), f({ a: 1 })])).toBeCloseTo((6 * (0.5 + 2)) / 5 - 3, 12);
  });

  it("uses up what is a little like a wanted call, and nothing that is not", () => {
    expect(toolCallReward([f({ a: 1 })], [f({ a: 1 }, "g"), f({ a: 1 })])).toBeCloseTo((6 * (0.5 + 2)) / 5 - 3, 12);
    expect(toolCallReward([f({ a: 9 })], [f({ a: 1 }), f({ a: 1 })])).toBeCloseTo((6 * (0.5 + 1)) / 5 - 3, 12);
  });

  it("takes the best matching of up to seven calls on either side", () => {
    const [wanted, said] = [
      [f({ a: 1, b: 2 }), f({ a: 1, b: 3 })],
      [f({ a: 1, b: 3 }), f({ a: 1, b: 9 })],
    ];
    const more = (n: number): ToolCall[] => Array.from({ length: n }, (_, i) => f({ a: i }, `tool${i}`));
    const gain = (wantedMore: number, saidMore: number): number => {
      const all = [
        [...said, ...more(saidMore)],
        [...wanted, ...more(wantedMore)],
      ] as const;
      return toolCallReward(...all, { matching: "best" }) - toolCallReward(...all);
    };
    expect(gain(5, 5)).toBeGreaterThan(0.1);
    expect([gain(6, 6), gain(0, 6), gain(6, 0)]).toEqual([0, 0, 0]);
  });

  it("best is never below greedy, and of more than seven calls greedy", () => {
    const many = Array.from({ length: 8 }, (_, i) => f({ a: i % 3, b: (i * i) % 4 }));
    const others = many.map(({ parameters }) => f({ a: Number(parameters["b"]) % 3, b: parameters["a"]! }));
    for (let n = 1; n <= 8; n++) {
      const [greedy, best] = (["greedy", "best"] as const).map((matching) =>
        toolCallReward(others.slice(0, n), many.slice(0, n), { matching }),
      );
      if (n < 8) expect(best).toBeGreaterThanOrEqual(greedy!);
      else expect(best).toBe(greedy);
    }
    expect(() => toolCallReward([], [], { matching: "some" as "best" })).toThrow('must be "greedy" or "best"');
  });
});

describe("of an episode", () => {
  const calls = JSON.stringify(gold);
  const right = { kinds: "call done", wantedKinds: "call done", calls, wantedCalls: calls };

  it.each<[string, Parameters<typeof toolRlReward>[0], number]>([
    ["right", right, 4],
    ["right calls, no ending", { ...right, kinds: "call" }, 3],
    ["no call", { ...right, kinds: "done", calls: "[]" }, -3],
    ["something unreadable among its calls", { ...right, kinds: "call ? done" }, -3],
    ["nothing", { wantedKinds: "call done", wantedCalls: calls }, -3],
    ["a plain answer", { kinds: "say", wantedKinds: "say", calls: "[]", wantedCalls: "[]" }, 1],
    ["a call where none was wanted", { ...right, wantedKinds: "say", wantedCalls: "[]" }, 0],
  ])("%s", (_, info, reward) => expect(toolRlReward(info)).toBeCloseTo(reward, 12));

  it("takes the matching, and refuses what is no episode of tools", () => {
    const wanted = JSON.stringify([f({ a: 1, b: 2 }), f({ a: 1, b: 3 })]);
    const said = JSON.stringify([f({ a: 1, b: 3 }), f({ a: 1, b: 9 })]);
    const info = { kinds: "call", wantedKinds: "call", calls: said, wantedCalls: wanted };
    expect(toolRlReward(info, { matching: "best" }) - toolRlReward(info)).toBeCloseTo(6 / 7, 12);
    expect(() => toolRlReward({ kinds: 3 })).toThrow("expected an episode of tools, got kinds 3");
  });
});
