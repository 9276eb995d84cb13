/**
 * The passes without gradient that come before a step: each signal that an objective asks for (rl/methods/tokenStatistics.ts), of every token that the
 * agent sampled. The learner and the reference are each run at most once, and only if one of their signals is wanted.
 */
import { check } from "../../engine/errors.ts";
import { exp, gather, mul, neg, noGrad, scope, sub, sum, tensor, type Tensor } from "../../engine/index.ts";
import { headValues, type Model, outputMatrix, type ValueHead } from "../../nn/index.ts";
import { type MicroBatch, pack, type PackOptions } from "./pack.ts";
import { hiddenOf, scatter, scoreHidden, unscored } from "./loss.ts";
import type { TokenPlan } from "../methods/objective.ts";
import { isReferenceSignal, type Signal, type Signals } from "../methods/tokenStatistics.ts";
import { isAgentToken, type Trajectory } from "../episode/stream.ts";

export interface SignalSources {
  readonly model: Model;
  readonly reference?: Model | undefined;
  readonly head?: ValueHead | undefined;
}

/** The wanted signals of the tokens that the agent sampled; NaN elsewhere. */
export async function collectSignals(
  { model, reference, head }: SignalSources,
  wanted: readonly Signal[],
  trajectories: readonly Trajectory[],
  { padId, maxTokens }: Pick<PackOptions, "padId" | "maxTokens">,
): Promise<Signals> {
  const ofReference = wanted.filter(isReferenceSignal);
  const ofModel = wanted.filter((name) => !isReferenceSignal(name));
  check(ofReference.length === 0 || reference !== undefined, () => `the objective needs a reference model, for ${ofReference.join(", ")}`); // prettier-ignore
  check(!ofModel.includes("values") || head !== undefined, () => "the objective needs a critic: give the learner a value head"); // prettier-ignore
  const episodes = trajectories.map(unweighted);
  const packing = { padId, scored: isSampled, ...(maxTokens === undefined ? {} : { maxTokens }) };
  const signals: { -readonly [S in Signal]?: Float64Array[] } = {};
  for (const [source, names] of [[model, ofModel], [reference, ofReference]] as const) {
    if (names.length === 0) continue;
    for (const name of names) signals[name] = unscored(episodes);
    for (const batch of pack(episodes, packing)) {
      const results = scope(() => noGrad(() => readSignals(source!, head, names, batch)), "signals");
      for (const [k, name] of names.entries()) await scatter(batch, results[k]!, signals[name]!);
    }
  } // prettier-ignore
  return signals;
}

/** The named signals of a micro-batch, [N] each. */
function readSignals(model: Model, head: ValueHead | undefined, names: readonly Signal[], batch: MicroBatch): Tensor[] {
  const { params } = model;
  const hidden_NC = hiddenOf(params, model, batch);
  const at = (temperatureOf: (t: number) => number): { logProbs: Tensor; entropy: Tensor } =>
    scoreHidden(params, hidden_NC, batch, batch.columns.temperatures.map(temperatureOf));
  const sampled = once(() => at((T) => T));
  const plain = once(() => at(() => 1));
  /** Each its own copy: two signals of one tensor are freed one by one. */
  return names.map((name) => {
    switch (name) {
      case "logProbs":
      case "refLogProbs":
        return mul(sampled().logProbs, 1);
      case "entropy":
        return mul(sampled().entropy, 1);
      case "collision":
        // ln Σ π² = lse(2z) − 2·lse(z), and with lp = z − lse(z) of any one token that is 2·lp(T) − lp(T/2).
        return exp(sub(mul(sampled().logProbs, 2), at((T) => T / 2).logProbs));
      case "values":
        return headValues(head!, hidden_NC);
      case "refEntropy":
        return mul(plain().entropy, 1);
      case "refNll":
        return neg(plain().logProbs);
      case "refEnergy": {
        // −lse(z) = lp − z, with the logit of the token itself.
        const { device } = params.embedding;
        const rows_NC = gather(outputMatrix(params), tensor(batch.targets, { device }));
        return sub(plain().logProbs, sum(mul(hidden_NC, rows_NC), { axis: -1 }));
      }
    }
  });
}

function once<T>(make: () => T): () => T {
  let value: T | undefined;
  return () => (value ??= make());
}

const isSampled = ({ trajectory: { stream, masked } }: TokenPlan, t: number): boolean =>
  !masked && isAgentToken(stream.roles[t]!);

/** A row with nothing to train, for scoring. */
function unweighted(trajectory: Trajectory): TokenPlan {
  const nothing = new Float64Array(trajectory.stream.ids.length);
  return { trajectory, advantages: nothing, wPolicy: nothing, wWorld: nothing, wKl: nothing };
}
