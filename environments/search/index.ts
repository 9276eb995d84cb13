/**
 * `search`: questions over several pages of a small generated encyclopaedia, after HotpotQA and Search-R1. The agent
 * types `search WORDS`, `open N`, and `answer TEXT`. Read it in this order: corpus.ts (what is written), rules.ts (what
 * is asked, and the episode). docs/worlds.md shows episodes, and says what is not modelled.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { FAMILIES, SEARCH, type SearchWorldOptions } from "./episode.ts";

export type { SearchWorldOptions } from "./episode.ts";

/**
 * Questions over several pages of a small generated encyclopaedia, answered with a search engine (BM25): the shape of
 * HotpotQA (arXiv 1809.09600) and Search-R1 (arXiv 2503.09516). `answer TEXT` ends the episode with reward 1 or 0.
 */
export const search: EnvironmentSpec<SearchWorldOptions> = defineGame(
  {
    name: "search",
    description: "answer questions over several pages of a small encyclopaedia with a search engine",
    source: "after HotpotQA, arXiv 1809.09600, and Search-R1, arXiv 2503.09516",
    families: FAMILIES,
    options: SEARCH,
    expert: true,
  },
  () => import("./rules.ts"),
);
