/** An agent that acts outside of any environment: whoever asked it tells it what came of each action. */
import { check } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import { Rng } from "../engine/index.ts";
import type { Model } from "../nn/index.ts";
import type { EnvironmentSpec, StepResult } from "../rl/environment.ts";
import { rollout, type RolloutOptions } from "../rl/play/rollout.ts";
import type { Template } from "../rl/episode/template.ts";
import type { Trajectory } from "../rl/episode/stream.ts";

/** Options of `act`: those of a rollout, and the stream that draws tokens where the temperature is above 0. */
export interface ActOptions extends RolloutOptions {
  /** Default `new Rng(0)`. */
  readonly rng?: Rng;
}

/**
 * An episode in which the caller is the environment: each `next` takes what was observed of the last action, and gives
 * another. It is drawn as in training, with one cache of keys and values, and it waits for the caller as long as it
 * takes.
 *
 * @param options default: the most probable tokens, temperature 0
 * @returns the episode, when its turns or its context are used up or the caller returns
 *
 * @example
 * const episode = act(model, template, "Guess a number from 1 to 9", { maxActionTokens: 3 });
 * let { value: action } = await episode.next();            // "5"
 * ({ value: action } = await episode.next("higher"));      // "7"
 * await episode.return(undefined);                         // it is over
 */
export async function* act(
  model: Model,
  template: Template,
  task: string,
  { rng = new Rng(0), signal, ...options }: ActOptions = {},
): AsyncGenerator<string, Trajectory | undefined, string> {
  const end = new AbortController();
  const stop = (): void => end.abort(signal?.reason);
  if (signal?.aborted) stop();
  signal?.addEventListener("abort", stop, { once: true });
  let tell: (observation: string) => void = () => {};
  let acted: (action: string) => void = () => {};
  const step = (action: string): Promise<StepResult> => {
    const answer = new Promise<StepResult>((resolve) => {
      tell = (observation) => resolve({ observation, reward: 0, done: false, info: {} });
    });
    acted(action);
    return answer;
  };
  const spec: EnvironmentSpec = {
    name: "act",
    description: "the caller",
    families: [],
    limits: () => ({ reset: Infinity, step: Infinity }),
    make: () => ({ name: "act", reset: async () => task, step }),
    random: () => "",
  };
  const request = { spec, options: {}, seed: 0, group: 0, rng };
  const nextAction = (): Promise<string> => new Promise((resolve) => (acted = resolve));
  let coming = nextAction();
  const over = rollout(model, template, [request], { temperature: 0, ...options, signal: end.signal });
  over.catch(() => {}); // thrown below; until then it is not unhandled
  try {
    for (;;) {
      const next = await Promise.race([coming, over]);
      if (typeof next !== "string") return next[0]!;
      coming = nextAction();
      const observation = yield next;
      const isText: boolean = typeof observation === "string";
      check(isText, () => `act: next takes what was observed of the action, a text; got ${showValue(observation)}`);
      tell(observation);
    }
  } finally {
    end.abort();
    signal?.removeEventListener("abort", stop);
    await over.catch(() => {});
  }
}
