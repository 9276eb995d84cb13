/**
 * `host`: a real bash on a host that stays the same for a whole run. Its scripts fail because a file is missing, its
 * programs because a variable is, and nothing but the error of `cat` or of bash says which. An episode has one line and
 * its end, so nothing can be looked up: what predicting a real machine is worth is measured here (docs/evidence.md).
 * The sandbox is that of `shell`.
 */
import { defineGame, type FactWorld } from "../../environments/index.ts";
import { headOf } from "../shell/index.ts";
import { FAMILIES, HOST, type HostOptions } from "./tasks.ts";

export type { HostOptions } from "./tasks.ts";

/** A real bash on a host of unknown facts. The setting is ECHO's, arXiv 2605.24517. */
export const host: FactWorld<HostOptions> = {
  ...defineGame(
    {
      name: "host",
      description: "a real bash on a host that the agent does not know: what a script lacks, its error tells",
      source: "made for this project; the setting is ECHO's, arXiv 2605.24517",
      families: FAMILIES,
      options: HOST,
      expert: true,
      novice: true,
      ...headOf("host"),
    },
    () => import("./rules.ts"),
  ),
  facts: async (options) => (await import("./questions.ts")).questionsAbout(options),
};
