/** A WebSocket for Node before 22, which has none; the package `ws`, an optional peer, provides it. */
import { partsOf } from "../mixtures.ts";
import { UsageError } from "../usage.ts";

/** The largest message in bytes; the client reads ten million letters, of up to three bytes each. */
const MOST_BYTES = 30_000_000;

/** The WebSocket that this environment, or one of its mixture, needs. @throws UsageError if there is no way */
export async function giveWebSocketTo(env: string): Promise<void> {
  if (partsOf(env).some(({ name }) => name === "openenv")) await giveWebSocket();
}

/** Makes sure that there is a global WebSocket, which OpenEnv's client takes. @throws UsageError if there is no way */
export async function giveWebSocket(): Promise<void> {
  const here = globalThis as { WebSocket?: unknown };
  if (here.WebSocket !== undefined) return;
  try {
    const { WebSocket } = await import("ws");
    // A longer message ends the connection before all of it is in memory.
    here.WebSocket = class extends WebSocket {
      constructor(url: string) {
        super(url, { maxPayload: MOST_BYTES });
      }
    };
  } catch {
    throw new UsageError("--env openenv: Node before 22 needs the package ws for it: npm install ws");
  }
}
