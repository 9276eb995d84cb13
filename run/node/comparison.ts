/** A folder of agents that `npm start` compares (run/compare), for programs that read one run. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../usage.ts";
import { unsealed } from "./sealed.ts";

/** The file with the settings of a comparison, the folders of its agents among them. */
export const COMPARISON = "comparison.json";

/**
 * The run folder that `path` stands for: itself or, in a comparison, that of the second agent, against which the first
 * is measured and which `npm start` names at its end.
 * @param note gets a line that names the chosen agent
 * @throws UsageError in one line with the agents that there are, if this one has not begun
 */
export function agentFolder(flag: string, path: string, note: (line: string) => void): string {
  const file = join(path, COMPARISON);
  if (existsSync(join(path, "config.json")) || !existsSync(file)) return path;
  const { agents } = unsealed(file, (problem) => {
    throw new UsageError(`--${flag}: ${file}: ${problem}`);
  });
  const all = Array.isArray(agents) ? agents.map(String) : [];
  const begun = all.filter((name) => existsSync(join(path, name, "config.json"))).map((name) => join(path, name));
  const taken = all[1] === undefined ? undefined : join(path, all[1]);
  if (taken === undefined || !begun.includes(taken)) {
    const list = begun.length === 0 ? "none of its agents has begun" : `name one of its agents: ${begun.join(", ")}`;
    throw new UsageError(`--${flag}: ${path} is a comparison; ${list}`);
  }
  note(`${path} compares agents; this is ${taken}; the others: ${begun.filter((name) => name !== taken).join(", ")}`);
  return taken;
}
