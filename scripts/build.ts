/**
 * `npm run build`: makes dist/ with one JavaScript module and one declaration file per source file, and three minified
 * files for pages: worldgrad.min.js, the whole library; agentWorker.min.js, for a page whose agent learns in a worker;
 * compiledAgent.min.js, for a page in which a compiled agent acts. The modules are the output of TypeScript itself, so
 * that the package reads like the source.
 *
 * It prints the sizes. It fails if a page that trains or one that only acts exceeds its limit, if an entry point
 * imports from a layer above it, or if browser code imports from Node.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build, type Metafile } from "esbuild";
import { documentOptions } from "./optionDocs.ts";
import { FOR_BROWSERS } from "./forBrowsers.ts";
import { packageFolder } from "./packageFolder.ts";

interface Entry {
  readonly name: string;
  readonly file: string;
  /** Folders that it may import from. */
  readonly folders: readonly string[];
  /** Packages that it may import; default none. */
  readonly external?: readonly string[];
}

const ROOMS = ["kernels", "engine", "nn", "rl"];
const OUTER = "methods data papers environments pretrained distribute connect compiled math tune".split(" ");
/** What reads the calls of tools in an agent's text. */
const CALLS = ["fields", "chat/thoughts", "chat/toolCalls", "chat/markedCalls"].map((file) => `connect/${file}.js`);
/** Folders that each entry point may import from. A page gets only the environments and methods that it names. */
const ENTRIES: readonly Entry[] = [
  { name: "worldgrad", file: "index.js", folders: [...ROOMS, ...OUTER] },
  { name: "worldgrad/engine", file: "engine/index.js", folders: ["kernels", "engine"] },
  // All ops as methods, for chains. Functions make smaller pages.
  { name: "worldgrad/tensor-methods", file: "tensorMethods.js", folders: ["kernels", "engine"] },
  { name: "worldgrad/compiled", file: "compiled/index.js", folders: [...ROOMS, "data", "compiled"] },
  { name: "worldgrad/math", file: "math/index.js", folders: ["kernels", "engine", "math"] },
  { name: "worldgrad/tune", file: "tune/index.js", folders: ["kernels", "engine", "tune"] },
  { name: "worldgrad/nn", file: "nn/index.js", folders: ["kernels", "engine", "nn"] },
  { name: "worldgrad/rl", file: "rl/index.js", folders: ROOMS },
  { name: "worldgrad/methods", file: "methods/index.js", folders: [...ROOMS, "methods"] },
  { name: "worldgrad/data", file: "data/index.js", folders: [...ROOMS, "data", "environments"] },
  { name: "worldgrad/papers", file: "papers/index.js", folders: [...ROOMS, "methods", "papers", "environments"] },
  {
    name: "worldgrad/environments",
    file: "environments/index.js",
    folders: ["kernels", "engine", "environments", "rl/environment.js"],
  },
  { name: "worldgrad/pretrained", file: "pretrained/index.js", folders: ["kernels", "engine", "nn", "pretrained"] },
  {
    name: "worldgrad/distribute",
    file: "distribute/index.js",
    folders: [...ROOMS, "methods", "data", "pretrained", "distribute"],
  },
  // Both sides of a worker; `dist/agentWorker.min.js` has the side of the page.
  {
    name: "worldgrad/worker",
    file: "distribute/worker/index.js",
    folders: [...ROOMS, "pretrained", "distribute/worker"],
  },
  // A run uses every part, and its settings name any method and any environment.
  { name: "worldgrad/run", file: "run/index.js", folders: [...ROOMS, ...OUTER, "run"] },
  // The package is an optional peer, loaded when a session is opened.
  {
    name: "worldgrad/mcp",
    file: "connect/mcp/index.js",
    folders: ["kernels", "engine", "rl/environment.js", "environments", "connect/mcp", ...CALLS],
    external: ["@modelcontextprotocol/sdk"],
  },
  // Chat templates of checkpoints.
  { name: "worldgrad/chat", file: "connect/chat/index.js", folders: [...ROOMS, "connect/chat"] },
  // For tests. fast-check is an optional peer, which the user installs. Of the engine only the creation of tensors is
  // used.
  {
    name: "worldgrad/fast-check",
    file: "fastCheck.js",
    folders: ["kernels", "engine"],
    external: ["fast-check"],
  },
];

