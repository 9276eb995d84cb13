/**
 * Elementary functions on four floats at a time: range reduction to a small interval, a polynomial there, and the
 * special cases by lane selection. A branch depends on the data only where both ways give every lane the same bits, so
 * an element's result depends neither on its position, nor on its neighbours, nor on the partition into units.
 *
 * The methods are the textbook ones (Cody & Waite, "Software Manual for the Elementary Functions", 1980; Muller,
 * "Elementary Functions", ch. 11). The coefficients are weighted least-squares fits made for this file, weighted anew
 * until the error is level. NaN in gives NaN out; infinities, overflow, underflow, subnormals and signed zeros come out
 * as in `Math`. Errors are the largest that `tests/kernels/wasm-math.test.ts` finds over all of f32, in units in the
 * last place (ULP) of the result. Only plain multiplications and additions are used, so every processor gives the same
 * bits.
 *
 * Each function appends its statements to a builder and returns a variable with the result.
 */
import { F32x4, F64x2, I32x4, type FunctionBuilder, type Var } from "./assembler.ts";

type Unary = (f: FunctionBuilder, x: F32x4) => Var<F32x4>;

const LOG2E = 1.4426950408889634;
/** ln 2 in two parts; the first has 9 bits, so that its product with an exponent is exact. */
const LN2_HIGH = 0.693359375;
const LN2_LOW = -0.00021219444005469057;

/** c₀ + c₁x + c₂x² + … */
function polynomial(x: F32x4, c: readonly number[]): F32x4 {
  return c
    .slice(0, -1)
    .reduceRight<F32x4>((sum, coefficient) => sum.mul(x).add(coefficient), F32x4.of(c[c.length - 1]!));
}
function polynomial64(x: F64x2, c: readonly number[]): F64x2 {
  return c
    .slice(0, -1)
    .reduceRight<F64x2>((sum, coefficient) => sum.mul(x).add(coefficient), F64x2.of(c[c.length - 1]!));
}

/** 2ⁿ for integers −126 ≤ n ≤ 127. */
const powerOf2 = (n: I32x4): F32x4 => n.add(127).shl(23).asF32x4();

const SIGN_BIT = 0x80000000 | 0;
/** |magnitude| with the sign of `sign`. */
const withSign = (magnitude: F32x4, sign: F32x4): F32x4 => I32x4.of(SIGN_BIT).bitselect(sign, magnitude);

/** (eʳ − 1 − r) / r² for |r| ≤ ln 2 / 2. */
const EXP = [0.49999994, 0.166665211, 0.041668389, 0.00836871658, 0.00138145976];

/** 1.5·2²³. Adding it rounds a small number to an integer, which then stands in the lowest bits of the sum. */
const ROUND = 12582912;
const ROUND_BITS = 0x4b400000;

/** x = n·ln 2 + r with |r| ≤ ln 2 / 2, and the bits of ROUND + n. NaN gives r = NaN. */
function reduceExp(f: FunctionBuilder, x: F32x4): { bits: I32x4; r: Var<F32x4> } {
  const shifted = f.let(x.mul(LOG2E).add(ROUND));
  const n = f.let(shifted.sub(ROUND));
  return { bits: shifted.asI32x4(), r: f.let(x.sub(n.mul(LN2_HIGH)).sub(n.mul(LN2_LOW))) };
}

/** eʳ. */
const expReduced = (r: Var<F32x4>): F32x4 => r.mul(r).mul(polynomial(r, EXP)).add(r).add(1);

/** 2ⁿ for −126 ≤ n ≤ 127 from the bits of ROUND + n: the shift drops what belongs to ROUND. */
const powerOfBits = (bits: I32x4): F32x4 =>
  bits
    .shl(23)
    .add(127 << 23)
    .asF32x4();

/** eˣ. Error ≤ 1.1 ULP; underflows gradually to 0 below −103.97, overflows above 88.72. */
export const exp: Unary = (f, x) => {
  const { bits, r } = reduceExp(f, f.let(x.pmax(-105).pmin(89)));
  const e = f.let(expReduced(r));
  const n = f.let(bits.sub(ROUND_BITS));
  const half = f.let(n.shrS(1)); // 2ⁿ is two factors, as n reaches −151 and 128
  return f.let(e.mul(powerOf2(half)).mul(powerOf2(n.sub(half))));
};

