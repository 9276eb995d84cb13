/**
 * # 2 · One formula, four forms
 *
 * **What you will understand:** how a formula that is written once becomes its own derivative, text for a GPU and bytes
 * for a CPU, and why such a formula may choose between two values but not branch.
 *
 * The tape of chapter 1 takes a note for each op on whole tensors. Many losses are not like that: the same few
 * operations for each token, with no sum in between. Each of them as an op of its own would read and write a tensor. So
 * the library makes *one* op of the whole formula. It calls the formula once with **symbols** instead of numbers, and
 * gets a graph that says what is to be done with each element. Whatever is needed is then printed from this graph.
 */
import { device, type Expr, fuse, grad, Rng, sum, tensor, type Tensor } from "../index.ts";
import { differentiate, evaluator, input, topologicalOrder } from "../kernels/expr.ts";
import { kernelModule, load } from "../kernels/wasm/assembler.ts";
import { emitExpressions } from "../kernels/wasm/expression.ts";
import { emitExpression } from "../kernels/wgsl/expression.ts";

/**
 * ## The formula
 *
 * This is PPO's loss of one token (arXiv 1707.06347, equation 7), with ε = 0.2 and the sign of a loss:
 *
 *     −min(ρ·A, clip(ρ, 1 − ε, 1 + ε)·A)
 *
 * ρ is the probability that the model now gives to the token, divided by the one with which the token was drawn; A, the
 * advantage, says how much better the episode was than expected. Going down this loss makes ρ larger where A > 0, until
 * ρ = 1.2, and smaller where A < 0, until ρ = 0.8. Beyond that the loss is flat. Change this cell: all others follow,
 * but for `plain` below.
 */

function formula(ratio: Expr, advantage: Expr): Expr {
  const clipped = ratio.clamp(0.8, 1.2);
  return ratio.mul(advantage).min(clipped.mul(advantage)).neg();
}

/**
 * ## A graph
 *
 * A symbol (`Expr`) is an operation with the symbols that it takes. `ratio.mul(advantage)` computes nothing, it makes
 * the node `mul`. `clamp` makes two comparisons and two nodes `where(condition, a, b)`, which stands for a if the
 * condition is true (1) and for b if it is not (0). Equal operations on equal nodes are the *same* node: they are found
 * by a table.
 */

const NAMES = ["ratio", "advantage", "g"];
const [ratio, advantage, g] = [0, 1, 2].map(input) as [Expr, Expr, Expr];
const loss = formula(ratio, advantage);

/** Prints a line for each operation that is new; leaves (inputs and constants) stand where they are used. */
function list(outputs: readonly Expr[], names = new Map<number, string>()): Map<number, string> {
  let next = [...names.values()].filter((name) => /^v\d/.test(name)).length;
  for (const { id, op, args, value } of topologicalOrder(outputs)) {
    if (names.has(id)) continue;
    const leaf = op === "input" ? NAMES[value]! : op === "const" ? String(value) : undefined;
    names.set(id, leaf ?? `v${next++}`);
    if (leaf === undefined) console.log(`  ${names.get(id)} = ${op}(${args.map((x) => names.get(x.id)).join(", ")})`);
  }
  return names;
}
console.log("the loss");
const names = list([loss]);

/**
 * ## Its derivative, of the same symbols
 *
 * `differentiate` walks the graph from the end, as `gradients` did in chapter 1, but what it multiplies and adds are
 * symbols again. g stands for ∂L/∂(loss), so the result is the vjp by ρ. The derivative of min(a, b) by a is 1 if
 * a < b, 0 if a > b, and a half if they are equal: inside the clip they are, and the two halves add up to 1 (v20).
 * That of `where` goes to the side that is taken; the other gets 0.
 *
 * It needs ρ·A, clip(ρ)·A and the comparisons, which the loss has computed: only the lines below are new. The last line
 * counts how many operations it would be if each were written out where it is used, as in one long line of text.
 */

const [slope] = differentiate([loss], [g], [0]) as [Expr];
console.log("its derivative by the ratio, after that");
list([slope], names);
const isOperation = ({ op }: Expr): boolean => op !== "input" && op !== "const";
const sizes = new Map<number, number>(); // operations if nothing is shared
for (const x of topologicalOrder([loss, slope])) {
  sizes.set(
    x.id,
    x.args.reduce((n, arg) => n + sizes.get(arg.id)!, Number(isOperation(x))),
  );
}
const shared = topologicalOrder([loss, slope]).filter(isOperation).length;
console.log(`${shared} operations for both; ${sizes.get(loss.id)! + sizes.get(slope.id)!} if nothing were shared`);

