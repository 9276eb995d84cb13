/**
 * The terms of a step, token by token: they add up to the loss that the step reported, their weights are the columns
 * that the loss was told, and their gradients are those of autodiff, down to the logits.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  add as addOf,
  device as makeDevice,
  type Device,
  logProbs,
  mapTree,
  mul,
  sum,
  tensor,
  type Tensor,
  valueAndGrad,
} from "../../engine/index.ts";
import { logits } from "../../nn/transformer.ts";
import { AdamW } from "../../nn/index.ts";
import { readText } from "../../nn/attentionWeights.ts";
import { objectiveOf } from "../../methods/presets.ts";
import { type MethodChoice, METHODS } from "../../methods/choice.ts";
import { AGGREGATIONS } from "../../rl/objective/aggregation.ts";
import { KL_ESTIMATORS } from "../../rl/objective/kl.ts";
import { UNCERTAINTIES } from "../../methods/tokenWeights.ts";
import { lossOf as batchLoss } from "../../rl/train/loss.ts";
import { pack } from "../../rl/train/pack.ts";
import type { StepReport } from "../../rl/train/report.ts";
import { gradientOf } from "../../rl/train/update.ts";
import { logitGradient, probabilities, type Sent } from "../../site/formulas/logits.ts";
import { stepTerms, type TokenTerm } from "../../site/formulas/step.ts";
import { weightFormulas } from "../../site/formulas/weights.ts";
import { randomBatch, toyStep, trainOn } from "../support/rlBatches.ts";
import { toyModel, toyTemplate } from "../support/rlToy.ts";

let exact: Device;
beforeAll(async () => void (exact = await makeDevice("reference")));
afterAll(() => exact.dispose());

const near = (actual: number, expected: number): void =>
  expect(Math.abs(actual - expected)).toBeLessThan(1e-9 * Math.max(1, Math.abs(expected)));

const CHOICES: readonly MethodChoice[] = [
  ...Object.keys(METHODS).map((method) => ({ method: `${method}+echo` })),
  ...Object.keys(METHODS)
    .slice(0, 8)
    .map((method) => ({ method: `${method}+paw` })),
  ...AGGREGATIONS.map((aggregation) => ({ method: "grpo+echo+actfocus", aggregation })),
  ...UNCERTAINTIES.map((uncertainty) => ({ method: "grpo+actfocus", options: { actfocus: { uncertainty } } })),
  { method: "grpo+actfocus", options: { actfocus: { beta: 0 } } },
  { method: "grpo+top_entropy", entropy: 0.1 },
  ...["selected", "token-mean"].map((normalization) => ({ method: "grpo+echo", options: { echo: { normalization } } })),
  ...KL_ESTIMATORS.map((estimator) => ({ method: "dapo+echo", kl: { beta: 0.3, estimator, importance: true } })),
  { method: "grpo+echo+paw", entropy: 0.2, imitation: 0.5, options: { paw: { loss: "cross-entropy" } } },
  { method: "grpo+echo+return_prediction" },
  { method: "ppo+return_prediction", entropy: 0.1, options: { return_prediction: { coefficient: 0.7 } } },
  { method: "cispo+echo", importanceCorrection: { max: 1.2 }, entropy: 0.05, imitation: 0.3 },
];
/** A step with these settings; some episodes succeed, so that there is something to imitate. */
async function stepOf(choice: MethodChoice): Promise<StepReport> {
  const objective = objectiveOf({ maxLength: 15, ...choice });
  const batch = randomBatch(3).map((t, i) => ({ ...t, info: { success: i % 2 === 0 } }));
  const step = toyStep(exact, objective);
  const head = mapTree(step.head, (x: Tensor) => mul(x, -3));
  const heads = { ...step.heads, return_prediction: { head, optimizer: new AdamW(head) } };
  return trainOn({ ...step, heads }, batch, 2);
}

const total = (terms: readonly TokenTerm[], ...names: readonly string[]): number =>
  terms.filter(({ name }) => names.includes(name)).reduce((all, { weight, value }) => all + weight * value, 0);