/** eˣ for −87 ≤ x ≤ 88, where 2ⁿ is one factor; the same bits as `exp` there. */
function expBounded(f: FunctionBuilder, x: F32x4): F32x4 {
  const { bits, r } = reduceExp(f, x);
  return expReduced(r).mul(powerOfBits(bits));
}

/**
 * eˣ for x ≤ 0, for the weights of a softmax, where numbers below the normal ones do not count: 0 from −87.3 down, else
 * the bits of `exp` in two thirds of its instructions.
 */
export const expWeight: Unary = (f, x) => {
  const v = f.let(x);
  return f.let(expBounded(f, v).andNot(v.lt(-87.3))); // false for NaN, which stays
};

/** 2ⁿ for integers n ≤ 0; 0 below −126. */
export function powerWeight(f: FunctionBuilder, n: F32x4): Var<F32x4> {
  return f.let(powerOfBits(n.pmax(-127).add(ROUND).asI32x4())); // −127 has the bits of 0
}

/** 2ʳ for |r| ≤ ½. */
export const exp2Fraction: Unary = (f, r) => f.let(polynomial(r, EXP2_FRACTION));
const EXP2_FRACTION = [1, 0.693147182, 0.240226477, 0.0555035956, 0.00961851794, 0.00133909588, 0.000153243149];

/** eˣ − 1. Error ≤ 1.5 ULP. */
export const expm1: Unary = (f, x) => {
  const v = f.let(x.pmax(-18).pmin(89));
  const { bits, r } = reduceExp(f, v);
  const n = f.let(bits.sub(ROUND_BITS));
  const p = f.let(r.mul(r).mul(polynomial(r, EXPM1)).add(r)); // eʳ − 1
  const half = f.let(powerOf2(n.sub(1))); // 2ⁿ⁻¹: n reaches 128. Then 2ⁿ(p + 1) − 1 = 2(2ⁿ⁻¹p + (2ⁿ⁻¹ − ½))
  const y = half.mul(p).add(half.sub(0.5));
  return f.let(withSign(n.eq(0).bitselect(p, y.add(y)), v));
};
const EXPM1 = [0.500000004, 0.166666664, 0.0416663598, 0.00833338958, 0.00139407204, 0.000198458843];

/** (ln(1 + t) − t + t²/2) / t³ for √½ ≤ 1 + t ≤ √2. */
const LOG = [
  0.333333126, -0.250000096, 0.200021187, -0.166679957, 0.142195509, -0.124055914, 0.118881746, -0.116756413,
  0.0674660124,
];
const SQRT_HALF_BITS = 0x3f3504f3;

/** x = 2ⁿ·m with √½ ≤ m < √2, for positive normal x. */
function splitExponent(f: FunctionBuilder, x: F32x4): { n: Var<I32x4>; m: Var<F32x4> } {
  const bits = f.let(x.asI32x4().sub(SQRT_HALF_BITS));
  return { n: f.let(bits.shrS(23)), m: f.let(bits.and(I32x4.of(0x7fffff)).add(SQRT_HALF_BITS).asF32x4()) };
}

/** n·ln 2 + ln(1 + t) + correction. */
function logOf(f: FunctionBuilder, n: F32x4, t: Var<F32x4>, correction?: F32x4): F32x4 {
  const e = f.let(n);
  const t2 = f.let(t.mul(t));
  const low = t2.mul(t).mul(polynomial(t, LOG)).add(e.mul(LN2_LOW));
  return (correction === undefined ? low : low.add(correction)).sub(t2.mul(0.5)).add(t).add(e.mul(LN2_HIGH));
}

/** −∞ where x is `pole`, NaN below it, x where x is +∞ or NaN, else y. */
function logSpecials(f: FunctionBuilder, x: Var<F32x4>, pole: number, y: F32x4): Var<F32x4> {
  const atPole = f.let(x.gt(pole).bitselect(y, x.eq(pole).bitselect(F32x4.of(-Infinity), F32x4.of(NaN))));
  return f.let(x.lt(Infinity).bitselect(atPole, x.pmax(0))); // the last is for +∞ and NaN, which pmax keeps
}