/** Options of a bundle that lists what went into each file. */
const MEASURED = { ...FOR_BROWSERS, metafile: true, logLevel: "warning" } as const;

/** A page that names what it uses and is split into chunks; its size is what a browser loads with one executor. */
interface Page {
  readonly name: string;
  readonly text: string;
}
const TENSORS = `export { tensor, scope, valueAndGrad, device } from "./engine/index.js";`;
const NN = `export { AdamW, Decoder, forward, generate, initParams, logits, modelConfig } from "./nn/index.js";`;
/**
 * Limit of a page that trains with GRPO + ECHO, in bytes, minified and gzipped. Whoever raises it says why: from 100
 * KiB, for warnings of runs that learn nothing or whose episodes do not fit, which looked like training before.
 */
const MOST_OF_A_PAGE_THAT_TRAINS = 102 * 1024;
/** Limit of a page in which a compiled agent acts, its weights and kernels aside. */
const MOST_OF_A_PAGE_THAT_ACTS = 24 * 1024;
const PAGES: readonly Page[] = [
  {
    name: "five ops, gradient",
    text: `export { device, grad, matmul, softmax, sum, tensor } from "./engine/index.js";`,
  },
  {
    name: "a saved agent acts",
    text:
      `export { act } from "./data/index.js"; export { modelFromFiles } from "./pretrained/index.js"; ` +
      `export { device } from "./engine/index.js"; export { Template } from "./rl/index.js"; ` +
      `export { byteTokenizer } from "./nn/index.js";`,
  },
  {
    name: "train and generate",
    text: `${TENSORS} export { logProbs, mean } from "./engine/index.js"; ${NN}`,
  },
  {
    name: "… and GRPO + ECHO",
    text: `${TENSORS} ${NN} export { echo, grpo, ppoClip, trainRl } from "./rl/index.js";`,
  },
];

const dist = join(packageFolder, "dist");
rmSync(dist, { recursive: true, force: true });
const tsc = spawnSync("npx", ["tsc", "-p", "tsconfig.build.json"], { cwd: packageFolder, stdio: "inherit" });
if (tsc.status !== 0) throw new Error("build: tsc failed");
for (const file of readdirSync(dist, { recursive: true, encoding: "utf8" })) {
  if (file.endsWith(".d.ts")) rewriteDeclaration(join(dist, file));
  if (file === "engine/backends/webgpu-api.js") bareImport(join(dist, file));
}
console.log(`comments of ${await documentOptions(dist)} options`);

console.log("entry               modules   minified       gzip");
for (const { name, file, folders, external } of ENTRIES) {
  const { text, metafile } = await bundle(file, external);
  checkInputs(name, metafile, [...folders, file]);
  const gzip = gzipSync(text, { level: 9 }).length;
  const modules = Object.keys(metafile.inputs).length;
  console.log([name.padEnd(18), pad(modules, 8), pad(text.length, 10), pad(gzip, 10)].join(" "));
  if (file === "index.js") writeFileSync(join(dist, "worldgrad.min.js"), text);
}
const inPage = await fileForPages("distribute/worker/agentWorker.js", "agentWorker.min.js");
console.log(`\nAgentWorker alone, for a page whose agent is in a worker: ${inPage} bytes gzipped`);
const acting = await fileForPages("compiled/page.js", "compiledAgent.min.js");
console.log(`a page in which a compiled agent acts: ${acting} bytes gzipped`);
if (acting > MOST_OF_A_PAGE_THAT_ACTS)
  throw new Error(`build: a page that acts has ${acting} bytes gzipped, at most ${MOST_OF_A_PAGE_THAT_ACTS} wanted`);
