/** Weights of a world-model loss by tool: which tool wrote a token, and what the weights do to loss and gradient. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  toolsCalled,
  toolsOfTokens,
  type ToolWeights,
  weighByTool,
  worldLossByTool,
} from "../../connect/toolWeights.ts";
import { worldModelObjective } from "../../connect/openEnvRoles.ts";
import { joinResults } from "../../connect/mcp/toolCall.ts";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { paw } from "../../methods/paw.ts";
import { byteTokenizer } from "../../nn/index.ts";
import { append, emptyStream, type Trajectory } from "../../rl/episode/stream.ts";
import { SPECIAL_TOKENS, Template, type TemplateOptions } from "../../rl/episode/template.ts";
import { ppoClip } from "../../rl/objective/clipped.ts";
import { echo, ECHO_NORMALIZATIONS, type WorldObjective } from "../../rl/objective/echo.ts";
import { centred } from "../../rl/objective/grpo.ts";
import { score } from "../../rl/train/score.ts";
import { forked, rowGradient, weighStep } from "../support/rlBatches.ts";
import { toyModel, trajectoryOf } from "../support/rlToy.ts";

const tokenizer = byteTokenizer({ specials: SPECIAL_TOKENS });
const template = new Template(tokenizer);
const call = (name: string, args: object = {}): string =>
  `<tool_call>${JSON.stringify({ name, arguments: args })}</tool_call>`;

/** A turn: what the model wrote (or what was given), the answer, and a warning behind it. */
type Turn = readonly [action: string, answer: string, more?: { warning?: string; isGiven?: boolean; most?: number }];

function episodeOf(turns: readonly Turn[], of: Partial<Trajectory> = {}, as: Template = template): Trajectory {
  const stream = emptyStream();
  as.appendTask(stream, "cat or dog?");
  turns.forEach(([action, answer, { warning = "", isGiven = false, most = 999 } = {}], turn) => {
    if (isGiven) append(stream, "prompt", turn, as.encodeAction(action));
    else as.appendSampled(stream, turn, [...tokenizer.encode(action), as.endId]);
    as.appendObservation(stream, turn, as.encodeObservation(answer, most), warning, turn === turns.length - 1);
  });
  return trajectoryOf(stream, of);
}

/** The texts that each tool has written, in order. */
function writtenBy(episode: Trajectory, tools: readonly (string | undefined)[]): [string | undefined, string][] {
  const found: { readonly tool: string | undefined; readonly ids: number[] }[] = [];
  const { ids, roles } = episode.stream;
  let last = -2;
  roles.forEach((role, t) => {
    if (role !== "observation") return expect(tools[t]).toBeUndefined();
    if (last === t - 1 && found.at(-1)!.tool === tools[t]) found.at(-1)!.ids.push(ids[t]!);
    else found.push({ tool: tools[t], ids: [ids[t]!] });
    last = t;
  });
  return found.map(({ tool, ids: own }) => [tool, tokenizer.decode(own)]);
}
const toolsIn = (episode: Trajectory, as = template): [string | undefined, string][] =>
  writtenBy(episode, toolsOfTokens([episode], as)[0]!);

