/**
 * The bytes of a TensorBoard event file: TFRecords (a length, its checksum, the data, its checksum) of `Event` messages
 * of Protocol Buffers, of which a run needs five fields. The formats are those of TensorFlow's record_writer.h and
 * event.proto; both are little-endian. The checksum is CRC-32C, rotated and offset ("masked"), so that a checksum of
 * data that contains checksums is a good one.
 */
import { check } from "../../engine/errors.ts";

/** CRC-32C of every byte; the polynomial is Castagnoli's, in reversed order. */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0x82f63b78 : rest >>> 1;
  return rest;
});

export function maskedCrc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ TABLE[(crc ^ byte) & 0xff]!;
  crc = ~crc >>> 0;
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}

function record(data: Uint8Array): Buffer {
  const head = Buffer.alloc(12);
  head.writeBigUInt64LE(BigInt(data.length));
  head.writeUInt32LE(maskedCrc32c(head.subarray(0, 8)), 8);
  const foot = Buffer.alloc(4);
  foot.writeUInt32LE(maskedCrc32c(data));
  return Buffer.concat([head, data, foot]);
}

/** The wire types of Protocol Buffers. */
const [VARINT, DOUBLE, BYTES, FLOAT] = [0, 1, 2, 5];

/** A whole number ≥ 0 in groups of seven bits, the lowest first. */
function varint(n: number): number[] {
  const bytes: number[] = [];
  for (; n >= 0x80; n = Math.floor(n / 0x80)) bytes.push((n % 0x80) | 0x80);
  return [...bytes, n];
}

const field = (number: number, type: number, ...parts: readonly (Uint8Array | readonly number[])[]): Buffer =>
  Buffer.concat([varint(number * 8 + type), ...parts].map((part) => Uint8Array.from(part)));
const bytesField = (number: number, data: Uint8Array): Buffer => field(number, BYTES, varint(data.length), data);
const textField = (number: number, text: string): Buffer => bytesField(number, Buffer.from(text, "utf8"));

/** @param seconds the time of the event, since 1970 */
function event(seconds: number, step: number, what: Uint8Array): Buffer {
  check(Number.isSafeInteger(step) && step >= 0, () => `event file: expected an integer step ≥ 0, got ${step}`);
  const time = Buffer.alloc(8);
  time.writeDoubleLE(seconds);
  return record(Buffer.concat([field(1, DOUBLE, time), field(2, VARINT, varint(step)), what]));
}

/**
 * The beginning of a file: its version, and a session that starts at step 0. The latter has a TensorBoard that is open
 * forget what it read in an earlier file of the same run.
 */
export const eventFileHead = (seconds: number): Buffer =>
  Buffer.concat([
    event(seconds, 0, textField(3, "brain.Event:2")),
    event(seconds, 0, bytesField(7, field(1, VARINT, [1]))),
  ]);

/** Values of a step by their tags. They become float32: larger ones than 3.4e38 are infinite. */
export function scalarsEvent(seconds: number, step: number, values: Readonly<Record<string, number>>): Buffer {
  const summary = Object.entries(values).map(([tag, value]) => {
    const bits = Buffer.alloc(4);
    bits.writeFloatLE(value);
    return bytesField(1, Buffer.concat([textField(1, tag), field(2, FLOAT, bits)]));
  });
  return event(seconds, step, bytesField(5, Buffer.concat(summary)));
}
