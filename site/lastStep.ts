/**
 * The last step of an agent, kept for inspection: its episodes, with the loss's inputs for every token, and a copy of
 * the weights that it began with, which played the episodes and gave the loss.
 */
import { mapTree, mul, outsideScopes, type Tensor, treeLeaves } from "../engine/index.ts";
import { fail } from "../engine/errors.ts";
import type { StepWitness } from "../run/runParts.ts";
import type { Model } from "../nn/index.ts";
import type { Template } from "../rl/episode/template.ts";
import type { StepReport } from "../rl/train/report.ts";

/** A finished step. */
export interface LastStep {
  /** RL steps done when it had ended. */
  readonly step: number;
  readonly model: Model;
  readonly template: Template;
  readonly report: StepReport;
}

/** A copy of a model, in memory of its own. */
const copyOf = ({ config, params }: Model): Model => ({
  config,
  params: outsideScopes(() => mapTree(params, (x: Tensor) => mul(x, 1))),
});
const dispose = ({ params }: Model): void => treeLeaves(params).forEach((x) => x.dispose());

/** Keeps the last step of a run, and the step under inspection, which stays while the run goes on. */
export class StepKeeper implements StepWitness {
  #begun: { readonly model: Model; readonly template: Template } | null = null;
  #last: LastStep | null = null;
  #held: LastStep | null = null;

  begins(model: Model, template: Template): void {
    if (this.#begun) dispose(this.#begun.model);
    this.#begun = { model: copyOf(model), template };
  }

  ended(report: StepReport): void {
    const begun = this.#begun ?? fail("StepKeeper: a step ended that did not begin");
    this.#begun = null;
    this.#replace({ step: report.step + 1, ...begun, report });
  }

  get last(): LastStep | null {
    return this.#last;
  }

  /** The step that is held. */
  get held(): LastStep | null {
    return this.#held;
  }

  /** Holds the last step, in the place of the one that was held. */
  hold(): LastStep | null {
    if (this.#held !== null && this.#held !== this.#last) dispose(this.#held.model);
    return (this.#held = this.#last);
  }

  /** Drops the last step after a jump: there is none until another step has ended. */
  forget(): void {
    if (this.#begun) dispose(this.#begun.model);
    this.#begun = null;
    this.#replace(null);
  }

  #replace(step: LastStep | null): void {
    if (this.#last !== null && this.#last !== this.#held) dispose(this.#last.model);
    this.#last = step;
  }
}
