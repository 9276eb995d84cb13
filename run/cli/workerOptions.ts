/** The command line of `npm run worker`: its help and the parser of its flags. It starts nothing. */
import { type EnvironmentSpec, ENVIRONMENTS } from "../../environments/index.ts";
import { partsOf } from "../mixtures.ts";
import { worldNamed } from "../worlds.ts";
import { UsageError, wholeNumber } from "../usage.ts";
import type { ConnectionOptions, ServeNatsOptions } from "../../distribute/nats/index.ts";
import { loadEnvironment } from "../node/environmentFile.ts";
import { isUserFile } from "../startOptions.ts";
import { OWN_WORLDS } from "../node/ownWorlds.ts";
import { parse } from "../node/flags.ts";

export const HELP: string = `worldgrad: play episodes for a learner on another machine

  npm run worker -- --server nats://HOST:PORT[/QUEUE] [flags]

  --server URL       the NATS server (nats:// or tls://) of the learner: npm start -- --workers URL
  --episodes N       episodes at a time                       (default 16)
  --environments LIST
                     environments that may be played: names, and files of your own, with commas between them
                                                              (default: all built-in environments but shell)
  --device NAME      wasm | webgpu | reference                (default: the learner's)
  --name NAME        name in the learner's lines              (default: host and process)
  --user NAME        with the password in NATS_PASSWORD       (default NATS_USER)
  --creds FILE       a user's JWT and nkey seed               (default NATS_CREDS)
  --nkey FILE        an nkey seed                             (default NATS_NKEY)
  --ca FILE, --cert FILE, --key FILE
                     TLS                                      (default NATS_CA, NATS_CERT, NATS_KEY)
  --ready FILE       is written when the server has accepted the worker, for a probe
  --patience N       seconds in which a lost server has to come back
                                                              (default 60)
  --help             this text
`;

const FLAGS = {
  server: { type: "string" },
  episodes: { type: "string" },
  environments: { type: "string" },
  device: { type: "string" },
  name: { type: "string" },
  user: { type: "string" },
  creds: { type: "string" },
  nkey: { type: "string" },
  ca: { type: "string" },
  cert: { type: "string" },
  key: { type: "string" },
  ready: { type: "string" },
  patience: { type: "string" },
  help: { type: "boolean" },
} as const;

const KINDS = ["wasm", "webgpu", "reference"] as const;

/** The options that the flags give. */
export interface WorkerOptions {
  readonly connection: ConnectionOptions & { readonly name?: string };
  /** The options of playing. */
  readonly plays: Pick<ServeNatsOptions, "environments" | "episodes" | "device">;
  /** A file that is written once the server has accepted the connection. */
  readonly ready: string | undefined;
}

/** The environments that may be played, by name. */
async function environmentsIn(list: string | undefined): Promise<Readonly<Record<string, EnvironmentSpec>>> {
  if (list === undefined) return ENVIRONMENTS;
  const chosen: Record<string, EnvironmentSpec> = {};
  for (const word of list.split(",")) {
    const isFile = isUserFile(word);
    if (!isFile && !partsOf(word).every(({ name }) => OWN_WORLDS.includes(name)))
      throw new UsageError(`--environments: expected some of ${OWN_WORLDS.join(", ")}, or files, got "${word}"`);
    const name = isFile ? (await loadEnvironment(word, "--environments")).env : word;
    chosen[name] = worldNamed(name)!;
    await chosen[name].check?.();
  }
  return chosen;
}

/** @throws UsageError with one line that names what was expected */
export async function parseWorker(args: readonly string[]): Promise<WorkerOptions | "help"> {
  const values = parse(args, FLAGS);
  if (values["help"]) return "help";
  const text = (name: keyof typeof FLAGS): string | undefined => values[name] as string | undefined;
  const given = <K extends string>(name: K & keyof typeof FLAGS): { readonly [key in K]?: string } =>
    (text(name) === undefined ? {} : { [name]: text(name)! }) as { readonly [key in K]?: string };
  const server = text("server");
  if (server === undefined) throw new UsageError("--server: expected a NATS server, as in --server nats://HOST:4222");
  const kind = KINDS.find((name) => name === text("device"));
  if (text("device") !== undefined && kind === undefined)
    throw new UsageError(`--device: expected ${KINDS.join(", ")}, got "${text("device")}"`);
  const connection = {
    server,
    ...(text("patience") === undefined ? {} : { patience: wholeNumber("patience", text("patience")!, 1) }),
    ...given("name"),
    ...given("user"),
    ...given("creds"),
    ...given("nkey"),
    ...given("ca"),
    ...given("cert"),
    ...given("key"),
  };
  const plays = {
    environments: await environmentsIn(text("environments")),
    ...(text("episodes") === undefined ? {} : { episodes: wholeNumber("episodes", text("episodes")!, 1) }),
    ...(kind === undefined ? {} : { device: { kind } }),
  };
  return { connection, plays, ready: text("ready") };
}
