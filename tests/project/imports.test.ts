/** The order of the layers: nothing imports upwards or in circles, and the library needs neither Node nor a package. */
import { describe, expect, it } from "vitest";
import { importsOf, isTypeScript, projectFiles, readSource } from "./sources.ts";

/** The four rooms. Nothing in them imports from outside them. */
const CORE = ["kernels", "engine", "nn", "rl"];
const OUTER = [
  "methods",
  "data",
  "papers",
  "environments",
  "pretrained",
  "distribute",
  "connect",
  "compiled",
  "math",
  "tune",
];
/** What each part may import besides itself. Tests may import everything; nothing imports tests. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  kernels: [],
  engine: ["kernels"],
  nn: ["kernels", "engine"],
  // Of the kernels the formulas alone, for the losses.
  rl: ["kernels", "engine", "nn"],
  methods: ["kernels", "engine", "nn", "rl"],
  // The interface of an environment alone.
  environments: ["engine", "rl"],
  data: ["engine", "nn", "rl", "environments"],
  papers: ["engine", "nn", "rl", "methods", "environments"],
  // Of the kernels what those are made with that an op from outside brings along.
  pretrained: ["kernels", "engine", "nn"],
  distribute: ["engine", "nn", "rl", "methods", "data", "pretrained"],
  connect: ["engine", "nn", "rl", "methods", "environments", "pretrained", "distribute"],
  // The executor that notes calls has the generators of kernels.
  compiled: ["kernels", "engine", "nn", "rl", "data", "pretrained"],
  math: ["engine"],
  // Schedules are a matter of kernels.
  tune: ["kernels", "engine"],
  run: ["engine", "nn", "rl", ...OUTER],
  studies: ["engine", "rl", "methods", "run"],
  "index.ts": ["engine", "nn", "rl", ...OUTER],
  "fastCheck.ts": ["engine"],
  "tensorMethods.ts": ["engine"],
  // Of the kernels the formulas alone, which the page shows.
  site: ["kernels", "engine", "nn", "rl", "methods", "data", "environments", "run", "studies"],
  examples: ["index.ts", "run", "connect"],
  // Chapters of the book also look inside.
  learn: ["index.ts", "kernels", "rl", "distribute", "run", "studies"],
};
/** A room that stands above what its part may import: the server of a run knows the folders of runs. */
const ABOVE_ITS_PART: Readonly<Record<string, readonly string[]>> = { "connect/serve": ["run"] };
/** Parts with floors, each with those that it may import; a later one is above. */
const ROOMS: Record<string, readonly string[]> = {
  "rl/environment.ts": [],
  "rl/episode": [],
  "rl/objective": ["rl/episode"],
  "rl/play": ["rl/environment.ts", "rl/episode"],
  "rl/tasks": ["rl/environment.ts", "rl/episode", "rl/objective", "rl/play"],
  "rl/train": ["rl/environment.ts", "rl/episode", "rl/objective", "rl/play", "rl/tasks"],
  "rl/evaluate.ts": ["rl/environment.ts", "rl/episode", "rl/objective", "rl/play", "rl/tasks", "rl/train"],
  "distribute/async": [],
  "distribute/nats": ["distribute/async"],
  "distribute/worker": [],
  "connect/fields.ts": [],
  "connect/grpoConfig.ts": [],
  "connect/openEnvRoles.ts": [],
  "connect/toolWeights.ts": ["connect/fields.ts", "connect/harbor", "connect/mcp"],
  "connect/chat": ["connect/fields.ts"],
  "connect/mcp": ["connect/chat", "connect/fields.ts"],
  "connect/remote": ["connect/fields.ts"],
  "connect/sandbox": [],
  "connect/serve": ["connect/chat", "connect/fields.ts"],
  "connect/shell": ["connect/sandbox"],
  "connect/host": ["connect/sandbox", "connect/shell"],
  "connect/harbor": ["connect/mcp", "connect/sandbox"],
};
/** Folders whose `index.ts` is all that the folders above them see, and who these are. */
const ABOVE = ["data", "papers", "distribute", "connect", "run", "studies", "site"];
const FACES: Record<string, readonly string[]> = {
  engine: ["environments", "rl", "methods", ...ABOVE],
  nn: ["rl", "methods", ...ABOVE],
  environments: ABOVE,
  pretrained: ABOVE,
};
/** What is seen past a face all the same: not for users, but common to the layers. */
const PAST_FACES = new Set([
  "engine/errors.ts", // how an error is raised
  "engine/optionTable.ts", // how options are declared
  "engine/options.ts", // how options are checked and values shown
  "engine/random.ts", // random numbers, for parts of worlds that a page loads later, without all of the engine
  "engine/types.ts", // how shapes are compared and shown
  "environments/facts/shared.ts", // the parts of a world of unknown facts, for the one with a real bash
  "environments/openenv/world.ts", // a server as `--env`, with plain options; in code it is `openEnv`
  "environments/terminal/shared.ts", // the tasks of the simulated terminal, which the real one has, too
  "environments/riddle/selfPlay.ts", // the world of self-play, which a page loads when it is played
  "nn/sampler.ts", // the check of sampling options
  "nn/generate.ts", // how many tokens are drawn before they are read
  "nn/safetensors.ts", // what a file is that has no weights in it
  "nn/parameters.ts", // parameters from what a worker was sent
  "pretrained/fit.ts", // what memory a model needs: it brings an executor that only counts
]);
/** Where neither a package nor anything of Node is imported: what runs in a page, too. */
const LIBRARY = [
  ...CORE,
  "methods",
  "data",
  "papers",
  "environments",
  "pretrained",
  "math",
  "tune",
  "compiled",
  "index.ts",
  "tensorMethods.ts",
];
const LIBRARY_ROOMS = [
  "distribute/async",
  "distribute/worker",
  "connect/grpoConfig.ts",
  "connect/openEnvRoles.ts",
  "connect/toolWeights.ts",
];
const isLibrary = (path: string): boolean =>
  LIBRARY.includes(part(path)) || LIBRARY_ROOMS.includes(room(path)) || /^run\/\w+\.ts$/.test(path);
