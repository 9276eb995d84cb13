/** Rows of a packed matrix, as an embedding looks them up. */
import { type Program, type WasmKernel, single } from "../../kernels/kernel.ts";
import { I32, i32s, I32x4, kernelModule, load, type Var } from "../../kernels/wasm/assembler.ts";
import { fillWords } from "../../kernels/wasm/copy.ts";
import { type PackedFormat, packedRow, type PackedRowsSpec } from "./format.ts";
import { decode, range, scaleAt, stepsOf } from "./wasmDecode.ts";

/** See `PackedRowsSpec`. A unit is one row of y. */
export function packedRows({ format, rows, columns, count }: PackedRowsSpec): Program<WasmKernel> {
  const { scales, words } = packedRow(format, columns);
  return single(
    {
      key: `packed rows ${format}`,
      module: () => rowsModule(format),
      scalars: [rows, columns, 4 * words, 4 * scales],
      units: count,
      costPerUnit: 2 * columns,
    },
    3,
  );
}

function rowsModule(format: PackedFormat): Uint8Array<ArrayBuffer> {
  const params = i32s("w", "ids", "y", "rows", "columns", "rowBytes", "scales", "begin", "end");
  return kernelModule(params, (f, p) => {
    f.for(p.begin, p.end, 1, (unit) => {
      const id = f.let(load.i32(p.ids.at(unit)));
      const y = f.let(p.y.at(unit.mul(p.columns)));
      f.if(
        id.ltU(p.rows),
        () => {
          const w = f.let(p.w.add(id.mul(p.rowBytes)));
          const column: Var<I32> = f.variable("i32");
          f.set(column, I32.of(0));
          f.while(column.lt(p.columns), () => {
            const scale = scaleAt(f, format, w.add(p.scales).at(column.shrU(5)));
            for (const step of range(stepsOf(format))) {
              const weights = f.let(
                decode(format, load.i32x4(w.add(column.divU(4 * stepsOf(format)).shl(4))), step, scale),
              );
              const at = f.let(column.add(4 * step));
              f.if(
                at.add(4).le(p.columns),
                () => f.store(y.at(at), weights),
                () => {
                  for (const lane of range(3)) {
                    f.if(at.add(lane).lt(p.columns), () => f.storeLane(y.at(at), weights, lane, 4 * lane));
                  }
                },
              );
            }
            f.set(column, column.add(4 * stepsOf(format)));
          });
        },
        () => fillWords(f, y, I32x4.of(0), p.columns),
      );
    });
  });
}
