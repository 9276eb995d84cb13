/**
 * Sums into rows by index, the adjoints of gather and takeAlong. WGSL has no float atomics, and a compare-and-swap loop would
 * add in a different order every run. Here every output element has one owner that adds in the order of n.
 */
import { type Program, single, u32, type WgslKernel } from "../kernel.ts";
import type { ScatterAddSpec, ScatterAlongSpec } from "../specs.ts";
import { fillKernel } from "./copy.ts";
import { gridFor, linearMain, shader, type Generator } from "./shader.ts";

const GROUP = 64;

/**
 * See `ScatterAddSpec`. In three steps, with two temporaries:
 *
 * 1. `first` [rows] is filled with −1.
 * 2. One thread per n looks back and forth for the same id: it writes `next[n]`, the following n with that id (−1: none), and,
 *    when no earlier n has the id, `first[id] = n`. No two threads write the same word.
 * 3. One thread per output element (four where rows allow) walks first → next → … and adds.
 *
 * Step 2 compares at most count² ids, as a rule far fewer, and once, not once per column; step 3 touches each gradient once.
 */
export const scatterAdd: Generator<ScatterAddSpec> = ({ outer, rows, count, inner }) => {
  const link = shader({
    key: "scatterAdd link",
    bindings: { ids: "read i32", first: "write i32", next: "write i32" },
    params: { count: u32(count), rows: u32(rows) },
    workgroups: gridFor(count, GROUP),
    body: () => `${linearMain(GROUP, "params.count")}
  let id = ids[i];
  var after = i + 1u;
  while (after < params.count && ids[after] != id) { after++; }
  next[i] = select(-1, i32(after), after < params.count);
  var before = i; // one past the candidate, so that it stays unsigned
  while (before > 0u && ids[before - 1u] != id) { before--; }
  if (before == 0u && bitcast<u32>(id) < params.rows) { first[id] = i32(i); }
}`,
  });

  const vector = inner % 4 === 0;
  const columns = vector ? inner / 4 : inner;
  const total = outer * rows * columns;
  const element = vector ? "vec4f" : "f32";
  const sum = shader({
    key: `scatterAdd sum ${element}`,
    bindings: { g: `read ${element}`, first: "read i32", next: "read i32", y: `write ${element}` },
    params: { total: u32(total), rows: u32(rows), count: u32(count), columns: u32(columns) },
    workgroups: gridFor(total, GROUP),
    body: () => `${linearMain(GROUP, "params.total")}
  let column = i % params.columns;
  let row = (i / params.columns) % params.rows;
  let o = i / (params.columns * params.rows);
  var sum = ${element}(0.0f);
  for (var n = first[row]; n >= 0; n = next[n]) {
    sum += g[(o * params.count + u32(n)) * params.columns + column];
  }
  y[i] = sum;
}`,
  });
  const [g, ids, y, first, next] = [0, 1, 2, 3, 4];
  return {
    temps: [4 * rows, 4 * count],
    steps: [
      { kernel: fillKernel(rows, 0xffffffff), buffers: [first] },
      { kernel: link, buffers: [ids, first, next] },
      { kernel: sum, buffers: [g, first, next, y] },
    ],
  };
};

/** Up to here, comparing every id with every row costs less than being serial in a column. */
const FEW = 8;

/**
 * See `ScatterAlongSpec`. Few ids per column (one, for the log-probability of a token): one thread per output element compares
 * them all. Many: the output is zeroed, then one thread per column adds them one after the other.
 */
export const scatterAlong: Generator<ScatterAlongSpec> = ({ outer, rows, count, inner }) => {
  if (count > FEW) return scatterColumns({ outer, rows, count, inner });
  const total = outer * rows * inner;
  const kernel = shader({
    key: "scatterAlong elements",
    bindings: { g: "read f32", ids: "read i32", y: "write f32" },
    params: { total: u32(total), rows: u32(rows), count: u32(count), inner: u32(inner) },
    workgroups: gridFor(total, GROUP),
    body: () => `${linearMain(GROUP, "params.total")}
  let column = i % params.inner;
  let row = i32((i / params.inner) % params.rows);
  let start = (i / (params.inner * params.rows)) * params.count * params.inner + column;
  var sum = 0.0f;
  for (var n = 0u; n < params.count; n++) {
    let at = start + n * params.inner;
    if (ids[at] == row) { sum += g[at]; }
  }
  y[i] = sum;
}`,
  });
  return single(kernel, 3);
};

function scatterColumns({ outer, rows, count, inner }: ScatterAlongSpec): Program<WgslKernel> {
  const columns = outer * inner;
  const kernel = shader({
    key: "scatterAlong columns",
    bindings: { g: "read f32", ids: "read i32", y: "readwrite f32" },
    params: { columns: u32(columns), rows: u32(rows), count: u32(count), inner: u32(inner) },
    workgroups: gridFor(columns, GROUP),
    body: () => `${linearMain(GROUP, "params.columns")}
  let column = i % params.inner;
  let o = i / params.inner;
  for (var n = 0u; n < params.count; n++) {
    let at = (o * params.count + n) * params.inner + column;
    let id = bitcast<u32>(ids[at]);
    if (id < params.rows) { y[(o * params.rows + id) * params.inner + column] += g[at]; }
  }
}`,
  });
  const [g, ids, y] = [0, 1, 2];
  return {
    temps: [],
    steps: [
      { kernel: fillKernel(outer * rows * inner, 0), buffers: [y] },
      { kernel, buffers: [g, ids, y] },
    ],
  };
}