/** Parts that import whatever they need. */
const OUTSIDE = ["tests", "bench", "scripts", "vitest.config.ts"];

const part = (path: string): string => path.split("/")[0]!;
/** `rl/train` of `rl/train/loop.ts`; a file of such a part itself is a room of its own. */
const room = (path: string): string => path.split("/").slice(0, 2).join("/");
const sources = projectFiles().filter(isTypeScript);
const graph = new Map(sources.map((path) => [path, importsOf(path, readSource(path))]));

/** Everything wrong with `imports` of the module `path`, as sentences. */
function offences(path: string, imports: readonly string[], known: ReadonlySet<string>): string[] {
  const from = part(path);
  return imports.flatMap((target) => {
    if (!target.endsWith(".ts")) {
      return isLibrary(path) ? [`${path} imports ${target}: the library imports no package and nothing of Node`] : [];
    }
    const to = part(target);
    if (!known.has(target)) return [`${path} imports ${target}, which does not exist`];
    if (OUTSIDE.includes(from)) return [];
    if (to === from) return ROOMS[room(path)] || from === "rl" ? roomOffences(path, target) : [];
    if (FACES[to]?.includes(from) && target !== `${to}/index.ts` && !PAST_FACES.has(target)) {
      return [`${path} imports ${target}: what ${to} offers is in ${to}/index.ts`];
    }
    const allowed = MAY_IMPORT[from];
    if (allowed === undefined) return [`${path}: which layer is ${from}? Add it to MAY_IMPORT`];
    return allowed.includes(to) || ABOVE_ITS_PART[room(path)]?.includes(to)
      ? []
      : [`${path} imports ${target}: ${from} may import ${allowed.join(", ") || "nothing"}`];
  });
}

function roomOffences(path: string, target: string): string[] {
  const [from, to] = [room(path), room(target)];
  if (from === to || from === "rl/index.ts") return [];
  const allowed = ROOMS[from];
  if (allowed === undefined) return [`${path}: which room is ${from}? Add it to ROOMS`];
  return allowed.includes(to)
    ? []
    : [`${path} imports ${target}: ${from} may import ${allowed.join(", ") || "nothing"}`];
}

/** A circle of imports, types included, as the list of its modules, or undefined. Depth first, iterative. */
function findCycle(modules: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>();
  for (const root of modules.keys()) {
    const path: { module: string; next: number }[] = [];
    const open = new Set<string>();
    const enter = (module: string): void => {
      path.push({ module, next: 0 });
      open.add(module);
    };
    if (!done.has(root)) enter(root);
    while (path.length > 0) {
      const top = path[path.length - 1]!;
      const target = modules.get(top.module)?.[top.next++];
      if (target === undefined) {
        done.add(top.module);
        open.delete(top.module);
        path.pop();
      } else if (open.has(target)) {
        const circle = path.map(({ module }) => module);
        return [...circle.slice(circle.indexOf(target)), target];
      } else if (modules.has(target) && !done.has(target)) enter(target);
    }
  }
  return undefined;
}

