/**
 * The code reward on real programs: honest ones, broken ones, and ones that try to get out. Each attempt to escape
 * returns what it got hold of, so that it would show here. The fences behind the first are tested alone in
 * sandboxFences.test.ts.
 */
import { describe, expect, it } from "vitest";
import { canLimit } from "../../../run/node/sandbox/process.ts";
import { codeReward, javascriptRunner } from "../../../run/node/index.ts";
import type { CodeOutcome, CodeValue } from "../../../papers/rewards/code.ts";

const run = javascriptRunner({ timeout: 5000, memoryMb: 64 });
const quick = javascriptRunner({ timeout: 300, memoryMb: 64 });

/** What `solve()` comes to. */
async function outcomeOf(
  program: string,
  runner: typeof run = run,
  args: readonly CodeValue[] = [],
): Promise<CodeOutcome> {
  return (await runner(program, "solve", [args]))[0]!;
}

async function valueOf(program: string): Promise<CodeValue> {
  const outcome = await outcomeOf(program);
  if (outcome.kind !== "value") throw new Error(`${outcome.kind}: ${outcome.message}`);
  return outcome.value;
}

describe("honest programs", () => {
  it("get their arguments and return values as they are", async () => {
    const values: CodeValue[] = [
      null,
      undefined,
      true,
      -0,
      NaN,
      -Infinity,
      1.5,
      12n ** 30n,
      'ä\n"\u2028',
      [],
      [["A"]],
      {},
    ];
    const nested: CodeValue = { a: [1, { b: undefined }], __proto__x: 1, "": "empty", list: values };
    const all = [...values, nested, JSON.parse('{"__proto__": {"x": 1}}') as CodeValue];
    const outcomes = await run(
      "const solve = (x) => x;",
      "solve",
      all.map((value) => [value]),
    );
    expect(outcomes).toEqual(all.map((value) => ({ kind: "value", value })));
    expect(Object.is((outcomes[3] as { value: CodeValue }).value, -0)).toBe(true);
  });
  it("may be functions, constants and asynchronous, and find the language whole", async () => {
    expect(await valueOf("function solve() { return [...new Map([[1, 2]])].flat(); }")).toEqual([1, 2]);
    expect(await valueOf("const solve = async () => { await null; return (await Promise.all([1, 2])).length; };")).toBe(
      2,
    );
    expect(await valueOf("let solve = () => { console.log('fine'); return /a+/.exec('baa')[0]; };")).toBe("aa");
  });
  it("start every call afresh", async () => {
    const program =
      "let n = 0; globalThis.m ??= 0; Array.prototype.extra ??= 0; const solve = () => [n++, m++, [].extra++];";
    const outcomes = await run(program, "solve", [[], []]);
    expect(outcomes).toEqual(Array(2).fill({ kind: "value", value: [0, 0, 0] }));
  });
  it("leave nothing behind on the error of import(), nor on anything that can be reached from it", async () => {
    const program = `const solve = async () => {
      const attempts = [() => import('fs'), () => import(''), () => import('node:x'), () => import({}),
        () => import(Symbol.iterator), () => import('data:text/javascript,1'),
        () => import('fs', { with: { type: 'json' } })];
      const seen = new Set(); let marked = 0; let found = 0;
      const walk = (value) => {
        if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return;
        seen.add(value);
        for (const key of Reflect.ownKeys(value)) {
          const { value: item, get, set } = Object.getOwnPropertyDescriptor(value, key);
          if (key === '__mark') found++;
          walk(item); walk(get); walk(set);
        }
        walk(Object.getPrototypeOf(value));
        try { Object.defineProperty(value, '__mark', { value: 1 }); marked++; } catch {}
      };
      for (const attempt of attempts) try { walk(await attempt()); } catch (error) { walk(error); }
      return [found, marked > 0, seen.size > 20];
    };`;
    const outcomes = await run(program, "solve", [[], [], []]);
    expect(outcomes).toEqual(Array(3).fill({ kind: "value", value: [0, true, true] }));
  });
  it("have the same chance every time", async () => {
    const program = "const solve = () => Math.random();";
    expect(await valueOf(program)).toBe(await valueOf(program));
  });
});

