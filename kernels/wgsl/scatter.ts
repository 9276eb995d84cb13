/**
 * Sums into rows by index: the adjoints of gather and takeAlong. WGSL has no float atomics, and a compare-and-swap loop
 * would add in a different order in every run. Here every output element has one owner, which adds in the order of n.
 */
import { type Program, single, type Step, u32, type WgslKernel } from "../kernel.ts";
import type { ScatterAddSpec, ScatterAlongSpec } from "../specs.ts";
import { fillKernel } from "./copy.ts";
import { gridFor, linearMain, shader, type Generator } from "./shader.ts";

const GROUP = 64;

/**
 * The largest number of ids that are added in one chain; the sum of a row with more is made of such sums: the rounding
 * error grows with the longest chain of additions. For a million times 0.1 one chain is 1 % off.
 */
const LONGEST_CHAIN = 65536;

/** The number of ids that a thread compares its own with; more if many rows would make the table too large. */
const BLOCK = 64;
const MAX_TABLE = 2 ** 22;

function blockOf(rows: number, count: number): number {
  let block = BLOCK;
  while (Math.ceil(count / block) * rows > MAX_TABLE && block < count) block *= 2;
  return block;
}

/**
 * See `ScatterAddSpec`. The device makes linked lists of the places of each id, wherever the ids come from. (A counting
 * sort on the host would have to read back the ids of a sampled batch.) The work is linear in ids and rows: ids are cut
 * into blocks, `table` [blocks, rows] holds a place per block and id, and no two threads write the same word.
 *
 * 1. `table` is filled with −1.
 * 2. One thread per n looks for its id in its own block only: `next[n]` is the following n with that id (−1: none). The
 *   first n of an id in a block goes into the table.
 * 3. One thread per row goes through the blocks from the last to the first and turns each entry into what follows the
 *   block: the first place of that id in any later block. What is left is the first place of all: `first[row]`.
 * 4. One thread per output element (or four, if rows allow) walks the list and adds in the order of n.
 */
export const scatterAdd: Generator<ScatterAddSpec> = ({ outer, rows, count, inner }) => {
  const block = blockOf(rows, count);
  const blocks = Math.ceil(count / block);
  const link = shader({
    key: "scatterAdd link",
    bindings: { ids: "read i32", table: "write i32", next: "write i32" },
    params: { count: u32(count), rows: u32(rows), block: u32(block) },
    workgroups: gridFor(count, GROUP),
    body: () => `${linearMain(GROUP, "params.count")}
  let id = ids[i];
  let begin = i / params.block * params.block;
  let end = min(begin + params.block, params.count);
  var after = i + 1u;
  while (after < end && ids[after] != id) { after++; }
  next[i] = select(-1, i32(after), after < end);
  var before = i; // one past the candidate, so that it stays unsigned
  while (before > begin && ids[before - 1u] != id) { before--; }
  let row = bitcast<u32>(id);
  if (before == begin && row < params.rows) { table[i / params.block * params.rows + row] = i32(i); }
}`,
  });

  const carry = shader({
    key: "scatterAdd carry",
    bindings: { table: "readwrite i32", first: "write i32" },
    params: { rows: u32(rows), blocks: u32(blocks) },
    workgroups: gridFor(rows, GROUP),
    body: () => `${linearMain(GROUP, "params.rows")}
  var following = -1;
  for (var block = params.blocks; block > 0u; block--) {
    let at = (block - 1u) * params.rows + i;
    let here = table[at];
    table[at] = following;
    following = select(following, here, here >= 0);
  }
  first[i] = following;
}`,
  });

  const vector = inner % 4 === 0;
  const columns = vector ? inner / 4 : inner;
  const total = outer * rows * columns;
  const element = vector ? "vec4f" : "f32";
  const sum = shader({
    key: `scatterAdd sum ${element}`,
    bindings: {
      g: `read ${element}`,
      table: "read i32",
      first: "read i32",
      next: "read i32",
      y: `write ${element}`,
    },
    params: { total: u32(total), rows: u32(rows), count: u32(count), columns: u32(columns), block: u32(block) },
    workgroups: gridFor(total, GROUP),
    body: () => `${linearMain(GROUP, "params.total")}
  let column = i % params.columns;
  let row = (i / params.columns) % params.rows;
  let o = i / (params.columns * params.rows);
  var sum = ${element}(0.0f);
  var total = ${element}(0.0f);
  var n = first[row];
  for (var taken = 0u; n >= 0 && taken < params.count; taken++) { // bounded, so that no mistake can hang a device
    if (taken > 0u && taken % ${LONGEST_CHAIN}u == 0u) {
      total += sum;
      sum = ${element}(0.0f);
    }
    sum += g[(o * params.count + u32(n)) * params.columns + column];
    let following = next[n];
    n = select(table[u32(n) / params.block * params.rows + row], following, following >= 0);
  }
  y[i] = total + sum;
}`,
  });
  const [g, ids, y, first, next, table] = [0, 1, 2, 3, 4, 5];
  return {
    temps: [4 * rows, 4 * count, 4 * blocks * rows],
    steps: [
      { kernel: fillKernel(blocks * rows, 0xffffffff), buffers: [table] },
      { kernel: link, buffers: [ids, table, next] },
      { kernel: carry, buffers: [table, first] },
      { kernel: sum, buffers: [g, table, first, next, y] },
    ],
  };
};

/** The number of ids per column up to which comparing each with every row is cheaper than adding one by one. */
const FEW = 8;

/**
 * See `ScatterAlongSpec`. If a column has few ids (one, for the log-probability of a token), one thread per output
 * element compares them all. Otherwise the output is filled with zeros, then one thread per column adds its ids one
 * after the other.
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
  const elements = outer * rows * inner;
  const of = (from: number): WgslKernel =>
    shader({
      key: "scatterAlong columns",
      bindings: { g: "read f32", ids: "read i32", y: "readwrite f32" },
      params: {
        columns: u32(columns),
        rows: u32(rows),
        count: u32(count),
        inner: u32(inner),
        begin: u32(from),
        end: u32(Math.min(count, from + LONGEST_CHAIN)),
      },
      workgroups: gridFor(columns, GROUP),
      body: () => `${linearMain(GROUP, "params.columns")}
  let column = i % params.inner;
  let o = i / params.inner;
  for (var n = params.begin; n < params.end; n++) {
    let at = (o * params.count + n) * params.inner + column;
    let id = bitcast<u32>(ids[at]);
    if (id < params.rows) { y[(o * params.rows + id) * params.inner + column] += g[at]; }
  }
}`,
    });
  const add = shader({
    key: "scatterAlong blocks",
    bindings: { sums: "read f32", y: "readwrite f32" },
    params: { elements: u32(elements) },
    workgroups: gridFor(elements, GROUP),
    body: () => `${linearMain(GROUP, "params.elements")}
  y[i] += sums[i];
}`,
  });
  const [g, ids, y, sums] = [0, 1, 2, 3];
  const block = (from: number, to: number): Step<WgslKernel>[] => [
    { kernel: fillKernel(elements, 0), buffers: [to] },
    { kernel: of(from), buffers: [g, ids, to] },
  ];
  const steps = block(0, y);
  for (let from = LONGEST_CHAIN; from < count; from += LONGEST_CHAIN)
    steps.push(...block(from, sums), { kernel: add, buffers: [sums, y] });
  return { temps: count > LONGEST_CHAIN ? [4 * elements] : [], steps };
}
