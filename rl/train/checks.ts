/**
 * Checks that the parts of a run belong together, before a loop begins. Without them a run would train nothing, or fail
 * in the middle of a step, and its numbers would look as if all was well.
 */
import { check } from "../../engine/errors.ts";
import { type Tree, treeEntries, treeLeaves } from "../../engine/index.ts";
import { type AdamW, type Model, trainableOf } from "../../nn/index.ts";
import type { Objective } from "../objective/objective.ts";
import { type Heads, headTraining } from "./loss.ts";
import type { TrainedHead } from "./update.ts";

/** The memory of the leaves: two trees of equal shapes may be two models. */
const memoryOf = (tree: Tree): Set<unknown> => new Set(treeLeaves(tree).map(({ storage }) => storage));

/** @throws if the optimiser was made of other parameters than those that get gradients: it would move those */
export function checkOptimizer(optimizer: AdamW<Tree>, trained: Tree): void {
  const held = memoryOf(optimizer.params);
  const entries = treeEntries(trained);
  const count = treeLeaves(optimizer.params).length;
  const where = "trainableOf(model).params";
  check(
    entries.length === count,
    () => `optimizer: it was made of ${count} parameters, but ${entries.length} of the model are trained: ${where}`,
  );
  const foreign = entries.find(([, { storage }]) => !held.has(storage));
  check(
    foreign === undefined,
    () =>
      `optimizer: it was made of another model's parameters, and "${foreign![0]}" of this one would never change; ` +
      `make it of ${where}`,
  );
}

/** @throws if the reference moves with the policy, so that their divergence is always 0, or has other tokens */
export function checkReference(model: Model, reference: Model | undefined): void {
  if (reference === undefined) return;
  const trained = memoryOf(trainableOf(model).params);
  const leaves = [reference.params, reference.trainable?.params ?? {}].flatMap((tree) => treeLeaves(tree));
  check(
    leaves.every(({ storage }) => !trained.has(storage)),
    () => "reference: it is the model in training itself and would move with it; give a copy with its own parameters",
  );
  const [expected, other] = [model.config.vocabSize, reference.config.vocabSize];
  check(expected === other, () => `reference: it has ${other} tokens in its vocabulary, the model has ${expected}`);
}

/** @throws if a term of the objective has a head, and the learner has none for it: the term would not be trained */
export function checkHeadsOf(objective: Objective, heads: Heads<TrainedHead> = {}): void {
  const headless = Object.keys(headTraining(objective)).find((term) => !Object.hasOwn(heads, term));
  check(
    headless === undefined,
    () =>
      `objective: the term "${headless}" needs a head and its optimiser: ` +
      `heads: { ${headless}: { head: initValueHead(model.config, device), optimizer } }`,
  );
}

/** The optimiser, which stands for the run, with which each part of an objective has learnt something. */
const runs = new WeakMap<object, AdamW<Tree>>();

/** The parts of an objective that change from step to step. */
const memoriesOf = ({ advantage, kl, entropy }: Objective): (readonly [name: string, part: object])[] => [
  ...(advantage.observe ? ([[`advantage ${advantage.name}`, advantage]] as const) : []),
  ...(typeof kl?.beta === "object" ? ([["coefficient kl.beta", kl.beta]] as const) : []),
  ...(typeof entropy === "object" ? ([["coefficient entropy", entropy]] as const) : []),
];

/**
 * Checks that an estimator with a memory or an adaptive coefficient is part of one run.
 * @param isNew whether the run begins here: a continued one may have restored its memory
 * @throws if such a part of a new run comes from another one
 */
export function checkMemories(objective: Objective, optimizer: AdamW<Tree>, isNew: boolean): void {
  for (const [name, part] of memoriesOf(objective)) {
    const run = runs.get(part);
    check(
      !isNew || run === undefined || run === optimizer,
      () => `objective: the ${name} has learnt in another run, with which this one would begin; make it anew`,
    );
    runs.set(part, optimizer);
  }
}
