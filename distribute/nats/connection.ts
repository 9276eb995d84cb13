/**
 * A connection to a NATS server with JetStream: the address, the credentials, the errors, and how long a lost server is
 * waited for. The four packages of the client are optional peers and are loaded here.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import process from "node:process";
import { check, fail, WorldgradError } from "../../engine/errors.ts";
import { number, options, type OptionsOf, REQUIRED, text } from "../../engine/optionTable.ts";

type Transport = typeof import("@nats-io/transport-node");
type JetStream = typeof import("@nats-io/jetstream");
type KeyValue = typeof import("@nats-io/kv");
type Objects = typeof import("@nats-io/obj");
/** A connection of NATS's client. */
export type Connection = Awaited<ReturnType<Transport["connect"]>>;

/** The server's address and the credentials; all but `server` may come from environment variables. */
export const CONNECTION = options("nats", {
  server: text(
    REQUIRED,
    "address of the server, nats://HOST:PORT or tls://HOST:PORT, and a queue: nats://HOST:PORT/QUEUE",
  ),
  user: text(undefined, "user; by default NATS_USER, or that of the address"),
  password: text(undefined, "its password; by default NATS_PASSWORD, or that of the address"),
  creds: text(undefined, "file with a user's JWT and nkey seed; by default NATS_CREDS"),
  nkey: text(undefined, "file with an nkey seed; by default NATS_NKEY"),
  ca: text(undefined, "file with the certificates that are trusted (TLS); by default NATS_CA"),
  cert: text(undefined, "file with this side's certificate (TLS); by default NATS_CERT"),
  key: text(undefined, "file with its key (TLS); by default NATS_KEY"),
  patience: number(60, "seconds in which a server that is lost has to come back", { above: 0 }),
});
export type ConnectionOptions = OptionsOf<typeof CONNECTION>;

/** The names of the environment are those of the program `nats`. */
const FROM_ENVIRONMENT = {
  user: "NATS_USER",
  password: "NATS_PASSWORD",
  creds: "NATS_CREDS",
  nkey: "NATS_NKEY",
  ca: "NATS_CA",
  cert: "NATS_CERT",
  key: "NATS_KEY",
} as const;

/** Seconds within which a server has to answer the first request. */
const FIRST_ANSWER = 5;

/** The parts of an address. */
interface Address {
  /** With scheme, host and port; without user, password and queue. */
  readonly server: string;
  readonly queue: string;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly tls: boolean;
}

/** @throws if it is no address of a NATS server */
export function addressOf(server: string): Address {
  const expected = `expected nats://HOST:PORT or tls://HOST:PORT, got "${server.replace(/\/\/.*@/, "//")}"`;
  let url: URL;
  try {
    // Only known schemes have a host in `URL`.
    url = new URL(server.replace(/^(nats|tls):/, "http:"));
  } catch {
    return fail(`nats: ${expected}`);
  }
  const scheme = /^(nats|tls):\/\//.exec(server)?.[1];
  check(scheme !== undefined && url.hostname !== "", () => `nats: ${expected}`);
  const queue = url.pathname.replace(/^\/|\/$/g, "") || "worldgrad";
  check(
    /^[A-Za-z0-9_-]{1,32}$/.test(queue),
    () => `nats: a queue has up to 32 letters, digits, "-" and "_", got "${queue}"`,
  );
  const port = url.port === "" ? (/:80(\/|$)/.test(server) ? "80" : "4222") : url.port;
  return {
    server: `${scheme}://${url.hostname}:${port}`,
    queue,
    user: url.username === "" ? undefined : decodeURIComponent(url.username),
    password: url.password === "" ? undefined : decodeURIComponent(url.password),
    tls: scheme === "tls",
  };
}

/** The address without user and password, for settings that are written to a file. */
export function publicAddress(server: string): string {
  const { server: plain, queue } = addressOf(server);
  return queue === "worldgrad" ? plain : `${plain}/${queue}`;
}

/** An open connection, and everything that is made from it. */
export interface Link {
  readonly address: Address;
  readonly connection: Connection;
  readonly library: {
    readonly jetstream: JetStream;
    readonly kv: KeyValue;
    readonly obj: Objects;
  };
  /** The largest number of bytes of a message, which the server reports. */
  readonly maxPayload: number;
  readonly patience: number;
  /**
   * Runs `work`, and repeats it while the server is away, for up to `patience` seconds. Doing it twice must have the
   * effect of doing it once; for that messages have ids and objects have names.
   */
  insist<T>(what: string, work: () => Promise<T>, isOver?: () => boolean): Promise<T>;
}

/**
 * Connects.
 * @param name the name of this side at the server
 * @param note is called with a line when the server is lost and when it is back
 * @throws within seconds if there is no server, if it has no JetStream, or if it refuses the credentials
 */
