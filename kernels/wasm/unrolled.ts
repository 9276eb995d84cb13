/** The innermost loop of products and of attention. */
import type { FunctionBuilder, I32, Label, Var } from "./assembler.ts";

/** An operand that an innermost loop walks along. */
export interface Stream {
  readonly pointer: Var<I32>;
  /** The number of bytes from one turn to the next. A constant costs nothing in the loads of unrolled turns. */
  readonly stride: I32 | number;
}

/**
 * An innermost loop of `count` turns, of which `turns` stand one after the other in the code. This saves instructions
 * beside the arithmetic, of which a core can take only some in each cycle: the counter, the pointers, and V8's check of
 * its stack. The exits between the turns end the loop at any count; and they keep V8 from moving the loads of all turns
 * to the front, where they would need more registers than there are. The final values of the pointers depend on the
 * exit.
 * @param each one turn, given the offsets in bytes of each stream, in order
 */
export function unrolledLoop(
  f: FunctionBuilder,
  turns: number,
  count: I32,
  streams: readonly Stream[],
  each: (offsets: readonly number[]) => void,
): void {
  const left = f.let(count);
  const pass = (again: Label, done: Label): void => {
    for (let turn = 0; turn < turns; turn++) {
      const isLast = turn === turns - 1;
      each(streams.map(({ stride }) => (typeof stride === "number" ? turn * stride : 0)));
      if (!isLast) f.breakIf(done, left.le(turn + 1));
      for (const { pointer, stride } of streams) {
        if (typeof stride !== "number") f.set(pointer, pointer.add(stride));
        else if (isLast) f.set(pointer, pointer.add(turns * stride));
      }
    }
    f.set(left, left.sub(turns));
    f.breakIf(again, left.gt(0));
  };
  f.if(left.gt(0), () => f.block((done) => f.loop((again) => pass(again, done))));
}
