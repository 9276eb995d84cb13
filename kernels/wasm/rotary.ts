/**
 * Rotary position embedding (Su et al., "RoFormer", 2021) in the halves convention of Llama: columns j and j + D/2 of a
 * head are a pair, which is rotated by the angle whose cosine and sine are in row `positions[token]` of two tables. A
 * unit is one token.
 */
import { type Program, single, type WasmKernel } from "../kernel.ts";
import type { RotarySpec } from "../specs.ts";
import { type F32x4, i32s, kernelModule, load as loads } from "./assembler.ts";
import { forColumns } from "./lanes.ts";

/** See `RotarySpec`. Buffers: x, positions, cos, sin → y. A position outside the table reads its nearest row. */
export function rotary({ tokens, heads, headDim, tableRows, inverse }: RotarySpec): Program<WasmKernel> {
  const kernel: WasmKernel = {
    key: inverse ? "rotary.inverse" : "rotary",
    module: () => rotaryModule(inverse),
    scalars: [heads, headDim / 2, tableRows],
    units: tokens,
    costPerUnit: 4 * heads * headDim,
  };
  return single(kernel, 5);
}

function rotaryModule(inverse: boolean): Uint8Array<ArrayBuffer> {
  const params = i32s("x", "positions", "cos", "sin", "y", "heads", "half", "tableRows", "begin", "end");
  return kernelModule(params, (f, p) => {
    f.for(p.begin, p.end, 1, (token) => {
      const position = f.let(loads.i32(p.positions.at(token)));
      f.set(position, position.max(0));
      const entry = f.let(position.min(p.tableRows.sub(1)).mul(p.half));
      const [cos, sin] = [f.let(p.cos.at(entry)), f.let(p.sin.at(entry))];
      f.for(0, p.heads, 1, (head) => {
        const offset = f.let(token.mul(p.heads).add(head).mul(p.half).mul(2));
        const [x, y] = [f.let(p.x.at(offset)), f.let(p.y.at(offset))];
        const [x2, y2] = [f.let(x.at(p.half)), f.let(y.at(p.half))];
        forColumns(f, p.half, ({ load, store }) => {
          const [a, b] = [f.let(load(x)), f.let(load(x2))];
          const [c, s] = [f.let(load(cos)), f.let(load(sin))];
          const plus = (u: F32x4, v: F32x4): F32x4 => (inverse ? u.sub(v) : u.add(v));
          const minus = (u: F32x4, v: F32x4): F32x4 => (inverse ? u.add(v) : u.sub(v));
          store(y, minus(a.mul(c), b.mul(s)));
          store(y2, plus(b.mul(c), a.mul(s)));
        });
      });
    });
  });
}
