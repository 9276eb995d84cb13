/** Small games that can be cloned, for tests of the tree search: every path of letters has a reward of its own. */
import { Rng } from "../../engine/random.ts";
import { type EnvironmentSpec, SingleUseEnvironment, type StepResult } from "../../rl/environment.ts";
import type { Actor } from "../../papers/preferences/search/actor.ts";
import { toyTokenizer } from "./rlToy.ts";

export interface PathGameOptions {
  readonly letters: string;
  readonly turns: number;
  /** The reward of an action after a path; default: at the end, a number in [0, 1) of its own for every path. */
  readonly reward?: (path: string) => number;
  /** May throw, or never answer. */
  readonly onStep?: (path: string) => void | Promise<void>;
}

/** What a path earns at its end. */
export const pathReward =
  (seed: number, turns: number) =>
  (path: string): number =>
    path.length < turns ? 0 : new Rng(seed).split(path).uniform();

export class PathGame extends SingleUseEnvironment {
  readonly name = "path";
  readonly options: PathGameOptions;
  path = "";
  closed = false;

  constructor(options: PathGameOptions) {
    super();
    this.options = options;
  }
  protected begin(): string {
    return "a";
  }
  protected async act(action: string): Promise<StepResult> {
    const { turns, onStep, reward = pathReward(1, turns) } = this.options;
    this.path += action;
    await onStep?.(this.path);
    const earned = reward(this.path);
    const done = this.path.length >= turns;
    return { observation: done ? "!" : action, reward: earned, done, info: { success: earned > 0.9, path: this.path } };
  }
  clone(): PathGame {
    const copy = new PathGame(this.options);
    copy.resumeFrom(this);
    copy.path = this.path;
    return copy;
  }
  close(): void {
    this.closed = true;
  }
}

export const pathSpec = (options: PathGameOptions): EnvironmentSpec => ({
  name: "path",
  description: "a path of letters",
  families: [],
  make: () => new PathGame(options),
  expert: () => options.letters[0]!,
  random: (rng) => rng.choice([...options.letters]),
});

/** All paths with what they earn in all, the best first. */
export function allPaths({ letters, turns, reward = pathReward(1, turns) }: PathGameOptions): [string, number][] {
  let paths: [string, number][] = [["", 0]];
  for (let turn = 0; turn < turns; turn++) {
    paths = paths.flatMap(([path, sum]) =>
      [...letters].map((c): [string, number] => [path + c, sum + reward(path + c)]),
    );
  }
  return paths.toSorted((a, b) => b[1] - a[1]);
}

/** Draws every letter with the same probability; `calls` counts the decodes. */
export function uniformActor(letters: string): Actor & { calls: number } {
  const { endId, encode } = { endId: toyTokenizer.special["<|end|>"]!, encode: toyTokenizer.encode };
  const actor = {
    temperature: 1,
    maxTokens: 64,
    calls: 0,
    act: async (requests: Parameters<Actor["act"]>[0]) => {
      actor.calls++;
      const logProbs = [-Math.log(letters.length), 0];
      return requests.map(({ rngs }) =>
        rngs.map((rng) => ({
          ids: [encode(new Rng(rng.state).choice([...letters]))[0]!, endId],
          logProbs,
          complete: true,
        })),
      );
    },
  };
  return actor;
}
