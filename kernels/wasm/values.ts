/**
 * Typed WebAssembly values, with which `assembler.ts` computes. A value is an expression, that is, the bytes that leave
 * its result on WebAssembly's stack; its methods build larger expressions. Nothing is computed or emitted here.
 *
 * Types: `I32`, `F32`, and three views of a 128-bit vector: `F32x4`, `I32x4`, `F64x2`. A plain number may stand
 * wherever a value of the receiver's type is expected: `x.mul(0.5)`; on vectors it means that number in every lane.
 * Opcodes: WebAssembly core specification 2.0, §5.4 (relaxed SIMD: 3.0).
 */

export type Kind = "i32" | "f32" | "f32x4" | "i32x4" | "f64x2";

/** Bytes. An array of 16 stands for a vector constant, which a function keeps in a local that it sets once. */
export type Code = readonly (number | Uint8Array)[];

/** One instruction; those of SIMD are the prefix 0xfd and the opcode as LEB128. */
const simd = (opcode: number): number[] => [0xfd, ...unsignedLEB(opcode)];

export function unsignedLEB(value: number): number[] {
  const bytes: number[] = [];
  for (let rest = value >>> 0; ;) {
    const low = rest & 0x7f;
    rest >>>= 7;
    if (rest === 0) return [...bytes, low];
    bytes.push(low | 0x80);
  }
}

export function signedLEB(value: number): number[] {
  const bytes: number[] = [];
  for (let rest = value | 0; ;) {
    const low = rest & 0x7f;
    rest >>= 7;
    if ((rest === 0 && (low & 0x40) === 0) || (rest === -1 && (low & 0x40) !== 0)) return [...bytes, low];
    bytes.push(low | 0x80);
  }
}

/** An expression of some type. `local` is set on variables, which are expressions that can also be assigned to. */
export abstract class Value {
  abstract readonly kind: Kind;
  readonly code: Code;
  readonly local: number | undefined;
  constructor(code: Code, local?: number) {
    this.code = code;
    this.local = local;
  }
}
export type Var<V extends Value> = V & { readonly local: number };

/** `code`s in order, then one instruction. */
const join = (instruction: Code, ...operands: readonly Value[]): Code => [
  ...operands.flatMap((o) => o.code as (number | Uint8Array)[]),
  ...instruction,
];

const bytesOf = (fill: (view: DataView) => void): Uint8Array => {
  const bytes = new Uint8Array(16);
  fill(new DataView(bytes.buffer));
  return bytes;
};

