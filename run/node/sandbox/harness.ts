/**
 * The code that runs in the process of a judged program, as text for `node -e`. It is plain JavaScript, because that
 * process must not read any file.
 *
 * There are two realms. The outer one is Node's, with everything removed that is not part of the language. The inner
 * one is made anew for every call and runs the program. Only strings are passed between them (the idea of TC39's
 * ShadowRealm proposal): the inner realm gets no object of the outer one through which it could reach the rest of that
 * realm. `vm` is not a security boundary, and this does not make it one. It is the first of several barriers
 * (run/node/sandbox/process.ts has the others) and mainly separates the calls from each other.
 */

/**
 * Runs in the inner realm before the program. It keeps the built-in functions that it needs, so that a program that
 * replaces them changes nothing here. It is strict code, so that neither `caller` nor a stack trace leads to its
 * functions.
 *
 * Values are JSON, where arrays are ["A", …], objects ["O", key, value, …], undefined ["U"], bigints ["I", digits], and
 * numbers that JSON lacks ["N", name]. The state begins with a letter: v value, t threw, m missing, u unsupported, o
 * too large, p pending.
 */
const BRIDGE = String.raw`(() => {
  "use strict";
  const { parse, stringify } = JSON;
  const { apply, getPrototypeOf } = Reflect;
  const { isArray } = Array;
  const { keys, is, prototype: plain, create, defineProperty } = Object;
  const { prototype: promise } = Promise;
  const { then } = promise;
  const { slice } = String.prototype;
  const [text, big, number] = [String, BigInt, Number];
  delete globalThis.WebAssembly; // its streaming functions are Node's, of the outer realm

  const stop = create(null); // thrown by encode, and known by identity
  const refuse = (state) => { stop.state = state; throw stop; };
  let args, limit, size;
  let state = "p";

  const decode = (value) => {
    if (!isArray(value)) return value;
    const tag = value[0];
    if (tag === "U") return undefined;
    if (tag === "I") return big(value[1]);
    if (tag === "N") return number(value[1]);
    const result = tag === "A" ? [] : {};
    const set = (key, item) =>
      defineProperty(result, key, { value: item, writable: true, enumerable: true, configurable: true });
    if (tag === "A") for (let i = 1; i < value.length; i++) set(i - 1, decode(value[i]));
    else for (let i = 1; i < value.length; i += 2) set(value[i], decode(value[i + 1]));
    return result;
  };

  const encode = (value, depth) => {
    const done = (string) => {
      size += string.length;
      if (size > limit) refuse("o");
      return string;
    };
    const type = typeof value;
    if (value === null || type === "boolean") return done(text(value));
    if (type === "string") return value.length > limit ? refuse("o") : done(stringify(value));
    if (type === "undefined") return done('["U"]');
    if (type === "bigint") return done('["I","' + text(value) + '"]');
    if (type === "number") {
      const ordinary = value - value === 0 && !is(value, -0);
      return done(ordinary ? text(value) : '["N","' + (is(value, -0) ? "-0" : text(value)) + '"]');
    }
    if (type !== "object") return refuse("ua " + type);
    if (depth >= 100) return refuse("ua value that is cyclic or nested too deeply");
    const proto = getPrototypeOf(value);
    let all = "";
    if (isArray(value)) {
      const length = value.length;
      for (let i = 0; i < length; i++) all += "," + encode(value[i], depth + 1);
      return done('["A"') + all + "]";
    }
    if (proto !== plain && proto !== null) return refuse("uan object of a class");
    const names = keys(value);
    for (let i = 0; i < names.length; i++) {
      all += "," + done(stringify(names[i])) + "," + encode(value[names[i]], depth + 1);
    }
    return done('["O"') + all + "]";
  };

  const describe = (error) => {
    try {
      const isObject = typeof error === "object" && error !== null;
      return apply(slice, isObject ? text(error.name) + ": " + text(error.message) : text(error), [0, 200]);
    } catch {
      return "an error that cannot be shown";
    }
  };
  const fail = (error) => { state = error === stop ? stop.state : "t" + describe(error); };
  const settle = (value) => {
    try {
      size = 0;
      state = "v" + encode(value, 0);
    } catch (error) {
      fail(error);
    }
  };
  return {
    load: (encoded, most) => { args = decode(parse(encoded)); limit = most; },
    fail,
    call: (entry) => {
      if (typeof entry !== "function") { state = "m"; return; }
      try {
        const result = apply(entry, undefined, args);
        const isPromise = typeof result === "object" && result !== null && getPrototypeOf(result) === promise;
        if (isPromise) apply(then, result, [settle, fail]);
        else settle(result);
      } catch (error) {
        fail(error);
      }
    },
    take: () => state,
  };
})()`;