describe("the tools that an action calls", () => {
  it.each<[string, readonly (string | undefined)[]]>([
    ["cat notes.txt", ["cat"]],
    ["  cat\tnotes.txt\n", ["cat"]],
    ["catalog", ["catalog"]],
    ["Cat notes.txt", ["Cat"]],
    ["done", ["done"]],
    ["", []],
    [" \n ", []],
    ["grep '<tool_call>' log", ["grep"]],
    [call("get-sum", { a: 1 }), ["get-sum"]],
    [`I add. ${call("get-sum")}${call("echo")}\n${call("get-sum")}`, ["get-sum", "echo", "get-sum"]],
    ['{"name": "bash", "arguments": {"command": "cat x"}}', ["bash"]],
    ['[TOOL_CALLS]bash[ARGS]{"command": "cat x"}', ["bash"]],
    ["<tool_call><function=bash><parameter=command>cat x</parameter></function></tool_call>", ["bash"]],
    ["<tool_call>get-sum 1 2</tool_call>", ["get-sum"]],
    ["<tool_call>{broken</tool_call>", []],
    ["<tool_call></tool_call>", []],
    ['{"no": "name"}', []],
    // Thoughts: what stands in one is no call.
    [`<think>${call("ls")} or cat?</think>\ncat x`, ["cat"]],
    [`<think>${call("ls")}</think>${call("cat")}`, ["cat"]],
    [`I try ls.\n</think>\n\ncat x`, ["cat"]],
    [`<think>cat x`, []],
    ["<think></think>", []],
    // A call that cannot be read has its place, as its answer has.
    [`${call("ls")}<tool_call>{bad}</tool_call>${call("cat")}`, ["ls", undefined, "cat"]],
    [`<tool_call>{bad}</tool_call>${call("cat")}`, [undefined, "cat"]],
    // A fence for a shell holds the command, any other is text.
    ["```bash\ncat x\n```", ["cat"]],
    ["Let me look.\n```\n  ls -l\n```\n", ["ls"]],
    ["```python\nprint(1)\n```", ["```python"]],
    ["```bash\n```", []],
    ["__proto__ x", ["__proto__"]],
  ])("%j: %j", (action, names) => {
    expect(toolsCalled(action)).toEqual(names);
  });
});

