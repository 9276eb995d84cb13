/**
 * The workflows of a public CI, which cannot be run here: they have the form that the host's own parser accepts, and
 * start only what there is.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const FOLDER = `${ROOT}.github/workflows/`;
const read = (name: string): string => readFileSync(FOLDER + name, "utf8");

// Bundled, because its modules import JSON as bundlers do, and not as Node does.
const { outputFiles } = await build({
  entryPoints: ["@actions/workflow-parser"],
  absWorkingDir: ROOT,
  bundle: true,
  format: "esm",
  platform: "node",
  banner: { js: 'import { createRequire } from "node:module"; const require = createRequire("file:///");' },
  write: false,
});
const { convertWorkflowTemplate, NoOperationTraceWriter, parseWorkflow } = (await import(
  /* @vite-ignore */ `data:text/javascript;base64,${Buffer.from(outputFiles[0]!.contents).toString("base64")}`
)) as typeof import("@actions/workflow-parser");

async function errorsIn(name: string, content: string): Promise<string[]> {
  const { context, value } = parseWorkflow({ name, content }, new NoOperationTraceWriter());
  if (value) await convertWorkflowTemplate(context, value);
  return context.errors.getErrors().map(({ message }) => message);
}

describe.each(readdirSync(FOLDER))("%s", (name) => {
  it("has no error", async () => expect(await errorsIn(name, read(name))).toEqual([]));

  it("starts scripts that package.json and the repository have", () => {
    const { scripts } = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8")) as { scripts: Record<string, string> };
    const runs = [...read(name).matchAll(/- run: (.*)/g)].map(([, command]) => command!);
    expect(runs.length).toBeGreaterThan(0);
    for (const command of runs) {
      const [program, first, second] = command.split(" ");
      if (program === "bash") expect(existsSync(ROOT + first!), command).toBe(true);
      else if (first === "ci") expect(program).toBe("npm");
      else expect(scripts, command).toHaveProperty([first === "run" ? second! : first!]);
    }
  });
});

it.each([
  ["a key that there is not", /runs-on/g, "runs-at"],
  ["an expression that does not end", "matrix.os }}", "matrix.os"],
  ["a name that there is not in an expression", "matrix.os", "matrx.os"],
  ["a job without steps", /steps:/g, "step:"],
])("%s is found", async (_, what, by) => {
  expect(await errorsIn("checks.yml", read("checks.yml").replace(what, by))).not.toEqual([]);
});
