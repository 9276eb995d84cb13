/**
 * A loss of your own as one kernel: the Huber loss with a trainable scale. It is written once as a scalar formula and
 * runs forward and backward as a single fused kernel on every executor; its gradient is checked here.
 * `npx tsx examples/fused-loss.ts`
 *
 * In a program of your own the imports come from "worldgrad/engine".
 */
import { checkGradient, device, fuse, grad, Rng, select, sum, type Tensor, tensor } from "../index.ts";

/**
 * ½r²/s for |r| ≤ s, else |r| − ½s, with r = prediction − target; plus ln s, so that a larger scale has a cost. The
 * parameters of the formula are expressions, not tensors: the formula is printed as WGSL, assembled as WebAssembly, and
 * differentiated symbolically. Calls broadcast like every other op.
 */
const huber = fuse("huber", (prediction, target, scale) => {
  const r = prediction.sub(target).abs();
  const near = r.mul(r).div(scale.mul(2));
  const far = r.sub(scale.mul(0.5));
  return select(r.le(scale), near, far).add(scale.log());
});

type Params = { readonly prediction: Tensor; readonly scale: Tensor };
const uniform = (rng: Rng, n: number): number[] => Array.from({ length: n }, () => 4 * rng.uniform() - 2);

// 1. The gradient against central differences, on the executor that computes in 64 bits.
const f64 = await device("reference");
const rng = new Rng(7);
const target = uniform(rng, 12);
const start = { prediction: uniform(rng, 12), scale: [0.5, 1, 1.5] };
const paramsOf = (values: typeof start, on = f64): Params => ({
  prediction: tensor(values.prediction, { device: on, shape: [4, 3] }),
  scale: tensor(values.scale, { device: on }),
});
const lossOn =
  (on = f64) =>
  ({ prediction, scale }: Params): Tensor =>
    sum(huber(prediction, tensor(target, { device: on, shape: [4, 3] }), scale));

const { compared, worst } = await checkGradient(lossOn(), paramsOf(start), { tolerance: { relative: 1e-8 } });
console.log(`${compared} derivatives, largest difference from central ones: ${worst!.difference.toExponential(1)}`);

// 2. The same formula as a WebAssembly kernel, in 32 bits.
const wasm = await device("wasm");
const exact = grad(lossOn())(paramsOf(start));
const single = grad(lossOn(wasm))(paramsOf(start, wasm));
const difference = async (name: keyof Params): Promise<number> => {
  const [a, b] = [await exact[name].read(), await single[name].read()];
  return Math.max(...Array.from(a, (x, i) => Math.abs(x - b[i]!)));
};
const rounding = Math.max(await difference("prediction"), await difference("scale"));
console.log(`the same on ${wasm.description}: differs by ${rounding.toExponential(1)}`);
if (rounding > 1e-5) throw new Error("the kernel is wrong");
