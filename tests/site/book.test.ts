/** The parts of the book's pages that need no page: how values are printed, how cells become a program. */
import { inspect as inNode } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compare, worse } from "../../site/book/compare.ts";
import { inspect } from "../../site/book/inspect.ts";
import {
  applyChanges,
  assemble,
  assembleCheck,
  lineOfSecondDeclaration,
  type Modules,
  namesOf,
  resolveImports,
} from "../../site/book/program.ts";

describe("values are printed as Node prints them", () => {
  class Point {
    x = 1;
    y = [1, 2, 3];
  }
  const cases: unknown[] = [
    [],
    {},
    [1, -0, NaN, "it's", 'a "b"', `'"`, "a\\b\n", true, null, undefined, 3n, Symbol("s")],
    new Float32Array([3.000012159347534, -1.0000174045562744]),
    new Float64Array(20).map((_, i) => Math.sin(i)),
    Int32Array.from({ length: 150 }, (_, i) => i * i),
    Array.from({ length: 101 }, (_, i) => i),
    Array.from({ length: 30 }, (_, i) => "abcdefgh".slice(i % 8)),
    { a: 1, "b c": { d: [1, { e: { f: 2 } }] }, g: () => 1, h: Point },
    new Point(),
    new Map<unknown, unknown>([
      ["a", [1, 2]],
      [{ b: 1 }, new Set([1, 2])],
    ]),
    [[1, 2, [3, 4, [5, [6]]]], { a: { b: { c: {} } } }],
    { shape: [2, 3], data: Array.from({ length: 40 }, (_, i) => i / 7), name: "a long name, so that it breaks" },
    /a+/g,
    Object.create(null),
  ];
  it.each(cases.map((value, i) => [i, value]))("case %i", (_, value) => expect(inspect(value)).toBe(inNode(value)));

  it("plain data of any form", () => {
    const key = fc.constantFrom("a", "key", "a key", "x1");
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.oneof(fc.double(), fc.integer(), fc.constantFrom("", "word", "two words", "it's"), fc.boolean()),
        fc.array(tie("value"), { maxLength: 12 }),
        fc.array(fc.double(), { maxLength: 40 }),
        fc.dictionary(key, tie("value"), { maxKeys: 4, noNullPrototype: true }),
      ),
    }));
    fc.assert(
      fc.property(value, (own) => void expect(inspect(own)).toBe(inNode(own))),
      { numRuns: 300 },
    );
  });
});

describe("a program of cells", () => {
  const cells = ["const a = 1;\nconsole.log(a);", "const b = 2;"];
  it("knows the place of each line", () => {
    const { text, placeOf } = assemble(cells);
    const lines = text.split("\n");
    expect(placeOf(lines.indexOf("console.log(a);") + 1)).toEqual({ cell: 0, line: 2 });
    expect(placeOf(lines.indexOf("const b = 2;") + 1)).toEqual({ cell: 1, line: 1 });
    expect([placeOf(1), placeOf(lines.length + 1)]).toEqual([undefined, undefined]);
  });

  it("takes the changes of Break it where they fit once, and refuses others", () => {
    expect(applyChanges(cells, [{ before: ["const b = 2;"], after: ["const b = 3;", "b;"] }])).toEqual([
      cells[0],
      "const b = 3;\nb;",
    ]);
    expect(() => applyChanges(cells, [{ before: ["const c = 2;"], after: [] }])).toThrow("found 0");
    expect(() => applyChanges(["x;", "x;"], [{ before: ["x;"], after: [] }])).toThrow("found 2");
  });

  it("a check has the answer between what stood around it", () => {
    const { text, placeOf } = assembleCheck("// before\n", "export function exercise2() {\n}", "\n// after", 2);
    expect(text).toBe("// before\nexport function exercise2() {\n}\n// after\nawait check2(exercise2);\n");
    expect([1, 2, 3, 4].map((line) => placeOf(line)?.line)).toEqual([undefined, 1, 2, undefined]);
  });

  it("finds the second of two declarations", () => {
    const message = "Identifier 'b' has already been declared";
    expect(lineOfSecondDeclaration("const b = 1;\nconst ab = b;\nlet b;\nb = 2;", message)).toBe(3);
    expect(lineOfSecondDeclaration("const b = 1;", "Unexpected token")).toBeUndefined();
  });
});

describe("imports of a program", () => {
  const modules: Modules = {
    files: { "index.ts": "lib/01.js", "kernels/expr.ts": "lib/expr.js" },
    names: ["add", "sum"],
    whole: "lib/index.js",
  };
  const resolve = (js: string, folder = "learn"): string => resolveImports(js, folder, modules, "http://x/book/");

  it("become addresses: of the chapter's own part if it has all names, else of the whole", () => {
    expect(resolve('import { add, sum as s } from "../index.ts";')).toBe(
      'import { add, sum as s } from "http://x/book/lib/01.js";',
    );
    expect(resolve('import {\n  add,\n  mul,\n} from "../index.ts";\nimport "../kernels/expr.ts";')).toBe(
      'import {\n  add,\n  mul,\n} from "http://x/book/lib/index.js";\nimport "http://x/book/lib/expr.js";',
    );
    expect(resolve('import * as w from "../../index.ts"', "learn/exercises")).toContain("lib/index.js");
    const call = "import"; // so that this file does not import it
    expect(resolve(`const k = await ${call}("../kernels/expr.ts");`)).toContain("lib/expr.js");
  });

  it("of what the page does not have are refused, and what is no import stays", () => {
    expect(() => resolve('import { x } from "../rl/absent.ts";')).toThrow(
      'cannot import "../rl/absent.ts" here: this page has "index.ts", "kernels/expr.ts"',
    );
    const text = 'console.log("import from", important("x"));\nconst from = "./y.ts";';
    expect(resolve(text)).toBe(text);
  });

  it("names are those of values", () => {
    expect(namesOf("{ a, type B, c as d, }")).toEqual(["a", "c"]);
    expect([namesOf("* as all"), namesOf("")]).toEqual([["*"], []]);
  });
});

describe("an output is compared with CI's", () => {
  it("by its text, but for what depends on the clock and for rounding", () => {
    expect(compare("a 1\nmeasured 3 s\n", "a 1\nmeasured 4 s")).toBe("same");
    expect(compare("x -0.2795638805555786", "x -0.27956388055557857")).toBe("close");
    expect(compare("x 1e-7 5", "x 1.0000000000001e-7 5")).toBe("close");
    for (const other of ["x 0.2796", "y 0.2795638805555786", "x 0.2795638805555786 1", ""]) {
      expect(compare(other, "x 0.2795638805555786"), other).toBe("other");
    }
    expect([worse("same", "close"), worse("other", "close"), worse("same", "same")]).toEqual([
      "close",
      "other",
      "same",
    ]);
  });
});
