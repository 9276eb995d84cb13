/** The toy world as rollout threads see it (`threadWorkers({ module })`). */
import { appendFileSync, existsSync } from "node:fs";
import process from "node:process";
import type { ServeOptions } from "../../distribute/async/serve.ts";
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { letters, toySpec, toyTemplate } from "./rlToy.ts";

/**
 * So that a test can see a thread work while its own lets nothing run: all episodes but a thread's first six wait until
 * there is a file `go`, then add a byte to a file `answers` with each answer. Both are in the folder
 * WORLDGRAD_TEST_FOLDER.
 */
function waiting(): EnvironmentSpec {
  const plain = toySpec(letters(2));
  let made = 0;
  const make: EnvironmentSpec["make"] = (options) => {
    const env = plain.make(options);
    if (made++ < 6) return env;
    const folder = process.env["WORLDGRAD_TEST_FOLDER"]!;
    return {
      name: env.name,
      reset: (seed, context) => env.reset(seed, context),
      async step(action, context) {
        while (!existsSync(`${folder}/go`)) await new Promise((next) => setTimeout(next, 5));
        appendFileSync(`${folder}/answers`, ".");
        return env.step(action, context);
      },
    };
  };
  return { ...plain, name: "waiting", make };
}

const environments: Readonly<Record<string, EnvironmentSpec>> = { toy: toySpec(letters(2)), waiting: waiting() };
export const rollouts: ServeOptions = { environments, template: toyTemplate };
