/** What the tests of the OpenEnv client share: servers that are closed after each test, impatience, and waiting. */
import { afterEach, expect } from "vitest";
import { echoWorld, type Link, type OpenEnvServer, type ServerOptions, startOpenEnvServer } from "./openEnvServer.ts";

const open: { close(): unknown }[] = [];

/** `close` is called after the test, whatever comes. */
export function closeAfterwards<T extends { close(): unknown }>(thing: T): T {
  open.push(thing);
  return thing;
}

/** To be called once in a test file. */
export function closeAfterEach(): void {
  afterEach(async () => {
    for (const thing of open.splice(0).reverse()) await thing.close();
  });
}

export async function serve(options: Partial<ServerOptions> = {}, port?: number): Promise<OpenEnvServer> {
  return closeAfterwards(await startOpenEnvServer({ world: echoWorld(), ...options }, port));
}

export const patience = { timeout: 2_000, reconnect: { attempts: 2, pause: 5 } } as const;

/** Answers steps with whatever a test wants; everything else as usual. */
export const onStep =
  (act: (link: Link) => void): NonNullable<ServerOptions["intercept"]> =>
  ({ type }, link) => {
    if (type === "step") act(link);
    return type === "step";
  };

/** Two seconds at most. */
export async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 400 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(condition()).toBe(true);
}
