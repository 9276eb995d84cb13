/**
 * `search`: questions over several pages of a small generated encyclopaedia, answered with a search engine. It is the
 * shape of multi-hop question answering with tools (HotpotQA: Yang et al. 2018; Search-R1: Jin et al. 2025) at the size
 * of a tiny model. The agent types `search WORDS` (the three best pages, by BM25), `open N` (the N-th of them), and
 * `answer TEXT`, which ends the episode with reward 1 or 0. Read it in this order: corpus.ts (what is written),
 * tasks.ts (what is asked), this file (the episode).
 *
 * The task families, each with the expert's episode for seed 0 (a test plays them again and compares):
 *
 * fact (level 1): one fact of a thing whose name is given
 *     Name the mayor of bukamu
 *     $ search bukamu
 *     1 bukamu town
 *     2 lomele person
 *     3 rakola person
 *     $ open 1
 *     bukamu town: land kukeki, mayor refodu
 *     $ answer refodu
 *
 * bridge (level 2): a fact of a thing that another page names
 *     Find the birthplace of the mayor of bukamu
 *     $ search bukamu
 *     1 bukamu town
 *     2 lomele person
 *     3 rakola person
 *     $ open 1
 *     bukamu town: land kukeki, mayor refodu
 *     $ search refodu
 *     1 refodu person
 *     2 bukamu town
 *     $ open 1
 *     refodu person: birthplace lamuke, guild tobuko, teacher dimele, year 576
 *     $ answer lamuke
 *
 * reverse (level 2): the only thing that has a certain fact
 *     Name the town with mayor refodu
 *     $ search mayor refodu
 *     1 bukamu town
 *     2 refodu person
 *     3 fadadu town
 *     $ open 1
 *     bukamu town: land kukeki, mayor refodu
 *     $ answer bukamu
 *
 * both (level 3): the only person who has two facts, where others have one of them
 *     Find the person with guild tobuko and birthplace bukamu
 *     $ search tobuko bukamu
 *     1 lomele person
 *     2 bukamu town
 *     3 tobuko guild
 *     $ open 1
 *     lomele person: birthplace bukamu, guild tobuko, teacher dimele, year 197
 *     $ answer lomele
 *
 * older (level 3): a fact of the older or younger of two persons
 *     Find the teacher of the older of tubadi and mafori
 *     $ search tubadi
 *     1 tubadi person
 *     2 ferede town
 *     3 melifu guild
 *     $ open 1
 *     tubadi person: birthplace ferede, guild tumira, teacher bedure, year 502
 *     $ search mafori
 *     1 mafori person
 *     2 birimi person
 *     3 dalire person
 *     $ open 1
 *     mafori person: birthplace ferede, guild tumira, teacher birimi, year 397
 *     $ answer birimi
 *
 * chain (level 3): a path over three pages
 *     Name the mayor of the birthplace of the mayor of bukamu
 *     $ search bukamu
 *     1 bukamu town
 *     2 lomele person
 *     3 rakola person
 *     $ open 1
 *     bukamu town: land kukeki, mayor refodu
 *     $ search refodu
 *     1 refodu person
 *     2 bukamu town
 *     $ open 1
 *     refodu person: birthplace lamuke, guild tobuko, teacher dimele, year 576
 *     $ search lamuke
 *     1 lamuke town
 *     2 tobuko guild
 *     3 refodu person
 *     $ open 1
 *     lamuke town: land tetile, mayor totale
 *     $ answer totale
 *
 * junction (level 4): from the only thing that has a certain fact on to a fact of what it names
 *     Name the ruler of the land of the town with mayor refodu
 *     $ search mayor refodu
 *     1 bukamu town
 *     2 refodu person
 *     3 fadadu town
 *     $ open 1
 *     bukamu town: land kukeki, mayor refodu
 *     $ search kukeki
 *     1 kukeki land
 *     2 fadadu town
 *     3 bukamu town
 *     $ open 1
 *     kukeki land: capital riketo, ruler larifa
 *     $ answer larifa
 *
 * elder (level 4): compare two persons, then go on to what the page of one of them names
 *     Name the year of the teacher of the older of tubadi and mafori
 *     $ search tubadi
 *     1 tubadi person
 *     2 ferede town
 *     3 melifu guild
 *     $ open 1
 *     tubadi person: birthplace ferede, guild tumira, teacher bedure, year 502
 *     $ search mafori
 *     1 mafori person
 *     2 birimi person
 *     3 dalire person
 *     $ open 1
 *     mafori person: birthplace ferede, guild tumira, teacher birimi, year 397
 *     $ search birimi
 *     1 birimi person
 *     2 keliba land
 *     3 futulo town
 *     $ open 1
 *     birimi person: birthplace rotato, guild melifu, teacher mafori, year 607
 *     $ answer 607
 *
 * The expert reads the pages of the path in order, each found by a query of words that it has seen. Every family is
 * solvable by reading only: names are drawn anew for every seed, and the answer never stands in the question. Not
 * modelled: synonyms, text that is wrong or irrelevant, pages too long to read, questions without an answer.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame, type GameOptions, SIZED } from "../game.ts";
import { FAMILIES } from "./episode.ts";

/**
 * Questions over several pages of a small generated encyclopaedia, answered with a search engine (BM25): the shape of
 * HotpotQA (arXiv 1809.09600) and Search-R1 (arXiv 2503.09516). `answer TEXT` ends the episode with reward 1 or 0.
 */
export const search: EnvironmentSpec<GameOptions> = defineGame(
  {
    name: "search",
    description: "answer questions over several pages of a small encyclopaedia with a search engine",
    source: "after HotpotQA, arXiv 1809.09600, and Search-R1, arXiv 2503.09516",
    families: FAMILIES,
    options: SIZED,
  },
  () => import("./rules.ts"),
);