export async function connectTo(
  settled: ReturnType<typeof CONNECTION.read>,
  name: string,
  note: (line: string) => void,
): Promise<Link> {
  const { patience } = settled;
  const address = addressOf(settled.server);
  const [transport, jetstream, kv, obj] = await load();
  const credentials = credentialsOf(address, settled);
  const ask = (): Promise<Connection> =>
    transport.connect({
      servers: address.server,
      name,
      timeout: 1000 * FIRST_ANSWER,
      reconnect: true,
      reconnectTimeWait: 500,
      maxReconnectAttempts: Math.ceil(patience / 0.5),
      pingInterval: 20_000,
      ignoreClusterUpdates: false,
      ...credentials(transport),
    });
  const connection = await ask().catch((error: unknown) =>
    fail(`nats: no connection to ${address.server}: ${reasonOf(error)}`),
  );
  void tell(connection, address.server, patience, note);
  const link: Link = {
    address,
    connection,
    library: { jetstream, kv, obj },
    maxPayload: connection.info?.max_payload ?? 2 ** 20,
    patience,
    insist: (what, work, isOver) => insist(connection, patience, what, work, isOver),
  };
  try {
    await jetstream.jetstreamManager(connection, { timeout: 1000 * FIRST_ANSWER });
  } catch (error) {
    await connection.close();
    fail(`nats: ${address.server} answers, but not with JetStream (nats-server -js): ${reasonOf(error)}`);
  }
  return link;
}

async function load(): Promise<readonly [Transport, JetStream, KeyValue, Objects]> {
  try {
    return await Promise.all([
      import("@nats-io/transport-node"),
      import("@nats-io/jetstream"),
      import("@nats-io/kv"),
      import("@nats-io/obj"),
    ]);
  } catch (error) {
    const packages = ["transport-node", "jetstream", "kv", "obj"].map((part) => `@nats-io/${part}`).join(" ");
    throw new WorldgradError(`nats: workers on other machines need NATS's client: npm install ${packages}`, {
      cause: error,
    });
  }
}

/** The client's options for user and keys. Files are read now, so that a missing file has an error of its own. */
function credentialsOf(address: Address, given: ReturnType<typeof CONNECTION.read>) {
  const value = (name: keyof typeof FROM_ENVIRONMENT): string | undefined =>
    given[name] ?? process.env[FROM_ENVIRONMENT[name]];
  const file = (name: "creds" | "nkey" | "ca" | "cert" | "key"): Uint8Array | undefined => {
    const path = value(name);
    if (path === undefined) return undefined;
    try {
      return readFileSync(path);
    } catch (error) {
      return fail(`nats: ${name}: ${reasonOf(error)}`);
    }
  };
  const user = given.user ?? address.user ?? value("user");
  const password = given.password ?? address.password ?? value("password");
  check(user === undefined || password !== undefined, () => "nats: a user without a password (NATS_PASSWORD)");
  const [creds, nkey, ca, cert, key] = [file("creds"), file("nkey"), file("ca"), file("cert"), file("key")];
  const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
  const host = address.server.replace(/^.*\/\/\[?|\]?:\d+$/g, "");
  const tls = {
    // The client names no host where the address is an IP, and Node would expect a certificate for "localhost".
    ...(isIP(host) > 0 ? { host } : {}),
    ...(ca ? { ca: text(ca) } : {}),
    ...(cert ? { cert: text(cert) } : {}),
    ...(key ? { key: text(key) } : {}),
  };
  const isEncrypted = address.tls || ca !== undefined || cert !== undefined || key !== undefined;
  return ({ credsAuthenticator, nkeyAuthenticator }: Transport) => ({
    ...(user === undefined ? {} : { user, pass: password! }),
    ...(creds ? { authenticator: credsAuthenticator(creds) } : {}),
    ...(nkey && !creds ? { authenticator: nkeyAuthenticator(new TextEncoder().encode(text(nkey).trim())) } : {}),
    ...(isEncrypted ? { tls } : {}),
  });
}

async function tell(
  connection: Connection,
  server: string,
  patience: number,
  note: (line: string) => void,
): Promise<void> {
  for await (const { type } of connection.status()) {
    if (type === "disconnect") note(`lost the server ${server}; trying for ${patience} s to find it again`);
    else if (type === "reconnect") note(`the server ${server} is back`);
  }
}

async function insist<T>(
  connection: Connection,
  patience: number,
  what: string,
  work: () => Promise<T>,
  isOver: () => boolean = () => false,
): Promise<T> {
  const until = performance.now() + 1000 * patience;
  for (let wait = 50; ; wait = Math.min(2 * wait, 1000)) {
    try {
      return await work();
    } catch (error) {
      if (connection.isClosed() || isOver() || !isPassing(error) || performance.now() > until)
        throw new WorldgradError(`nats: ${what}: ${reasonOf(error)}`, { cause: error });
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

/** Whether trying again may help: the server is away, is starting, or its file system is slow. */
function isPassing(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (["TimeoutError", "NoRespondersError", "RequestError", "ConnectionError"].includes(error.name)) return true;
  return /timeout|no responders|disconnect|temporarily|not available|503/i.test(error.message);
}

/** Whether a stream refused a message because it is full. */
export const isFull = (error: unknown): boolean =>
  error instanceof Error && /maximum (messages|bytes)|insufficient (storage )?resources|no space/i.test(error.message);

/** An error in one line. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  const deeper = cause instanceof Error && !error.message.includes(cause.message) ? ` (${cause.message})` : "";
  return `${error.message.split("\n")[0]}${deeper}`;
}

/** SHA-256 in hexadecimal digits. */
export const sha256 = (data: Uint8Array | string): string => createHash("sha256").update(data).digest("hex");

/** Resolves when the connection has ended, also when this side closes it, to the error that the server is gone. */
export async function lossOfServer({ connection, address, patience }: Link): Promise<WorldgradError> {
  const error = await connection.closed();
  const why = error ? `: ${reasonOf(error)}` : "";
  return new WorldgradError(`nats: ${address.server} did not come back within ${patience} s${why}`);
}
