/**
 * The formula of a loss, read off the library itself: the loss runs on the reference executor, in f64, and beside every
 * tensor stands the expression that computed it. Pointwise ops bring theirs (engine/fuse.ts); a sum over a sequence
 * becomes an input of its own.
 */
import { constant, Expr, input, named, where } from "../../kernels/expr.ts";
import type { PointwiseSpec } from "../../kernels/specs.ts";
import { check } from "../../engine/errors.ts";
import { type Device, device as makeDevice, tensor, type Tensor } from "../../engine/index.ts";
import type { Input } from "./formula.ts";

/** A bound that is at least this is none (rl/objective/clipped.ts). */
const NO_BOUND = 1e30;

type Op = Parameters<Device["execute"]>[0];

export class Tracer {
  readonly device: Device;
  readonly inputs: Input<Expr>[] = [];
  /** The values of each input: one for each token, or one for all. */
  readonly values: ArrayLike<number>[] = [];
  readonly #known = new Map<Tensor, Expr>();
  /** For each tensor that sums over sequences: what it sums. */
  readonly #sums = new Map<Tensor, Expr>();

  /** @param device on which every op is noted from now on */
  constructor(device: Device) {
    this.device = device;
    const run = device.execute.bind(device);
    device.execute = (op, x, y, params): void => {
      run(op, x, y, params);
      this.#note(op, x as readonly Tensor[], y as readonly Tensor[], params);
    };
  }

  static async begin(): Promise<Tracer> {
    return new Tracer(await makeDevice("reference"));
  }

  /** A column of the tokens, printed as a symbol. */
  column(symbol: string, values: ArrayLike<number>): Tensor {
    return this.is(tensor(Float64Array.from(values), { device: this.device }), this.#input({ symbol }, values));
  }

  /** A column of ones (a mask), printed as the constant 1. */
  ones(count: number): Tensor {
    return this.is(tensor(new Float64Array(count).fill(1), { device: this.device }), constant(1));
  }

  /** Records the expression that computed a tensor. */
  is(x: Tensor, expression: Expr): Tensor {
    this.#known.set(x, expression);
    return x;
  }

  /** The expression of a tensor. A tensor that shares another's memory is that one as a constant (`stopGradient`). */
  of(x: Tensor): Expr | undefined {
    const sharing = (): Expr | undefined =>
      [...this.#known].find(([y]) => !y.disposed && y.storage === x.storage)?.[1].stopGradient();
    return this.#known.get(x) ?? sharing();
  }

  #note(op: Op, x: readonly Tensor[], outputs: readonly Tensor[], params: unknown): void {
    const [y] = outputs;
    const from = x.map((each) => this.of(each));
    const problem = op.kernel({ inputs: x, outputs, params });
    if (!("family" in problem) || y === undefined) return;
    if (problem.family === "pointwise" && from.every((e) => e !== undefined)) {
      this.is(y, this.#composed(problem.spec, from));
    } else if (op.name === "scatterAdd" && from[0]) {
      this.#sums.set(y, from[0]);
    } else if (op.name === "gather" && this.#sums.has(x[0]!)) {
      const sumOf = this.#sums.get(x[0]!)!;
      const sum = this.#input({ symbol: "", sumOf }, y.readSync());
      this.is(y, sumOf.op === "const" ? named("T", sum) : sum);
    }
  }

  #input(own: Input<Expr>, values: ArrayLike<number>): Expr {
    this.values.push(values);
    return input(this.inputs.push(own) - 1);
  }

  /** The expression of a pointwise op, with its tensors' expressions inserted. Numbers with a name become inputs. */
  #composed({ outputs: [y], inputs }: PointwiseSpec, tensors: readonly Expr[]): Expr {
    const done = new Map<Expr, Expr>();
    let next = 0;
    const given = inputs.map((one) => (one.kind === "tensor" ? tensors[next++]! : one.value));
    const argument = ({ value: index, symbol }: Expr): Expr => {
      const x = given[index]!;
      if (x instanceof Expr) return x;
      if (symbol === undefined || x >= NO_BOUND) return constant(x);
      return (given[index] = this.#input({ symbol }, [x]));
    };
    const at = (e: Expr): Expr => {
      const known = done.get(e);
      if (known) return known;
      const made = e.op === "input" ? argument(e) : e.op === "const" ? e : applied(e, e.args.map(at));
      const result = e.symbol === undefined || made.op === "const" ? made : named(e.symbol, made);
      done.set(e, result);
      return result;
    };
    return at(y!);
  }
}

/** The operation of an expression on other arguments. Constant masks, switches and bounds are folded. */
function applied({ op }: Expr, [x, y, z]: readonly Expr[]): Expr {
  if (op === "where") return x!.op !== "const" ? where(x!, y!, z!) : x!.value !== 0 ? y! : z!;
  if (op === "min" && y!.op === "const" && y!.value >= NO_BOUND) return x!;
  if (op === "detach") return x!.stopGradient();
  const method = x![op as "add"];
  check(typeof method === "function", () => `trace: an expression has no method ${op}`);
  return method.call(x, y!);
}
