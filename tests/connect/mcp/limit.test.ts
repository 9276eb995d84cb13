/** A message over HTTP has a size limit, as one over a pipe has. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { openSession } from "../../../connect/mcp/session.ts";

it.each([
  ["application/json", /over 100000 bytes/, (text: string) => text],
  // Of a stream that breaks the client's library tells nobody: the call gets no answer.
  ["text/event-stream", /no answer within 2000 ms/, (text: string) => `event: message\ndata: ${text}\n\n`],
])("%s: a message over the limit ends the session: %s", async (type, why, framed) => {
  const result = { protocolVersion: "2025-06-18", capabilities: {}, serverInfo: { name: "x".repeat(200_000) } };
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": type });
    response.end(framed(JSON.stringify({ jsonrpc: "2.0", id: 0, result })));
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  await expect(openSession({ url }, { timeout: 2000 }, 100_000)).rejects.toThrow(why);
  server.closeAllConnections();
  await new Promise((closed) => server.close(closed));
});
