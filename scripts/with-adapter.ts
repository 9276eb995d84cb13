/**
 * Runs a command with the tests' WebGPU adapter: `npx tsx scripts/with-adapter.ts npx tsx bench/ops.ts`. It chooses as
 * the tests do (`tests/support/adapter.ts`: hardware → lavapipe → SwiftShader; `WORLDGRAD_ADAPTER` by name).
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
