/**
 * A pass over a step's rows by several learners. The learner that has the run gives micro-batches to others and adds
 * the gradients, its own and theirs, one by one in the order of the micro-batches: ((g₀ + g₁) + g₂) + …, which is what
 * it does alone (rl/train/update.ts). If a gradient does not arrive, it computes that gradient itself. So neither the
 * number of learners nor the death of one changes a bit.
 */
import { fail } from "../../engine/errors.ts";
import { scope, treeLeaves } from "../../engine/index.ts";
import { accumulateGrads } from "../../nn/index.ts";
import type { Learners, Pass } from "../train/learners.ts";
import type { BatchLoss, Trained } from "../train/loss.ts";
import { type Part, update } from "../train/update.ts";
import { gradientFromHost, type MicroGradient } from "./messages.ts";
import { gradientOfBatch } from "./replica.ts";

/** The work that other learners do in a pass. */
export interface Shares {
  /** The gradient of micro-batch n; undefined if this learner has to compute it. Called in ascending order of n. */
  gradient(n: number): Promise<MicroGradient | undefined>;
  /** Sends the sum to the others, which then make the same step. The tensors are read before it resolves. */
  sum(gradient: Trained): Promise<void>;
}

/**
 * Makes `Learners` of any transport.
 * @param share gives out micro-batches of a pass; undefined if there is nobody
 */
export function sharedLearners(share: (pass: Pass) => Promise<Shares | undefined>): Learners {
  return {
    async pass(pass) {
      const { trained, batches, optimizers, how } = pass;
      const shares = await share(pass);
      let total: Trained | undefined;
      const parts: Part<BatchLoss>[] = [];
      for (const [n, batch] of batches.entries()) {
        const theirs = await shares?.gradient(n);
        const before = total;
        // The scope frees everything that is not returned, such as the micro-batch's gradient after adding it.
        const added = scope(() => {
          const { grads, result } = theirs ? gradientFromHost(trained, theirs) : gradientOfBatch(pass, n);
          return { sum: accumulateGrads(before, grads), result };
        }, "shared gradient");
        total = added.sum;
        parts.push({ batch, result: added.result });
      }
      const sum = total ?? fail("gradient: no token of the step has a weight; is every episode masked?");
      await shares?.sum(sum);
      const norm = scope(() => update(optimizers, sum, how.lr), "update");
      for (const x of treeLeaves(sum)) x.dispose();
      return { parts, norm };
    },
  };
}
