/**
 * Any pointwise formula as one SIMD loop: expressions over broadcast inputs, several outputs, in place where asked.
 *
 * The last axis is walked by vectors of four; the other axes make up rows. A unit of work is a piece of at most `CHUNK`
 * elements of one row. Values that do not change along a row (scalars, broadcast inputs, and all that is computed from
 * them) are computed once per unit. The last one to three elements of a piece use the same vector code.
 */
import { topologicalOrder, type Expr } from "../expr.ts";
import { type Program, type WasmKernel, single } from "../kernel.ts";
import type { PointwiseSpec } from "../specs.ts";
import {
  I32,
  kernelModule,
  load,
  type F32,
  type F32x4,
  type FunctionBuilder,
  type Kind,
  type Var,
} from "./assembler.ts";
import { emitNodes, emittedFloat, type Emitted } from "./expression.ts";
import { loadPart, storePart } from "./partial.ts";

/** The number of elements per unit of work: enough to hide a unit's cost, few enough to divide work between threads. */
const CHUNK = 8192;
/**
 * Formulas of few nodes compute several vectors per turn before they store the first: loads do not move up past stores,
 * and the instructions of a polynomial wait for one another. Measured with
 * `npm run bench -- step --contenders worldgrad`.
 */
const CHEAP = { nodes: 12, vectors: 4 } as const;
const SHORT = { nodes: 40, vectors: 8 } as const;
const COSTLY = new Set(["exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "sigmoid", "erf", "pow"]);

/** See `PointwiseSpec`. */
export function pointwise(spec: PointwiseSpec): Program<WasmKernel> {
  const { inputs, outputs, dims, inPlace } = spec;
  const rank = dims.length;
  const tensors = inputs.filter((x) => x.kind === "tensor");
  const cols = dims[rank - 1]!;
  const rows = dims.slice(0, -1).reduce((a, b) => a * b, 1);
  const chunks = Math.ceil(cols / CHUNK);
  const kinds = inputs.map((x) =>
    x.kind === "scalar" ? "s" : x.strides.map((v, d) => strideKind(v, d, rank)).join(""),
  );
  const code: Code = { outputs, kinds, rank, inPlace };
  const { text, nodes, costly } = summaryOf(outputs);
  return single(
    {
      key: `pointwise ${spec.name} ${text} ${kinds.join()} ${inPlace.join()}`,
      module: () => assemble(code),
      scalars: [
        ...inputs.flatMap((x) => (x.kind === "scalar" ? [x.value] : [])),
        ...dims,
        ...tensors.flatMap((x) => x.strides.filter((stride, d) => strideKind(stride, d, rank) === "n")),
      ],
      units: rows * chunks,
      costPerUnit: Math.min(cols, CHUNK) * (2 * (tensors.length + outputs.length) + nodes / 2 + 20 * costly),
    },
    tensors.length + inPlace.filter((k) => k < 0).length,
  );
}

/** The properties of a formula that every call needs and that do not change. */
interface Summary {
  readonly text: string;
  readonly nodes: number;
  readonly costly: number;
}
const summaries = new WeakMap<readonly Expr[], Summary>();

function summaryOf(outputs: readonly Expr[]): Summary {
  let summary = summaries.get(outputs);
  if (summary === undefined) {
    const order = topologicalOrder(outputs);
    const costly = order.filter((node) => COSTLY.has(node.op)).length;
    summary = { text: outputs.map((y) => y.id).join(), nodes: order.length, costly };
    summaries.set(outputs, summary);
  }
  return summary;
}

/** The kind of an input's stride along one axis: `0` none, `1` one element (last axis only), `n` an argument. */
const strideKind = (stride: number, axis: number, rank: number): string =>
  stride === 0 ? "0" : stride === 1 && axis === rank - 1 ? "1" : "n";

/** The properties of a problem that are written into the code. */
interface Code {
  readonly outputs: readonly Expr[];
  /** Per input: `s` for a scalar, else one stride kind per axis. */
  readonly kinds: readonly string[];
  readonly rank: number;
  readonly inPlace: readonly number[];
}

function assemble({ outputs, kinds, rank, inPlace }: Code): Uint8Array<ArrayBuffer> {
  const order = topologicalOrder(outputs);
  const varying = new Set<number>();
  for (const node of order) {
    const varies = node.op === "input" ? !/[s0]$/.test(kinds[node.value]!) : node.args.some((a) => varying.has(a.id));
    if (varies) varying.add(node.id);
  }
  const used = new Set(order.filter((node) => node.op === "input").map((node) => node.value));
  const inputNode = new Map(order.filter((node) => node.op === "input").map((node) => [node.value, node]));
  const costly = order.some((node) => COSTLY.has(node.op));
  const { vectors } = [CHEAP, SHORT, { nodes: Infinity, vectors: 1 }].find(
    (kind) => order.length <= kind.nodes && (kind !== CHEAP || !costly),
  )!;

  const tensorInputs = kinds.flatMap((kind, k) => (kind === "s" ? [] : [k]));
  const ownOutputs = outputs.flatMap((_, k) => (inPlace[k]! < 0 ? [k] : []));
  const strides = tensorInputs.flatMap((k) =>
    [...kinds[k]!].flatMap((kind, d) => (kind === "n" ? [`x${k}_${d}`] : [])),
  );
  const params = Object.fromEntries([
    ...tensorInputs.map((k) => [`x${k}`, "i32"]),
    ...ownOutputs.map((k) => [`y${k}`, "i32"]),
    ...kinds.flatMap((kind, k) => (kind === "s" ? [[`s${k}`, "f32"]] : [])),
    ...Array.from({ length: rank }, (_, d) => [`dim${d}`, "i32"]),
    ...strides.map((name) => [name, "i32"]),
    ["begin", "i32"],
    ["end", "i32"],
  ]) as Record<string, Kind>;

  return kernelModule(params, (f, vars) => {
    const p = vars as Record<string, Var<I32>>;
    const cols = p[`dim${rank - 1}`]!;
    const chunks = f.let(cols.add(CHUNK - 1).divU(CHUNK));

    f.for(p.begin!, p.end!, 1, (unit) => {
      const row = f.let(unit.divU(chunks));
      const from = f.let(unit.sub(row.mul(chunks)).mul(CHUNK));
      const count = f.let(cols.sub(from).min(CHUNK));
      const atOutput = f.let(row.mul(cols).add(from)); // outputs are contiguous
      const base = rowAddresses(f, p, { kinds, rank }, tensorInputs, row, from);
      const target = inPlace.map((input, k) =>
        input < 0 ? f.let(p[`y${k}`]!.at(atOutput)) : base.get(tensorInputs[input]!)!,
      );

      const fixed: Emitted = new Map();
      for (const k of used) {
        const kind = kinds[k]!;
        if (kind === "s") fixed.set(inputNode.get(k)!.id, f.let((vars[`s${k}`] as unknown as F32).splat()));
        else if (kind.endsWith("0")) fixed.set(inputNode.get(k)!.id, f.let(load.splat(base.get(k)!)));
      }
      const constant = order.filter((node) => !varying.has(node.id));
      emitNodes(f, constant, fixed);

      /** Computes one vector: `read` loads an input, `write` stores an output. @returns the function that stores */
      const vector = (read: (k: number) => F32x4, write: (k: number, y: F32x4) => void): (() => void) => {
        const values: Emitted = new Map(fixed);
        for (const k of used) if (!values.has(inputNode.get(k)!.id)) values.set(inputNode.get(k)!.id, f.let(read(k)));
        emitNodes(f, order, values);
        return () => outputs.forEach((y, k) => write(k, emittedFloat(values, y)));
      };
      const full = (at: I32, offset: number): (() => void) =>
        vector(
          (k) => (kinds[k]!.endsWith("1") ? load.f32x4(base.get(k)!.add(at), offset) : gather(f, k, at.add(offset), 4)),
          (k, y) => f.store(target[k]!.add(at), y, offset),
        );
      const gather = (g: FunctionBuilder, k: number, at: I32, lanes: number | I32): F32x4 => {
        const step = p[`x${k}_${rank - 1}`]!; // `at` is in bytes, so times the stride in elements it is the byte offset
        const first = g.let(base.get(k)!.add(at.mul(step)));
        const x = g.let(load.lane0(first));
        for (const lane of [1, 2, 3]) {
          const take = (): void => g.set(x, x.withLane(lane, load.f32(first.at(step.mul(lane)))));
          if (lanes === 4) take();
          else g.if(I32.of(lanes).gt(lane), take);
        }
        return x;
      };

      const bytes = f.let(count.shl(2));
      const whole = f.let(bytes.and(-16));
      const start = f.let(I32.of(0));
      if (vectors > 1) {
        const grouped = f.let(bytes.and(-16 * vectors));
        f.for(0, grouped, 16 * vectors, (at) => {
          const stores = Array.from({ length: vectors }, (_, v) => full(at, 16 * v));
          stores.forEach((store) => store());
        });
        f.set(start, grouped);
      }
      f.for(start, whole, 16, (at) => full(at, 0)());
      const rest = f.let(count.and(3));
      f.if(rest, () =>
        vector(
          (k) => (kinds[k]!.endsWith("1") ? loadPart(f, base.get(k)!.add(whole), rest) : gather(f, k, whole, rest)),
          (k, y) => storePart(f, target[k]!.add(whole), y, rest),
        )(),
      );
    });
  });
}

/** The address at which each tensor input starts for the piece of `row` that begins at column `from`. */
function rowAddresses(
  f: FunctionBuilder,
  p: Record<string, Var<I32>>,
  { kinds, rank }: Pick<Code, "kinds" | "rank">,
  tensorInputs: readonly number[],
  row: Var<I32>,
  from: Var<I32>,
): Map<number, Var<I32>> {
  const base = new Map(tensorInputs.map((k) => [k, f.let(p[`x${k}`]!)]));
  const rest = f.let(row);
  for (let d = rank - 2; d >= 0; d--) {
    const index = d === 0 ? rest : f.let(rest.remU(p[`dim${d}`]!));
    for (const k of tensorInputs) {
      if (kinds[k]![d] === "n") f.set(base.get(k)!, base.get(k)!.at(index.mul(p[`x${k}_${d}`]!)));
    }
    if (d > 0) f.set(rest, rest.divU(p[`dim${d}`]!));
  }
  for (const k of tensorInputs) {
    const last = kinds[k]![rank - 1];
    if (last === "1") f.set(base.get(k)!, base.get(k)!.at(from));
    else if (last === "n") f.set(base.get(k)!, base.get(k)!.at(from.mul(p[`x${k}_${rank - 1}`]!)));
  }
  return base;
}
