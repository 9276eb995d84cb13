/**
 * Functions that every HTTP server here needs: reading JSON with a limit, answering with JSON, errors in the form of
 * the OpenAI API, checking keys, and refusing requests that come from pages of other sites.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { WorldgradError } from "../../engine/errors.ts";
import { type Fields, isFields } from "../fields.ts";

/** An answer that is an error, in the form of the OpenAI API. */
export class HttpError extends Error {
  readonly status: number;
  readonly type: string;
  readonly code: string | null;
  readonly param: string | null;

  constructor(
    status: number,
    message: string,
    { code = null, param = null }: { code?: string; param?: string } | { code?: null; param?: null } = {},
  ) {
    super(message);
    this.status = status;
    this.type = TYPES[status] ?? (status >= 500 ? "server_error" : "invalid_request_error");
    this.code = code;
    this.param = param;
  }

  /** The body of the answer. */
  get body(): Fields {
    return { error: { message: this.message, type: this.type, param: this.param, code: this.code } };
  }
}

const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  429: "rate_limit_error",
  503: "service_unavailable_error",
  504: "timeout_error",
};

/** Any error as an answer. Errors of the library's checks are the request's fault (400), all others ours (500). */
export function asHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  if (!(error instanceof WorldgradError)) return new HttpError(500, "the server failed; its log says why");
  const { message } = error;
  const param = /^[\w./ ]+: (\w+) must be /.exec(message)?.[1] ?? /unknown option '(\w+)'/.exec(message)?.[1];
  return new HttpError(400, message, param === undefined ? {} : { param });
}

/** Answers with JSON. Nothing happens if the client is gone. */
export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  if (response.headersSent || response.destroyed) return;
  const text = JSON.stringify(body);
  response.writeHead(status, {
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(text),
  });
  response.end(text);
}

/** Multiple of the limit up to which a refused body is read, so that its sender gets the answer. */
const READ_ON = 16;

/** The JSON object in a request's body. @throws HttpError 413, 415 or 400 */
export async function readJson(request: IncomingMessage, limit: number): Promise<Fields> {
  // Browsers let a page of another site send forms and plain text here, but not this content type.
  if (!/^application\/json\b/i.test(request.headers["content-type"] ?? "")) {
    throw new HttpError(415, "the body must be of type application/json");
  }
  // A client that still sends would see a broken connection (EPIPE) and not the answer, so the body is read and
  // dropped.
  const announced = Number(request.headers["content-length"] ?? 0);
  const chunks: Buffer[] = [];
  let length = 0;
  if (announced <= READ_ON * limit) {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > READ_ON * limit) break;
      if (Math.max(length, announced) > limit) chunks.length = 0;
      else chunks.push(chunk);
    }
  }
  if (Math.max(length, announced) > limit) throw new HttpError(413, `the body is larger than ${limit} bytes`);
  let value: unknown;
  try {
    value = JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    throw new HttpError(400, "the body is no valid JSON");
  }
  if (!isFields(value)) throw new HttpError(400, "the body must be a JSON object");
  return value;
}

/** @throws HttpError 401 unless the request has the key, as `Authorization: Bearer KEY` */
export function checkKey(request: IncomingMessage, key: string | undefined): void {
  if (key === undefined) return;
  const given = /^Bearer (.+)$/i.exec(request.headers.authorization ?? "")?.[1];
  if (given === undefined) {
    throw new HttpError(401, "this server needs a key: Authorization: Bearer KEY", { code: "missing_api_key" });
  }
  const hash = (text: string): Buffer => createHash("sha256").update(text).digest();
  if (!timingSafeEqual(hash(given), hash(key))) {
    throw new HttpError(401, "the key is not this server's", { code: "invalid_api_key" });
  }
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/i;

/**
 * @throws HttpError 403 for a name that is not this machine's own, on a server that listens to this machine alone: a
 *   page of another site may have pointed its name here
 */
export function checkHost(request: IncomingMessage, host: string): void {
  if (!isLocal(host)) return;
  if (!LOOPBACK.test(request.headers.host ?? "")) throw new HttpError(403, "this server answers to localhost only");
}

const isLocal = (host: string): boolean => LOOPBACK.test(host) || host === "::1";

/**
 * Checks WebSockets: a browser opens one to any server for any page, and names the page's origin. Other programs send
 * no origin.
 * @throws HttpError 403 if it is a page of another site, on a server that listens to this machine alone
 */
export function checkOrigin(request: IncomingMessage, host: string): void {
  const { origin } = request.headers;
  if (!isLocal(host) || origin === undefined) return;
  const from = URL.canParse(origin) ? new URL(origin).host : "";
  if (!LOOPBACK.test(from))
    throw new HttpError(403, `this server answers to pages of localhost only, not of ${origin}`);
}

/** Whether a text is an origin as browsers name it: scheme, host and port, and nothing behind them. */
export const isOrigin = (text: string): boolean =>
  !text.includes("*") && URL.canParse(text) && new URL(text).origin === text;

/**
 * Lets pages of these origins read the answers (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol); "*" are all.
 * A browser asks before it sends JSON or a key; that question carries no key.
 * @returns whether the request was this question, which is answered then
 */
export function allowOrigins(request: IncomingMessage, response: ServerResponse, origins: readonly string[]): boolean {
  const { origin } = request.headers;
  if (origins.length === 0) return false;
  response.setHeader("vary", "Origin");
  if (origin === undefined || !(origins.includes(origin) || origins.includes("*"))) return false;
  response.setHeader("access-control-allow-origin", origin);
  if (request.method !== "OPTIONS" || request.headers["access-control-request-method"] === undefined) return false;
  response.writeHead(204, {
    "access-control-allow-methods": "GET, POST",
    // OpenAI's client adds headers of its own (x-stainless-…).
    "access-control-allow-headers": request.headers["access-control-request-headers"] ?? "content-type",
    "access-control-max-age": "600",
  });
  response.end();
  return true;
}

/** A server that listens. */
export interface Listening {
  readonly server: Server;
  readonly url: string;
  /** Ends all connections. */
  close(): Promise<void>;
}

/** Milliseconds after which a client that takes nothing of what is written for it is dropped. */
const PATIENCE = 30_000;

/**
 * Starts an HTTP server. @param patience milliseconds that a client may take nothing of what is written for it
 * @throws if the port is taken or the host is none of this machine's
 */
export async function listen(
  host: string,
  port: number,
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
  patience = PATIENCE,
): Promise<Listening> {
  const server = createServer((request, response) => {
    // Node emits it for a socket on which nothing moves, not even a part of a long text. A client may wait for an
    // answer.
    response.on("timeout", () => {
      if (response.writableLength > 0) response.destroy();
    });
    handle(request, response).catch((error: unknown) => {
      const answer = asHttpError(error);
      if (answer.status >= 500 && error !== request.errored) console.error(error); // else the client broke off
      if (answer.status === 413) response.shouldKeepAlive = false; // the rest of the body is not read
      sendJson(response, answer.status, answer.body);
      if (!response.writableEnded) response.destroy();
    });
  });
  server.timeout = patience;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve();
    });
  });
  const { port: bound } = server.address() as AddressInfo;
  return {
    server,
    url: `http://${host.includes(":") ? `[${host}]` : host}:${bound}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
