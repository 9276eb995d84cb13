/** Matrix products as plain loops over Float32Arrays, ordered to read memory in sequence. */
import type { MatmulTask, Task } from "../cases/task.ts";
import { noise, sample } from "../data.ts";
import type { Engine } from "./engine.ts";

export function plain(): Engine {
  return {
    description: "plain JavaScript loops",
    prepare: async (task: Task) => {
      if (task.op !== "matmul") return "only matrix products are written out as loops";
      const a = noise(1, task.batch * task.m * task.k);
      const b = noise(2, task.batch * task.k * task.n);
      const c = new Float32Array(task.batch * task.m * task.n);
      const run = (): void => product(task, a, b, c);
      return {
        check: async () => {
          run();
          return sample(c);
        },
        run,
        dispose: () => undefined,
      };
    },
  };
}

function product(task: MatmulTask, a: Float32Array, b: Float32Array, c: Float32Array): void {
  const { batch, m, n, k, transA, transB } = task;
  c.fill(0);
  for (let z = 0; z < batch; z++) {
    const [atA, atB, atC] = [z * m * k, z * k * n, z * m * n];
    for (let i = 0; i < m; i++) {
      if (transB && !transA) {
        for (let j = 0; j < n; j++) {
          let sum = 0;
          for (let p = 0; p < k; p++) sum += a[atA + i * k + p]! * b[atB + j * k + p]!;
          c[atC + i * n + j] = sum;
        }
        continue;
      }
      for (let p = 0; p < k; p++) {
        const x = a[atA + (transA ? p * m + i : i * k + p)]!;
        if (transB) for (let j = 0; j < n; j++) c[atC + i * n + j]! += x * b[atB + j * k + p]!;
        else for (let j = 0; j < n; j++) c[atC + i * n + j]! += x * b[atB + p * n + j]!;
      }
    }
  }
}