/** 32-bit integers; also pointers (unsigned) and conditions (0 is false). Wraps on overflow. */
// prettier-ignore
export class I32 extends Value {
  readonly kind = "i32";
  static of(x: I32 | number): I32 { return typeof x === "number" ? new I32([0x41, ...signedLEB(x)]) : x; }
  #op(opcode: number, y: I32 | number): I32 { return new I32(join([opcode], this, I32.of(y))); }
  add(y: I32 | number): I32 { return y === 0 ? this : this.#op(0x6a, y); }
  sub(y: I32 | number): I32 { return y === 0 ? this : this.#op(0x6b, y); }
  mul(y: I32 | number): I32 { return y === 1 ? this : this.#op(0x6c, y); }
  /** Quotient of unsigned division; it traps on 0. */
  divU(y: I32 | number): I32 { return y === 1 ? this : this.#op(0x6e, y); }
  remU(y: I32 | number): I32 { return this.#op(0x70, y); }
  and(y: I32 | number): I32 { return this.#op(0x71, y); }
  or(y: I32 | number): I32 { return this.#op(0x72, y); }
  xor(y: I32 | number): I32 { return this.#op(0x73, y); }
  shl(y: I32 | number): I32 { return this.#op(0x74, y); }
  shrS(y: I32 | number): I32 { return this.#op(0x75, y); }
  shrU(y: I32 | number): I32 { return this.#op(0x76, y); }
  eq(y: I32 | number): I32 { return this.#op(0x46, y); }
  ne(y: I32 | number): I32 { return this.#op(0x47, y); }
  /** Signed comparisons: for sizes and indices. */
  lt(y: I32 | number): I32 { return this.#op(0x48, y); }
  gt(y: I32 | number): I32 { return this.#op(0x4a, y); }
  le(y: I32 | number): I32 { return this.#op(0x4c, y); }
  ge(y: I32 | number): I32 { return this.#op(0x4e, y); }
  /** Unsigned comparisons: for pointers, and `id.ltU(rows)` is 0 ≤ id < rows. */
  ltU(y: I32 | number): I32 { return this.#op(0x49, y); }
  geU(y: I32 | number): I32 { return this.#op(0x4f, y); }
  /** 1 where this is 0. */
  not(): I32 { return new I32(join([0x45], this)); }
  min(y: I32 | number): I32 { return select(this.lt(y), this, I32.of(y)); }
  max(y: I32 | number): I32 { return select(this.gt(y), this, I32.of(y)); }
  /** The address of 4-byte element `index` of the array at this pointer. */
  at(index: I32 | number): I32 { return typeof index === "number" ? this.add(index * 4) : this.add(index.shl(2)); }
  toF32(): F32 { return new F32(join([0xb2], this)); }
  asF32(): F32 { return new F32(join([0xbe], this)); }
  splat(): I32x4 { return new I32x4(join(simd(0x11), this)); }
}

// prettier-ignore
export class F32 extends Value {
  readonly kind = "f32";
  static of(x: F32 | number): F32 {
    if (typeof x !== "number") return x;
    const bytes = bytesOf((view) => view.setFloat32(0, x, true));
    return new F32([0x43, ...bytes.subarray(0, 4)]);
  }
  #op(opcode: number, y: F32 | number): F32 { return new F32(join([opcode], this, F32.of(y))); }
  #test(opcode: number, y: F32 | number): I32 { return new I32(join([opcode], this, F32.of(y))); }
  add(y: F32 | number): F32 { return this.#op(0x92, y); }
  sub(y: F32 | number): F32 { return this.#op(0x93, y); }
  mul(y: F32 | number): F32 { return this.#op(0x94, y); }
  div(y: F32 | number): F32 { return this.#op(0x95, y); }
  /** min and max give NaN if either operand is NaN. */
  min(y: F32 | number): F32 { return this.#op(0x96, y); }
  max(y: F32 | number): F32 { return this.#op(0x97, y); }
  eq(y: F32 | number): I32 { return this.#test(0x5b, y); }
  ne(y: F32 | number): I32 { return this.#test(0x5c, y); }
  lt(y: F32 | number): I32 { return this.#test(0x5d, y); }
  gt(y: F32 | number): I32 { return this.#test(0x5e, y); }
  le(y: F32 | number): I32 { return this.#test(0x5f, y); }
  ge(y: F32 | number): I32 { return this.#test(0x60, y); }
  abs(): F32 { return new F32(join([0x8b], this)); }
  neg(): F32 { return new F32(join([0x8c], this)); }
  floor(): F32 { return new F32(join([0x8e], this)); }
  sqrt(): F32 { return new F32(join([0x91], this)); }
  /** Truncates; saturates; NaN gives 0. */
  toI32(): I32 { return new I32(join([0xfc, 0x00], this)); }
  asI32(): I32 { return new I32(join([0xbc], this)); }
  splat(): F32x4 { return new F32x4(join(simd(0x13), this)); }
}

/** The common part of the vector types: bitwise operations on all 128 bits. `Self` is the view that results keep. */
// prettier-ignore
abstract class Vector<Self extends Value> extends Value {
  protected abstract make(code: Code): Self;
  /** A number becomes the constant with that number in every lane. */
  protected abstract splatOf(x: number): Self;
  protected op1(opcode: number): Self { return this.make(join(simd(opcode), this)); }
  protected op2(opcode: number, y: Value | number): Self { return this.make(this.#with(opcode, y)); }
  protected mask(opcode: number, y: Value | number): I32x4 { return new I32x4(this.#with(opcode, y)); }
  #with(opcode: number, y: Value | number): Code {
    return join(simd(opcode), this, typeof y === "number" ? this.splatOf(y) : y);
  }
  and(y: AnyVector): Self { return this.op2(0x4e, y); }
  /** this & ~y */
  andNot(y: AnyVector): Self { return this.op2(0x4f, y); }
  or(y: AnyVector): Self { return this.op2(0x50, y); }
  xor(y: AnyVector): Self { return this.op2(0x51, y); }
  /** Lane numbers 0–3 take from this, 4–7 from `y`. */
  shuffle(y: AnyVector, l0: number, l1: number, l2: number, l3: number): Self {
    const lanes = [l0, l1, l2, l3].flatMap((l) => [4 * l, 4 * l + 1, 4 * l + 2, 4 * l + 3]);
    return this.make(join([...simd(0x0d), ...lanes], this, y));
  }
  asF32x4(): F32x4 { return new F32x4(this.code); }
  asI32x4(): I32x4 { return new I32x4(this.code); }
  asF64x2(): F64x2 { return new F64x2(this.code); }
}
export type AnyVector = F32x4 | I32x4 | F64x2;

/** Four floats. Comparisons give masks (all ones or zeros per lane) for `bitselect` and `and`. */
// prettier-ignore
export class F32x4 extends Vector<F32x4> {
  readonly kind = "f32x4";
  static of(x: F32x4 | number): F32x4 { return typeof x === "number" ? F32x4.lanes(x, x, x, x) : x; }
  static lanes(...x: [number, number, number, number]): F32x4 {
    return new F32x4([bytesOf((view) => x.forEach((v, i) => view.setFloat32(4 * i, v, true)))]);
  }
  protected make(code: Code): F32x4 { return new F32x4(code); }
  protected splatOf(x: number): F32x4 { return F32x4.of(x); }
  add(y: F32x4 | number): F32x4 { return this.op2(0xe4, y); }
  sub(y: F32x4 | number): F32x4 { return this.op2(0xe5, y); }
  mul(y: F32x4 | number): F32x4 { return this.op2(0xe6, y); }
  div(y: F32x4 | number): F32x4 { return this.op2(0xe7, y); }
  /** min and max give NaN if either operand is NaN; −0 < 0. */
  min(y: F32x4 | number): F32x4 { return this.op2(0xe8, y); }
  max(y: F32x4 | number): F32x4 { return this.op2(0xe9, y); }
  /** y < this ? y : this. One instruction, and this if either is NaN. */
  pmin(y: F32x4 | number): F32x4 { return this.op2(0xea, y); }
  /** this < y ? y : this. */
  pmax(y: F32x4 | number): F32x4 { return this.op2(0xeb, y); }
  eq(y: F32x4 | number): I32x4 { return this.mask(0x41, y); }
  ne(y: F32x4 | number): I32x4 { return this.mask(0x42, y); }
  lt(y: F32x4 | number): I32x4 { return this.mask(0x43, y); }
  gt(y: F32x4 | number): I32x4 { return this.mask(0x44, y); }
  le(y: F32x4 | number): I32x4 { return this.mask(0x45, y); }
  ge(y: F32x4 | number): I32x4 { return this.mask(0x46, y); }
  abs(): F32x4 { return this.op1(0xe0); }
  neg(): F32x4 { return this.op1(0xe1); }
  sqrt(): F32x4 { return this.op1(0xe3); }
  floor(): F32x4 { return this.op1(0x68); }
  /** To the nearest integer, ties to even. */
  nearest(): F32x4 { return this.op1(0x6a); }
  /** Truncates; saturates; NaN gives 0. */
  toI32x4(): I32x4 { return new I32x4(join(simd(0xf8), this)); }
  /** Lanes 0 and 1 as doubles (exact). */
  lowF64x2(): F64x2 { return new F64x2(join(simd(0x5f), this)); }
  highF64x2(): F64x2 { return this.shuffle(this, 2, 3, 2, 3).lowF64x2(); }
  lane(i: number): F32 { return new F32(join([...simd(0x1f), i], this)); }
  withLane(i: number, x: F32): F32x4 { return new F32x4(join([...simd(0x20), i], this, x)); }
  /** Relaxed SIMD: this·y + z, rounded once or twice, depending on the machine. Node 20 needs a flag for it. */
  relaxedMadd(y: F32x4, z: F32x4): F32x4 { return new F32x4(join(simd(0x105), this, y, z)); }
}

/** Four 32-bit integers, or four masks. */
// prettier-ignore
export class I32x4 extends Vector<I32x4> {
  readonly kind = "i32x4";
  static of(x: I32x4 | number): I32x4 { return typeof x === "number" ? I32x4.lanes(x, x, x, x) : x; }
  static lanes(...x: [number, number, number, number]): I32x4 {
    return new I32x4([bytesOf((view) => x.forEach((v, i) => view.setInt32(4 * i, v, true)))]);
  }
  protected make(code: Code): I32x4 { return new I32x4(code); }
  protected splatOf(x: number): I32x4 { return I32x4.of(x); }
  add(y: I32x4 | number): I32x4 { return this.op2(0xae, y); }
  sub(y: I32x4 | number): I32x4 { return this.op2(0xb1, y); }
  mul(y: I32x4 | number): I32x4 { return this.op2(0xb5, y); }
  /** Shifts take one count (mod 32) for all lanes. */
  shl(count: I32 | number): I32x4 { return this.op2(0xab, I32.of(count)); }
  shrS(count: I32 | number): I32x4 { return this.op2(0xac, I32.of(count)); }
  shrU(count: I32 | number): I32x4 { return this.op2(0xad, I32.of(count)); }
  eq(y: I32x4 | number): I32x4 { return this.mask(0x37, y); }
  ne(y: I32x4 | number): I32x4 { return this.mask(0x38, y); }
  lt(y: I32x4 | number): I32x4 { return this.mask(0x39, y); }
  ltU(y: I32x4 | number): I32x4 { return this.mask(0x3a, y); }
  gt(y: I32x4 | number): I32x4 { return this.mask(0x3b, y); }
  minS(y: I32x4 | number): I32x4 { return this.op2(0xb6, y); }
  maxS(y: I32x4 | number): I32x4 { return this.op2(0xb8, y); }
  not(): I32x4 { return this.op1(0x4d); }
  /** As a mask, chooses bit by bit: this ? a : b. Both are computed. */
  bitselect<V extends AnyVector>(a: V, b: V): V { return makeValue(a.kind, join(simd(0x52), a, b, this)) as V; }
  /** 1 if any bit is set; 1 if no lane is 0. */
  any(): I32 { return new I32(join(simd(0x53), this)); }
  all(): I32 { return new I32(join(simd(0xa3), this)); }
  toF32x4(): F32x4 { return new F32x4(join(simd(0xfa), this)); }
  /** Lanes 0 and 1, signed, as doubles. */
  lowF64x2(): F64x2 { return new F64x2(join(simd(0xfe), this)); }
  highF64x2(): F64x2 { return this.shuffle(this, 2, 3, 2, 3).lowF64x2(); }
  lane(i: number): I32 { return new I32(join([...simd(0x1b), i], this)); }
  withLane(i: number, x: I32): I32x4 { return new I32x4(join([...simd(0x1c), i], this, x)); }
}

/** Two doubles: for the few places where four floats cannot be exact enough. */
// prettier-ignore
export class F64x2 extends Vector<F64x2> {
  readonly kind = "f64x2";
  static of(x: F64x2 | number): F64x2 {
    if (typeof x !== "number") return x;
    return new F64x2([bytesOf((view) => [0, 8].forEach((at) => view.setFloat64(at, x, true)))]);
  }
  protected make(code: Code): F64x2 { return new F64x2(code); }
  protected splatOf(x: number): F64x2 { return F64x2.of(x); }
  add(y: F64x2 | number): F64x2 { return this.op2(0xf0, y); }
  sub(y: F64x2 | number): F64x2 { return this.op2(0xf1, y); }
  mul(y: F64x2 | number): F64x2 { return this.op2(0xf2, y); }
  div(y: F64x2 | number): F64x2 { return this.op2(0xf3, y); }
  min(y: F64x2 | number): F64x2 { return this.op2(0xf4, y); }
  max(y: F64x2 | number): F64x2 { return this.op2(0xf5, y); }
  nearest(): F64x2 { return this.op1(0x94); }
  /** Rounded to floats, in lanes 0 and 1; lanes 2 and 3 are 0. */
  toF32x4(): F32x4 { return new F32x4(join(simd(0x5e), this)); }
  /** Truncated to integers in lanes 0 and 1; lanes 2 and 3 are 0. */
  toI32x4(): I32x4 { return new I32x4(join(simd(0xfc), this)); }
}

export interface ValueOf {
  i32: I32;
  f32: F32;
  f32x4: F32x4;
  i32x4: I32x4;
  f64x2: F64x2;
}
const CLASSES = { i32: I32, f32: F32, f32x4: F32x4, i32x4: I32x4, f64x2: F64x2 };

/** A value of a kind known only at run time. */
export function makeValue<K extends Kind>(kind: K, code: Code, local?: number): ValueOf[K] {
  return new CLASSES[kind](code, local) as ValueOf[K];
}

/** `condition ? a : b` without a branch: both are computed. `I32x4.bitselect` chooses by lane. */
export function select<V extends Value>(condition: I32, a: V, b: V): V {
  return makeValue(a.kind, join([0x1b], a, b, condition)) as Value as V;
}

/** `align` is a hint, which may be wrong; 0 promises nothing. `offset` is a constant ≥ 0 in bytes. */
const access = (opcode: number[], offset: number): number[] => [...opcode, 0, ...unsignedLEB(offset)];

export const load = {
  i32: (address: I32, offset = 0): I32 => new I32(join(access([0x28], offset), address)),
  f32: (address: I32, offset = 0): F32 => new F32(join(access([0x2a], offset), address)),
  f32x4: (address: I32, offset = 0): F32x4 => new F32x4(join(access(simd(0x00), offset), address)),
  i32x4: (address: I32, offset = 0): I32x4 => new I32x4(join(access(simd(0x00), offset), address)),
  /** One float into all lanes. */
  splat: (address: I32, offset = 0): F32x4 => new F32x4(join(access(simd(0x09), offset), address)),
  /** One float into lane 0, zeros elsewhere. */
  lane0: (address: I32, offset = 0): F32x4 => new F32x4(join(access(simd(0x5c), offset), address)),
};

/** The instruction that stores a value of this kind. */
export function storeCode(address: I32, value: Value, offset: number): Code {
  const opcode = value.kind === "i32" ? [0x36] : value.kind === "f32" ? [0x38] : simd(0x0b);
  return join(access(opcode, offset), address, value);
}
/** Stores one lane of a vector. */
export function storeLaneCode(address: I32, value: AnyVector, lane: number, offset: number): Code {
  return join([...access(simd(0x5a), offset), lane], address, value);
}
