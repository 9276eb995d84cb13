/** The random baseline: commands drawn from the grammar of the tasks. It observes nothing. */
import type { Rng } from "../../engine/index.ts";
import { drawWord, EXTENSIONS, isHeldOut } from "../words.ts";

/**
 * A plausible line of shell with names of the task, if it is given, else of the training split; one in five ends the
 * episode.
 */
export function randomAction(rng: Rng, task: string = ""): string {
  const names = (task.match(/\b[a-z]{6}\b/g) ?? []).filter((name) => isHeldOut(name) !== undefined);
  const word = (): string => (names.length > 0 ? rng.choice(names) : drawWord(rng, "train"));
  const file = (): string => `${word()}.${rng.choice(EXTENSIONS)}`;
  const path = (): string => (rng.int(2) === 0 ? file() : `${word()}/${file()}`);
  const number = (): string => String(1 + rng.int(20));
  const commands: readonly (() => string)[] = [
    () => "ls",
    () => `ls ${word()}`,
    () => `cd ${word()}`,
    () => `cat ${path()}`,
    () => `wc -l ${path()}`,
    () => `grep ${word()} ${path()}`,
    () => `grep -rl ${word()} .`,
    () => `find . -name ${file()}`,
    () => `sort -n ${path()} | tail -n 1`,
    () => `cat ${word()}/* | grep -c ${word()}`,
    () => `mkdir ${word()}/${word()}`,
    () => `echo ${word()} > ${path()}`,
    () => `mv ${path()} ${word()}`,
    () => `cp ${path()} ${word()}`,
    () => `rm ${word()}/*.tmp`,
  ];
  const endings: readonly (() => string)[] = [
    () => `answer ${word()}`,
    () => `answer ${number()}`,
    () => `answer ${file()}`,
    () => "done",
  ];
  return rng.choice(rng.int(5) === 0 ? endings : commands)();
}
