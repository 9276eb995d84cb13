/** Questions that show which facts of a home an agent knows. Copies are left out: they need no fact of their own. */
import { type FactQuestion, preferred, question, type WorldFact } from "../facts/questions.ts";
import { settleOptions } from "../options.ts";
import { selectFamilies } from "../selection.ts";
import { factsOf, type Facts, type HomeFile } from "./facts.ts";
import { FAMILIES, HOME, type HomeFamily, type HomeOptions, isHeldOutPair } from "./tasks.ts";

/** Questions about all facts that tasks with these options need. */
export function questionsAbout(given: HomeOptions = {}): readonly FactQuestion[] {
  const options = settleOptions("home", HOME, given);
  if (options.home < 0) return [];
  const facts = factsOf(options.home, options.size);
  const families = selectFamilies("home", FAMILIES, options).filter(({ name }) => name !== "copy");
  const asked = families.flatMap((family) => {
    const subjects = family.subject === "alias" ? [...facts.aliases] : facts.files.map((file) => [file.name, file]);
    return subjects.map(([known, file], index) => ({
      ...about(family, facts, known as string, file as HomeFile),
      isHeldOut: isHeldOutPair(index, family),
    }));
  });
  return preferred(asked);
}

function about(family: HomeFamily, facts: Facts, subject: string, file: HomeFile): FactQuestion {
  const { name, ending, directory } = file;
  // What a task also has (contents, another file) is in no command of these families.
  const task = { family, facts, file, alias: subject, text: "", other: file, split: "heldout", lines: [] } as const;
  const fact = (kind: string, known: string, verb: string, right: string): WorldFact => ({
    kind,
    known,
    right,
    says: `${known} ${verb} ${right}`,
  });
  const needed = [
    ...(family.subject === "alias" ? [fact("what an alias stands for", subject, "stands for", name)] : []),
    fact("where files are", name, "is in", directory),
    ...(family.answer && family.name !== "size"
      ? [fact("which program opens a file", `.${ending}`, "opens with", facts.programs.get(ending)!)]
      : []),
    ...(family.change ? [fact("who owns a directory", directory, "belongs to", facts.owners.get(directory)!)] : []),
  ];
  const whole = { ...task, liar: undefined };
  return question(family.text(whole), family.command(whole), needed);
}
