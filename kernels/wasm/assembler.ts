/**
 * A small WebAssembly assembler: kernels are written as loop nests, and this file turns them into the bytes of a
 * module.
 *
 *     const bytes = kernelModule({ x: "i32", y: "i32", cols: "i32", begin: "i32", end: "i32" }, (f, p) => {
 *       const n4 = f.let(p.cols.and(-4));                             // a variable, set to the value of an expression
 *       f.for(p.begin, p.end, 1, (row) => {                           // for (row = begin; row < end; row += 1)
 *         const x = f.let(p.x.at(row.mul(p.cols)));                   // address of element row·cols
 *         const y = f.let(p.y.at(row.mul(p.cols)));
 *         f.for(0, n4, 4, (i) => f.store(y.at(i), load.f32x4(x.at(i)).mul(0.5)));
 *         f.for(n4, p.cols, 1, (i) => f.store(y.at(i), load.f32(x.at(i)).mul(0.5)));
 *       });
 *     });
 *
 * Values and their methods are in `values.ts`. Rules:
 * - A value is an *expression*: it is evaluated anew, with the variables and the memory of that moment, wherever it is
 *   used. Name it with `f.let` to compute it once (and to fix the time of a load). Variables are values too;
 *   `f.set(v, value)` assigns.
 * - Repeating a vector constant costs nothing: `x.mul(0.5)` keeps 0.5 in a local that the function sets once at its
 *   start.
 * - TypeScript's `for` unrolls; `f.for` loops at run time. `f.for` compares signed numbers, so it is for indices and
 *   sizes, not for pointers (which use all 32 bits; backends make them with `| 0`). It reads its `end` once, before the
 *   first turn.
 * - `break` leaves a labelled block: `f.block((done) => { …; f.breakIf(done, condition); … })`.
 * - `m.define` makes a function that others of the module can call; `m.once` makes one that several places use only
 *   once.
 * - The memory is imported as `env.memory`, not shared, of at most 65,536 pages and with a declared maximum
 *   (`new WebAssembly.Memory({ initial, maximum: 65536 })`). `withSharedMemory(bytes)` gives the same module for a
 *   shared memory.
 *
 * It has no optimiser (the engine's compiler does that), no other types, no tables, globals or exceptions.
 * Source: the WebAssembly core specification, §5 (binary format).
 */
import {
  I32,
  makeValue,
  storeCode,
  storeLaneCode,
  unsignedLEB,
  type AnyVector,
  type Code,
  type Kind,
  type Value,
  type ValueOf,
  type Var,
} from "./values.ts";

export * from "./values.ts";

const TYPE_CODE: Record<Kind, number> = { i32: 0x7f, f32: 0x7d, f32x4: 0x7b, i32x4: 0x7b, f64x2: 0x7b };
const EMPTY_BLOCK = 0x40;

export type Params = Readonly<Record<string, Kind>>;
export type ParamVars<P extends Params> = { readonly [N in keyof P]: Var<ValueOf[P[N]]> };
export type Arguments<P extends Params> = { readonly [N in keyof P]: ValueOf[P[N]] };

/** Parameters of type i32 (pointers, sizes, ranges) with these names, in this order. */
export function i32s<N extends string>(...names: readonly N[]): { readonly [name in N]: "i32" } {
  return Object.fromEntries(names.map((name) => [name, "i32"])) as { [name in N]: "i32" };
}

/** A place to `break` out of. */
export interface Label {
  readonly depth: number;
}

/** Builds the body of one function: every method appends statements. */
export class FunctionBuilder {
  readonly module: ModuleBuilder;
  #code: (number | Uint8Array)[] = [];
  #locals: Kind[];
  readonly #params: number;
  /** Vector constants by content, in the order of their first use. Each has a local. */
  readonly #constants = new Map<string, { bytes: Uint8Array; local: number }>();
  #depth = 0;

  constructor(module: ModuleBuilder, params: readonly Kind[]) {
    this.module = module;
    this.#locals = [...params];
    this.#params = params.length;
  }

  /**
   * A variable without a value: it is 0 at the function's start, and in a loop it keeps its value from the last turn.
   */
  variable<K extends Kind>(kind: K): Var<ValueOf[K]> {
    const local = this.#locals.push(kind) - 1;
    return makeValue(kind, [0x20, ...unsignedLEB(local)], local) as unknown as Var<ValueOf[K]>;
  }

