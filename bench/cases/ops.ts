/** Cases of ops: softmax, LayerNorm, attention and the log-probabilities of tokens, forward and backward. */
import { type Case, everybody } from "./case.ts";
import type { Task } from "./task.ts";

function op(name: string, task: Task & { readonly backward: boolean }, flops: number, floats: number): Case {
  return {
    name: `${name}${task.backward ? "-backward" : ""}`,
    task,
    flops,
    bytes: 4 * floats,
    expected: { reference: task },
    tolerance: 1e-4,
    asks: everybody,
    alone: false,
  };
}

/** Cases limited by memory: `bytes` bounds their speed. In `flops` an exp counts as one operation. */
export function opCases(): Case[] {
  const both = [false, true];
  return [
    ...both.map((backward) => {
      const [rows, cols] = [1024, 1024];
      return op(
        "softmax/1024x1024",
        { op: "softmax", rows, cols, backward },
        (backward ? 9 : 5) * rows * cols,
        (backward ? 3 : 2) * rows * cols,
      );
    }),
    ...both.map((backward) => {
      const [rows, cols] = [2048, 128];
      return op(
        "norm/2048x128",
        { op: "norm", rows, cols, backward },
        (backward ? 20 : 8) * rows * cols,
        (backward ? 3 : 2) * rows * cols,
      );
    }),
    ...[
      { B: 4, T: 64, H: 4, D: 32 },
      { B: 8, T: 256, H: 4, D: 64 },
    ].flatMap((shape) =>
      both.map((backward) => {
        const { B, T, H, D } = shape;
        const pairs = (B * H * T * (T + 1)) / 2;
        const name = `attention/B${B}-T${T}-H${H}-D${D}`;
        return op(
          name,
          { op: "attention", ...shape, backward },
          (backward ? 12 : 4) * D * pairs,
          (backward ? 8 : 4) * B * T * H * D,
        );
      }),
    ),
    ...[65, 1024, 32768].flatMap((V) =>
      both.map((backward) => {
        const rows = V > 10_000 ? 256 : 1024;
        return op(
          `logProbs/${rows}xV${V}`,
          { op: "logProbs", rows, V, backward },
          (backward ? 6 : 4) * rows * V,
          (backward ? 2 : 1) * rows * V,
        );
      }),
    ),
  ];
}
