/** Who gets in: TLS, passwords, nkeys and creds files, with real servers. Whoever does not is told why in one line. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice } from "../../../engine/device.ts";
import { natsWorkers } from "../../../distribute/nats/learner.ts";
import { serveNats } from "../../../distribute/nats/serve.ts";
import { trainRlAsync } from "../../../distribute/async/train.ts";
import { certificate, nkey, operator } from "../../support/natsKeys.ts";
import { type NatsServer, natsServer } from "../../support/natsServer.ts";
import { reportsOf, toyRlOptions } from "../../support/rlRuns.ts";
import { endingModel } from "../../support/rlToy.ts";
import { rollouts } from "../../support/toyRollouts.ts";

const folder = mkdtempSync(join(tmpdir(), "worldgrad-keys-"));
const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};
const authority = certificate("worldgrad test authority");
const ca = file("ca.pem", authority.cert);
const otherCa = file("other.pem", certificate("another authority").cert);
const pair = (name: string): { readonly cert: string; readonly key: string } => {
  const made = certificate(name, authority);
  return { cert: file(`${name}.pem`, made.cert), key: file(`${name}.key`, made.key) };
};
const own = pair("server");
const client = pair("client");
const [known, unknown] = [nkey(), nkey()];
const [here, elsewhere] = [operator(), operator()];

/** nkeys and passwords over TLS; and users of an operator, with certificates of their own. */
let open: NatsServer;
let mutual: NatsServer;
beforeAll(async () => {
  const tls = (verify: boolean): string =>
    `tls: { cert_file: "${own.cert}", key_file: "${own.key}", ca_file: "${ca}", verify: ${verify}, timeout: 5 }`;
  const users = `authorization: { users: [{ nkey: ${known.publicKey} }, { user: player, password: "s3cret" }] }`;
  open = await natsServer({ scheme: "tls", config: `${tls(false)}\n${users}` });
  mutual = await natsServer({ scheme: "tls", config: `${tls(true)}\n${here.config}` });
});
afterAll(async () => {
  await Promise.all([open.close(), mutual.close()]);
  rmSync(folder, { recursive: true, force: true });
});

type Proof = Omit<Parameters<typeof natsWorkers>[0], "server" | "note">;
const nkeyFile = file("user.nk", `${known.seed}\n`);
const creds = file("user.creds", here.creds());

/** A step of a run whose episodes one worker plays. */
async function step(server: string, learners: Proof, workers: Proof): Promise<number> {
  const device = await makeDevice("wasm");
  const stop = new AbortController();
  const served = serveNats({ server, ...workers, ...rollouts, signal: stop.signal });
  const options = { ...toyRlOptions(endingModel(device), { steps: 1 }), maxStaleness: 0 };
  await reportsOf(trainRlAsync({ ...options, workers: await natsWorkers({ server, ...learners }) }));
  stop.abort();
  device.dispose();
  return (await served).episodes;
}

describe("with the right proof a worker joins and plays", () => {
  it("an nkey over TLS, beside a learner with a password", async () => {
    const password = { ca, user: "player", password: "s3cret" };
    expect(await step(`${open.url}/nkey`, password, { ca, nkey: nkeyFile })).toBe(6);
  });

  it("a creds file, over TLS with certificates on both sides", async () => {
    expect(await step(`${mutual.url}/creds`, { ca, ...client, creds }, { ca, ...client, creds })).toBe(6);
  });
});

describe("without it, there is one line", () => {
  const refused: readonly (readonly [string, () => string, Proof, RegExp])[] = [
    ["no credentials", () => open.url, { ca }, /Authorization Violation/i],
    ["an unknown nkey", () => open.url, { ca, nkey: file("x.nk", unknown.seed) }, /Authorization Violation/i],
    ["a wrong password", () => open.url, { ca, user: "player", password: "x" }, /Authorization Violation/i],
    ["an unknown user", () => open.url, { ca, user: "x", password: "s3cret" }, /Authorization Violation/i],
    ["an authority that did not sign the server", () => open.url, { ca: otherCa, nkey: nkeyFile }, /certificate/i],
    ["no authority for the server", () => open.url, { nkey: nkeyFile }, /certificate/i],
    ["no TLS", () => open.url.replace("tls:", "nats:"), { user: "player", password: "s3cret" }, /certificate|TLS/i],
    [
      "creds of another operator",
      () => mutual.url,
      { ca, ...client, creds: file("y.creds", elsewhere.creds()) },
      /Auth/,
    ],
    ["creds that are none", () => mutual.url, { ca, ...client, creds: file("z.creds", "secret") }, /parse credentials/],
    ["an nkey that is none", () => open.url, { ca, nkey: file("n.nk", "SUAB") }, /nkey/i],
    ["a file that is not there", () => open.url, { ca: join(folder, "none.pem") }, /nats: ca: ENOENT/],
    ["a user without a password", () => open.url, { ca, user: "player" }, /NATS_PASSWORD/],
  ];
  it.each(refused)("%s", async (_, url, proof, why) => {
    const began = performance.now();
    const told = serveNats({ server: url(), ...proof, ...rollouts }).then(
      () => "it joined",
      (error: unknown) => (error as Error).message,
    );
    const line = await told;
    expect(line).toMatch(why);
    expect(line).toMatch(/^nats: /);
    expect(line).not.toMatch(/\n|s3cret|SU[A-Z0-9]{40}/);
    expect(performance.now() - began).toBeLessThan(15_000);
  });

  it("no certificate of its own: the server says nothing, and the connection ends when its time is over", async () => {
    const began = performance.now();
    const refused = serveNats({ server: mutual.url, ca, creds, ...rollouts });
    await expect(refused).rejects.toThrow(/^nats: no connection to tls:\/\/127\.0\.0\.1:\d+: [^\n]+$/);
    expect(performance.now() - began).toBeLessThan(15_000);
  });
});