/** Natural logarithm. Error ≤ 0.9 ULP, subnormal arguments included. */
export const log: Unary = (f, x) => {
  const v = f.let(x);
  const tiny = f.let(v.lt(2 ** -126));
  const { n, m } = splitExponent(f, f.let(tiny.bitselect(v.mul(2 ** 23), v)));
  const t = f.let(m.sub(1));
  return logSpecials(f, v, 0, logOf(f, n.toF32x4().sub(tiny.and(F32x4.of(23)).asF32x4()), t));
};

/** ln(1 + x). Error ≤ 1.5 ULP. */
export const log1p: Unary = (f, x) => {
  const v = f.let(x);
  const u = f.let(v.add(1));
  const { n, m } = splitExponent(f, u);
  const lost = v.lt(1).bitselect(v.sub(u.sub(1)), F32x4.of(1).sub(u.sub(v))); // 1 + x = u + lost
  const near = f.let(n.eq(0)); // where t is x itself, which is exact
  const t = f.let(near.bitselect(v, m.sub(1)));
  const y = logOf(f, n.toF32x4(), t, lost.div(u).andNot(near));
  return logSpecials(f, v, -1, v.eq(0).bitselect(v, y));
};

/** (tanh x − x) / x³ as a polynomial in x², |x| ≤ 0.625. */
const TANH = [-0.333333308, 0.13333206, -0.0539467627, 0.0217007016, -0.0081773946, 0.00214295875];

/** Error ≤ 1.5 ULP. */
export const tanh: Unary = (f, x) => {
  const v = f.let(x);
  const a = f.let(v.abs());
  const z = f.let(v.mul(v));
  const near = v.add(v.mul(z).mul(polynomial(z, TANH)));
  const far = f.let(F32x4.of(1).sub(F32x4.of(2).div(expBounded(f, f.let(a.pmin(10).mul(2))).add(1))));
  return f.let(withSign(a.lt(0.625).bitselect(near, far), v));
};

/** 1 / (1 + e⁻ˣ). Error ≤ 2.4 ULP down to −88, then 0: x·σ(x) of a large −x is nothing, as it should be. */
export const sigmoid: Unary = (f, x) => {
  const v = f.let(x);
  const e = expBounded(f, f.let(v.neg().pmax(-87).pmin(88)));
  return f.let(F32x4.of(1).div(e.add(1)).andNot(v.lt(-88))); // false for NaN, which stays
};

/** erf(x)/x − 1 in x² for |x| ≤ 0.95; −ln erfc(x) for 0.9 ≤ x ≤ 4. */
const ERF_NEAR = [0.128379166, -0.376126316, 0.11283664, -0.0268577051, 0.00519695202, -0.000809770273, 8.18509077e-5];
const ERF_FAR = [
  -0.000169205129, 1.12948841, 0.633400851, 0.108220384, -0.0250806165, 0.00415625491, -0.000431393565, 2.08286184e-5,
];

/** Error function. Error ≤ 1.5 ULP. */
export const erf: Unary = (f, x) => {
  const v = f.let(x);
  const z = f.let(v.mul(v));
  const near = v.add(v.mul(polynomial(z, ERF_NEAR)));
  const a = f.let(v.abs().pmin(4));
  const far = f.let(F32x4.of(1).sub(expBounded(f, f.let(polynomial(a, ERF_FAR).neg()))));
  return f.let(a.lt(0.93).bitselect(near, withSign(far, v)));
};

/** Rounded to floats, both halves in one vector. */
/** Two pairs of doubles, rounded to floats. */
export const joinHalves = (low: F64x2, high: F64x2): F32x4 => low.toF32x4().shuffle(high.toF32x4(), 0, 1, 4, 5);
const joinIntegers = (low: F64x2, high: F64x2): I32x4 => low.toI32x4().shuffle(high.toI32x4(), 0, 1, 4, 5);

