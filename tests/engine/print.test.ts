/** A graph as text. */
import { expect, test } from "vitest";
import { device, setDevice } from "../../engine/device.ts";
import { tensor } from "../../engine/ops/create.ts";
import { exp, mul } from "../../engine/ops/pointwise.ts";
import { sum } from "../../engine/ops/reduce.ts";
import { printGraph } from "../../engine/print.ts";
import type { Tensor } from "../../engine/tensor.ts";

test("a graph prints as one line per op, inputs first", async () => {
  setDevice(await device("reference"));
  const f = (p: { w: Tensor }): Tensor => sum(mul(mul(p.w, tensor([3, 4])), exp(mul(p.w, 0.5))));
  expect(printGraph(f, { w: tensor([1, 2]) })).toBe(
    [
      '%0 = leaf() {path: "w"} : f64[2]',
      "%1 = mul(%0, constant f64[2]) : f64[2]",
      "%2 = mul(%0) {args: [null,0.5]} : f64[2]",
      "%3 = exp(%2) : f64[2]",
      "%4 = mul(%1, %3) : f64[2]",
      "%5 = sum(%4) {start: 0, end: 1, scale: 1} : f64[]",
    ].join("\n"),
  );
});
