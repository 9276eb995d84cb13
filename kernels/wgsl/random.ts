/**
 * Uniform random numbers from Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw, SC 2011); every executor gives
 * the same bits. One thread per block of two words.
 */
import { single, u32 } from "../kernel.ts";
import type { RandomSpec } from "../specs.ts";
import { each, gridFor, linearMain, shader, type Generator } from "./shader.ts";

const GROUP = 64;
const ROTATIONS = [13, 15, 26, 6, 17, 29, 16, 24] as const;

/** Five groups of four rounds, each followed by a key injection. The text uses `x`, `keys` and `rotate_left`. */
export const threefryRounds = (): string =>
  each(
    5,
    (group) => `${each(4, (k) => `  x.x += x.y; x.y = rotate_left(x.y, ${ROTATIONS[(group % 2) * 4 + k]!}u) ^ x.x;`)}
  x += vec2u(keys[${(group + 1) % 3}], keys[${(group + 2) % 3}] + ${group + 1}u);`,
  );

/** See `RandomSpec`. */
export const random: Generator<RandomSpec> = ({ count, key0, key1 }) => {
  const blocks = Math.ceil(count / 2);
  const kernel = shader({
    key: "random",
    bindings: { y: "write f32" },
    params: { count: u32(count), blocks: u32(blocks), key0: u32(key0 >>> 0), key1: u32(key1 >>> 0) },
    workgroups: gridFor(blocks, GROUP),
    body: () => `fn rotate_left(x: u32, bits: u32) -> u32 { return (x << bits) | (x >> (32u - bits)); }

${linearMain(GROUP, "params.blocks")}
  let keys = array<u32, 3>(params.key0, params.key1, 0x1bd11bdau ^ params.key0 ^ params.key1);
  var x = vec2u(i + keys[0], keys[1]);
${threefryRounds()}
  y[2u * i] = f32(x.x >> 8u) * 5.9604644775390625e-8f;
  if (2u * i + 1u < params.count) { y[2u * i + 1u] = f32(x.y >> 8u) * 5.9604644775390625e-8f; }
}`,
  });
  return single(kernel, 1);
};
