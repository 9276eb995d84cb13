/** `navigator.gpu` and the constants of WebGPU, from Dawn, for libraries that were written for browsers. */
import { type GpuAdapter, adapterName } from "../../engine/backends/webgpu-api.ts";

interface Dawn {
  create(flags: readonly string[]): { requestAdapter(request?: object): Promise<GpuAdapter | null> };
  readonly globals: object;
}

/** @returns the adapter's name, or "" if no GPU is wanted */
export async function openGpu(wanted: boolean): Promise<string> {
  const userAgent = "Node"; // jax-js and tfjs read it, also without WebGPU
  if (!wanted) {
    Object.defineProperty(globalThis, "navigator", { value: { userAgent }, configurable: true });
    return "";
  }
  const dawn = (await import("webgpu")) as unknown as Dawn;
  const opengl = process.env["WORLDGRAD_ADAPTER"] === "opengl";
  const gpu = dawn.create(opengl ? ["backend=opengl"] : []);
  Object.assign(globalThis, dawn.globals);
  // On `globalThis` the object lives as long as the process: Dawn crashes if it is collected while in use.
  Object.defineProperty(globalThis, "navigator", { value: { gpu, userAgent }, configurable: true });
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  if (adapter === null) throw new Error("no WebGPU adapter");
  return adapterName(adapter);
}
