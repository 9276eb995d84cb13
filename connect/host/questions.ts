/** Questions that show which facts of a host an agent knows (environments/facts/questions.ts). */
import type { FactQuestion } from "../../environments/index.ts";
import { preferred, settleOptions } from "../../environments/facts/shared.ts";
import { factsOf, pathOf } from "./facts.ts";
import { FAMILIES, HOST, type HostOptions, isHeldOutPair, lineOf, textOf } from "./tasks.ts";

/** Questions about all facts of the host that these options name; none if each episode has a host of its own. */
export function questionsAbout(given: HostOptions = {}): readonly FactQuestion[] {
  const { host, size } = settleOptions("host", HOST, given);
  if (host < 0) return [];
  const facts = factsOf(host, size);
  const word = facts.names.files[0]!;
  const asked = facts.names.scripts.flatMap((script, index) =>
    FAMILIES.map((family) => {
      const path = pathOf(facts, script);
      const action = lineOf(family, script, word, path);
      const [directory, file] = [facts.places.get(script)!, facts.wanted.get(script)!];
      const at = action.indexOf(path);
      return {
        task: textOf(family, script, word),
        action,
        places: [
          {
            fact: {
              kind: "where scripts look",
              known: script,
              right: directory,
              says: `${script} looks in ${directory}`,
            },
            at,
          },
          {
            fact: { kind: "what scripts look for", known: script, right: file, says: `${script} looks for ${file}` },
            at: at + directory.length + 1,
          },
        ],
        isHeldOut: isHeldOutPair(index, family),
      };
    }),
  );
  return preferred(asked);
}