console.log("\na page, with one executor        wasm     webgpu");
let trains = 0;
for (const { name, text } of PAGES) {
  const [wasm, webgpu] = await pageSizes(text);
  console.log([name.padEnd(26), pad(wasm, 10), pad(webgpu, 10)].join(" "));
  trains = Math.max(wasm, webgpu); // the last page
}
if (trains > MOST_OF_A_PAGE_THAT_TRAINS)
  throw new Error(
    `build: a page that trains has ${trains} bytes gzipped, at most ${MOST_OF_A_PAGE_THAT_TRAINS} wanted`,
  );

/** Writes a module and all that it imports as one minified file for pages. @returns its bytes, gzipped */
async function fileForPages(entry: string, name: string): Promise<number> {
  const { outputFiles } = await build({ ...FOR_BROWSERS, absWorkingDir: dist, entryPoints: [entry] });
  writeFileSync(join(dist, name), outputFiles[0]!.contents);
  return gzipSync(outputFiles[0]!.contents, { level: 9 }).length;
}

/** Rewrites `./x.ts` to `./x.js`, which TypeScript does in JavaScript but not in declarations. */
function rewriteDeclaration(path: string): void {
  const text = readFileSync(path, "utf8");
  const rewritten = text.replace(/((?:from|import|declare module) ?\(?\s*"\.{1,2}\/[^"]+)\.ts"/g, '$1.js"');
  if (/\b(from|import|module) ?\(?\s*"[^"]+\.ts"/.test(rewritten))
    throw new Error(`build: a .ts import is left in ${path}`);
  writeFileSync(path, rewritten);
}

/**
 * Removes TypeScript's helper for relative paths from the import of the optional package, which is no path. The comment
 * that tells Rspack to leave the import alone works only directly in an `import`.
 */
function bareImport(path: string): void {
  const text = readFileSync(path, "utf8");
  const bare = text.replace(/import\(__rewriteRelativeImportExtension\((.* specifier)\)\)/, "import($1)");
  if (bare === text) throw new Error(`build: the import of the optional package is not found in ${path}`);
  writeFileSync(path, bare);
}

async function bundle(
  file: string,
  external: readonly string[] = [],
): Promise<{ text: Uint8Array; metafile: Metafile }> {
  const { outputFiles, metafile } = await build({
    ...MEASURED,
    absWorkingDir: dist,
    entryPoints: [file],
    external: [...external],
  });
  return { text: outputFiles[0]!.contents, metafile };
}

/** Bytes, minified and gzipped by chunk, that a browser loads of a page with either executor, on one thread. */
async function pageSizes(text: string): Promise<[wasm: number, webgpu: number]> {
  const { outputFiles, metafile } = await build({
    ...MEASURED,
    absWorkingDir: dist,
    stdin: { contents: text, resolveDir: dist, sourcefile: "page.js" },
    splitting: true,
    outdir: dist,
  });
  const outputs = Object.entries(metafile.outputs);
  /** The chunk that begins with this module, and its static imports. */
  const loaded = (entry: string): string[] => {
    const found = outputs.find(([, { entryPoint }]) => entryPoint === entry);
    if (found === undefined) throw new Error(`build: a page has no chunk of ${entry}`);
    const all = new Set([found[0]]);
    for (const path of all) {
      for (const { path: next, kind } of metafile.outputs[path]!.imports)
        if (kind === "import-statement") all.add(next);
    }
    return [...all];
  };
  const bytes = (executor: string): number => {
    const paths = new Set([...loaded("page.js"), ...loaded(`engine/backends/${executor}.js`)]);
    const files = outputFiles.filter(({ path }) => [...paths].some((wanted) => join(dist, wanted) === path));
    return files.reduce((sum, { contents }) => sum + gzipSync(contents, { level: 9 }).length, 0);
  };
  return [bytes("wasm"), bytes("webgpu")];
}

function checkInputs(name: string, { inputs }: Metafile, folders: readonly string[]): void {
  for (const path of Object.keys(inputs)) {
    const allowed = folders.some((folder) => path === folder || path.startsWith(`${folder}/`));
    if (!allowed) throw new Error(`build: ${name} pulls in ${path}`);
  }
}

function pad(n: number, width: number): string {
  return n.toLocaleString("en").padStart(width);
}
