/**
 * An environment that lives in the page while the agent that plays in it lives in a worker. This is the worker's half:
 * it looks like any environment, and each of its calls is a message, which environmentHost.ts answers in the page.
 */
import { check, fail } from "../../engine/errors.ts";
import {
  type EndResult,
  type Environment,
  type EnvironmentOptions,
  type EnvironmentSpec,
  type OutsideEnd,
  SingleUseEnvironment,
  type StepResult,
} from "../../rl/environment.ts";
import type { EnvironmentCall, PageAnswer } from "./messages.ts";

/** Sends a call to the page. @returns what the page answered; rejects with what went wrong there */
type Ask = (call: EnvironmentCall) => Promise<PageAnswer>;

/** An episode whose environment is in the page. */
class PageEpisode extends SingleUseEnvironment {
  readonly name: string;
  readonly #episode: number;
  readonly #options: object;
  readonly #ask: Ask;

  constructor(name: string, episode: number, options: object, ask: Ask) {
    super();
    this.name = name;
    this.#episode = episode;
    this.#options = options;
    this.#ask = ask;
  }

  protected async begin(seed: number): Promise<string> {
    const task = await this.#ask({ kind: "reset", episode: this.#episode, options: this.#options, seed });
    check(typeof task === "string", () => `the page's environment: expected a task in words, got ${typeof task}`);
    return task;
  }

  protected async act(action: string): Promise<StepResult> {
    return (await this.#ask({ kind: "step", episode: this.#episode, action })) as StepResult;
  }

  protected override async finish(reason: OutsideEnd): Promise<EndResult | undefined> {
    return (await this.#ask({ kind: "end", episode: this.#episode, reason })) as EndResult | undefined;
  }

  close(): void {
    void this.#ask({ kind: "close", episode: this.#episode });
  }
}

/** A specification whose episodes are played in the page. @param name of the page's environment */
export function pageEnvironment(name: string | undefined, ask: Ask): EnvironmentSpec {
  let episodes = 0;
  const make = (options: EnvironmentOptions = {}): Environment => {
    check(name !== undefined, () => "the agent plays in an environment of the page, but AgentWorker was given none");
    return new PageEpisode(name, episodes++, options, ask);
  };
  return {
    name: name ?? "page",
    description: "an environment of the page",
    families: [],
    make,
    random: () => fail("the page's environment has no random player in the worker"),
  };
}
