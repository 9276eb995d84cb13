/**
 * `tools`: three tools with typed parameters, and requests in words, in the setting of ToolRL. The agent says `NAME
 * PARAMETER=VALUE …`, and ends with `done`, or with `say WORD` where no tool is needed. The tools are `lamp room=
 * level=`, `alarm at= day=` and `buy item= n=`; only the demonstrations and the tools' errors tell of them.
 * docs/worlds.md shows episodes.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { FAMILIES, TOOLS } from "./episode.ts";

export type { ToolOptions } from "./episode.ts";

/**
 * Three tools with typed parameters, in the setting of ToolRL (arXiv 2504.13958): `buy item=lomika n=12` calls one,
 * `done` or `say WORD` ends the episode, with reward 1 if all calls are as asked.
 */
export const tools: EnvironmentSpec = defineGame(
  {
    name: "tools",
    description: "call three tools with typed parameters, as a request in words asks",
    source: "the setting of ToolRL, arXiv 2504.13958",
    families: FAMILIES,
    options: TOOLS,
    expert: true,
  },
  () => import("./rules.ts"),
);
