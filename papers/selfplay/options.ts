/** The options of self-play and its buffer of tasks. This file does not import the code that plays. */
import { check } from "../../engine/errors.ts";
import { showValue } from "../../engine/options.ts";
import { number, oneOf, options, type OptionsOf, REQUIRED } from "../../engine/optionTable.ts";
import type { Objective } from "../../rl/objective/objective.ts";
import type { Riddle, RiddleKind } from "../../environments/riddle/selfPlay.ts";

export const SELF_PLAY_NAMES = ["absolute-zero", "r-zero"] as const;
export const PROPOSERS = ["model", "generator"] as const;
export const PROPOSAL_REWARDS = ["learnability", "constant", "random"] as const;

const COUNT = { integer: true, min: 1 };

export const SELF_PLAY = options("selfPlay", {
  name: oneOf(SELF_PLAY_NAMES, REQUIRED, "Absolute Zero, or R-Zero's two phases"),
  proposer: oneOf(PROPOSERS, "model", "who proposes: the model, or as a control the generator of random programs"),
  reward: oneOf(
    PROPOSAL_REWARDS,
    "learnability",
    "what a proposal is paid that makes a task: how much is to be learnt from it, or as controls 0.5 or chance",
  ),
  capacity: number(256, "largest number of tasks of each kind that are kept; the oldest go first", COUNT),
  answers: number(10, "R-Zero: the number of answers to a question, of which the most frequent is its label", {
    integer: true,
    min: 2,
  }),
  challengerSteps: number(6, "R-Zero: the number of steps in a row in which the challenger learns", COUNT),
  solverSteps: number(20, "R-Zero: the number of steps after them in which the solver learns", COUNT),
});
/** The options with their defaults. */
export type SettledSelfPlay = ReturnType<typeof SELF_PLAY.read>;
/** Options of `trainSelfPlay` (docs/methods.md, `selfPlay.…`). */
export type SelfPlayChoice = OptionsOf<typeof SELF_PLAY>;

/** A task of self-play that may be played again. */
export interface KeptRiddle {
  readonly riddle: Riddle;
  /** R-Zero's label: the most frequent answer, which replaces the machine's output. */
  readonly label?: string;
}

/** The tasks that self-play has made, a part of a run's state. Equal tasks are kept once. */
export class SelfPlayBuffer {
  readonly #capacity: number;
  #kept: KeptRiddle[] = [];

  constructor({ capacity }: Pick<SelfPlayChoice, "capacity"> = {}) {
    this.#capacity = SELF_PLAY.fields.capacity.default;
    if (capacity !== undefined) this.#capacity = capacity;
  }

  of(kind: RiddleKind): readonly KeptRiddle[] {
    return this.#kept.filter(({ riddle }) => riddle.kind === kind);
  }

  get size(): number {
    return this.#kept.length;
  }

  /** Adds tasks; one that is there already becomes the newest of its kind. */
  add(riddles: readonly KeptRiddle[]): void {
    for (const one of riddles) {
      const key = JSON.stringify(one.riddle);
      const others = this.#kept.filter(({ riddle }) => JSON.stringify(riddle) !== key);
      const own = others.filter(({ riddle }) => riddle.kind === one.riddle.kind);
      const oldest = own.length >= this.#capacity ? own[0] : undefined;
      this.#kept = [...others.filter((other) => other !== oldest), one];
    }
  }

  state(): unknown {
    return this.#kept;
  }

  restore(saved: unknown): void {
    const isKept = (one: unknown): boolean => Array.isArray((one as Partial<KeptRiddle> | null)?.riddle?.outputs);
    check(
      Array.isArray(saved) && saved.every(isKept),
      () => `selfPlay: expected a list of riddles in the checkpoint, got ${showValue(saved)}`,
    );
    this.#kept = [...(saved as KeptRiddle[])];
  }
}

/** Options that only R-Zero has. */
const OF_R_ZERO = ["answers", "challengerSteps", "solverSteps"] as const;

/** @throws one clear line if self-play and the other options do not fit together */
export function checkSelfPlay(
  choice: SelfPlayChoice,
  { groups, objective }: { readonly groups: number; readonly objective: Pick<Objective, "advantage"> },
): void {
  const { name } = SELF_PLAY.read(choice);
  const foreign = OF_R_ZERO.find((option) => name === "absolute-zero" && choice[option] !== undefined);
  check(foreign === undefined, () => `selfPlay: ${foreign} is about r-zero, and absolute-zero has no phases`);
  check(
    name !== "absolute-zero" || groups % 3 === 0,
    () => `selfPlay: absolute-zero has three kinds of tasks; groups must be a multiple of 3, got ${groups}`,
  );
  const { name: advantage, greedyBaseline } = objective.advantage;
  check(
    greedyBaseline !== true,
    () => `selfPlay: the advantage ${advantage} plays each task once more, and a proposal has no such baseline`,
  );
}
