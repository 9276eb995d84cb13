/**
 * Questions that show which facts of its world an agent knows, in worlds of unknown facts (`home`, `castle`): the task
 * of an episode, the command that is right, and the places in it where facts stand. Whoever gives the right names there
 * a high probability knows the facts (run/knowledge.ts measures it). Each fact is asked as training never asks it.
 */
import type { EnvironmentOptions, EnvironmentSpec } from "../../rl/environment.ts";

/** A fact of a world: `right` goes with `known`. */
export interface WorldFact {
  /** The kind of fact, as a heading: "where files are". */
  readonly kind: string;
  /** The name that a task gives. */
  readonly known: string;
  /** The name that an agent has to know. */
  readonly right: string;
  /** The fact as a sentence: "bibo.log is in tekaru". */
  readonly says: string;
}

/** The right command for a task, in which facts stand. */
export interface FactQuestion {
  /** The first observation of an episode. */
  readonly task: string;
  /** The first action that solves it. */
  readonly action: string;
  /** The facts that the action states, and the letter of the action at which each one's `right` begins. */
  readonly places: readonly { readonly fact: WorldFact; readonly at: number }[];
}

/** An environment whose facts can be asked for. */
export interface FactWorld<Options extends EnvironmentOptions = EnvironmentOptions> extends EnvironmentSpec<Options> {
  /**
   * Questions about all facts of the world that these options name; none if each episode has a world of its own.
   * Optional: the facts of most environments are in their tasks.
   */
  facts?(options?: Options): Promise<readonly FactQuestion[]>;
}

/**
 * A question.
 * @param facts in the order in which their names stand in the action; each name is a word there
 */
export function question(task: string, action: string, facts: readonly WorldFact[]): FactQuestion {
  let from = 0;
  const places = facts.map((fact) => {
    const at = action.indexOf(` ${fact.right}`, from) + 1;
    from = at + fact.right.length;
    return { fact, at };
  });
  return { task, action, places };
}

/**
 * Those that are held out, and of the others those about a fact that no held-out one asks for.
 * @param asked in order of importance
 */
export function preferred(asked: readonly (FactQuestion & { readonly isHeldOut: boolean })[]): readonly FactQuestion[] {
  const chosen = asked.filter(({ isHeldOut }) => isHeldOut);
  const known = new Set(chosen.flatMap(({ places }) => places.map(({ fact }) => fact.says)));
  return asked.filter(({ isHeldOut, places }) => isHeldOut || places.some(({ fact }) => !known.has(fact.says)));
}