  /** A variable that is set to the present value of `value`. */
  let<V extends Value>(value: V): Var<V> {
    const v = this.variable(value.kind) as unknown as Var<V>;
    this.#assign(v.local, value);
    return v;
  }

  set<V extends Value>(variable: Var<V>, value: ValueOf[V["kind"]]): void {
    this.#assign(variable.local, value);
  }

  #assign(local: number, value: Value): void {
    this.#emit([...value.code, 0x21, ...unsignedLEB(local)]);
  }

  /** memory[address + offset] = value; 4 bytes for scalars, 16 for vectors. */
  store(address: I32, value: Value, offset = 0): void {
    this.#emit(storeCode(address, value, offset));
  }

  /** Stores one lane of a vector, 4 bytes. */
  storeLane(address: I32, value: AnyVector, lane: number, offset = 0): void {
    this.#emit(storeLaneCode(address, value, lane, offset));
  }

  /** memory[address…] = the byte `value`, `bytes` times. */
  fillBytes(address: I32, value: I32 | number, bytes: I32): void {
    this.#emit([...address.code, ...I32.of(value).code, ...bytes.code, 0xfc, 0x0b, 0x00]);
  }

  /** Copies memory; the regions may overlap. */
  copyBytes(to: I32, from: I32, bytes: I32): void {
    this.#emit([...to.code, ...from.code, ...bytes.code, 0xfc, 0x0a, 0x00, 0x00]);
  }

  /** for (i = begin; i < end; i += step) body(i), with signed comparison. `end` and `step` are read once. */
  for(begin: I32 | number, end: I32 | number, step: I32 | number, body: (i: Var<I32>) => void): void {
    const i = this.let(I32.of(begin));
    const limit = typeof end === "number" ? I32.of(end) : this.let(end);
    const stride = typeof step === "number" ? step : this.let(step);
    this.if(i.lt(limit), () => {
      this.loop((again) => {
        body(i);
        this.set(i, i.add(stride));
        this.breakIf(again, i.lt(limit));
      });
    });
  }

  while(condition: I32, body: () => void): void {
    this.block((done) => {
      this.loop((again) => {
        this.breakIf(done, condition.not());
        body();
        this.break(again);
      });
    });
  }

  if(condition: I32, then: () => void, otherwise?: () => void): void {
    this.#emit([...condition.code, 0x04, EMPTY_BLOCK]);
    this.#nested(then);
    if (otherwise !== undefined) {
      this.#emit([0x05]);
      this.#nested(otherwise);
    }
    this.#emit([0x0b]);
  }

  /** Statements that `break(label)` leaves. */
  block(body: (label: Label) => void): void {
    this.#emit([0x02, EMPTY_BLOCK]);
    this.#nested(body);
    this.#emit([0x0b]);
  }

  /** Statements that `break(again)` starts again; the end of the body leaves the loop. */
  loop(body: (again: Label) => void): void {
    this.#emit([0x03, EMPTY_BLOCK]);
    this.#nested(body);
    this.#emit([0x0b]);
  }

  break(label: Label): void {
    this.#emit([0x0c, ...unsignedLEB(this.#depth - label.depth)]);
  }

  breakIf(label: Label, condition: I32): void {
    this.#emit([...condition.code, 0x0d, ...unsignedLEB(this.#depth - label.depth)]);
  }

  #nested(body: (label: Label) => void): void {
    this.#depth++;
    body({ depth: this.#depth });
    this.#depth--;
  }

  #emit(code: Code): void {
    for (const item of code) this.#code.push(item);
  }

  /** The function's bytes: its locals, the vector constants that it sets first, its statements, its result. */
  finish(result: Value | undefined): number[] {
    if (result !== undefined) this.#emit(result.code);
    const body: number[] = [];
    for (const item of this.#code) {
      if (typeof item === "number") body.push(item);
      else body.push(0x20, ...unsignedLEB(this.#constantLocal(item)));
    }
    const prologue: number[] = [];
    for (const { bytes, local } of this.#constants.values()) {
      prologue.push(0xfd, 0x0c, ...bytes, 0x21, ...unsignedLEB(local));
    }
    const locals = this.#locals.slice(this.#params).map((kind) => [1, TYPE_CODE[kind]]);
    const code = [...vector(locals), ...prologue, ...body, 0x0b];
    return [...unsignedLEB(code.length), ...code];
  }

  #constantLocal(bytes: Uint8Array): number {
    const key = bytes.join();
    let constant = this.#constants.get(key);
    if (constant === undefined) {
      constant = { bytes, local: this.#locals.push("i32x4") - 1 };
      this.#constants.set(key, constant);
    }
    return constant.local;
  }
}

/** A module under construction. Its last function is exported as `run`. */
export class ModuleBuilder {
  readonly #types: number[][] = [];
  readonly #bodies: number[][] = [];
  readonly #made = new Map<string, unknown>();

  /** Adds a function whose result is that of `body`. @returns a function that makes the expression of a call */
  define<P extends Params, V extends Value>(
    params: P,
    body: (f: FunctionBuilder, p: ParamVars<P>) => V,
  ): (args: Arguments<P>) => V {
    const { index, result } = this.#add(params, body);
    return (args) => {
      const operands = Object.keys(params).flatMap((name) => [...args[name]!.code]);
      return makeValue(result.kind, [...operands, 0x10, ...unsignedLEB(index)]) as Value as V;
    };
  }

  /** Calls `make` for the first use of a key and returns the same afterwards: `m.once("rem", () => m.define(…))`. */
  once<T>(key: string, make: () => T): T {
    if (!this.#made.has(key)) this.#made.set(key, make());
    return this.#made.get(key) as T;
  }

  /** Adds the function `run`, which must be the last. */
  run<P extends Params>(params: P, body: (f: FunctionBuilder, p: ParamVars<P>) => void): void {
    this.#add(params, (f, p: ParamVars<P>) => {
      body(f, p);
      return undefined;
    });
  }

  #add<P extends Params, V extends Value | undefined>(
    params: P,
    body: (f: FunctionBuilder, p: ParamVars<P>) => V,
  ): { index: number; result: V } {
    const kinds = Object.values(params);
    const f = new FunctionBuilder(this, kinds);
    const vars = Object.entries(params).map(([name, kind], i) => [name, makeValue(kind, [0x20, ...unsignedLEB(i)], i)]);
    const result = body(f, Object.fromEntries(vars) as ParamVars<P>); // may define further functions: they come first
    const code = f.finish(result);
    this.#types.push([
      0x60,
      ...vector(kinds.map((kind) => [TYPE_CODE[kind]])),
      ...vector(result === undefined ? [] : [[TYPE_CODE[result.kind]]]),
    ]);
    return { index: this.#bodies.push(code) - 1, result };
  }

  bytes(): Uint8Array<ArrayBuffer> {
    const memory = [...name("env"), ...name("memory"), 0x02, LIMITS_WITH_MAXIMUM, 0, ...unsignedLEB(65536)];
    return Uint8Array.from([
      ...MAGIC_AND_VERSION,
      ...section(1, vector(this.#types)),
      ...section(2, vector([memory])),
      ...section(3, vector(this.#bodies.map((_, i) => unsignedLEB(i)))),
      ...section(7, vector([[...name("run"), 0x00, ...unsignedLEB(this.#bodies.length - 1)]])),
      ...section(10, vector(this.#bodies)),
    ]);
  }
}

const MAGIC_AND_VERSION = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00] as const;
const LIMITS_WITH_MAXIMUM = 0x01;
const LIMITS_SHARED = 0x03;

const vector = (items: readonly (readonly number[])[]): number[] => [...unsignedLEB(items.length), ...items.flat()];
const section = (id: number, content: readonly number[]): number[] => [id, ...unsignedLEB(content.length), ...content];
const name = (text: string): number[] => vector(Array.from(text, (c) => [c.charCodeAt(0)]));

/**
 * The bytes of a kernel's module: one exported function `run` with these parameters in this order (which `WasmKernel`
 * prescribes: pointers, scalars, `begin`, `end`). `m` defines further functions.
 */
export function kernelModule<P extends Params>(
  params: P,
  body: (f: FunctionBuilder, p: ParamVars<P>, m: ModuleBuilder) => void,
): Uint8Array<ArrayBuffer> {
  const m = new ModuleBuilder();
  m.run(params, (f, p) => body(f, p, m));
  return m.bytes();
}

/** A copy of the module that imports a shared memory: one bit of the import says so. */
export function withSharedMemory(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const copy = Uint8Array.from(bytes);
  const pattern = [...name("env"), ...name("memory"), 0x02, LIMITS_WITH_MAXIMUM];
  const at = copy.findIndex((_, i) => pattern.every((byte, j) => copy[i + j] === byte));
  copy[at + pattern.length - 1] = LIMITS_SHARED;
  return copy;
}