/**
 * Runs in the outer realm. It writes "ready", waits while its parent sets the kernel's limits, reads the job, and
 * writes one line per call: the job's nonce and a JSON pair of the call's index and state.
 */
export const HARNESS: string = String.raw`"use strict";
(() => {
  const { readFileSync, writeSync } = require("node:fs");
  const { createContext, Script } = require("node:vm");
  const later = setImmediate;
  const node = process;
  const language = new Set(("Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean " +
    "String Symbol Date Promise RegExp Error AggregateError EvalError RangeError ReferenceError SyntaxError " +
    "TypeError " +
    "URIError globalThis JSON Math Intl ArrayBuffer Uint8Array Int8Array Uint16Array Int16Array " +
    "Uint32Array Int32Array Float32Array Float64Array Uint8ClampedArray BigUint64Array BigInt64Array " +
    "DataView Map BigInt Set WeakMap WeakSet Proxy Reflect FinalizationRegistry WeakRef").split(" "));
  for (const key of Reflect.ownKeys(globalThis)) if (!language.has(key)) Reflect.deleteProperty(globalThis, key);
  for (const key of ["binding", "_linkedBinding", "dlopen", "getBuiltinModule", "mainModule", "kill", "_kill", "abort",
    "exit", "reallyExit", "_debugProcess", "_debugEnd", "chdir", "permission", "report"])
    Reflect.deleteProperty(node, key);

  writeSync(1, "ready\n");
  const { nonce, program, entry, calls, limit } = JSON.parse(readFileSync(0, "utf8"));
  const say = (index, state) => writeSync(1, nonce + " " + JSON.stringify([index, state]) + "\n");
  const strict = { codeGeneration: { strings: false, wasm: false } };
  const bridgeScript = new Script(${JSON.stringify(BRIDGE)});
  const entryScript = new Script("typeof " + entry + ' === "undefined" ? undefined : ' + entry);
  let script;
  try {
    script = new Script(program, { filename: "program.js" });
  } catch (error) {
    for (let i = 0; i < calls.length; i++) say(i, "s" + String(error.message).slice(0, 200));
    return;
  }
  // The error of import() is the one object of this realm that a program gets. Its class is Node's own, so
  // --frozen-intrinsics leaves it open: what one call writes there the next would read.
  const freeze = (value) => {
    if ((typeof value !== "object" && typeof value !== "function") || value === null || Object.isFrozen(value)) return;
    Object.freeze(value);
    freeze(Object.getPrototypeOf(value));
    for (const key of Reflect.ownKeys(value)) {
      const { value: item, get, set } = Object.getOwnPropertyDescriptor(value, key);
      [item, get, set].forEach(freeze);
    }
  };
  const run = async () => {
    const nothing = createContext(Object.create(null), strict);
    freeze(await new Script("import('').catch((error) => error)").runInContext(nothing));
    for (let i = 0; i < calls.length; i++) {
      const realm = createContext(Object.create(null), strict);
      const bridge = bridgeScript.runInContext(realm);
      bridge.load(calls[i], limit);
      try {
        script.runInContext(realm, { displayErrors: false });
        bridge.call(entryScript.runInContext(realm, { displayErrors: false }));
      } catch (error) {
        bridge.fail(error);
      }
      // All promise jobs run before this continues. The realm has no timers and no I/O that could settle a promise
      // later.
      await new Promise((resolve) => later(resolve));
      const state = bridge.take();
      say(i, typeof state === "string" ? state : "u");
    }
  };
  run();
})();`;