describe("imports", () => {
  it("never go upwards, and the library imports only itself", () => {
    const known = new Set(sources);
    expect([...graph].flatMap(([path, imports]) => offences(path, imports, known))).toEqual([]);
  });

  it("go from room to room only where they are used, and past a face only where somebody does", () => {
    const rooms = new Map(Object.entries(ROOMS).map(([from, allowed]) => [from, new Set(allowed)]));
    const seen = new Set<string>();
    for (const [path, imports] of graph) {
      for (const target of imports) {
        rooms.get(room(path))?.delete(room(target));
        if (FACES[part(target)]?.includes(part(path))) seen.add(target);
      }
    }
    expect([...rooms].flatMap(([from, unused]) => [...unused].map((to) => `${from} → ${to}`))).toEqual([]);
    expect([...PAST_FACES].filter((path) => !seen.has(path))).toEqual([]);
  });

  it("are none in the first file to read", () => {
    expect(graph.get("learn/00-micro.ts")).toEqual([]);
  });

  it("form no circle, types included", () => {
    expect(findCycle(graph)).toBeUndefined();
  });

  // A bundle without chunks runs what import() reaches too late, and the engine with it.
  it("of the rules of a world, which are loaded later, bring neither the engine's face nor the frame of games", () => {
    const needed = new Set(sources.filter((path) => /^environments\/\w+\/rules\.ts$/.test(path)));
    expect(needed.size).toBeGreaterThan(7);
    for (const path of needed) {
      const values = readSource(path).replace(/^(import|export) type [^;]*;$/gm, "");
      for (const target of importsOf(path, values)) needed.add(target);
    }
    expect([...needed].filter((path) => ["engine/index.ts", "environments/game.ts"].includes(path))).toEqual([]);
  });

  it("are all seen: each layer is there and most modules import something", () => {
    expect(new Set(sources.map(part))).toEqual(new Set([...Object.keys(MAY_IMPORT), ...OUTSIDE]));
    expect([...graph.values()].filter((imports) => imports.length > 0).length).toBeGreaterThan(0.7 * sources.length);
  });
});

describe("the checks themselves", () => {
  const known = new Set(["engine/a.ts", "nn/b.ts", "kernels/k.ts", "tests/t.ts"]);

  it("read every form of import", () => {
    const text = [
      'import { a, type B } from "../engine/a.ts";',
      'import type {\n  C,\n} from "./c.ts";',
      'import * as k from "../kernels/k.ts";',
      'export * from "./d.ts";',
      'export { e } from "./e.ts";',
      'import "./f.ts";',
      'const g = await IMPORT(/* later */ "./g.ts");', // spelt so that this file does not import it
      ' * import { no } from "./in-a-comment.ts";',
      'export const text = "from"; // "./no.ts"',
    ]
      .join("\n")
      .replace("IMPORT", "import");
    const expected = ["engine/a.ts", "nn/c.ts", "kernels/k.ts", "nn/d.ts", "nn/e.ts", "nn/f.ts", "nn/g.ts"];
    expect(importsOf("nn/b.ts", text)).toEqual(expected);
  });

  it("reject an import upwards, of tests, of Node, of a package, of nothing", () => {
    for (const target of ["nn/b.ts", "tests/t.ts", "node:fs", "lodash", "engine/absent.ts"]) {
      expect(offences("engine/a.ts", [target], known), target).toHaveLength(1);
    }
    expect(offences("engine/a.ts", ["kernels/k.ts", "engine/a.ts"], known)).toEqual([]);
    expect(offences("tests/t.ts", ["nn/b.ts", "vitest"], known)).toEqual([]);
    const houses = new Set(["rl/train/a.ts", "rl/episode/b.ts", "rl/play/c.ts", "engine/index.ts", "engine/x.ts"]);
    expect(offences("rl/play/c.ts", ["rl/train/a.ts"], houses)).toEqual([
      expect.stringContaining("rl/play may import"),
    ]);
    expect(offences("rl/train/a.ts", ["engine/x.ts"], houses)).toEqual([expect.stringContaining("engine/index.ts")]);
    expect(offences("rl/train/a.ts", ["rl/play/c.ts", "rl/episode/b.ts", "engine/index.ts"], houses)).toEqual([]);
    const runs = new Set(["run/records.ts", "connect/chat/a.ts", "connect/serve/b.ts"]);
    expect(offences("connect/chat/a.ts", ["run/records.ts"], runs)).toEqual([
      expect.stringContaining("connect may import"),
    ]);
    expect(offences("connect/serve/b.ts", ["run/records.ts"], runs)).toEqual([]);
    expect(offences("rl/attic/a.ts", ["rl/play/c.ts"], houses)).toEqual([expect.stringContaining("Add it to ROOMS")]);
  });

  it("find circles of any length and accept diamonds", () => {
    const modules = (edges: Record<string, string[]>): Map<string, string[]> => new Map(Object.entries(edges));
    expect(findCycle(modules({ a: ["a"] }))).toEqual(["a", "a"]);
    expect(findCycle(modules({ a: ["b"], b: ["c", "d"], c: [], d: ["b"] }))).toEqual(["b", "d", "b"]);
    expect(findCycle(modules({ a: ["b", "c"], b: ["d"], c: ["d"], d: [] }))).toBeUndefined();
  });
});
