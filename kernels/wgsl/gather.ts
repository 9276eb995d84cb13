/** Reads and writes rows by index: copies of 32-bit words, one thread per word or per four words. */
import { single, u32 } from "../kernel.ts";
import type { GatherSpec, TakeAlongSpec, WriteRowsSpec } from "../specs.ts";
import { gridFor, linearMain, shader, type Generator } from "./shader.ts";

const GROUP = 64;

/** See `GatherSpec`. Copies four words at a time if the length of a row is a multiple of four. */
export const gather: Generator<GatherSpec> = ({ outer, rows, count, inner }) => {
  const vector = inner % 4 === 0;
  const columns = vector ? inner / 4 : inner;
  const total = outer * count * columns;
  const element = vector ? "vec4u" : "u32";
  const kernel = shader({
    key: `gather ${element}`,
    bindings: { x: `read ${element}`, ids: "read i32", y: `write ${element}` },
    params: { total: u32(total), rows: u32(rows), count: u32(count), columns: u32(columns) },
    workgroups: gridFor(total, GROUP),
    body: () => `${linearMain(GROUP, "params.total")}
  let column = i % params.columns;
  let n = (i / params.columns) % params.count;
  let o = i / (params.columns * params.count);
  let id = bitcast<u32>(ids[n]); // a negative id becomes larger than any row
  var value = ${element}(0u);
  if (id < params.rows) { value = x[(o * params.rows + id) * params.columns + column]; }
  y[i] = value;
}`,
  });
  return single(kernel, 3);
};

/** See `TakeAlongSpec`. */
export const takeAlong: Generator<TakeAlongSpec> = ({ outer, rows, count, inner }) => {
  const total = outer * count * inner;
  const kernel = shader({
    key: "takeAlong",
    bindings: { x: "read u32", ids: "read i32", y: "write u32" },
    params: { total: u32(total), rows: u32(rows), count: u32(count), inner: u32(inner) },
    workgroups: gridFor(total, GROUP),
    body: () => `${linearMain(GROUP, "params.total")}
  let column = i % params.inner;
  let o = i / (params.inner * params.count);
  let id = bitcast<u32>(ids[i]);
  var value = 0u;
  if (id < params.rows) { value = x[(o * params.rows + id) * params.inner + column]; }
  y[i] = value;
}`,
  });
  return single(kernel, 3);
};

/** See `WriteRowsSpec`. */
export const writeRows: Generator<WriteRowsSpec> = ({ rows, count, inner }) => {
  const total = count * inner;
  const kernel = shader({
    key: "writeRows",
    bindings: { src: "read u32", ids: "read i32", dest: "readwrite u32" },
    params: { total: u32(total), rows: u32(rows), inner: u32(inner) },
    workgroups: gridFor(total, GROUP),
    body: () => `${linearMain(GROUP, "params.total")}
  let id = bitcast<u32>(ids[i / params.inner]);
  if (id < params.rows) { dest[id * params.inner + i % params.inner] = src[i]; }
}`,
  });
  return single(kernel, 3);
};
