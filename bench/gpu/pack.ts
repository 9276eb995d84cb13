/**
 * `npm run gpu -- --pack FOLDER`: a folder for a Linux machine that has an NVIDIA driver and nothing else, no Node and
 * no network. It holds Node and its C++ library, the project with the packages that tests and benchmarks load, jax-js,
 * and Vulkan's loader.
 * `sh FOLDER/run.sh` unpacks and measures there; it needs `gzip` and `tar`.
 */
import { execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { UsageError } from "../../run/usage.ts";
import { commit } from "../machine.ts";

/** Packages that tests on an adapter, the benchmark and its report load; package-lock.json has their dependencies. */
const PACKAGES = ["vitest", "tsx", "esbuild", "webgpu", "fast-check"];

/** Tracked files that the packed folder does not need. */
const LEFT_OUT = /^(docs\/plots\/|bench\/results\.jsonl$|site\/|package-lock\.json$)/;

const LIBRARIES = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
/** What Node and Dawn link to beside the C library. */
const CXX = ["libstdc++.so.6", "libgcc_s.so.1"];

const RUN = `#!/bin/sh
# Measures this machine's GPU: unpacks beside itself, then runs the tests and benchmarks of bench/gpu/main.ts.
# Each result is written to results/ at once. Flags: sh run.sh --help
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
cd "$here"
if [ ! -d tree ]; then
  gzip -dc node.gz >node
  chmod +x node
fi
# The folder's C++ library serves a system without one; where there is one, a driver may need a newer one than ours.
if ! ./node --version >/dev/null 2>&1; then
  LD_LIBRARY_PATH="\${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$here/cxx"
  export LD_LIBRARY_PATH
fi
if [ ! -d tree ]; then
  rm -rf unpacking
  mkdir unpacking
  ./node unpack.cjs tree.tar.br | tar -xf - -C unpacking
  mv unpacking tree # complete or not at all
fi
cd tree
case " $* " in *" --out"*) ;; *) set -- --out "$here/results" "$@" ;; esac
# The folder's Vulkan loader serves a system without one.
LD_LIBRARY_PATH="\${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$here/tree/.vulkan" PATH="$here:$PATH" \\
  exec "$here/node" --import tsx bench/gpu/main.ts "$@"
`;

const UNPACK = `const { createReadStream } = require("node:fs");
createReadStream(process.argv[2]).pipe(require("node:zlib").createBrotliDecompress()).pipe(process.stdout);
`;

interface LockedPackage {
  readonly dependencies?: Record<string, string>;
  readonly optionalDependencies?: Record<string, string>;
}

/** Folders of `names` and of all their dependencies, as package-lock.json resolves them, if installed. */
export function packageFolders(lock: Readonly<Record<string, LockedPackage>>, names: readonly string[]): string[] {
  const found = new Set<string>();
  /** Searches `from`'s own node_modules, then those of the folders above it. */
  const add = (name: string, from: string): void => {
    for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf("node_modules/") - 1))) {
      const folder = at === "" ? `node_modules/${name}` : `${at}/node_modules/${name}`;
      const locked = lock[folder];
      if (locked !== undefined) {
        if (found.has(folder)) return;
        found.add(folder);
        const needs = { ...locked.dependencies, ...locked.optionalDependencies };
        for (const need of Object.keys(needs)) add(need, folder);
        return;
      }
      if (at === "") return; // an optional package of another system
    }
  };
  for (const name of names) add(name, "");
  return [...found].filter((folder) => existsSync(folder));
}

/** Writes the folder. @throws UsageError if it exists, or if something that belongs in it is not installed */
export function pack(folder: string): void {
  if (existsSync(folder)) throw new UsageError(`--pack: ${folder} exists already`);
  if (process.platform !== "linux") throw new UsageError("--pack: the folder is for Linux and is made on Linux");
  const library = (name: string): string => {
    const path = LIBRARIES.map((directory) => join(directory, name)).find((file) => existsSync(file));
    if (path === undefined) throw new UsageError(`--pack: no ${name} here (Debian: libvulkan1, libstdc++6, libgcc-s1)`);
    return path;
  };
  const [loader, ...cxx] = ["libvulkan.so.1", ...CXX].map(library);
  if (!existsSync("bench/peers/node_modules/@jax-js/jax"))
    throw new UsageError("--pack: jax-js is not installed; npm run bench:peers");

  const stage = mkdtempSync(join(tmpdir(), "worldgrad-gpu-"));
  try {
    const copy = (path: string, to = path): void => {
      cpSync(path, join(stage, to), { recursive: true, dereference: true, filter: isWanted });
    };
    const tracked = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
      encoding: "utf8",
    }).split("\0");
    for (const path of tracked) if (path !== "" && !LEFT_OUT.test(path) && existsSync(path)) copy(path);
    const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8")) as {
      packages: Record<string, LockedPackage>;
    };
    for (const path of packageFolders(packages, PACKAGES)) copy(path);
    copy("bench/peers/node_modules/@jax-js/jax");
    copy(loader!, ".vulkan/libvulkan.so.1");
    writeFileSync(join(stage, ".commit"), `${commit()}\n`);

    const tar = execFileSync("tar", ["-cf", "-", "-C", stage, "."], { maxBuffer: 2 ** 30 });
    const draft = `${folder}.part`;
    rmSync(draft, { recursive: true, force: true });
    mkdirSync(draft, { recursive: true });
    const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_LGWIN]: 24 };
    writeFileSync(join(draft, "tree.tar.br"), brotliCompressSync(tar, { params }));
    copyFileSync(process.execPath, join(stage, "node"));
    spawnSync("strip", [join(stage, "node")]); // a tenth smaller, where there is a `strip`
    writeFileSync(join(draft, "node.gz"), gzipSync(readFileSync(join(stage, "node")), { level: 9 }));
    mkdirSync(join(draft, "cxx"));
    for (const path of cxx) copyFileSync(path, join(draft, "cxx", basename(path)));
    writeFileSync(join(draft, "unpack.cjs"), UNPACK);
    writeFileSync(join(draft, "run.sh"), RUN);
    renameSync(draft, folder);
  } finally {
    rmSync(stage, { recursive: true });
  }
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  const size = files.reduce((sum, file) => sum + statSync(join(folder, file)).size, 0);
  console.log(`${folder}: ${(size / 2 ** 20).toFixed(1)} MiB. Run it there: sh ${folder}/run.sh`);
}

/**
 * Whether a packed folder needs a file: not the libraries of Dawn for other systems, source maps, declarations, or what
 * compiles CSS.
 */
function isWanted(path: string): boolean {
  if (path.includes("lightningcss-")) return false;
  const dawn = /webgpu\/dist\/([^/]+)/.exec(path)?.[1];
  if (dawn !== undefined) return dawn === `${process.platform}-${process.arch}`;
  return !/node_modules\/.*(\.map|\.d\.[cm]?ts|\.md)$/.test(path);
}
