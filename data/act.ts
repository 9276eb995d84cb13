/** An agent that acts outside of any environment: whoever asked it tells it what came of each action. */
import type { Model } from "../nn/index.ts";
import type { Template } from "../rl/episode/template.ts";
import type { Trajectory } from "../rl/episode/stream.ts";
import { rollout } from "../rl/play/rollout.ts";
import { acting, type ActOptions } from "./acting.ts";

export type { ActOptions } from "./acting.ts";

/**
 * An episode in which the caller is the environment: each `next` takes what was observed of the last action, and gives
 * another. It is drawn as in training, with one cache of keys and values, and it waits for the caller as long as it
 * takes.
 *
 * @param options default: the most probable tokens, temperature 0
 * @returns the episode, when its turns or its context are used up; nothing after `return(undefined)`
 *
 * @example
 * const episode = act(model, template, "Guess a number from 1 to 9", { maxActionTokens: 3 });
 * let { value: action } = await episode.next();            // "5"
 * ({ value: action } = await episode.next("higher"));      // "7"
 * await episode.return(undefined);                         // it is over
 */
export const act = (
  model: Model,
  template: Template,
  task: string,
  options: ActOptions = {},
): AsyncGenerator<string, Trajectory | undefined, string> =>
  acting((request, given) => rollout(model, template, [request], given), task, options);