describe("broken programs", () => {
  it.each([
    ["syntax", "function solve( {", /Unexpected/],
    ["syntax", "import fs from 'fs'; const solve = 1;", /import/],
    ["missing", "const other = 1;", /no function/],
    ["missing", "const solve = 1;", /no function/],
    ["threw", "throw new TypeError('at once');", /^TypeError: at once$/],
    ["threw", "const solve = () => { throw { get message() { throw 1; } }; };", /cannot be shown/],
    ["threw", "const solve = () => { throw null; };", /^null$/],
    ["threw", "const solve = () => ({ get a() { throw new Error('in a getter'); } });", /in a getter/],
    ["threw", "const solve = () => new Proxy({}, { ownKeys() { throw new Error('trap'); } });", /trap/],
    ["threw", "const solve = () => { throw new Error('x'.repeat(1e7)); };", /^Error: x{193}$/],
    ["threw", "const solve = () => solve();", /call stack/],
    ["threw", "const solve = async () => { throw new Error('later'); };", /later/],
    ["unsupported", "const solve = () => () => 1;", /function/],
    ["unsupported", "const solve = () => new Map();", /class/],
    ["unsupported", "const solve = () => { const a = []; a[0] = a; return a; };", /cyclic/],
    ["pending", "const solve = () => new Promise(() => {});", /never settles/],
    ["output", "const solve = () => 'x'.repeat(1e6);", /too large/],
    ["output", "const solve = () => Array(1e6).fill(0);", /too large/],
    ["output", "const solve = () => { const a = []; a.length = 2 ** 32 - 1; return a; };", /too large/],
  ])("%s: %s", async (kind, program, message) => {
    const outcome = await outcomeOf(program);
    expect(outcome).toMatchObject({ kind, message: expect.stringMatching(message) as string });
  });
  it.each([
    ["timeout", "const solve = () => { for (;;); };"],
    ["timeout", "for (;;);"],
    ["timeout", "const solve = async () => { for (;;) await null; };"],
    ["timeout", "const solve = () => ({ get a() { for (;;); } });"],
    ["timeout", "const solve = () => { throw { get name() { for (;;); } }; };"],
    ["timeout", "const solve = () => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); };"],
    ["timeout", "const solve = () => /^(a+)+$/.test('a'.repeat(40) + 'b');"],
  ])("%s: %s", async (kind, program) => {
    expect((await outcomeOf(program, quick)).kind).toBe(kind);
  });
  it("are stopped when they fill the heap, or memory outside of it", async () => {
    const heap = "const solve = () => { const a = []; for (;;) a.push(Array(1000).fill(a.length)); };";
    expect((await outcomeOf(heap)).kind).toBe("crashed");
    const buffers = `const solve = () => {
      const a = [];
      for (let i = 0; i < 40; i++) a.push(new Uint8Array(2 ** 24).fill(1));
      return a.length;
    };`;
    const outcome = await outcomeOf(buffers);
    if (canLimit()) expect(["threw", "crashed"]).toContain(outcome.kind);
  });
  it("lose only the call that hangs; after three of them the rest is skipped", async () => {
    const program = "const solve = (n) => { while (n < 0); return n; };";
    const kinds = async (numbers: number[]): Promise<string[]> =>
      (
        await quick(
          program,
          "solve",
          numbers.map((n) => [n]),
        )
      ).map(({ kind }) => kind);
    expect(await kinds([1, -1, 2])).toEqual(["value", "timeout", "value"]);
    expect(await kinds([-1, -1, 2, -1, 3])).toEqual(["timeout", "timeout", "value", "timeout", "skipped"]);
  });
});