describe("all tokens together", () => {
  it.each(CHOICES.map((choice) => [JSON.stringify(choice), choice] as const))("%s", async (_, choice) => {
    const objective = objectiveOf({ maxLength: 15, ...choice });
    const report = await stepOf(choice);
    const { metrics, rows, statistics } = report;
    const { formulas, tokens } = await stepTerms(report, objective);
    const terms = tokens.flat(2);
    near(total(terms, "policy"), metrics["policy_loss"]!);
    const all = terms.reduce((sum, { weight, value }) => sum + weight * value, 0);
    near(all, metrics["loss"]!);
    if (metrics["entropy_loss"] !== undefined) near(total(terms, "entropy"), metrics["entropy_loss"]);
    if (metrics["value_loss"] !== undefined) near(total(terms, "value"), metrics["value_loss"]);
    expect(metrics["return_prediction_loss"] !== undefined).toBe(choice.method!.includes("return_prediction"));
    near(total(terms, "return_prediction"), metrics["return_prediction_loss"] ?? 0);
    if (metrics["world_loss_weighted"] !== undefined)
      near(total(terms, "world", "paw"), metrics["world_loss_weighted"]);
    expect(new Set(terms.map(({ name }) => name)).size).toBeGreaterThan(0);
    const { options = {} } = choice;
    const weightOf = weightFormulas({ objective, options, rows, statistics: statistics!, formulas });
    let explained = 0;
    tokens.forEach((row, i) =>
      row.forEach((own, t) =>
        own.forEach((term) => {
          const found = weightOf(term, i, t);
          if (found === undefined) return;
          explained++;
          near(found.value, term.weight);
        }),
      ),
    );
    expect(explained).toBeGreaterThan(10);
  });

  it("the coefficients of the weights are those that were set", async () => {
    const choice = {
      method: "grpo+echo+return_prediction",
      kl: { beta: 0.3 },
      entropy: 0.2,
      imitation: 0.5,
      options: { echo: { lambda: 0.07 }, return_prediction: { coefficient: 0.9 } },
    };
    const { rows, statistics, ...report } = await stepOf(choice);
    const objective = objectiveOf(choice);
    const { formulas, tokens } = await stepTerms({ ...report, rows }, objective);
    const weightOf = weightFormulas({ objective, options: choice.options, rows, statistics: statistics!, formulas });
    const found = new Map<string, number>();
    tokens.forEach((row, i) =>
      row.forEach((own, t) =>
        own.forEach((term) => {
          const { formula, inputs } = weightOf(term, i, t)!;
          if (term.name !== "policy") expect(["λ", "β", "c_H", "μ", "c_R"]).toContain(formula.inputs[0]!.symbol);
          found.set(term.name, inputs[0]!);
        }),
      ),
    );
    for (const [name, value] of [
      ["world", 0.07],
      ["kl", 0.3],
      ["entropy", 0.2],
      ["imitation", 0.5],
      ["return_prediction", 0.9],
    ] as const)
      near(found.get(name)!, value);
  });
});

const logitGradients = (p: Float64Array, own: number, temperature: number, sent: Sent): Float64Array => {
  const H = -p.reduce((sum, q) => sum + q * Math.log(q), 0);
  return p.map((q, v) => logitGradient(q, v === own, temperature, H, sent).value);
};

it("logits: the derivative of log p and entropy is autodiff's", async () => {
  const z = [0.3, -1.2, 2, 0.1, -0.4];
  for (const temperature of [1, 0.7]) {
    for (const [ofLogProb, ofEntropy] of [
      [0.8, 0],
      [0, -0.3],
      [-1.1, 0.6],
    ] as const) {
      const floats = (values: readonly number[], shape = [values.length]): Tensor =>
        tensor([...values], { device: exact, dtype: exact.float, shape });
      const { grads } = valueAndGrad((x: Tensor) => {
        const targets = tensor(Int32Array.of(3), { device: exact });
        const found = logProbs(x, targets, floats([temperature]));
        return [sum(mul(found.logProbs, ofLogProb)), sum(mul(found.entropy, ofEntropy))].reduce((a, b) => addOf(a, b));
      })(floats(z, [1, 5]));
      const p = probabilities(z, temperature);
      const expected = await grads.read();
      logitGradients(p, 3, temperature, { ofLogProb, ofEntropy }).forEach((g, v) => near(g, expected[v]!));
    }
  }
});

it("Σ over tokens of logit gradient ⊗ hidden state is the gradient of the output matrix", async () => {
  const choice = {
    method: "dapo+echo",
    kl: { beta: 0.3, estimator: "k2" },
    entropy: 0.05,
    options: { echo: { lambda: 0.5 } },
  } as const;
  const objective = objectiveOf(choice);
  const options = toyStep(exact, objective);
  const model = toyModel(exact, 1, { layers: 1, hiddenSize: 8 }); // the weights that the step begins with
  const report = await trainOn(options, randomBatch(5), 0);
  const batches = pack(report.rows, { padId: toyTemplate.padId });
  const { gradient } = gradientOf({ policy: model.params }, batches, (tree, batch) =>
    batchLoss(tree, model, batch, objective, report.ratios),
  );
  const expected = await gradient.policy.head!.read();
  const { tokens: terms } = await stepTerms(report, objective);
  const [V, C] = gradient.policy.head!.shape as [number, number];
  const made = new Float64Array(V * C);
  for (const [
    i,
    {
      trajectory: { stream },
    },
  ] of report.rows.entries()) {
    for (const [t, own] of terms[i]!.entries()) {
      if (own.length === 0) continue;
      const { hidden } = readText(model, stream.ids.slice(0, t));
      const z = await logits(model.params, hidden).read();
      const h = await hidden.read();
      const sumOf = (isOf: (name: string) => boolean): number =>
        own.filter(({ name }) => isOf(name)).reduce((all, { gradient: g }) => all + g, 0);
      const T = stream.temperatures[t]!;
      const g = logitGradients(probabilities(z, T), stream.ids[t]!, T, {
        ofLogProb: sumOf((n) => n !== "entropy"),
        ofEntropy: sumOf((n) => n === "entropy"),
      });
      for (let v = 0; v < V; v++) for (let c = 0; c < C; c++) made[v * C + c]! += g[v]! * h[c]!;
    }
  }
  expect(Math.max(...expected.map(Math.abs))).toBeGreaterThan(1e-3);
  made.forEach((x, k) => near(x, expected[k]!));
});
