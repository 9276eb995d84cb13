/** Several learners on one device, without a server between them. */
import type { Device } from "../../engine/device.ts";
import { treeLeaves } from "../../engine/tree.ts";
import { frozenOf, planOf, Replica, stateOf } from "../../rl/learners/replica.ts";
import { sharedLearners } from "../../rl/learners/shared.ts";
import type { Learners } from "../../rl/train/learners.ts";

export interface Group extends Learners {
  readonly replicas: Replica[];
  /** Micro-batches of all passes, and those that replicas computed. */
  readonly counts: { all: number; theirs: number };
}

/** `count` learners, this one included. @param dies whether a replica fails to compute this micro-batch of the run */
export function learnerGroup(device: Device, count: number, dies: (n: number) => boolean = () => false): Group {
  const replicas: Replica[] = [];
  const counts = { all: 0, theirs: 0 };
  const learners = sharedLearners(async (pass) => {
    while (replicas.length < count - 1) {
      const frozen = await frozenOf(pass.model);
      const replica = new Replica(planOf(pass), pass.objective, frozen, device);
      replica.restore(await stateOf(pass));
      replicas.push(replica);
    }
    return {
      async gradient(n) {
        const own = Math.floor((n * count) / pass.batches.length);
        if (own === 0 || dies(counts.all++)) return undefined;
        counts.theirs++;
        return replicas[own - 1]!.gradient(pass.how, pass.batches[n]!, n);
      },
      async sum(gradient) {
        const arrays = await Promise.all(treeLeaves(gradient).map(async (x) => (await x.read()) as Float32Array));
        for (const replica of replicas) replica.step(arrays, pass.how.lr);
      },
    };
  });
  return { ...learners, replicas, counts };
}
