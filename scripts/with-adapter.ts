/**
 * Runs a command with the WebGPU adapter of the tests: `npx tsx scripts/with-adapter.ts npm run soak -- --device
 * webgpu`. The choice is that of `tests/support/adapter.ts`: hardware → lavapipe → SwiftShader, or `WORLDGRAD_ADAPTER`
 * by name.
 */
import { spawnSync } from "node:child_process";
import { provisionAdapter } from "../tests/support/adapter.ts";

const [command, ...args] = process.argv.slice(2);
if (command === undefined) {
  console.error("usage: npx tsx scripts/with-adapter.ts command [argument…]");
  process.exit(2);
}
const { env } = provisionAdapter();
process.exit(spawnSync(command, args, { stdio: "inherit", env: { ...process.env, ...env } }).status ?? 1);