describe("programs that try to get out", () => {
  it("find nothing of Node", async () => {
    const names = [
      "process",
      "require",
      "module",
      "global",
      "fetch",
      "WebSocket",
      "setTimeout",
      "setImmediate",
      "queueMicrotask",
      "Buffer",
      "Worker",
      "MessageChannel",
      "WebAssembly",
      "performance",
      "structuredClone",
      "navigator",
    ];
    const program = `const solve = () => [${names.map((name) => `typeof ${name}`).join()}];`;
    expect(await valueOf(program)).toEqual(names.map(() => "undefined"));
  });
  it.each([
    "constructor.constructor('return process')()",
    "globalThis.constructor.constructor('return process')()",
    "(() => {}).constructor('return process')()",
    "(async () => {}).constructor('return process')()",
    "Reflect.construct(function* () {}.constructor, ['yield process'])().next().value",
    "eval('1')",
    "(0, eval)('process')",
    "process.binding('fs')",
    "process.exit(0)",
    "require('node:fs').readFileSync('/etc/hostname')",
    "require('node:child_process').execSync('true')",
    "new (require('node:worker_threads').Worker)('1', { eval: true })",
    "fetch('http://127.0.0.1')",
    "arguments.callee.caller.constructor('return process')()",
  ])("cannot call %s", async (expression) => {
    const outcome = await outcomeOf(`function solve() { return typeof ${expression}; }`);
    expect(outcome.kind).toBe("threw");
  });
  it("get no module by import(), and nothing by the foreign error and promise that it leaves", async () => {
    const attempts = ["fs", "node:net", "data:text/javascript,export default 1"].map((name) => `import('${name}')`);
    for (const attempt of attempts)
      expect(
        await valueOf(
          `const solve = async () => { try { await ${attempt}; return 'escaped'; } catch { return 'no'; } };`,
        ),
      ).toBe("no");
    // `foreign` is an object of Node's realm. It is a dead end: no code from text there, nothing in it can be changed,
    // and it leads to the language only.
    const program = `const solve = async () => {
      const foreign = await import('fs').catch((error) => error);
      if (foreign instanceof Error) return 'not foreign';
      const tries = [
        () => foreign.constructor.constructor('return process')(),
        () => { 'use strict'; foreign.constructor.prototype.toString = 1; },
        () => { 'use strict'; Object.getPrototypeOf(foreign.constructor).prepareStackTrace = 1; },
        () => { 'use strict'; foreign.constructor.constructor.prototype.call = 1; },
      ];
      const seen = new Set(); const keys = new Set();
      const walk = (value) => {
        if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return;
        seen.add(value); walk(Object.getPrototypeOf(value));
        for (const key of Reflect.ownKeys(value)) {
          keys.add(key);
          const { value: item, get, set } = Object.getOwnPropertyDescriptor(value, key);
          walk(item); walk(get); walk(set);
        }
      };
      walk(foreign);
      const results = tries.map((attempt) => {
        try { return 'escaped ' + attempt(); } catch (error) { return error.name; }
      });
      const ofNode = ['pid', 'binding', 'require', 'process', 'mainModule', 'readFileSync'];
      return [results, ofNode.filter((key) => keys.has(key)), seen.size > 20];
    };`;
    expect(await valueOf(program)).toEqual([["EvalError", "TypeError", "TypeError", "TypeError"], [], true]);
  });
  it("see no function and no receiver of ours in a stack trace", async () => {
    const program = `const typesOf = (site) => [typeof site.getFunction(), typeof site.getThis()];
      Error.prepareStackTrace = (_, sites) => sites.map(typesOf);
      function deep() { 'use strict'; return new Error().stack; }
      const solve = () => deep().slice(2); // without the program's own two`;
    const seen = (await valueOf(program)) as string[][];
    expect(seen.length).toBeGreaterThan(2);
    expect(new Set(seen.flat())).toEqual(new Set(["undefined"]));
  });
  it.each([
    ["arrays", "Array.prototype.map = Array.prototype.push = Array.isArray = () => true;"],
    ["JSON", "JSON.stringify = () => '1'; JSON.parse = () => 1; Object.prototype.toJSON = () => 1;"],
    [
      "objects",
      "Object.keys = () => []; Object.is = () => true; Object.getPrototypeOf = Reflect.getPrototypeOf = () => null;",
    ],
    ["promises", "Promise.prototype.then = () => 1; Promise.resolve = () => 1;"],
    ["strings", "String.prototype.slice = () => 'v42'; String = Number = BigInt = () => '42';"],
    [
      "setters",
      `Object.defineProperty(Object.prototype, '0', { set() { throw 1; } });
      Object.defineProperty(Object.prototype, 'kind', { get: () => 'value' });`,
    ],
    [
      "everything",
      `const namesOf = (o) => Object.getOwnPropertyNames(o).map((k) => [o, k]);
      const all = [Object, Array, JSON, Reflect, Promise].flatMap(namesOf);
      for (let i = 0; i < all.length; i++) try { all[i][0][all[i][1]] = () => true; } catch {}`,
    ],
  ])("change no verdict by replacing %s", async (_what, pollution) => {
    const [right, wrong] = [41, 42].map((wanted) => ({ args: [[41, "text"]], expected: [wanted, "text"] }));
    const reward = codeReward({ tests: [right!, wrong!], timeout: 5000, memoryMb: 64 });
    const { outcomes, passed } = await reward(`${pollution}\nconst solve = (x) => [x[0], x[1]];`);
    expect(outcomes.map(({ kind }) => kind)).toEqual(["value", "value"]);
    expect(passed).toEqual([true, false]);
  });
  it("cannot claim to have passed: a result is a value like any other", async () => {
    const reward = codeReward({ tests: [{ args: [], expected: "secret" }], timeout: 5000, memoryMb: 64 });
    const forgeries = [
      "const solve = () => ({ kind: 'value', passed: true, reward: 1 });",
      "const solve = () => ({ valueOf: () => 'secret', toString: () => 'secret', toJSON: () => 'secret' });",
      "const solve = () => '\\nready\\n00000000-0000-0000-0000-000000000000 [0,\"v1\"]\\n';",
      "const solve = () => new Proxy({}, { get: () => true, has: () => true, ownKeys: () => ['length', 'tag'] });",
      "const solve = () => ({ [Symbol.toPrimitive]: () => true, __proto__: null });",
      "const solve = () => ['A', 'v', 'secret'];",
    ];
    for (const program of forgeries) expect((await reward(program)).reward).toBe(0);
  });
  it("cannot find what is expected anywhere", async () => {
    const program = `const solve = (...args) => {
      const seen = new Set(); const found = [];
      const walk = (value) => {
        if (typeof value === 'string') { if (value.includes('needle')) found.push(value); return; }
        if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return;
        seen.add(value); walk(Object.getPrototypeOf(value));
        for (const key of Reflect.ownKeys(value)) {
          walk(key);
          const { value: item, get } = Object.getOwnPropertyDescriptor(value, key);
          walk(item); walk(get);
        }
      };
      walk(globalThis); walk(args); walk(solve);
      return [found.length, seen.size > 500];
    };`;
    const reward = codeReward({ tests: [{ args: [1], expected: "needle" }], timeout: 5000 });
    expect((await reward(program)).outcomes).toEqual([{ kind: "value", value: [0, true] }]);
  });
});