/** π/2 in two parts, the first with 33 bits, and 2/π in eight pieces of 24 bits (Payne & Hanek 1983). */
const HALF_PI = [1.5707963267341256, 6.077100506506192e-11] as const;
const TWO_OVER_PI = [10680707, 7228996, 1387004, 2578385, 16069853, 12639074, 9804092, 4427841];
const TRIG_NEAR = 2 ** 20;

/** x = q·π/2 + r with |r| ≤ π/4, in doubles, for |x| < 2²⁰: q·HALF_PI[0] is exact. */
function reduceNear(f: FunctionBuilder, x: F64x2): { q: Var<F64x2>; r: Var<F64x2> } {
  const q = f.let(
    x
      .mul(2 / Math.PI)
      .nearest()
      .add(0),
  ); // + 0 turns −0 into 0, so that r keeps the sign of x = −0
  return { q, r: f.let(x.sub(q.mul(HALF_PI[0])).sub(q.mul(HALF_PI[1]))) };
}

/**
 * As `reduceNear`, for any finite x, but slower. Every product of the 24-bit x with a 24-bit piece of 2/π is exact;
 * multiples of 4 (whole turns) are dropped from it at once, and the pieces are added from the most significant one.
 */
function reduceFar(f: FunctionBuilder, x: F64x2): { q: Var<F64x2>; r: Var<F64x2> } {
  const q = f.let(F64x2.of(0));
  const fraction = f.let(F64x2.of(0));
  TWO_OVER_PI.forEach((piece, i) => {
    const product = f.let(x.mul(piece * 2 ** (-24 * (i + 1))));
    f.set(fraction, fraction.add(product.sub(product.mul(0.25).nearest().mul(4))));
    const whole = f.let(fraction.nearest());
    f.set(fraction, fraction.sub(whole));
    f.set(q, q.add(whole));
  });
  return { q, r: f.let(fraction.mul(Math.PI / 2)) };
}

/** (sin r − r) / r³ and (cos r − 1 + r²/2) / r⁴ in r², |r| ≤ π/4. */
const SIN = [-0.166666666, 0.00833332906, -0.000198392326, 2.71736661e-6];
const COS = [0.0416666444, -0.00138872515, 2.44256797e-5];

/** sin(x + turns·π/2). */
function sine(f: FunctionBuilder, x: F32x4, turns: number): Var<F32x4> {
  const v = f.let(x);
  const [low, high] = [f.let(v.lowF64x2()), f.let(v.highF64x2())];
  const [nearLow, nearHigh] = [reduceNear(f, low), reduceNear(f, high)];
  const r = f.let(joinHalves(nearLow.r, nearHigh.r));
  const q = f.let(joinIntegers(nearLow.q, nearHigh.q));
  const far = f.let(v.abs().lt(TRIG_NEAR).not());
  f.if(far.any(), () => {
    const [farLow, farHigh] = [reduceFar(f, low), reduceFar(f, high)];
    f.set(r, far.bitselect(joinHalves(farLow.r, farHigh.r), r));
    f.set(q, far.bitselect(joinIntegers(farLow.q, farHigh.q), q));
  });
  const quadrant = f.let(q.add(turns));
  const z = f.let(r.mul(r));
  const sin = withSign(r.add(r.mul(z).mul(polynomial(z, SIN))), r); // the sum of −0 and 0 is 0
  const head = f.let(F32x4.of(1).sub(z.mul(0.5)));
  const lost = F32x4.of(1).sub(head).sub(z.mul(0.5)); // what rounding took from 1 − z/2
  const cos = head.add(z.mul(z).mul(polynomial(z, COS)).add(lost));
  const y = quadrant.and(I32x4.of(1)).eq(0).bitselect(sin, cos);
  return f.let(y.xor(quadrant.and(I32x4.of(2)).shl(30)));
}

/** Error ≤ 1.5 ULP for every finite x, however large. */
export const sin: Unary = (f, x) => sine(f, x, 0);
/** Error ≤ 1.5 ULP for every finite x, however large. */
export const cos: Unary = (f, x) => sine(f, x, 1);

