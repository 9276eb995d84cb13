/**
 * Elementary functions in WGSL with known errors, printed into the kernels that use them.
 *
 * The built-in ones are not exact enough: the language guarantees `tanh` to 1e-5 absolute and lets it be NaN for large
 * arguments, `log` to 5e-7 absolute near 1, `sin` to 5e-4, and drivers use that freedom. The functions here have a
 * relative error of about 2e-7, agree on every adapter, and keep NaN where the adapter has NaN at all (a compiler may
 * assume that it does not occur).
 *
 * Polynomials: S. L. Moshier, Cephes Mathematical Library, single precision (netlib.org/cephes: expf, logf, tanhf,
 * sinf). erf: Abramowitz & Stegun 7.1.5 (series) and 7.1.26 (1.5e-7 absolute). Subnormal numbers may become 0.
 */

interface Snippet {
  readonly needs: readonly string[];
  readonly code: string;
}

/** The last two terms of the series of erf. */
const ERF_LAST = "1.64621144e-6f - z * 1.63658447e-7f";

const SNIPPETS: Readonly<Record<string, Snippet>> = {
  // The bits go through a variable, because the compiler rejects constant expressions that are NaN or infinite.
  from_bits: {
    needs: [],
    code: `
var<private> exponent_bits: u32 = 0x7f800000u;
fn infinity() -> f32 { return bitcast<f32>(exponent_bits); }
fn not_a_number() -> f32 { return bitcast<f32>(exponent_bits | 0x400000u); }`,
  },

  // Compilers make 0 of a literal 0 times x, and of 0/x, for any x; these functions test the bits.
  zero_times_f32: {
    needs: ["from_bits"],
    code: `
fn zero_times_f32(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) { return not_a_number(); }
  return bitcast<f32>(bits & 0x80000000u);
}`,
  },
  zero_over_f32: {
    needs: ["from_bits"],
    code: `
fn zero_over_f32(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let size = bits & 0x7fffffffu;
  if (size == 0u || size > 0x7f800000u) { return not_a_number(); }
  return bitcast<f32>(bits & 0x80000000u);
}`,
  },

  // Some compilers fold x != x to false, so this function tests the bits.
  is_nan: {
    needs: [],
    code: `
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }`,
  },

  // The order of f32 as integers: the compiler knows nothing of them. Zeros of both signs are equal.
  order_f32: {
    needs: [],
    code: `
fn order_f32(x: f32) -> i32 {
  let bits = bitcast<i32>(x);
  return select(bits, -(bits & 0x7fffffff), bits < 0);
}`,
  },

  // The built-in functions may give either operand if one is NaN.
  max_f32: {
    needs: ["is_nan"],
    code: `
fn max_f32(x: f32, y: f32) -> f32 { return select(select(y, x, x > y), x + y, is_nan(x) || is_nan(y)); }`,
  },
  min_f32: {
    needs: ["is_nan"],
    code: `
fn min_f32(x: f32, y: f32) -> f32 { return select(select(y, x, x < y), x + y, is_nan(x) || is_nan(y)); }`,
  },

  sign_f32: {
    needs: ["is_nan"],
    code: `
fn sign_f32(x: f32) -> f32 { return select(sign(x), x, is_nan(x)); }`,
  },

  exp_poly: {
    needs: [],
    code: `
// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2
fn exp_poly(r: f32) -> f32 {
  return ((((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f) * r
    + 1.6666665459e-1f) * r + 5.0000001201e-1f;
}`,
  },

  exp_f32: {
    needs: ["is_nan", "exp_poly"],
    code: `
// e^x = 2^n e^r with |r| <= ln(2)/2; ln(2) in two parts, so that n ln(2) is exact;
// 2^n in two factors, for the ends of the range
fn exp_f32(x: f32) -> f32 {
  let bounded = clamp(x, -104.0f, 89.0f);
  let n = floor(bounded * 1.44269504f + 0.5f);
  let r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  let half = i32(n) >> 1u;
  let scale = bitcast<f32>((half + 127) << 23u);
  let rest = bitcast<f32>((i32(n) - half + 127) << 23u);
  let y = ((exp_poly(r) * r * r + r) + 1.0f) * scale * rest;
  return select(y, x, is_nan(x));
}`,
  },

  expm1_f32: {
    needs: ["exp_f32", "exp_poly"],
    code: `
fn expm1_f32(x: f32) -> f32 {
  return select(exp_f32(x) - 1.0f, exp_poly(x) * x * x + x, abs(x) < 0.34f);
}`,
  },

  log_poly: {
    needs: [],
    code: `
// (log(1 + f) - f + f^2/2) / f^3 for sqrt(1/2) - 1 <= f <= sqrt(2) - 1
fn log_poly(f: f32) -> f32 {
  return (((((((7.0376836292e-2f * f - 1.1514610310e-1f) * f + 1.1676998740e-1f) * f - 1.2420140846e-1f) * f
    + 1.4249322787e-1f) * f - 1.6668057665e-1f) * f + 2.0000714765e-1f) * f - 2.4999993993e-1f) * f + 3.3333331174e-1f;
}`,
  },

  log_f32: {
    needs: ["from_bits", "log_poly"],
    code: `
// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)): log x = e ln(2) + log(1 + f)
fn log_f32(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let shifted = bits - 0x3f3504f3u;
  let e = f32(bitcast<i32>(shifted) >> 23u);
  let f = bitcast<f32>((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  let y = f * f * (f * log_poly(f) - 0.5f) - e * 2.12194440e-4f;
  if (x == 0.0f) { return -infinity(); }
  if ((bits >> 31u) == 1u) { return not_a_number(); }
  return select((f + y) + e * 0.693359375f, x, (bits & 0x7f800000u) == 0x7f800000u);
}`,
  },

  log1p_f32: {
    needs: ["log_f32", "log_poly"],
    code: `
fn log1p_f32(x: f32) -> f32 {
  return select(log_f32(1.0f + x), x + x * x * (x * log_poly(x) - 0.5f), x > -0.29f && x < 0.41f);
}`,
  },

  tanh_f32: {
    needs: ["exp_f32", "is_nan"],
    code: `
fn tanh_f32(x: f32) -> f32 {
  let z = x * x;
  let small = ((((-5.70498872745e-3f * z + 2.06390887954e-2f) * z - 5.37397155531e-2f) * z + 1.33314422036e-1f) * z
    - 3.33332819422e-1f) * z * x + x;
  let large = 1.0f - 2.0f / (exp_f32(2.0f * min(abs(x), 10.0f)) + 1.0f);
  let y = select(select(-large, large, x > 0.0f), small, abs(x) < 0.625f);
  return select(y, x, is_nan(x));
}`,
  },

  sigmoid_f32: {
    needs: ["exp_f32"],
    code: `
fn sigmoid_f32(x: f32) -> f32 {
  let e = exp_f32(-abs(x));
  return select(e, 1.0f, x >= 0.0f) / (1.0f + e);
}`,
  },

  erf_f32: {
    needs: ["exp_f32"],
    code: `
fn erf_f32(x: f32) -> f32 {
  let z = x * x;
  if (z < 1.0f) {
    // 2/sqrt(pi) sum of (-1)^n x^(2n+1) / (n! (2n+1))
    return x * (1.12837917f + z * (-0.376126389f + z * (0.112837917f + z * (-2.68661706e-2f + z * (5.22397762e-3f
      + z * (-8.54832702e-4f + z * (1.20553330e-4f + z * (-1.49256504e-5f + z * (${ERF_LAST})))))))));
  }
  let t = 1.0f / (1.0f + 0.3275911f * abs(x));
  let tail = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
  let y = 1.0f - tail * exp_f32(-z);
  return select(-y, y, x > 0.0f);
}`,
  },

  // Payne & Hanek, "Radian reduction for trigonometric functions" (SIGNUM 1983): of x 2/pi only what is below 4 counts,
  // so the product takes 96 bits of 2/pi from where they begin to matter. f32 has no multiple of pi/2 nearer than
  // 2^-31.
  trig_far: {
    needs: [],
    code: `
// 2/pi in binary, behind 32 zeros
var<private> two_over_pi: array<u32, 8> = array<u32, 8>(0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
  0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
// The 64 bits of a product, high word first, for a < 2^24
fn wide_product(a: u32, b: u32) -> vec2u {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let across = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let middle = (a & 0xffffu) * (b >> 16u) + (across & 0xffffu);
  return vec2u((a >> 16u) * (b >> 16u) + (across >> 16u) + (middle >> 16u), (middle << 16u) | (low & 0xffffu));
}
// 32 bits of 2/pi from bit number at
fn bits_of_two_over_pi(at: u32) -> u32 {
  let word = at >> 5u;
  let shift = at & 31u;
  return (two_over_pi[word] << shift) | ((two_over_pi[word + 1u] >> 1u) >> (31u - shift));
}
// x 2/pi less the nearest integer, times pi/2, and that integer modulo 4; 8192 <= x < infinity
fn reduce_far(x: f32) -> vec2f {
  let bits = bitcast<u32>(x);
  let digits = (bits & 0x007fffffu) | 0x00800000u; // x = digits 2^(exponent - 150)
  let at = (bits >> 23u) - 120u; // of the bit that has the weight 2 in 2/pi 2^(exponent - 150)
  let low = wide_product(digits, bits_of_two_over_pi(at + 64u));
  let middle = wide_product(digits, bits_of_two_over_pi(at + 32u));
  let next = middle.y + low.x;
  let top = digits * bits_of_two_over_pi(at) + middle.x + select(0u, 1u, next < low.x);
  // The product modulo 4 has 2 bits before its point and 62 behind it
  let fraction = vec2u((top << 2u) | (next >> 30u), next << 2u);
  let negated = vec2u(~fraction.x + select(0u, 1u, fraction.y == 0u), ~fraction.y + 1u);
  let is_above = (fraction.x >> 31u) == 1u;
  let size = select(fraction, negated, is_above);
  let turn = f32(size.x) * 2.3283064365386963e-10f + f32(size.y) * 5.421010862427522e-20f;
  return vec2f(select(turn, -turn, is_above) * 1.57079632679f, f32((top + 0x20000000u) >> 30u));
}`,
  },

  trig_f32: {
    needs: ["trig_far", "from_bits"],
    code: `
// sin(x + quadrants pi/2): x less a multiple of pi/2 (in three parts, exact for |x| < 8192), then a polynomial
fn trig_f32(x: f32, quadrants: i32) -> f32 {
  var n = floor(x * 0.636619772f + 0.5f);
  var r = ((x - n * 1.5703125f) - n * 4.837512969970703e-4f) - n * 7.549789948768648e-8f;
  if (!(abs(x) < 8192.0f)) {
    if ((bitcast<u32>(x) & 0x7f800000u) == 0x7f800000u) { return not_a_number(); }
    let far = reduce_far(abs(x)) * sign(x);
    r = far.x;
    n = far.y;
  }
  let z = r * r;
  let s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
  let c = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
  let quadrant = i32(n) + quadrants;
  let y = select(s, c, (quadrant & 1) == 1);
  return select(y, -y, (quadrant & 2) == 2);
}`,
  },

  pow_f32: {
    needs: ["exp_f32", "log_f32", "from_bits", "is_nan"],
    code: `
// x^n by squaring
fn whole_power(x: f32, n: u32) -> f32 {
  var y = select(1.0f, x, (n & 1u) == 1u);
  var square = x;
  for (var rest = n >> 1u; rest > 0u; rest = rest >> 1u) {
    square = square * square;
    if ((rest & 1u) == 1u) { y = y * square; }
  }
  return y;
}
// As JavaScript's Math.pow at all corners. Error: 1e-7 times y up to |y| = 64 for a whole y, else times |y log x|;
// exact where whole powers are.
fn pow_f32(x: f32, y: f32) -> f32 {
  if (y == 0.0f) { return 1.0f; }
  if (is_nan(x) || is_nan(y)) { return not_a_number(); }
  let is_whole = y == floor(y);
  let size = abs(x);
  var magnitude = 0.0f;
  if (is_whole && abs(y) <= 64.0f) {
    magnitude = whole_power(size, u32(abs(y)));
    if (y < 0.0f) { magnitude = select(1.0f / magnitude, infinity(), magnitude == 0.0f); }
  } else {
    magnitude = exp_f32(y * log_f32(size));
  }
  if ((bitcast<u32>(x) >> 31u) == 0u) { return magnitude; }
  if (!is_whole && size > 0.0f && size < infinity()) { return not_a_number(); }
  return select(magnitude, -magnitude, is_whole && abs(y) < 16777216.0f && fract(0.5f * y) != 0.0f);
}`,
  },
};

/** The definitions of the named functions and of those that they call, each once, callees first. */
export function mathFunctions(names: Iterable<string>): string {
  const done = new Set<string>();
  const texts: string[] = [];
  const visit = (name: string): void => {
    if (done.has(name)) return;
    done.add(name);
    const snippet = SNIPPETS[name];
    if (snippet === undefined) throw new Error(`mathFunctions: there is no ${name}`);
    snippet.needs.forEach(visit);
    texts.push(snippet.code.trim());
  };
  for (const name of names) visit(name);
  return texts.map((text) => text + "\n").join("");
}
