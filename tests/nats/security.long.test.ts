/** A server that asks for certificates says nothing to who has none: the connection ends when its time is over. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { serveNats } from "../../nats/serve.ts";
import { certificate } from "../support/natsKeys.ts";
import { natsServer } from "../support/natsServer.ts";
import { rollouts } from "../support/toyRollouts.ts";

it("without a certificate of its own a worker is told so in one line, within seconds", async () => {
  const folder = mkdtempSync(join(tmpdir(), "worldgrad-keys-"));
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const authority = certificate("worldgrad test authority");
  const own = certificate("server", authority);
  const ca = file("ca.pem", authority.cert);
  const files = `cert_file: "${file("own.pem", own.cert)}", key_file: "${file("own.key", own.key)}", ca_file: "${ca}"`;
  const server = await natsServer({ scheme: "tls", config: `tls: { ${files}, verify: true, timeout: 5 }` });
  try {
    const began = performance.now();
    const refused = serveNats({ server: server.url, ca, ...rollouts });
    await expect(refused).rejects.toThrow(/^nats: no connection to tls:\/\/127\.0\.0\.1:\d+: [^\n]+$/);
    expect(performance.now() - began).toBeLessThan(15_000);
  } finally {
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
