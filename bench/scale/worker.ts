/**
 * A process that plays, as `npm run worker` does, and says of each episode how long it had its place:
 * worker.ts URL NAME PLACES WAIT. Each answer of an environment takes WAIT seconds longer than it would. It ends when
 * its standard input does.
 */
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import { ENVIRONMENTS, type Environment, type EnvironmentSpec } from "../../environments/index.ts";
import { serveNats } from "../../distribute/nats/index.ts";

const [, , server, name, places, wait] = process.argv;

/** A line for the process that measures. `processor`: seconds of it that this process has used since it began. */
export type Line = { readonly connected: true } | { readonly seconds: number; readonly processor: number };
const say = (line: Line): void => console.log(JSON.stringify(line));

/** An environment that says when its episode is over, and waits before it answers. */
function timed(env: Environment): Environment {
  let began = 0;
  return {
    name: env.name,
    get info() {
      return env.info ?? {};
    },
    async reset(seed, options) {
      began = performance.now();
      return env.reset(seed, options);
    },
    async step(action, options) {
      if (Number(wait) > 0) await pause(1000 * Number(wait), undefined, options);
      return env.step(action, options);
    },
    close() {
      const { user, system } = process.cpuUsage();
      say({ seconds: (performance.now() - began) / 1000, processor: (user + system) / 1e6 });
      env.close?.();
    },
  };
}

const spec = (own: EnvironmentSpec): EnvironmentSpec => ({ ...own, make: (options) => timed(own.make(options)) });
const end = new AbortController();
process.stdin.once("end", () => end.abort()).resume();
await serveNats({
  server: server!,
  name: name!,
  environments: Object.fromEntries(Object.entries(ENVIRONMENTS).map(([key, own]) => [key, spec(own)])),
  episodes: Number(places),
  signal: end.signal,
  note: (line) => (/connected to/.test(line) ? say({ connected: true }) : undefined),
});
process.exit();
