/** Node before 22 has no WebSocket; the package `ws`, an optional peer, provides one. */
import { UsageError } from "../job/usage.ts";

/** Makes sure that there is a global WebSocket, which OpenEnv's client takes. @throws UsageError if there is no way */
export async function giveWebSocket(): Promise<void> {
  const here = globalThis as { WebSocket?: unknown };
  if (here.WebSocket !== undefined) return;
  try {
    here.WebSocket = (await import("ws")).WebSocket;
  } catch {
    throw new UsageError("--env openenv: Node before 22 needs the package ws for it: npm install ws");
  }
}
