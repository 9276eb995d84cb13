/**
 * The steps of decoding that a model's decoders have captured, to replay them (engine/capture.ts).
 *
 * A captured step takes about a kilobyte of the JavaScript heap per call of the executor, so their number is limited:
 * the least recently used are forgotten, and a step is captured only when its sizes come a second time.
 */
import { type Captured, capture } from "../engine/capture.ts";
import type { Tensor } from "../engine/tensor.ts";
import { type Plan, refill } from "./decodingPlan.ts";
import type { Model } from "./transformer.ts";

/** A step that was captured, and the plan whose arrays it reads. */
interface CapturedStep {
  readonly plan: Plan;
  readonly captured: Captured;
}

/** The largest number of calls in a model's captured steps: 30 MB of heap, or some 600 steps of a one-layer model. */
const MOST_CALLS = 32_768;
/** The largest number of calls in one step. */
const MOST_OF_ONE = MOST_CALLS / 4;
/** The largest number of sizes that are remembered, captured or not. */
const MOST_SIZES = 1024;

const ofModels = new WeakMap<Model, CapturedSteps>();

/** The captured steps of a model, which its decoders share. */
export class CapturedSteps {
  /** The steps by their sizes, in the order of their last use; "once" for sizes that came once. */
  readonly #known = new Map<string, CapturedStep | "once" | "never">();
  #calls = 0;

  static of(model: Model): CapturedSteps {
    const ofModel = ofModels.get(model) ?? new CapturedSteps();
    ofModels.set(model, ofModel);
    return ofModel;
  }

  /**
   * Does the work of a step.
   * @param sizes everything in which steps may differ beside the numbers in their inputs and in the plan's arrays
   */
  run(sizes: string, plan: Plan, inputs: readonly Tensor[], work: (plan: Plan) => Tensor): Tensor {
    const known = this.#known.get(sizes);
    this.#known.delete(sizes);
    this.#known.set(sizes, known ?? "once"); // as the last one used
    if (typeof known === "object") {
      refill(known.plan, plan);
      return known.captured.replay(inputs);
    }
    if (known !== "once") {
      this.#forget();
      return work(plan);
    }
    const { result, captured } = capture(inputs, () => work(plan));
    const isKept = captured !== undefined && captured.calls <= MOST_OF_ONE;
    this.#known.set(sizes, isKept ? { plan, captured } : "never");
    if (isKept) this.#calls += captured.calls;
    this.#forget();
    return result;
  }

  /** Forgets the least recently used steps, until the rest is within the limits. */
  #forget(): void {
    for (const [sizes, known] of this.#known) {
      if (this.#calls <= MOST_CALLS && this.#known.size <= MOST_SIZES) return;
      this.#known.delete(sizes);
      if (typeof known === "object") this.#calls -= known.captured.calls;
    }
  }
}