/** log₂((1 + s)/(1 − s)) / s in s²; (2ʳ − 1)/r for |r| ≤ ½. */
const LOG2 = [
  2.8853900817778486, 0.9617966941136044, 0.5770779423174668, 0.4122092561453331, 0.3199055856349634,
  0.28290129750477344,
];
const EXP2 = [
  0.6931471805482112, 0.2402265069811032, 0.05550410935271011, 0.009618128616204535, 0.0013333454856386817,
  0.0001540382538939289, 1.5309157209486557e-5, 1.3178952125159071e-6,
];

/**
 * xʸ as `Math.pow` has it, all special cases included. Error ≤ 0.6 ULP: the logarithm and the power are computed in
 * doubles, as y·ln x magnifies an error of the logarithm.
 */
export function pow(f: FunctionBuilder, x: F32x4, y: F32x4): Var<F32x4> {
  const [base, exponent] = [f.let(x), f.let(y)];
  const a = f.let(base.abs());
  const tiny = f.let(a.lt(2 ** -126));
  const { n, m } = splitExponent(f, f.let(tiny.bitselect(a.mul(2 ** 23), a)));
  const k = f.let(n.sub(tiny.and(I32x4.of(23))));
  // The limits of log₂|x|; y turns them into 0, ∞ or NaN.
  const limit = f.let(a.eq(0).bitselect(F32x4.of(-Infinity), a));
  const special = f.let(a.gt(0).and(a.lt(Infinity)).not());

  const half = (mantissa: F64x2, k64: F64x2, y64: F64x2, limit64: F64x2, isSpecial: I32x4): Var<F64x2> => {
    const c = f.let(mantissa);
    const s = f.let(c.sub(1).div(c.add(1)));
    const finite = s.mul(polynomial64(f.let(s.mul(s)), LOG2)).add(k64);
    const z = f.let(f.let(isSpecial.bitselect(limit64, finite)).mul(y64));
    f.set(z, z.max(-300).min(300)); // keeps NaN; 2^±300 is ±∞ or 0 as a float
    const whole = f.let(z.nearest());
    const r = f.let(z.sub(whole));
    // 2^whole as a double: its exponent field, from the low word of whole + (1023 + 2⁵²) shifted up by 52 − 32 bits.
    const biased = whole.add(1023 + 2 ** 52).asI32x4();
    const scale = biased.shuffle(I32x4.of(0), 4, 0, 4, 2).shl(20).asF64x2();
    return f.let(r.mul(polynomial64(r, EXP2)).add(1).mul(scale));
  };
  const low = half(m.lowF64x2(), k.lowF64x2(), exponent.lowF64x2(), limit.lowF64x2(), widen(special, 0));
  const high = half(m.highF64x2(), k.highF64x2(), exponent.highF64x2(), limit.highF64x2(), widen(special, 2));
  const power = f.let(joinHalves(low, high));

  const whole = f.let(exponent.floor().eq(exponent));
  const halves = f.let(exponent.mul(0.5));
  const odd = whole.and(halves.floor().ne(halves));
  const signed = power.xor(base.and(odd.and(I32x4.of(SIGN_BIT)))); // −0 passes on its sign, too
  const undefinedSign = base.lt(0).and(base.gt(-Infinity)).andNot(whole);
  const result = undefinedSign.bitselect(F32x4.of(NaN), signed);
  return f.let(exponent.eq(0).bitselect(F32x4.of(1), result));
}

/** The masks of two neighbouring lanes as masks of 64 bits. */
const widen = (mask: I32x4, lane: number): I32x4 => mask.shuffle(mask, lane, lane, lane + 1, lane + 1);

/** −1, 0 or 1 by sign; ±0 and NaN stay. */
export const sign: Unary = (f, x) => {
  const v = f.let(x);
  return f.let(
    v
      .abs()
      .gt(0)
      .bitselect(withSign(F32x4.of(1), v), v),
  );
};

/** 1/√x with two correctly rounded steps: error ≤ 1.5 ULP. */
export const rsqrt: Unary = (f, x) => f.let(F32x4.of(1).div(x.sqrt()));
