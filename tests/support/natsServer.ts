/** A real nats-server for tests, with JetStream in a folder of its own; vitest.config.ts finds the program. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

/** A server that can be killed and started again with the same port and files. */
export interface NatsServer {
  readonly url: string;
  readonly folder: string;
  /** Starts it again after `kill`. */
  start(): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** Ends it and deletes its folder. */
  close(): Promise<void>;
}

export interface NatsServerOptions {
  /** More lines for the configuration file: users, TLS, limits. */
  readonly config?: string;
  readonly scheme?: "nats" | "tls";
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { readonly port: number };
      server.close(() => resolve(port));
    });
  });

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("data", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });

/** Starts a server. */
export async function natsServer({ config = "", scheme = "nats" }: NatsServerOptions = {}): Promise<NatsServer> {
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-nats-"));
  const port = await freePort();
  const file = join(folder, "server.conf");
  writeFileSync(file, `listen: "127.0.0.1:${port}"\njetstream: { store_dir: "${join(folder, "store")}" }\n${config}\n`);
  let child: ChildProcess | undefined;
  let said = "";
  const start = async (): Promise<void> => {
    const own = spawn(process.env["WORLDGRAD_NATS_SERVER"] ?? "nats-server", ["-c", file], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    child = own;
    own.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
    for (let tries = 0; !(await answers(port)); tries++) {
      if (tries > 200 || own.exitCode !== null) throw new Error(`nats-server does not start: ${said}`);
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  };
  const kill = (): Promise<void> =>
    new Promise((resolve) => {
      const own = child;
      if (own === undefined || own.exitCode !== null || own.signalCode !== null) return resolve();
      own.once("exit", () => resolve());
      own.kill("SIGKILL");
    });
  await start();
  return {
    url: `${scheme}://127.0.0.1:${port}`,
    folder,
    start,
    kill,
    close: async () => {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
