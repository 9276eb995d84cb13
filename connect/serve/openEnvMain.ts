/**
 * `npm run openenv-serve -- --env NAME` serves one of the built-in environments, or one of your own, with OpenEnv's
 * protocol (openEnv.ts). Clients are OpenEnv's own in Python, TRL, or our `openEnv({ url, action: "message" })`.
 */
import process from "node:process";
import { STOP_SIGNALS } from "../../run/node/interrupt.ts";
import { oneOf, UsageError, wholeNumber } from "../../run/usage.ts";
import { WORLDS } from "../../run/worlds.ts";
import { loadEnvironment } from "../../run/node/environmentFile.ts";
import { isUserFile } from "../../run/startOptions.ts";
import { OWN_WORLDS } from "../../run/node/ownWorlds.ts";
import { parse, report } from "../../run/node/flags.ts";
import { outliveOutput } from "../../run/node/output.ts";
import { serveOpenEnv } from "./openEnv.ts";

const HELP = `worldgrad: an environment as an OpenEnv server

  npm run openenv-serve -- --env NAME [flags]

  --env NAME       ${OWN_WORLDS.join(" | ")},
                   or a file of your own, as in --env ./my-env.ts
  --levels A-B     tasks of these levels                 (default: all)
  --split NAME     train | heldout                       (default train)
  --host ADDRESS   where to listen                       (default 127.0.0.1: this machine alone)
  --port N         the port                              (default 8765)
  --sessions N     connections at a time                 (default 100)
  --help           this text
`;

const TEXT = { type: "string" } as const;
const FLAGS = {
  env: TEXT,
  levels: TEXT,
  split: TEXT,
  host: TEXT,
  port: TEXT,
  sessions: TEXT,
  help: { type: "boolean" },
} as const;

async function main(): Promise<number> {
  outliveOutput();
  const values = parse(process.argv.slice(2), FLAGS) as Readonly<Record<string, string | undefined>>;
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  const { env, levels, host } = values;
  if (env === undefined) throw new UsageError("--env: expected the name of an environment, as in --env terminal");
  const name = isUserFile(env) ? (await loadEnvironment(env)).env : oneOf("env", env, OWN_WORLDS);
  const spec = WORLDS[name]!;
  await spec.check?.();
  const span = /^(\d+)(?:-(\d+))?$/.exec(levels ?? "");
  if (levels !== undefined && span === null) throw new UsageError(`--levels: expected A-B, got ${levels}`);
  const chosen = {
    split: oneOf("split", values["split"] ?? "train", ["train", "heldout"] as const),
    ...(span ? { levels: [Number(span[1]), Number(span[2] ?? span[1])] as const } : {}),
  };
  const server = await serveOpenEnv(spec, chosen, {
    port: wholeNumber("port", values["port"] ?? "8765", 0),
    maxSessions: wholeNumber("sessions", values["sessions"] ?? "100", 1),
    ...(host === undefined ? {} : { host }),
  });
  console.log(`serving ${name} at ${server.url}; actions are { "message": TEXT }`);
  await new Promise<void>((resolve) => {
    for (const signal of STOP_SIGNALS) process.once(signal, () => resolve());
  });
  await server.close();
  return 0;
}

process.exitCode = await main().catch(report);
