/**
 * `tools`: three tools with typed parameters, and requests in words. The agent says `NAME PARAMETER=VALUE …`, is
 * answered `ok` or what is wrong, and ends with `done`; where no tool is needed it says the word that is asked for,
 * `say WORD`. The tools are `lamp room= level=`, `alarm at= day=` and `buy item= n=`; nothing tells of them but the
 * demonstrations and their errors. The reward is 1 if exactly the calls that were asked for were taken, in any order.
 *
 * The task families, each with the expert's episode for seed 0 (a test plays them again and compares):
 *
 * lamp (level 1): a word of four and a number
 *     Please: light of 78 in the attic
 *     $ lamp room=attic level=78
 *     ok
 *     $ done
 *
 * alarm (level 1): an hour and a day
 *     Please: alarm for 18, wed
 *     $ alarm at=18 day=wed
 *     ok
 *     $ done
 *
 * buy (level 1): a name and a number
 *     Please: get 52 dibidi
 *     $ buy item=dibidi n=52
 *     ok
 *     $ done
 *
 * two (level 2): calls of two tools
 *     Please: alarm for 12, fri; get 28 rulifi
 *     $ alarm at=12 day=fri
 *     ok
 *     $ buy item=rulifi n=28
 *     ok
 *     $ done
 *
 * twice (level 2): two calls of one tool
 *     Please: we need 45 of lirafo; get 30 budote
 *     $ buy item=lirafo n=45
 *     ok
 *     $ buy item=budote n=30
 *     ok
 *     $ done
 *
 * say (level 2): no tool is needed
 *     Just say dibidi
 *     $ say dibidi
 *
 * three (level 3): calls of all three
 *     Please: wake me on fri at 18; shed lamp to 13; we need 10 of robudo
 *     $ alarm at=18 day=fri
 *     ok
 *     $ lamp room=shed level=13
 *     ok
 *     $ buy item=robudo n=10
 *     ok
 *     $ done
 *
 * Calls are compared, not what they do: a lamp that was set wrong cannot be set again. Held-out requests share no set
 * of calls with those of training, and no name.
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
  },
  () => import("./rules.ts"),
);