/**
 * ## Is it right?
 *
 * `evaluator` computes the graph in plain f64, node by node. Beside it: the same loss in plain JavaScript, and its
 * slope by the central difference of chapter 1. At an edge, such as ρ = 1.2 with A = 1, the slope is −1 to the left
 * and 0 to the right. The difference sees half of each; the graph says −1, as `clamp` counts its ends as inside
 * (PyTorch's does, too). Any number between would do as well, if only it is always the same.
 */

const plain = (r: number, a: number): number => -Math.min(r * a, Math.min(Math.max(r, 0.8), 1.2) * a);
const evaluate = evaluator([loss, slope]);
console.log("\nratio    A   loss  plain  slope  tried");
for (const [r, a] of [0.6, 0.8, 1, 1.2, 1.4].flatMap((r) => [1, -1].map((a) => [r, a] as const))) {
  const [value, tried] = [plain(r, a), (plain(r + 1e-5, a) - plain(r - 1e-5, a)) / 2e-5];
  const out = [0, 0];
  evaluate([r, a, 1], out);
  console.log([r, a, out[0]!, value, out[1]!, tried].map((x) => x.toFixed(1).padStart(5)).join("  "));
}

/**
 * ## For a GPU: WGSL
 *
 * WGSL is the language of WebGPU's shaders. One line per node is all it takes. `select(b, a, condition)` is its
 * `where`; both a and b have been computed by then. Why not `if`? A GPU runs the same instruction for 32 or so elements
 * together. If some of them go one way and some the other, it runs both ways one after the other, and part of it idles
 * each time. Here the sides are numbers that are there already, so nothing is lost by having both.
 */

const wgsl = emitExpression([loss, slope], NAMES);
console.log(`\n${wgsl.statements}\nreturns ${wgsl.results.join(", ")}`);

/**
 * ## For a CPU: WebAssembly
 *
 * A CPU has no `if` for each element either: SIMD instructions work on four floats at once. A comparison returns a
 * mask, 32 ones or 32 zeros for each of the four, and `v128.bitselect(a, b, mask)` takes each bit from a or b. This is
 * the whole kernel: for every 16 bytes, load four ratios and four advantages, compute, store. `emitExpressions` adds
 * the instructions of the graph; `kernelModule` puts header, types and names around them.
 */

const bytes = kernelModule({ ratio: "i32", advantage: "i32", loss: "i32", end: "i32" }, (f, p) => {
  f.for(0, p.end, 16, (at) => {
    const inputs = [p.ratio, p.advantage].map((address) => f.let(load.f32x4(address.add(at))));
    f.store(p.loss.add(at), emitExpressions(f, [loss], inputs)[0]!);
  });
});
const memory = new WebAssembly.Memory({ initial: 1, maximum: 65536 });
const instance = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory } });
const floats = new Float32Array(memory.buffer);
floats.set([0.7, 1, 1.2, 1.3, 1, 1, 1, 1]); // ratios at address 0, advantages at 16; losses will be at 32
(instance.exports["run"] as (...args: number[]) => void)(0, 16, 32, 16);
console.log(`\n${bytes.length} bytes, four losses:`, ...Array.from(floats.slice(8, 12), (x) => x.toFixed(4)));

/**
 * ## Reading the bytes
 *
 * The specification (WebAssembly Core, section 5) gives each instruction one byte, and those of SIMD 0xfd and a number.
 * Numbers are LEB128: seven bits in each byte, and the highest bit says that more follow, so e6 01 is 0x66 + 128 = 230.
 * Instructions take their operands from a stack: `local.get` puts a variable there, `f32x4.mul` replaces two values by
 * their product, `local.set` takes one away. Variables 0 to 3 are the parameters, 4 is `at`. The numbers after a load
 * or store are alignment and offset, 64 says that a block returns nothing, and `br_if 0` goes back to `loop`. Find v0
 * to v7 in it.
 */

/** Instructions by their code, each with its operands: the number of LEB128 numbers behind it. */
const TABLE = `2 block 1, 3 loop 1, 4 if 1, 11 end 0, 13 br_if 1, 32 local.get 1, 33 local.set 1, 65 i32.const 1,
  72 i32.lt_s 0, 106 i32.add 0, s0 v128.load 2, s11 v128.store 2, s12 v128.const 0, s65 f32x4.eq 0, s67 f32x4.lt 0,
  s68 f32x4.gt 0, s69 f32x4.le 0, s70 f32x4.ge 0, s82 v128.bitselect 0, s224 f32x4.abs 0, s225 f32x4.neg 0,
  s227 f32x4.sqrt 0, s228 f32x4.add 0, s229 f32x4.sub 0, s230 f32x4.mul 0, s231 f32x4.div 0,
  s232 f32x4.min 0, s233 f32x4.max 0`;
