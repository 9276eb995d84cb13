/** A tensor in the hands of its user: reading it with types, printing it, freeing it at the end of a block. */
import { inspect } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { createReferenceBackend } from "../../engine/backends/reference.ts";
import { Device } from "../../engine/device.ts";
import { add, arange, argmax, cast, device, setDevice, sum, tensor, type Tensor, zeros } from "../../engine/index.ts";

beforeAll(async () => {
  setDevice(await device("wasm"));
});

describe("reading", () => {
  test("a sum over what was read compiles, whatever is known of the element type", async () => {
    const total = async (x: Tensor): Promise<number> => (await x.read()).reduce((a, b) => a + b);
    expect(await total(add(tensor([1, 2]), 1))).toBe(5);
    expect((await tensor([1, 2]).read()).reduce((a, b) => a + b, 0.5)).toBe(3.5);
    expect(
      tensor([1, 2])
        .readSync()
        .reduce<string>((text, v, i) => `${text}${i}:${v} `, ""),
    ).toBe("0:1 1:2 ");
  });

  test("a known element type is known of what is read", async () => {
    const whole: Int32Array = await tensor([1, 2], { dtype: "i32" }).read();
    const counted: Int32Array = await arange(2).read();
    const at: Int32Array = await argmax(tensor([1, 3])).read();
    const floats: Float32Array = await cast(arange(2), "f32").read();
    expect([whole, counted, at, floats]).toEqual([
      Int32Array.of(1, 2),
      Int32Array.of(0, 1),
      Int32Array.of(1),
      Float32Array.of(0, 1),
    ]);
  });
});

describe("using", () => {
  test("frees the tensor at the end of the block, and also when the block throws", () => {
    let outside: Tensor;
    {
      using x = zeros([2]);
      outside = x;
      expect(x.disposed).toBe(false);
    }
    expect(outside.disposed).toBe(true);
    expect(() => {
      using x = zeros([2]);
      outside = x;
      throw new Error("in the block");
    }).toThrow("in the block");
    expect(outside.disposed).toBe(true);
  });
});

describe("console.log", () => {
  const shown = (x: Tensor): string => inspect(x);
  test("a scalar, a vector, a matrix, each row on a line", () => {
    expect(shown(sum(tensor([1, 1.5])))).toBe("Tensor(f32[] on wasm) 2.5");
    expect(shown(tensor([0.1, 1 / 3]))).toBe("Tensor(f32[2] on wasm) [0.1, 0.333333]");
    expect(
      shown(
        tensor(
          [
            [1, 0],
            [0, 1],
          ],
          { dtype: "i32" },
        ),
      ),
    ).toBe("Tensor(i32[2, 2] on wasm) [[1, 0],\n [0, 1]]");
    expect(shown(zeros([2, 1, 2]))).toBe("Tensor(f32[2, 1, 2] on wasm) [[[0, 0]],\n [[0, 0]]]");
  });
  test("of long axes the ends", () => {
    expect(shown(arange(1000))).toBe("Tensor(i32[1000] on wasm) [0, 1, 2, 3, …, 996, 997, 998, 999]");
    expect(shown(arange(8))).toBe("Tensor(i32[8] on wasm) [0, 1, 2, 3, 4, 5, 6, 7]");
    expect(shown(zeros([100, 2])).split("\n")).toHaveLength(9);
  });
  test("what is not finite", () => {
    expect(shown(tensor([NaN, Infinity, -Infinity]))).toBe("Tensor(f32[3] on wasm) [NaN, Infinity, -Infinity]");
  });
  test("a tensor that is gone says so", () => {
    const x = zeros([2]);
    x.dispose();
    expect(shown(x)).toBe("Tensor(f32[2] on wasm) disposed");
  });
  test("where reading has to wait it says how to read", () => {
    const { readSync: _, ...waiting } = createReferenceBackend("f32"); // as WebGPU's
    expect(shown(zeros([2], { device: new Device(waiting) }))).toBe(
      "Tensor(f32[2] on reference) (await x.read() has the values)",
    );
  });
});
