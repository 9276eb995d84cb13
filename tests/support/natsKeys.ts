/**
 * Certificates and credentials for tests of secured servers, made anew in each run: X.509 (RFC 5280) written as DER by
 * hand, because Node signs but makes no certificates, and the JWTs of NATS's decentralised users.
 */
import { createHash, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { nkeys } from "@nats-io/transport-node";

const der = (tag: number, ...parts: readonly Uint8Array[]): Buffer => {
  const body = Buffer.concat(parts);
  const size = body.length;
  const length = size < 128 ? [size] : size < 256 ? [0x81, size] : [0x82, size >> 8, size & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), body]);
};
const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts);
const bytes = (...values: readonly number[]): Buffer => Buffer.from(values);
/** ecdsa-with-SHA256, 1.2.840.10045.4.3.2 */
const ECDSA = sequence(der(6, bytes(0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2)));
/** A name of one part, the common name, 2.5.4.3. */
const nameOf = (name: string): Buffer =>
  sequence(der(0x31, sequence(der(6, bytes(0x55, 4, 3)), der(0x0c, Buffer.from(name)))));
const timeOf = (year: number): Buffer => der(0x18, Buffer.from(`${year}0101000000Z`));
/** Extension 2.5.29.`id`, critical or not. */
const extension = (id: number, isCritical: boolean, value: Uint8Array): Buffer =>
  sequence(der(6, bytes(0x55, 0x1d, id)), ...(isCritical ? [der(1, bytes(255))] : []), der(4, value));

const pem = (label: string, body: Uint8Array): string =>
  `-----BEGIN ${label}-----\n${Buffer.from(body)
    .toString("base64")
    .replace(/.{1,64}/g, "$&\n")}-----END ${label}-----\n`;

/** A certificate and its key, as PEM. */
export interface Certificate {
  readonly name: string;
  readonly cert: string;
  readonly key: string;
  readonly privateKey: KeyObject;
}

/** A certificate for 127.0.0.1, or of an authority, which signs itself. @param issuer the authority that signs */
export function certificate(name: string, issuer?: Certificate): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const isAuthority = issuer === undefined;
  const extensions = [
    extension(19, true, isAuthority ? sequence(der(1, bytes(255))) : sequence()), // basic constraints
    ...(isAuthority ? [] : [extension(17, false, sequence(der(0x87, bytes(127, 0, 0, 1))))]), // alternative name: IP
  ];
  const body = sequence(
    der(0xa0, der(2, bytes(2))), // version 3
    der(2, bytes(1 + (createHash("sha256").update(name).digest()[0]! >> 1))), // serial number
    ECDSA,
    nameOf(issuer?.name ?? name),
    sequence(timeOf(2020), timeOf(2120)),
    nameOf(name),
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(...extensions)),
  );
  const signature = sign("sha256", body, issuer?.privateKey ?? privateKey);
  const cert = pem("CERTIFICATE", sequence(body, ECDSA, der(3, bytes(0), signature)));
  const key = privateKey.export({ type: "pkcs8", format: "pem" }) as string;
  return { name, cert, key, privateKey };
}

/** A user's nkey: the public half for the server, the seed for the user. */
export function nkey(): { readonly publicKey: string; readonly seed: string } {
  const pair = nkeys.createUser();
  return { publicKey: pair.getPublicKey(), seed: new TextDecoder().decode(pair.getSeed()) };
}

type Pair = ReturnType<typeof nkeys.createUser>;
const url64 = (data: string | Uint8Array): string => Buffer.from(data).toString("base64url");

/** A JWT of NATS (version 2 of its claims). */
function jwt(issuer: Pair, subject: Pair, name: string, nats: object): string {
  const claims = { iat: 1_600_000_000, iss: issuer.getPublicKey(), name, sub: subject.getPublicKey(), nats };
  const jti = createHash("sha256").update(JSON.stringify(claims)).digest("hex").toUpperCase();
  const head = `${url64('{"typ":"JWT","alg":"ed25519-nkey"}')}.${url64(JSON.stringify({ jti, ...claims }))}`;
  return `${head}.${url64(issuer.sign(new TextEncoder().encode(head)))}`;
}

/** An operator with an account that may use JetStream, as lines for the server, and creds files of its users. */
export function operator(): { readonly config: string; creds(): string } {
  const [owner, system, account] = [nkeys.createOperator(), nkeys.createAccount(), nkeys.createAccount()];
  const free = { subs: -1, data: -1, payload: -1, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 };
  const limits = { ...free, mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 };
  const own = (pair: Pair, name: string, more: object): string =>
    jwt(owner, pair, name, { type: "account", version: 2, limits: more });
  const config = [
    `operator: ${jwt(owner, owner, "operator", { type: "operator", version: 2 })}`,
    `system_account: ${system.getPublicKey()}`,
    "resolver: MEMORY",
    "resolver_preload: {",
    `  ${system.getPublicKey()}: ${own(system, "system", free)}`,
    `  ${account.getPublicKey()}: ${own(account, "account", limits)}`,
    "}",
  ].join("\n");
  return {
    config,
    creds() {
      const user = nkeys.createUser();
      const token = jwt(account, user, "user", { type: "user", version: 2, subs: -1, data: -1, payload: -1 });
      return (
        `-----BEGIN NATS USER JWT-----\n${token}\n------END NATS USER JWT------\n\n` +
        `-----BEGIN USER NKEY SEED-----\n${new TextDecoder().decode(user.getSeed())}\n------END USER NKEY SEED------\n`
      );
    },
  };
}
