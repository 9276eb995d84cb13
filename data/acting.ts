/** An episode whose environment is the caller: what `act` is made of, for any kind of agent. */
import { check } from "../engine/errors.ts";
import { showValue } from "../engine/options.ts";
import { checkRng, Rng } from "../engine/random.ts";
import type { EnvironmentSpec, StepResult } from "../rl/environment.ts";
import type { EpisodeRequest, RolloutOptions } from "../rl/play/rollout.ts";
import type { Trajectory } from "../rl/episode/stream.ts";

/** Options of `act`: those of a rollout, and the stream that draws tokens where the temperature is above 0. */
export interface ActOptions extends RolloutOptions {
  /**
   * Default `new Rng(0)`. An episode does not advance it, and draws the same from the same: give each its own, as
   * `rng.split(n)`.
   */
  readonly rng?: Rng;
}

/**
 * An episode in which the caller is the environment: each `next` takes what was observed of the last action, and gives
 * another.
 * @param play plays the episode; the temperature is 0 unless another is given
 * @returns the episode, when its turns or its context are used up; nothing after `return(undefined)`
 */
export async function* acting(
  play: (request: EpisodeRequest, options: RolloutOptions) => Promise<readonly Trajectory[]>,
  task: string,
  { rng = new Rng(0), signal, ...options }: ActOptions,
): AsyncGenerator<string, Trajectory | undefined, string> {
  checkRng("act", rng);
  const isText: boolean = typeof task === "string";
  check(isText, () => `act: the task is a text, got ${showValue(task)}`);
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
  const nextAction = (): Promise<string> => new Promise((resolve) => (acted = resolve));
  let coming = nextAction();
  const over = play({ spec, options: {}, seed: 0, group: 0, rng }, { temperature: 0, ...options, signal: end.signal });
  over.catch(() => {}); // thrown below; until then it is not unhandled
  try {
    for (;;) {
      const next = await Promise.race([coming, over]);
      if (typeof next !== "string") return next[0]!;
      coming = nextAction();
      const observation = yield next;
      const isAnswer: boolean = typeof observation === "string";
      check(isAnswer, () => `act: next takes what was observed of the action, a text; got ${showValue(observation)}`);
      tell(observation);
    }
  } finally {
    end.abort();
    signal?.removeEventListener("abort", stop);
    await over.catch(() => {});
  }
}
