/**
 * Finds a WebGPU adapter for the tests, so that `npm ci && npm test` executes every WGSL kernel on a bare Linux x64
 * machine.
 *
 * Order: the machine's own GPU → lavapipe (Mesa's Vulkan on the CPU; `scripts/provision-lavapipe.sh` fetches it) →
 * SwiftShader (from the npm package `@sparticuz/chromium`, nothing to install) → an error: a test run that executed no
 * WGSL is no pass. `WORLDGRAD_ADAPTER=hardware|lavapipe|swiftshader|opengl` chooses one by name; `WORLDGRAD_GPU=off`
 * goes without, and CI refuses that.
 *
 * Dynamic libraries are found through the environment that a process *starts* with. So this runs in the parent
 * (`vitest.config.ts`, `scripts/with-adapter.ts`), and the returned variables go to the children.
 */
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync } from "node:zlib";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const LAVAPIPE = join(ROOT, ".cache/lavapipe");
export const ADAPTERS = ["hardware", "lavapipe", "swiftshader", "opengl"] as const;
export type AdapterName = (typeof ADAPTERS)[number] | "off";

export interface AdapterChoice {
  readonly name: AdapterName;
  /** Variables for the processes that will use the adapter. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * The regular files of a tar archive (ustar: 512-byte headers; name at 0, octal size at 124, type at 156, prefix at
 * 345).
 */
export function readTar(archive: Uint8Array): { name: string; data: Uint8Array }[] {
  const text = (start: number, length: number): string => {
    const bytes = archive.subarray(start, start + length);
    const end = bytes.indexOf(0);
    return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end));
  };
  const files: { name: string; data: Uint8Array }[] = [];
  for (let at = 0; at + 512 <= archive.length && archive[at] !== 0;) {
    const size = parseInt(text(at + 124, 12).trim() || "0", 8);
    const prefix = text(at + 257, 5) === "ustar" ? text(at + 345, 155) : "";
    const name = prefix === "" ? text(at, 100) : `${prefix}/${text(at, 100)}`;
    const type = text(at + 156, 1);
    if (type === "0" || type === "") files.push({ name, data: archive.subarray(at + 512, at + 512 + size) });
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return files;
}

/** Unpacks SwiftShader once and returns the folder, or undefined where the package has no library for this machine. */
function unpackSwiftshader(): string | undefined {
  if (process.platform !== "linux" || process.arch !== "x64") return undefined;
  const folder = join(ROOT, "node_modules/.cache/worldgrad/swiftshader");
  if (existsSync(join(folder, "libvulkan.so.1"))) return folder;
  let archive: string;
  try {
    const main = createRequire(import.meta.url).resolve("@sparticuz/chromium");
    archive = join(main.slice(0, main.lastIndexOf("@sparticuz")), "@sparticuz/chromium/bin/swiftshader.tar.br");
  } catch {
    return undefined;
  }
  if (!existsSync(archive)) return undefined;
  const library = readTar(brotliDecompressSync(readFileSync(archive))).find((f) =>
    f.name.endsWith("libvk_swiftshader.so"),
  );
  if (library === undefined) return undefined;
  // Under the loader's name the driver serves as its own loader: no Vulkan package is needed. The folder appears
  // complete or not at all, because two test runs may start at once.
  const draft = `${folder}.${process.pid}`;
  mkdirSync(draft, { recursive: true });
  writeFileSync(join(draft, "libvk_swiftshader.so"), library.data);
  copyFileSync(join(draft, "libvk_swiftshader.so"), join(draft, "libvulkan.so.1"));
  try {
    renameSync(draft, folder);
  } catch {
    rmSync(draft, { recursive: true }); // the other run was first
  }
  return folder;
}

const libraryPath = (folder: string): string =>
  [folder, process.env["LD_LIBRARY_PATH"]].filter((part) => part !== undefined && part !== "").join(":");