describe("the tool of a token", () => {
  it("is the tool of the action that it answers, warnings included; tasks, actions and tags have none", () => {
    const episode = episodeOf([
      ["cat a", "one\n", { warning: "1 turn left" }],
      ["ls", ""],
      ["", "say something"],
      ["catalog", "two"],
    ]);
    expect(toolsIn(episode)).toEqual([
      ["cat", "one\n1 turn left"],
      [undefined, "say something"],
      ["catalog", "two"],
    ]);
    expect(toolsIn(episodeOf([]))).toEqual([]);
    expect(toolsOfTokens([], template)).toEqual([]);
  });

  it("stays the same where the middle of an answer was cut out", () => {
    expect(toolsIn(episodeOf([["cat a", "0123456789abcdef", { most: 9 }]]))).toEqual([["cat", "01 … ef"]]);
  });

  it("is found for given actions, also for the first, behind the task", () => {
    const episode = episodeOf([
      ["open door", "opened", { isGiven: true }],
      ["look", "a room", { isGiven: true }],
      ["cat a", "one"],
    ]);
    expect(toolsIn(episode)).toEqual([
      ["open", "opened"],
      ["look", "a room"],
      ["cat", "one"],
    ]);
  });

  it("is the same in the rows of a rollout whose history was rewritten", () => {
    const whole = episodeOf([
      ["ls", "a b"],
      ["cat a", "one"],
    ]);
    const rows = forked(whole, 3);
    const other = episodeOf([["open", "x"]]);
    const [head, , tail] = toolsOfTokens([rows[0]!, other, rows[1]!], template);
    expect(writtenBy(rows[0]!, head!)).toEqual([["ls", "a b"]]);
    expect(writtenBy(rows[1]!, tail!)).toEqual([["cat", "one"]]);
    // A server's fork: the new row begins with the answer, and its action stands in the row before.
    const [first, second] = [emptyStream(), emptyStream()];
    template.appendTask(first, "task");
    template.appendSampled(first, 0, [...tokenizer.encode("cat a"), template.endId]);
    append(second, "prompt", 0, tokenizer.encode("ls: another history"));
    append(second, "observation", 0, tokenizer.encode("one"));
    append(second, "prompt", 0, tokenizer.encode("."));
    template.appendSampled(second, 1, [...tokenizer.encode("done"), template.endId]);
    const served = [first, second].map((stream) => trajectoryOf(stream, { rollout: 7 }));
    expect(writtenBy(served[1]!, toolsOfTokens(served, template)[1]!)).toEqual([["cat", "one"]]);
  });

  it.each<[string, TemplateOptions, string, string | undefined]>([
    ["tags of a thought", { thought: ["<t>", "</t>"] }, "<t>ls?</t>cat a", "cat"],
    ["a thought without an end", { thought: ["<t>", "</t>"] }, "<t>cat a", undefined],
    ["tags of an action", { action: ["[", "]"] }, "ls? [cat a] ls", "cat"],
    ["tags that are missing", { action: ["[", "]"] }, "ls a", "ls"],
  ])("a template with %s", (_, options, action, tool) => {
    const tagged = new Template(tokenizer, options);
    expect(toolsIn(episodeOf([[action, "one"]], {}, tagged), tagged)).toEqual([[tool, "one"]]);
  });

  describe("of an answer to several calls", () => {
    const calls = call("cat") + call("ls") + call("cat");

    it("is by the numbers above its parts", () => {
      const answer = joinResults(["häuser\n", "[3/3] no\nb", ""], 3);
      expect(toolsIn(episodeOf([[calls, answer]]))).toEqual([
        ["cat", "[1/3]\nhäuser\n\n"],
        ["ls", "[2/3]\n[3/3] no\nb\n"],
        ["cat", "[3/3]\n"],
      ]);
    });

    it("is the first call's if there are no numbers, and until the next number if one was cut out", () => {
      expect(toolsIn(episodeOf([[calls, "all is well\n[2/3]\n"]]))).toEqual([["cat", "all is well\n[2/3]\n"]]);
      const cut = toolsIn(episodeOf([[call("ls") + call("a") + call("b"), "[1/3]\nx … y\n[3/3]\nz"]]));
      expect(cut).toEqual([
        ["ls", "[1/3]\nx … y\n"],
        ["b", "[3/3]\nz"],
      ]);
      // An episode that ended with the first call has numbers of calls that were not made.
      expect(toolsIn(episodeOf([[call("ls") + call("a"), "[1/9999]\nx"]]))).toEqual([["ls", "[1/9999]\nx"]]);
    });

    it("is message by message where each call has one; one call has them all", () => {
      const messages = (action: string, answers: readonly string[]): [string | undefined, string][] => {
        const stream = emptyStream();
        template.appendTask(stream, "task");
        template.appendSampled(stream, 0, [...tokenizer.encode(action), template.endId]);
        for (const answer of answers) template.appendObservation(stream, 0, tokenizer.encode(answer));
        return toolsIn(trajectoryOf(stream));
      };
      expect(messages(call("cat") + call("ls"), ["1", "2", "3"])).toEqual([
        ["cat", "1"],
        ["ls", "2"],
        [undefined, "3"],
      ]);
      expect(messages("cat a", ["1", "2"])).toEqual([
        ["cat", "1"],
        ["cat", "2"],
      ]);
    });

    it("is none for a call among them that cannot be read; those behind it keep theirs", () => {
      const answer = joinResults(["one", "a tool call cannot be read", "three"], 3);
      const [first, second, third] = ["[1/3]\none\n", "[2/3]\na tool call cannot be read\n", "[3/3]\nthree"];
      expect(toolsIn(episodeOf([[`${call("cat")}<tool_call>{bad}</tool_call>${call("ls")}`, answer]]))).toEqual([
        ["cat", first],
        [undefined, second],
        ["ls", third],
      ]);
    });

    it("a single call's answer may look like parts", () => {
      expect(toolsIn(episodeOf([["cat log", "[1/2]\na\n[2/2]\nb"]]))).toEqual([["cat", "[1/2]\na\n[2/2]\nb"]]);
    });
  });
});

