/**
 * A playing process, like `npm run worker`, in environments whose answers take WAIT seconds longer: worker.ts URL NAME
 * PLACES WAIT. It writes a line when the server has accepted it.
 */
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import { ENVIRONMENTS, type EnvironmentOptions, type EnvironmentSpec } from "../../environments/index.ts";
import { serveNats } from "../../distribute/nats/index.ts";

const [, , server, name, places, wait] = process.argv;

const slow = (spec: EnvironmentSpec): EnvironmentSpec => ({
  ...spec,
  make(options?: EnvironmentOptions) {
    const env = spec.make(options);
    const step = env.step.bind(env);
    env.step = async (action, call) => {
      await pause(1000 * Number(wait), undefined, call);
      return step(action, call);
    };
    return env;
  },
});
const environments = Number(wait) === 0 ? ENVIRONMENTS : { terminal: slow(ENVIRONMENTS["terminal"]!) };
const note = (line: string): void => (/connected to/.test(line) ? console.log("connected") : undefined);
await serveNats({ server: server!, name: name!, environments, episodes: Number(places), note });
process.exit();
