/**
 * `castle`: a place whose rules the agent does not know, and that stays the same for a whole run. Which word leads from
 * one room to another, which key turns in a chest and which chest a thing lies in are facts that no task states and no
 * demonstration shows, since each demonstration may come from a castle of its own (`castle: -1`, with the same names).
 * It is to `home` what walking is to reading: an action changes where the agent is, so whoever predicts the answer
 * predicts a transition, and a wrong word is answered by another room, and not by an error. With `hints: "none"` the
 * answers are pure dynamics; with the others they also state the fact that was missing, in one direction or the other.
 * In a control (`facts: "random"`) they cannot be predicted: what they state is drawn anew, and so is where a word
 * leads that does not lead where it was meant to; what is right stays right. Each subject has two verbs, of which one
 * is asked for in training and the other is held out, others for each, also within the tasks of several steps.
 *
 * Read it in this order: facts.ts (what a castle is), ../facts/hints.ts (what answers say of it), episode.ts (families,
 * options, and what an episode knows), tasks.ts (what is asked, and which pairs are held out), moves.ts (the actions,
 * success and the expert), rules.ts (who plays).
 *
 * The task families, each with the expert's episode for seed 0 (a test plays them again and compares):
 *
 * go (level 1): go to a room: the word for it in this one
 *     You are in tekidu. Go to rumite
 *     $ go to rumite by domiro
 *     you are in rumite
 *     $ done
 *
 * send (level 1): send the page to a room: the word for it in this one
 *     You are in lafefa. Send the page to rumite
 *     $ send page to rumite by domiro
 *     the page is in rumite
 *     $ done
 *
 * open (level 1): open a chest in this room: its key
 *     You are in lafefa. Open lifake
 *     $ open lifake with katoro
 *     lifake is open
 *     $ done
 *
 * seal (level 1): seal a chest in this room: its key
 *     You are in mumido. Seal fafufa
 *     $ seal fafufa with fitimo
 *     fafufa is sealed
 *     $ done
 *
 * take (level 2): take a thing in this room: its chest, and the key of that
 *     You are in kobobo. Take retuto
 *     $ take retuto in ruruba with midamo
 *     you have retuto
 *     $ done
 *
 * clean (level 2): clean a thing in this room: its chest, and the key of that
 *     You are in lafefa. Clean bifuti
 *     $ clean bifuti in dilame with katoro
 *     bifuti is clean
 *     $ done
 *
 * cross (level 2): go to a room and on to another: a word in each of two rooms
 *     You are in tekidu. Go to rumite, then to kobobo
 *     $ go to rumite by domiro
 *     you are in rumite
 *     $ go to kobobo by talumu
 *     you are in kobobo
 *     $ done
 *
 * visit (level 2): open a chest in another room: the word for that, and the key
 *     You are in fidofo. Go to lafefa and open lifake
 *     $ go to lafefa by talumu
 *     you are in lafefa
 *     $ open lifake with katoro
 *     lifake is open
 *     $ done
 *
 * fetch (level 3): take a thing in another room: the word for that, the chest, and its key
 *     You are in rumite. Go to lafefa and take tomele
 *     $ go to lafefa by bumima
 *     you are in lafefa
 *     $ take tomele in dilame with katoro
 *     you have tomele
 *     $ done
 *
 * bring (level 4): take a thing from one room to another: a word in each of two rooms, the chest, and its key
 *     You are in tekidu. Bring lefoli from rumite to lafefa
 *     $ go to rumite by domiro
 *     you are in rumite
 *     $ take lefoli in kebofe with midamo
 *     you have lefoli
 *     $ go to lafefa by bumima
 *     you are in lafefa
 *     $ done
 *
 * `You are in tekidu. Go to rumite` once more: what `go to rumite by makiba` is answered with each of the `hints`:
 *
 *     none: you are in mumido
 *     tried: you are in mumido; makiba leads to mumido
 *     reverse: you are in mumido; domiro leads to rumite
 *     statement: you are in mumido; rumite is reached by domiro
 *     suggestion: you are in mumido; did you mean rumite by domiro?
 *
 * What it is not: `household`, in which places are found by looking, and `gridworld`, in which they are where the plan
 * has them. Nothing can be inferred here, but for what is left when all else is known (words, keys and chests are dealt
 * out evenly), and that a thing in this room lies in one of its two chests. Not modelled: what else is in a room,
 * weight, and that an open chest needs no key.
 */
import type { EnvironmentSpec } from "../../rl/environment.ts";
import { defineGame } from "../game.ts";
import { CASTLE, type CastleOptions, FAMILIES } from "./episode.ts";

export type { CastleOptions } from "./episode.ts";

/**
 * A castle whose rules the agent does not know and that stays the same for a whole run: which word leads where and
 * which key opens what, only its answers tell. An action changes where the agent is, so whoever predicts an answer
 * predicts a transition. Made for this project; the setting is ECHO's, arXiv 2605.24517.
 */
export const castle: EnvironmentSpec<CastleOptions> = defineGame(
  {
    name: "castle",
    description:
      "a castle that the agent does not know: which word leads where, and which key opens what, its answers tell",
    source: "made for this project; the setting is ECHO's, arXiv 2605.24517",
    families: FAMILIES,
    options: CASTLE,
    novice: true,
  },
  () => import("./rules.ts"),
);
