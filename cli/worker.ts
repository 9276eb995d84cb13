/**
 * `npm run worker -- --server nats://…`: plays episodes for a learner on another machine (`npm start -- --workers
 * nats://…`), until Ctrl-C. It may be started before the learner and outlive it.
 */
import process from "node:process";
import { ENVIRONMENTS } from "../environments/index.ts";
import { type ServeNatsOptions, serveNats } from "../nats/index.ts";
import { parse, report } from "../node/flags.ts";
import { stopOnInterrupt } from "../node/interrupt.ts";
import { UsageError, wholeNumber } from "../job/usage.ts";

const HELP = `worldgrad: play episodes for a learner on another machine

  npm run worker -- --server nats://HOST:PORT[/QUEUE] [flags]

  --server URL       the NATS server (nats:// or tls://) of the learner: npm start -- --workers URL
  --episodes N       episodes at a time                       (default 16)
  --environments LIST
                     what may be played: names with commas between them
                                                              (default: all built-in environments)
  --device NAME      wasm | webgpu | reference                (default: the learner's)
  --name NAME        name in the learner's lines              (default: host and process)
  --user NAME        with the password in NATS_PASSWORD       (default NATS_USER)
  --creds FILE       a user's JWT and nkey seed               (default NATS_CREDS)
  --nkey FILE        an nkey seed                             (default NATS_NKEY)
  --ca FILE, --cert FILE, --key FILE
                     TLS                                      (default NATS_CA, NATS_CERT, NATS_KEY)
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
  patience: { type: "string" },
  help: { type: "boolean" },
} as const;

const KINDS = ["wasm", "webgpu", "reference"] as const;

async function main(): Promise<number> {
  const values = parse(process.argv.slice(2), FLAGS);
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  const text = (name: keyof typeof FLAGS): string | undefined => values[name] as string | undefined;
  const given = <K extends string>(name: K & keyof typeof FLAGS): { readonly [key in K]?: string } =>
    (text(name) === undefined ? {} : { [name]: text(name)! }) as { readonly [key in K]?: string };
  const server = text("server");
  if (server === undefined) throw new UsageError("--server: expected a NATS server, as in --server nats://HOST:4222");
  const kind = KINDS.find((name) => name === text("device"));
  if (text("device") !== undefined && kind === undefined)
    throw new UsageError(`--device: expected ${KINDS.join(", ")}, got "${text("device")}"`);
  const names = text("environments")?.split(",") ?? Object.keys(ENVIRONMENTS);
  const unknown = names.find((name) => !Object.hasOwn(ENVIRONMENTS, name));
  if (unknown !== undefined)
    throw new UsageError(`--environments: expected some of ${Object.keys(ENVIRONMENTS).join(", ")}, got "${unknown}"`);
  const note = (line: string): void => console.log(line);
  const options: ServeNatsOptions = {
    server,
    environments: Object.fromEntries(names.map((name) => [name, ENVIRONMENTS[name]!])),
    note,
    signal: stopOnInterrupt(() => note("gives back what it plays, and ends")),
    ...(text("episodes") === undefined ? {} : { episodes: wholeNumber("episodes", text("episodes")!, 1) }),
    ...(text("patience") === undefined ? {} : { patience: wholeNumber("patience", text("patience")!, 1) }),
    ...(kind === undefined ? {} : { device: { kind } }),
    ...given("name"),
    ...given("user"),
    ...given("creds"),
    ...given("nkey"),
    ...given("ca"),
    ...given("cert"),
    ...given("key"),
  };
  const { episodes, tokens } = await serveNats(options);
  note(`played ${episodes} episodes, ${tokens} tokens`);
  return 0;
}

process.exitCode = await main().catch(report);
process.exit();
