/** Questions that show which facts of a host an agent knows (environments/facts/questions.ts). */
import type { FactQuestion } from "../../environments/index.ts";
import { preferred, selectFamilies, settleOptions } from "../../environments/facts/shared.ts";
import { factsOf, type Kind, wordOf } from "./facts.ts";
import { FAMILIES, HOST, type HostOptions, isHeldOutPair } from "./tasks.ts";

/** How the facts about both parts are called, and what they say. */
const SAID: Readonly<Record<Kind, readonly (readonly [kind: string, verb: string])[]>> = {
  script: [
    ["where scripts look", "looks in"],
    ["what scripts look for", "looks for"],
  ],
  program: [
    ["what variables begin with", "needs a variable that begins with"],
    ["what variables end with", "needs a variable that ends with"],
  ],
};

/** Questions about all facts that tasks with these options need; none if each episode has a host of its own. */
export function questionsAbout(given: HostOptions = {}): readonly FactQuestion[] {
  const options = settleOptions("host", HOST, given);
  if (options.host < 0) return [];
  const { names, needed } = factsOf(options.host, options.size);
  const asked = selectFamilies("host", FAMILIES, options).flatMap((family) =>
    names.subjects[family.kind].map((subject, index) => {
      const parts = needed.get(subject)!;
      const word = wordOf(family.kind, parts);
      const action = family.line(subject, word, names.parts[family.kind][0][0]!);
      const first = action.indexOf(word);
      const places = parts.map((right, k) => {
        const [kind, verb] = SAID[family.kind][k]!;
        const fact = { kind, known: subject, right, says: `${subject} ${verb} ${right}` };
        return { fact, at: k === 0 ? first : first + parts[0].length + 1 };
      });
      const task = family.text(subject, names.parts[family.kind][0][0]!);
      return { task, action, places, isHeldOut: isHeldOutPair(index, family) };
    }),
  );
  return preferred(asked);
}