const episodes = [
  episodeOf([
    ["cat a", "one two"],
    ["ls", "a b", { warning: "1 left" }],
    ["constructor", "no such command"],
  ]),
  episodeOf([["cat b", "three"]]),
  episodeOf([["cat c", "never seen"]], { masked: true }),
  episodeOf([["done", ""]]),
  ...forked(
    episodeOf([
      ["ls", "a b"],
      ["Cat a", "four"],
    ]),
    9,
  ),
];
const byTool = (world: WorldObjective, weights: ToolWeights): WorldObjective =>
  weighByTool(world, { weights, template });
const weightsOf = (world: WorldObjective, step = 0): number[][] => world.weights(episodes, step).map((row) => [...row]);

describe("weights", () => {
  it.each(ECHO_NORMALIZATIONS)("%s: the world model's own, times the tool's factor", (normalization) => {
    const world = echo({ lambda: 0.05, normalization });
    const [plain, tools] = [weightsOf(world), toolsOfTokens(episodes, template)];
    const weighed = weightsOf(byTool(world, { cat: 2, ls: 0, "*": 0.5 }));
    const factor = (tool: string | undefined): number => (tool === "cat" ? 2 : tool === "ls" ? 0 : 0.5);
    expect(weighed).toEqual(plain.map((row, i) => row.map((w, t) => w * factor(tools[i]![t]))));
    expect(new Set(tools.flat())).toEqual(new Set([undefined, "cat", "ls", "constructor", "Cat"]));
    expect(weighed.flat().some((w) => w > 0)).toBe(true);
  });

  it("factors of 1 change no bit, equal ones are a factor on λ, and 0 is no world model", () => {
    for (const normalization of ECHO_NORMALIZATIONS) {
      const world = echo({ lambda: 0.05, normalization });
      expect(weightsOf(byTool(world, {}))).toEqual(weightsOf(world));
      expect(weightsOf(byTool(world, { cat: 1, "*": 1 }))).toEqual(weightsOf(world));
      const scaled = weightsOf(echo({ lambda: 0.05 * 0.3, normalization })).flat();
      weightsOf(byTool(world, { cat: 0.3, "*": 0.3 }))
        .flat()
        .forEach((w, i) => expect(Math.abs(w - scaled[i]!)).toBeLessThan(1e-17));
      expect(
        weightsOf(byTool(world, { "*": 0 }))
          .flat()
          .every((w) => w === 0),
      ).toBe(true);
    }
  });

  it("a tool without a weight has that of the others, which is 1 unless it is given", () => {
    const world = echo({ lambda: 1 });
    const tools = toolsOfTokens(episodes, template);
    const without = (name: string): number[][] =>
      weightsOf(world).map((row, i) => row.map((w, t) => (tools[i]![t] === name ? 0 : w)));
    expect(weightsOf(byTool(world, { cat: 0 }))).toEqual(without("cat"));
    expect(weightsOf(byTool(world, { constructor: 0 }))).toEqual(without("constructor"));
    expect(weightsOf(byTool(world, JSON.parse('{ "__proto__": 0 }') as ToolWeights))).toEqual(weightsOf(world));
    expect(weightsOf(byTool(world, { never: 0 }))).toEqual(weightsOf(world));
  });

  it("other world models keep what they are, and λ its schedule", () => {
    const clipped = paw({ selection: "all" });
    expect(byTool(clipped, {})).toMatchObject({ name: "paw", rewardMax: 1, tokenLoss: clipped.tokenLoss });
    const weighed = weightsOf(byTool(clipped, { "*": 0.5 }));
    expect(weighed).toEqual(weightsOf(clipped).map((row) => row.map((w) => 0.5 * w)));
    const rfc = worldModelObjective({ world_model_coeff: (step) => step, world_loss_target: "all" });
    expect(
      weightsOf(byTool(rfc, { ls: 0 }), 0)
        .flat()
        .every((w) => w === 0),
    ).toBe(true);
    expect(weightsOf(byTool(rfc, { ls: 0 }), 3)).toEqual(
      weightsOf(rfc, 3).map((row, i) => row.map((w, t) => (toolsOfTokens(episodes, template)[i]![t] === "ls" ? 0 : w))),
    );
  });

  it("refuses what is no weight, in one line", () => {
    const refused = (weights: unknown, of: unknown = template): unknown =>
      weighByTool(echo(), { weights, template: of } as never);
    for (const [weight, shown] of [
      [-0.5, "-0.5"],
      [NaN, "NaN"],
      [Infinity, "Infinity"],
      ["1", '"1"'],
      [undefined, "missing"],
    ] as const)
      expect(() => refused({ ls: 1, cat: weight })).toThrow(
        `weighByTool: the weight of "cat" must be a number ≥ 0, got ${shown}`,
      );
    expect(() => refused("cat:1")).toThrow(
      'weighByTool: weights must be numbers by tool, as in { cat: 1 }, got "cat:1"',
    );
    expect(() => refused(undefined)).toThrow("as in { cat: 1 }, got missing");
    expect(() => refused([1])).toThrow("as in { cat: 1 }, got [1]");
    expect(() => refused({}, null)).toThrow("weighByTool: template must be the Template of the run, got null");
  });
});

