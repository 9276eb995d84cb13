/**
 * Return prediction, an auxiliary task: a head predicts at each of the agent's tokens what the episode will have
 * earned, and its error also trains the transformer under it. The policy's advantages do not read the prediction.
 * UNREAL (Jaderberg et al. 2017, arXiv 1611.05397, §3.2) predicts the sign of the next reward; here, where most
 * episodes have one reward at their end, it is the return R:
 *
 *     L = c · mean over the tokens of ½·(v − R)²
 */
import { named, where } from "../kernels/expr.ts";
import { fuse, type Pointwise, type Tensor } from "../engine/index.ts";
import { flag, number, options, type OptionsOf } from "../engine/optionTable.ts";
import { rolloutsOf } from "../rl/episode/stream.ts";
import type { Table } from "../rl/objective/names.ts";
import type { LossTerm } from "../rl/objective/terms.ts";

export const RETURN_PREDICTION = options("return_prediction", {
  coefficient: number(0.1, "weight of the term", { min: 0 }),
  trunk: flag(true, "whether its error also trains the transformer"),
  rate: number(1, "learning rate of its head, as a multiple of the policy's", { above: 0 }),
});
/** Options of `returnPrediction`: `coefficient` 0.1, `trunk` true and `rate` 1 by default. */
export type ReturnPredictionOptions = OptionsOf<typeof RETURN_PREDICTION>;

const squaredError: Pointwise<Tensor> = fuse("returnPrediction", (predicted, target, mask) =>
  where(mask, predicted, 0)
    .sub(where(mask, named("R", target), 0))
    .square()
    .mul(0.5),
);

/** The return-prediction term. Its mean is over the tokens of the policy term in episodes that have a score. */
export function returnPrediction(given?: ReturnPredictionOptions): LossTerm {
  const { coefficient, trunk, rate } = RETURN_PREDICTION.read(given);
  return {
    name: "return_prediction",
    head: { trunk, rate },
    weigh({ trajectories, masks }) {
      const returns = trajectories.map(() => NaN);
      for (const { rows, reward, scorable } of rolloutsOf(trajectories))
        for (const row of rows) if (scorable) returns[row] = reward;
      const isTrained = (row: number, t: number): boolean => masks[row]![t]! && !Number.isNaN(returns[row]!);
      const count = masks.reduce((n, mask, row) => n + mask.filter((_, t) => isTrained(row, t)).length, 0);
      const column = (of: (row: number) => number): Float64Array[] =>
        masks.map((mask, row) => Float64Array.from(mask, (_, t) => (isTrained(row, t) ? of(row) : 0)));
      return { weight: column(() => coefficient / count), columns: { return: column((row) => returns[row]!) } };
    },
    tokenLoss: ({ predictions, weighted, column }) => squaredError(predictions, column("return"), weighted),
  };
}

/** Return prediction in the table of loss terms. */
export const RETURN_PREDICTION_TERM: Table<LossTerm> = {
  return_prediction: {
    options: RETURN_PREDICTION,
    make: returnPrediction,
    formula: "c·mean of ½(v − R)², v a head's prediction of the return",
    source: "after UNREAL, arXiv 1611.05397",
  },
};
