/**
 * The page's half of an environment that lives in the page (pageEnvironment.ts): it plays the episodes that the worker
 * asks for. It imports types only, so that a page need not load the library.
 */
import type { Environment, EnvironmentSpec } from "../../rl/environment.ts";
import { type Answered, type EnvironmentCall, failureOf, type PageAnswer } from "./messages.ts";

/** Live episodes of an environment, by number. */
export class EnvironmentHost {
  readonly spec: EnvironmentSpec | undefined;
  readonly #live = new Map<number, Environment>();

  constructor(spec: EnvironmentSpec | undefined) {
    this.spec = spec;
  }

  /** Does what the worker asks. @returns undefined where nothing is to be answered */
  async answer(call: EnvironmentCall): Promise<Answered<PageAnswer> | undefined> {
    if (call.kind === "close") {
      this.#live.get(call.episode)?.close?.();
      this.#live.delete(call.episode);
      return undefined;
    }
    try {
      if (call.kind === "step") return { value: await this.#episode(call.episode).step(call.action) };
      if (call.kind === "end") return { value: await this.#episode(call.episode).end?.(call.reason) };
      const environment = this.spec!.make(call.options);
      this.#live.set(call.episode, environment);
      return { value: await environment.reset(call.seed) };
    } catch (error) {
      return failureOf(error);
    }
  }

  /** Ends what is live. */
  close(): void {
    for (const environment of this.#live.values()) environment.close?.();
    this.#live.clear();
  }

  #episode(number: number): Environment {
    const found = this.#live.get(number);
    if (found === undefined) throw new Error(`AgentWorker: there is no live episode ${number}`);
    return found;
  }
}
