/**
 * `examples/grpo.ts` is `trainRl` written out for one method: the same episodes, losses and parameters, bit for bit on
 * the reference executor, when both play the example's world.
 */
import { afterAll, describe, expect, it } from "vitest";
import { type EnvironmentSpec, SingleUseEnvironment, type StepResult } from "../../environments/index.ts";
import { assign, device, mapTree, Rng, type Tensor, tensor, treeEntries, treeLeaves } from "../../engine/index.ts";
import * as engine from "../../engine/index.ts";
import * as nn from "../../nn/index.ts";
import { answer, step, taskOf, warmStart, WORDS } from "../../examples/grpo.ts";
import { AdamW, type Model, schedule, type Tokenizer } from "../../nn/index.ts";
import { readSource } from "../project/sources.ts";
import { echo, grpo, ppoClip, Template, trainRl } from "../../rl/index.ts";

class Boxes extends SingleUseEnvironment {
  readonly name = "boxes";
  #task = "";
  #turn = 0;

  protected begin(seed: number): string {
    return (this.#task = taskOf(seed));
  }

  protected act(action: string): StepResult {
    const { text, reward, done } = answer(this.#task, this.#turn++, action);
    return { observation: text, reward, done, info: { success: reward > 0 } };
  }
}
const boxes: EnvironmentSpec = {
  name: "boxes",
  description: "",
  families: [],
  make: () => new Boxes(),
  expert: () => "",
  random: () => "0",
};

const tokenizer: Tokenizer = {
  vocabSize: WORDS.length,
  special: Object.fromEntries(WORDS.slice(0, 5).map((word, id) => [word, id])),
  encode: (text: string) => [...text].map((word) => WORDS.indexOf(word)),
  decode: (ids: readonly number[]) => ids.map((id) => WORDS[id]).join(""),
} as unknown as Tokenizer;

const on = await device("reference");
afterAll(() => on.dispose());

/** The warm start takes most of the time here, so it is made once, and everybody begins with a copy of it. */
const warm = await warmStart(on, 3);
function copyOfWarmStart(): typeof warm {
  const copied = (x: Tensor): Tensor => tensor(x.readSync(), { device: on, shape: x.shape, dtype: on.float });
  const model = { config: warm.model.config, params: mapTree(warm.model.params, copied) };
  const optimizer = new AdamW(model.params, { clipNorm: 1 });
  const { m, v, step: steps } = warm.optimizer.state;
  const moments = treeLeaves([m, v]);
  treeLeaves([optimizer.state.m, optimizer.state.v]).forEach((x, i) => assign(x, copied(moments[i]!)));
  optimizer.resume(steps);
  return { model, optimizer };
}

const parametersOf = async (model: Model): Promise<readonly (readonly [string, ArrayLike<number>])[]> =>
  Promise.all(treeEntries(model.params).map(async ([path, tensor]) => [path, await tensor.read()] as const));

describe("examples/grpo.ts", () => {
  it("is one file of at most 200 lines, on engine and nn alone", () => {
    const source = readSource("examples/grpo.ts");
    expect(source.trimEnd().split("\n").length).toBeLessThanOrEqual(200);
    const names = [...source.matchAll(/^import \{([^}]*)\}/gm)].flatMap(([, list]) => list!.split(","));
    const known = new Set([...Object.keys(engine), ...Object.keys(nn)]);
    expect(names.length).toBeGreaterThan(10);
    // Types are no values; of these only the engine's and nn's are there.
    const types = new Set(["Device", "Model", "Tensor", "TransformerParams"]);
    expect(
      names.map((name) => name.trim().replace("type ", "")).filter((name) => !known.has(name) && !types.has(name)),
    ).toEqual([]);
  });

  it.each([0, 0.1])("is trainRl, bit for bit, with λ = %d", { timeout: 120_000 }, async (lambda) => {
    const size = { groups: 4, groupSize: 4 };
    const [steps, lr] = [2, 1e-2]; // a second step sees what the first one did to parameters and moments
    const own = copyOfWarmStart();
    const losses: Awaited<ReturnType<typeof step>>[] = [];
    for (let n = 0; n < steps; n++)
      losses.push(await step(own.model, own.optimizer, new Rng(7).split(n), { ...size, lambda, lr }));

    const { model, optimizer } = copyOfWarmStart();
    const objective = {
      advantage: grpo(),
      policyLoss: ppoClip(),
      aggregation: "seq-mean-token-mean",
      world: echo({ lambda }),
    } as const;
    const learner = { model, optimizer, template: new Template(tokenizer), lr: schedule({ lr }), objective };
    const expected: object[] = [];
    const play = { env: boxes, envOptions: {}, rollout: { maxTurns: 2, maxActionTokens: 2 } };
    for await (const { metrics } of trainRl({ ...learner, ...play, ...size, steps, rng: new Rng(7) })) {
      const { reward, policy_loss: policyLoss, world_loss_weighted: worldLoss = 0 } = metrics;
      expected.push({ reward, policyLoss, worldLoss });
    }
    expect(losses).toHaveLength(steps);
    expect(losses.some((report) => report.reward > 0)).toBe(true);
    expect(losses.every(({ worldLoss }) => worldLoss > 0 === lambda > 0)).toBe(true);
    expect(losses).toEqual(expected);
    expect(await parametersOf(own.model)).toEqual(await parametersOf(model));
  });
});