const INSTRUCTIONS = new Map(TABLE.split(/,\s*/).map((entry) => [entry.split(" ")[0]!, entry.split(" ").slice(1)]));
let at = 8; // after \0asm and the version
function leb(): number {
  for (let [value, shift] = [0, 0]; ; shift += 7) {
    value |= (bytes[at]! & 0x7f) << shift;
    if (bytes[at++]! < 0x80) return value;
  }
}
/** One instruction as text; a code that the table lacks as its number. */
function instruction(): string {
  const code = bytes[at++]!;
  const key = code === 0xfd ? `s${leb()}` : String(code);
  const [name, count] = INSTRUCTIONS.get(key) ?? [`(${key})`, 0];
  if (name !== "v128.const") return [name, ...Array.from({ length: Number(count) }, leb)].join(" ");
  at += 16;
  return `v128.const of four times ${new DataView(bytes.buffer).getFloat32(at - 16, true).toFixed(2)}`;
}
for (let section = leb(); section !== 10; section = leb()) {
  const length = leb(); // types, imports, functions, exports: until section 10, the code
  at += length;
}
const [, , length] = [leb(), leb(), leb()]; // of the section; number of functions; bytes of the only one
const end = at + length;
const groups = leb(); // its own variables, by type: two bytes each
at += 2 * groups;
while (at < end) {
  const [from, parts] = [at, [instruction()]];
  while (!/^(block|loop|if|end|br_if|local\.set|v128\.store)/.test(parts.at(-1)!)) parts.push(instruction());
  const hex = Array.from(bytes.slice(from, Math.min(at, from + 12)), (byte) => byte.toString(16).padStart(2, "0"));
  console.log(`  ${parts.join(", ").padEnd(70)} ${hex.join(" ")}${at > from + 12 ? " …" : ""}`);
}

/**
 * ## The same on the executors
 *
 * `fuse` does all this: an op of the formula, and one of its derivative when a gradient asks for it. `reference`
 * computes in f64 with `evaluator`, `wasm` in f32 with a kernel like the one above. f32 keeps 24 bits, so results near
 * 1 may be wrong by 2⁻²⁴ = 6e-8 for each operation.
 */

const clipped = fuse("clipped", formula);
const rng = new Rng(2);
const data = [1, 0].map((mean) => Array.from({ length: 1000 }, () => mean + 0.3 * rng.normal()));
async function on(name: "reference" | "wasm"): Promise<number[]> {
  const executor = await device(name);
  const [r, a] = data.map((x) => tensor(x, { device: executor })) as [Tensor, Tensor];
  const slopes = grad((r: Tensor) => sum(clipped(r, a)))(r);
  return [...(await clipped(r, a).read()), ...(await slopes.read())];
}
const [exact, fast] = [await on("reference"), await on("wasm")];
const worst = Math.max(...exact.map((x, i) => Math.abs(x - fast[i]!)));
console.log(`\n${exact.length} losses and slopes: wasm and reference differ by ${worst.toExponential(0)} at most`);

/**
 * ## Break it
 *
 * Write the clip as you would for numbers. (The compiler objects; the program runs all the same, up to this line.)
 *
 * ```diff
 * -  const clipped = ratio.clamp(0.8, 1.2);
 * +  const clipped = Math.min(Math.max(ratio, 0.8), 1.2);
 * ```
 *
 * `Math.max` asks the symbol for its value. There is none: the formula runs once, before any number exists, and what it
 * returns must hold for all of them. `if (ratio > 1.2)` asks the same. So a symbol refuses, by its method `valueOf`.
 *
 * ## Simplifications so far
 *
 * - The kernel takes whole groups of four, tensors of one shape, and contiguous numbers.
 * - `exp`, `log` and others have no instruction: they are polynomials, which the table of instructions here does not
 *   know.
 * - Only the value was assembled; the derivative would be one more `f.store`.
 *
 * ## In the library
 *
 * `kernels/expr.ts` has symbols, `differentiate` and `evaluator`; `kernels/wgsl/expression.ts` and
 * `kernels/wasm/expression.ts` print them. `kernels/wasm/pointwise.ts` adds the rest of a row, broadcasting and several
 * vectors per turn; `kernels/wasm/assembler.ts` makes the bytes. `engine/fuse.ts` makes the op.
 *
 * ## Exercises
 *
 * 1. Write a square root that is 0 below 0, and has the derivative 0 there instead of NaN.
 * 2. Write log(1 + eˣ) so that neither value nor derivative is lost where eˣ is too large for a number.
 */