describe("through a model", () => {
  let device: Device;
  beforeAll(async () => void (device = await makeDevice("reference")));
  afterAll(() => device.dispose());

  it("a factor of 0 is a gradient without ECHO, equal factors one of another λ; tools add up", async () => {
    const model = toyModel(device, 1, { vocabSize: tokenizer.vocabSize, maxPositions: 128 });
    const packing = { padId: template.padId };
    const gradient = (world?: WorldObjective): number[] => {
      const objective = { advantage: centred(), policyLoss: ppoClip(), aggregation: "token-mean" as const };
      const whole = world ? { ...objective, world } : objective;
      const played = episodes.map((episode, i) => ({ ...episode, reward: i % 2 }));
      const leaves = treeLeaves(rowGradient(model, weighStep(whole, played, 0), whole, packing));
      return leaves.flatMap((leaf) => [...leaf.readSync()]);
    };
    const world = echo({ lambda: 0.5 });
    const none = gradient();
    expect(gradient(byTool(world, { "*": 0 }))).toEqual(none);
    expect(gradient(byTool(world, { "*": 1 }))).toEqual(gradient(world));
    const half = gradient(echo({ lambda: 0.25 }));
    expect(gradient(byTool(world, { cat: 0.5, "*": 0.5 }))).toEqual(half);
    const parts: readonly ToolWeights[] = [{ "*": 0, cat: 1 }, { cat: 0 }, {}];
    const [cat, others, all] = parts.map((weights) => gradient(byTool(world, weights)));
    const most = Math.max(...all!.map(Math.abs));
    all!.forEach((g, i) => expect(Math.abs(cat![i]! + others![i]! - none[i]! - g)).toBeLessThan(1e-13 * most));
    expect(cat!.some((g, i) => Math.abs(g - none[i]!) > 1e-3 * most)).toBe(true);

    const weights = { cat: 2, ls: 0, never: 1 };
    const objective = { policyLoss: ppoClip(), world: byTool(world, weights) };
    const rows = weighStep({ ...objective, advantage: centred(), aggregation: "token-mean" }, episodes, 0);
    const scores = await score(model, rows, packing);
    const tools = toolsOfTokens(episodes, template);
    const meanOf = (isOf: (tool: string | undefined) => boolean): number => {
      const losses = rows.flatMap(({ wWorld }, i) =>
        [...wWorld].flatMap((w, t) => (w > 0 && isOf(tools[i]![t]) ? [-scores.logProbs[i]![t]!] : [])),
      );
      return losses.reduce((a, b) => a + b, 0) / losses.length;
    };
    expect(worldLossByTool({ rows, scores }, { weights, template })).toEqual({
      "world_loss/cat": meanOf((tool) => tool === "cat"),
      "world_loss/*": meanOf((tool) => tool !== "cat" && tool !== "ls"),
    });
    expect(worldLossByTool({ rows: [], scores }, { weights, template })).toEqual({});
  });
});
