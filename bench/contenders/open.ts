/** Opens an engine by the contender's name. Each contender has its own process, which loads only its own libraries. */
import type { Engine, EngineOptions } from "./engine.ts";
import { CONTENDERS } from "./index.ts";

/** `reference` and `roofline` are yardsticks, not contenders. */
export async function openEngine(name: string, options: EngineOptions): Promise<Engine> {
  if (name === "reference") return (await import("./worldgrad.ts")).worldgrad("reference", options);
  if (name === "roofline") return (await import("./roofline.ts")).roofline();
  const contender = CONTENDERS.find((c) => c.name === name);
  const executor = contender?.executor === "webgpu" ? "webgpu" : "wasm";
  switch (contender?.engine) {
    case "worldgrad":
      return (await import("./worldgrad.ts")).worldgrad(executor, options);
    case "plain":
      return (await import("./plain.ts")).plain();
    case "jax-js":
      return (await import("./jax.ts")).jaxJs(executor);
    case "tfjs":
      return (await import("./tfjs.ts")).tfjs(executor);
    default:
      throw new Error(`there is no contender "${name}" in this process`);
  }
}
