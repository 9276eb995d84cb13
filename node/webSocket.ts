/**
 * A WebSocket client for Node before version 22, which has no global one: RFC 6455 with text messages, as much of it as a client of a well-behaved server
 * needs. No extensions (no compression), no subprotocols, no proxies. Its face is that of the standard class as far
 * as `SocketLike` goes.
 */
import { createHash, randomBytes } from "node:crypto";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { Socket } from "node:net";
import type { SocketLike } from "../environments/index.ts";

/** RFC 6455 §1.3: what both sides append to the key. */
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** Larger messages are refused; the limit of OpenEnv's own client. */
const MOST_BYTES = 100 * 2 ** 20;
const OPCODES = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;
/** After this many milliseconds a server that does not answer our close is hung up on. */
const CLOSING_TIME = 2_000;

interface IncomingFrame {
  readonly isFinal: boolean;
  readonly opcode: number;
  readonly payload: Buffer;
}

/** A violation of the protocol, with the code that we close with. */
class Violation extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** Bytes in, frames out. */
class FrameReader {
  #chunks: Buffer[] = [];
  #size = 0;
  /** Bytes that the next frame needs at least. */
  #needed = 2;

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
  }

  /** The next frame, if it has arrived whole. @throws Violation */
  next(): IncomingFrame | undefined {
    // Joined only when there is enough, so that a large message in many chunks is copied once.
    if (this.#size < this.#needed) return undefined;
    const bytes = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
    this.#chunks = [bytes];
    const first = bytes[0]!;
    const second = bytes[1]!;
    if ((first & 0x70) !== 0) throw new Violation(1002, "the server uses an extension that was not agreed on");
    if ((second & 0x80) !== 0) throw new Violation(1002, "the server masks its frames");
    const short = second & 0x7f;
    const header = short === 126 ? 4 : short === 127 ? 10 : 2;
    if (this.#wants(header)) return undefined;
    const length = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
    const isFinal = (first & 0x80) !== 0;
    const opcode = first & 0x0f;
    if (length > MOST_BYTES) throw new Violation(1009, `the server sends a frame of ${length} bytes`);
    if (opcode >= 8 && (length > 125 || !isFinal)) throw new Violation(1002, "the server sends a bad control frame");
    if (this.#wants(header + length)) return undefined;
    this.#chunks = [bytes.subarray(header + length)];
    this.#size -= header + length;
    this.#needed = 2;
    return { isFinal, opcode, payload: bytes.subarray(header, header + length) };
  }

  #wants(bytes: number): boolean {
    this.#needed = bytes;
    return this.#size < bytes;
  }
}

/** A frame of a client: masked, as it must be. */
function maskedFrame(opcode: number, payload: Buffer): Buffer {
  const { length } = payload;
  const extended = length < 126 ? 0 : length < 2 ** 16 ? 2 : 8;
  const frame = Buffer.allocUnsafe(2 + extended + 4 + length);
  frame[0] = 0x80 | opcode;
  frame[1] = 0x80 | (extended === 0 ? length : extended === 2 ? 126 : 127);
  if (extended === 2) frame.writeUInt16BE(length, 2);
  if (extended === 8) frame.writeBigUInt64BE(BigInt(length), 2);
  const mask = randomBytes(4);
  mask.copy(frame, 2 + extended);
  const start = 2 + extended + 4;
  for (let i = 0; i < length; i++) frame[start + i] = payload[i]! ^ mask[i % 4]!;
  return frame;
}

/**
 * @example
 * const session = await connect({ url: "http://localhost:8000", WebSocket: NodeWebSocket });
 */
export class NodeWebSocket implements SocketLike {
  readonly url: string;
  onopen: ((event: object) => void) | null = null;
  /** `data` is a string, or bytes if the server sent such. */
  onmessage: ((event: { readonly data: string | Uint8Array }) => void) | null = null;
  /** Always comes, and last. */
  onclose: ((event: { readonly code: number; readonly reason: string }) => void) | null = null;
  onerror: ((event: { readonly message: string }) => void) | null = null;
  readonly #reader = new FrameReader();
  #socket: Socket | undefined;
  #hangUp: () => void;
  #state: "connecting" | "open" | "closing" | "closed" = "connecting";
  #message: { readonly opcode: number; readonly parts: Buffer[]; bytes: number } | undefined;
  #goodbye: { readonly code: number; readonly reason: string } = { code: 1006, reason: "" };

  /** @throws TypeError if `url` is no address of a WebSocket */
  constructor(url: string) {
    const { protocol } = new URL(url);
    if (protocol !== "ws:" && protocol !== "wss:")
      throw new TypeError(`NodeWebSocket: expected ws:// or wss://, got ${url}`);
    this.url = url;
    const key = randomBytes(16).toString("base64");
    const request = (protocol === "wss:" ? requestHttps : requestHttp)(url.replace(/^ws/, "http"), {
      headers: {
        Connection: "Upgrade",
        Upgrade: "websocket",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Version": "13",
      },
    });
    this.#hangUp = () => request.destroy();
    request.on("upgrade", (response: IncomingMessage, socket: Socket, head: Buffer) => {
      const expected = createHash("sha1")
        .update(key + GUID)
        .digest("base64");
      if (response.headers["sec-websocket-accept"] === expected) return this.#opened(socket, head);
      socket.destroy();
      this.#failed("the server's handshake does not fit");
    });
    request.on("response", (response) => {
      response.destroy();
      this.#failed(`the server answered ${response.statusCode} instead of opening a WebSocket`);
    });
    request.on("error", (error) => this.#failed(error.message));
    request.end();
  }

  /** @throws unless the connection is open */
  send(data: string): void {
    if (this.#state !== "open") throw new Error(`NodeWebSocket: send while ${this.#state}`);
    this.#socket!.write(maskedFrame(OPCODES.text, Buffer.from(data)));
  }

  close(code: number = 1000): void {
    if (this.#state === "connecting") return this.#failed("closed before it was open");
    if (this.#state !== "open") return;
    this.#state = "closing";
    const payload = Buffer.alloc(2);
    payload.writeUInt16BE(code);
    this.#socket!.write(maskedFrame(OPCODES.close, payload));
    const timer = setTimeout(() => this.#hangUp(), CLOSING_TIME);
    this.#socket!.on("close", () => clearTimeout(timer));
  }

  #opened(socket: Socket, head: Buffer): void {
    if (this.#state !== "connecting") return void socket.destroy();
    this.#state = "open";
    this.#socket = socket;
    this.#hangUp = () => socket.destroy();
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("end", () => socket.end());
    socket.on("error", (error) => this.onerror?.({ message: error.message }));
    socket.on("close", () => this.#closed());
    this.onopen?.({});
    if (head.length > 0) this.#receive(head);
  }

  #receive(chunk: Buffer): void {
    this.#reader.push(chunk);
    try {
      for (let frame = this.#reader.next(); frame; frame = this.#reader.next()) this.#take(frame);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.onerror?.({ message });
      this.close(error instanceof Violation ? error.code : 1007);
      this.#hangUp();
    }
  }

  #take({ isFinal, opcode, payload }: IncomingFrame): void {
    if (opcode === OPCODES.ping) return void this.#socket!.write(maskedFrame(OPCODES.pong, payload));
    if (opcode === OPCODES.pong) return;
    if (opcode === OPCODES.close) return this.#answerClose(payload);
    if (opcode > OPCODES.binary) throw new Violation(1002, `the server sends frames of an unknown kind, ${opcode}`);
    if ((opcode === OPCODES.continuation) !== (this.#message !== undefined)) {
      throw new Violation(1002, "the server sends the parts of a message out of order");
    }
    const message = (this.#message ??= { opcode, parts: [], bytes: 0 });
    message.parts.push(payload);
    message.bytes += payload.length;
    if (message.bytes > MOST_BYTES)
      throw new Violation(1009, `the server sends a message of more than ${MOST_BYTES} bytes`);
    if (!isFinal) return;
    this.#message = undefined;
    const whole = Buffer.concat(message.parts);
    // Throws on bytes that are not UTF-8, as a text message must not be.
    const data = message.opcode === OPCODES.text ? new TextDecoder("utf-8", { fatal: true }).decode(whole) : whole;
    if (this.#state === "open") this.onmessage?.({ data });
  }

  #answerClose(payload: Buffer): void {
    this.#goodbye =
      payload.length >= 2
        ? { code: payload.readUInt16BE(0), reason: payload.subarray(2).toString() }
        : { code: 1005, reason: "" };
    this.close(payload.length >= 2 ? this.#goodbye.code : 1000);
    this.#state = "closing";
    this.#socket!.end();
  }

  #failed(message: string): void {
    if (this.#state !== "connecting") return;
    this.#state = "closed";
    this.#hangUp();
    // Not at once: whoever has just made it, or calls close, has still to listen.
    queueMicrotask(() => {
      this.onerror?.({ message });
      this.onclose?.(this.#goodbye);
    });
  }

  #closed(): void {
    this.#state = "closed";
    this.onclose?.(this.#goodbye);
  }
}