function environment(name: AdapterName): Record<string, string> | undefined {
  const chosen = { WORLDGRAD_ADAPTER: name, WORLDGRAD_PROVISIONED: name };
  if (name === "hardware") return chosen;
  if (name === "opengl") return { ...chosen, EGL_PLATFORM: "surfaceless" };
  if (name === "lavapipe") {
    const icd = join(LAVAPIPE, "icd.json");
    if (!existsSync(icd)) return undefined;
    return {
      ...chosen,
      LD_LIBRARY_PATH: libraryPath(join(LAVAPIPE, "lib")),
      VK_ICD_FILENAMES: icd,
      VK_DRIVER_FILES: icd,
    };
  }
  const folder = unpackSwiftshader();
  return folder === undefined ? undefined : { ...chosen, LD_LIBRARY_PATH: libraryPath(folder) };
}

const PROBE = `
import("webgpu").then(async ({ create }) => {
  const isOpenGL = process.env.WORLDGRAD_ADAPTER === "opengl";
  globalThis.gpu = create(isOpenGL ? ["backend=opengl"] : []);
  const adapter = await globalThis.gpu.requestAdapter({ featureLevel: isOpenGL ? "compatibility" : "core" });
  const { vendor, architecture, device, description, isFallbackAdapter } = adapter?.info ?? {};
  const name = [vendor, architecture, device, description].join(" ");
  console.log(JSON.stringify(adapter === null ? null : { isFallbackAdapter, name }));
  process.exit(0);
}).catch(() => console.log("null"));`;

/** Asks a child process whether Dawn finds an adapter under `env`. A crash of the driver is an answer, too: no. */
function works(name: AdapterName, env: Record<string, string>): boolean {
  const child = spawnSync(process.execPath, ["-e", PROBE], {
    cwd: ROOT,
    env: { ...process.env, ...env },
    timeout: 30_000,
  });
  const answer = child.stdout.toString().trim().split("\n").at(-1) ?? "";
  if (child.status !== 0 || !answer.startsWith("{")) return false;
  const info = JSON.parse(answer) as { isFallbackAdapter?: boolean; name: string };
  const software = info.isFallbackAdapter === true || /swiftshader|llvmpipe|lavapipe/i.test(info.name);
  return name === "hardware" ? !software : true;
}

/**
 * Chooses the adapter for the processes started from here.
 * @throws when nothing works, when the adapter asked for does not, or when CI tries to go without
 */
export function provisionAdapter(): AdapterChoice {
  // Vitest evaluates its configuration once per project: the first time has chosen, and set the variables of this
  // process.
  const done = process.env["WORLDGRAD_PROVISIONED"];
  if (done !== undefined) return { name: done as AdapterName, env: {} };
  if (process.env["WORLDGRAD_GPU"] === "off") {
    if (process.env["CI"]) throw new Error("WORLDGRAD_GPU=off: CI must execute the WGSL kernels; unset it");
    console.warn("WORLDGRAD_GPU=off: NO WGSL KERNEL IS EXECUTED IN THIS RUN");
    return { name: "off", env: { WORLDGRAD_GPU: "off", WORLDGRAD_PROVISIONED: "off" } };
  }
  const wanted = process.env["WORLDGRAD_ADAPTER"] || undefined;
  if (wanted !== undefined && !(ADAPTERS as readonly string[]).includes(wanted)) {
    throw new Error(`WORLDGRAD_ADAPTER: expected ${ADAPTERS.join(", ")}, got ${wanted}`);
  }
  const order = wanted === undefined ? (["hardware", "lavapipe", "swiftshader"] as const) : [wanted as AdapterName];
  for (const name of order) {
    const env = environment(name);
    if (env !== undefined && works(name, env)) return { name, env };
  }
  throw new Error(
    `no WebGPU adapter for the tests (tried ${order.join(", ")}). Linux x64 gets SwiftShader from \`npm ci\`; ` +
      `elsewhere a Vulkan, Metal or D3D12 driver is needed; WORLDGRAD_GPU=off runs the tests without WGSL, outside CI`,
  );
}
