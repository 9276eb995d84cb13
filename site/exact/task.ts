/**
 * A task so small that all its episodes can be listed: a coin lies under one of two cups, and six words are all there
 * is to say.
 *
 *     prompt    red | blue                   the room
 *     action    [hm] word                    "hm" may come first, as a thought; the next word ends the action
 *     answer    left | right | hm            after "look" a cup, after anything else "hm"
 *     action    [hm] word                    and the episode is over
 *
 * In the red room the answer to "look" is the cup with the coin, in the blue room it is the other cup. So the second
 * action has to depend on the answer and on the room. It earns `RIGHT_CUP` if it names the cup with the coin, and
 * `WRONG_CUP` if it names the other one. Room and cup together are the task, of which the agent sees the room: as
 * everywhere in this library, episodes of one group share their task, and the environment draws nothing within it.
 *
 * The policy may say any of the six words anywhere, so nothing is masked: 121 episodes of each of four tasks.
 */
import { append, emptyStream, type Trajectory } from "../../rl/episode/stream.ts";

/** The words; a token's id is its place here. */
export const WORDS = ["red", "blue", "look", "left", "right", "hm"] as const;
export type Word = (typeof WORDS)[number];

export const RIGHT_CUP = 1;
export const WRONG_CUP = 0.25;

/** The tokens of an episode at most: the room, two words, the answer, two words. */
export const MAX_TOKENS = 6;
/** The agent's own tokens in an episode at most. */
export const MAX_OWN_TOKENS = 4;

export interface Task {
  readonly room: "red" | "blue";
  readonly cup: "left" | "right";
}

/** All tasks, each as likely as the others. */
export const TASKS: readonly Task[] = (["red", "blue"] as const).flatMap((room) =>
  (["left", "right"] as const).map((cup): Task => ({ room, cup })),
);

const idOf = (word: Word): number => WORDS.indexOf(word);

/** All actions: a word, or "hm" and a word. "hm" alone is none, because a word has to follow it. */
export const ACTIONS: readonly (readonly Word[])[] = [
  ...WORDS.filter((word) => word !== "hm").map((word) => [word]),
  ...WORDS.map((word): Word[] => ["hm", word]),
];

/** The environment's answer to the first action. */
export function answerTo({ room, cup }: Task, action: readonly Word[]): Word {
  if (action.at(-1) !== "look") return "hm";
  const other = cup === "left" ? "right" : "left";
  return room === "red" ? cup : other;
}

/** The reward of the second action. */
function rewardOf({ cup }: Task, action: readonly Word[]): number {
  const word = action.at(-1);
  return word === cup ? RIGHT_CUP : word === "left" || word === "right" ? WRONG_CUP : 0;
}

/** An episode and what it is made of. */
export interface Episode {
  /** Place of its task in `TASKS`. */
  readonly task: number;
  readonly first: readonly Word[];
  readonly answer: Word;
  readonly second: readonly Word[];
  readonly reward: number;
  /** The episode as the library's losses read it; log-probabilities are filled in where it is sampled. */
  readonly trajectory: Trajectory;
}

/** Every episode of a task, in a fixed order. */
export function episodesOf(task: number): Episode[] {
  const facts = TASKS[task]!;
  return ACTIONS.flatMap((first) =>
    ACTIONS.map((second): Episode => {
      const answer = answerTo(facts, first);
      const reward = rewardOf(facts, second);
      const stream = emptyStream();
      append(stream, "prompt", 0, [idOf(facts.room)]);
      appendAction(stream, 0, first);
      append(stream, "observation", 0, [idOf(answer)]);
      appendAction(stream, 1, second);
      const trajectory: Trajectory = {
        stream,
        group: task,
        reward,
        stepRewards: [0, reward],
        stopReason: "completed",
        masked: false,
        env: "cups",
        task: `${facts.room}, ${facts.cup}`,
        seed: task,
        info: {},
      };
      return { task, first, answer, second, reward, trajectory };
    }),
  );
}

function appendAction(stream: Trajectory["stream"], turn: number, action: readonly Word[]): void {
  if (action.length > 1) append(stream, "thought", turn, [idOf("hm")]);
  append(stream, "action", turn, [idOf(action.at(-1)!)]);
}
