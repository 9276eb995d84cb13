/**
 * `npm run check:consumer`: checks the packed tarball as a user has it, outside this repository and without the
 * network.
 *
 * It packs dist/ (run `npm run build` first) and installs the tarball into an empty folder. There it imports
 * every entry point in Node, trains ten steps on WebAssembly, type-checks
 * strictly without `@webgpu/types` and `@types/node` (engine and nn also without the DOM's types; rl takes an
 * AbortSignal), adds fast-check, the optional peer, to check a gradient as a property, bundles for the browser, where
 * imports of `node:` are errors, and builds examples/embed/vite with Vite's own settings.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { FOR_BROWSERS } from "./forBrowsers.ts";
import { packageFolder } from "./packageFolder.ts";

const TRAIN = `
import { device, grad, matmul, mean, square, sub, type Tensor, tensor } from "worldgrad/engine";
import { AdamW } from "worldgrad/nn";

const on = await device("wasm");
const x = tensor([[1, 2], [3, 4], [5, 6]]);
const y = tensor([[5], [11], [17]]); // = x · [1, 2]
const params = { w: tensor([[0], [0]]) };
const optimizer = new AdamW(params, { lr: 0.3, weightDecay: 0 });
const loss = (p: { w: Tensor }): Tensor => mean(square(sub(matmul(x, p.w), y)));
const before = await loss(params).item();
for (let step = 0; step < 10; step++) optimizer.step(grad(loss)(params));
const after = await loss(params).item();
if (!(after < before / 5)) throw new Error(\`ten steps: loss \${before} → \${after}\`);
export const report: string = \`\${on.description}: loss \${before.toFixed(2)} → \${after.toFixed(2)}\`;
`;

const USE_ALL = `
import { device, type EnvironmentSpec, grpo, type Model, type Tensor, terminal } from "worldgrad";
import { ROLES, type Trajectory } from "worldgrad/rl";
import { report } from "./train.js";

export const spec: EnvironmentSpec<never> = terminal;
export async function f(x: Tensor, model: Model, t: Trajectory): Promise<number> {
  return x.device === (await device()) ? ROLES.length : t.stream.ids.length + model.config.layers;
}
export const text: string = report + grpo().toString();
`;

const NODE_ONLY = `
import * as all from "worldgrad";
import * as node from "worldgrad/node";
import { report } from "./train.js";
import info from "worldgrad/package.json" with { type: "json" };

for (const name of ["tensor", "grad", "forward", "generate", "grpo", "echo", "trainRl", "terminal"]) {
  if (!(name in all)) throw new Error("worldgrad does not export " + name);
}
if (typeof node.loadPretrained !== "function") throw new Error("worldgrad/node does not export loadPretrained");
console.log("worldgrad " + info.version + ", " + Object.keys(all).length + " names, " + report);
`;

/** Program with ops as methods, typed as the functions are. */
const METHODS = `
import "worldgrad/tensor-methods";
import { device, grad, ones, tensor, type Tensor } from "worldgrad/engine";

await device("wasm");
const loss = (w: Tensor): Tensor => tensor([[1, 2], [3, 4]]).matmul(w).add(1).square().sum({ axis: 0 }).mean();
const whole: Int32Array = await tensor([1, 5, 2]).argmax().read();
const values = [...(await grad(loss)(ones([2, 1])).read()), whole[0]];
if (values.join() !== "56,80,1") throw new Error("worldgrad/tensor-methods: " + values.join());
`;

/** Program that also needs fast-check, the optional peer. */
const PROPERTY = `
import fc from "fast-check";
import { add, checkGradient, device, sum, tanh, type Tensor } from "worldgrad/engine";
import { broadcastableShapes, tensorLists, withTensors } from "worldgrad/fast-check";

await device("reference");
const f = ([a, b]: readonly Tensor[]): Tensor => sum(tanh(add(a!, b!)));
await fc.assert(
  fc.asyncProperty(tensorLists(broadcastableShapes({ maxRank: 2 })), (data) =>
    withTensors(data, async (inputs) => (await checkGradient(f, inputs)).wrong === 0)),
  { numRuns: 5 },
);
`;

const folder = mkdtempSync(join(tmpdir(), "worldgrad-consumer-"));
const inConsumer = (command: string, ...args: string[]): string => {
  const { status, stdout } = spawnSync(command, args, {
    cwd: folder,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} failed in the consumer's folder\n${stdout}`);
  return stdout;
};
try {
  inConsumer("npm", "pack", "--silent", "--ignore-scripts", packageFolder); // what `npm run build` left;
  const tarball = readdirSync(folder).find((name) => name.endsWith(".tgz"))!;
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "consumer", private: true, type: "module" }));
  inConsumer("npm", "install", "--silent", "--offline", "--no-audit", "--no-fund", `./${tarball}`);
  const installed = readdirSync(join(folder, "node_modules")).filter((name) => !name.startsWith("."));
  if (installed.join() !== "worldgrad") throw new Error(`expected no dependency, got ${installed.join(", ")}`);

  writeFileSync(join(folder, "train.ts"), TRAIN);
  writeFileSync(join(folder, "all.ts"), USE_ALL);
  const options = { target: "es2023", module: "nodenext", strict: true, skipLibCheck: false, types: [] };
  const compile = (file: string, lib: readonly string[]): void => {
    const config = { compilerOptions: { ...options, lib }, files: [file] };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
    inConsumer(join(packageFolder, "node_modules/.bin/tsc"), "-p", ".");
  };
  compile("train.ts", ["es2023"]);
  compile("all.ts", ["es2023", "dom"]);

  writeFileSync(join(folder, "tensorMethods.ts"), METHODS);
  compile("tensorMethods.ts", ["es2023"]);
  inConsumer(process.execPath, "--no-warnings", "tensorMethods.js");

  writeFileSync(join(folder, "main.js"), NODE_ONLY);
  console.log(inConsumer(process.execPath, "--no-warnings", "main.js").trim());

  symlinkSync(join(packageFolder, "node_modules/fast-check"), join(folder, "node_modules/fast-check"), "junction");
  writeFileSync(join(folder, "property.ts"), PROPERTY);
  compile("property.ts", ["es2023"]);
  inConsumer(process.execPath, "--no-warnings", "property.js");

  const { outputFiles } = await build({
    absWorkingDir: folder,
    entryPoints: ["train.js"],
    ...FOR_BROWSERS,
  });
  const size = outputFiles[0]!.contents.length.toLocaleString("en");

  cpSync(join(packageFolder, "examples/embed/vite"), join(folder, "embed"), { recursive: true });
  inConsumer(join(packageFolder, "node_modules/.bin/vite"), "build", "embed", "--logLevel", "error");
  const assets = readdirSync(join(folder, "embed/dist/assets")).filter((name) => name.endsWith(".js"));
  if (!["agent", "index"].every((name) => assets.some((file) => file.startsWith(`${name}-`))))
    throw new Error(`examples/embed/vite: expected scripts of the page and of its worker, got ${assets.join(", ")}`);
  console.log(
    `${tarball}: ${statSync(join(folder, tarball)).size.toLocaleString("en")} bytes; in a browser bundle ${size}`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
