/** From the problems of an op (`specs.ts`) to the kernel calls of an executor. */
import type { Program } from "./kernel.ts";
import type { Families, Problem, ProblemOf } from "./specs.ts";

/** The generators of an executor: for each family a function from its problem to a program. */
export type Generators<K> = { readonly [F in keyof Families]: (spec: Families[F]) => Program<K> };

/**
 * The program of an op: those of its problems, one after the other, with the op's operands in the place of the
 * families' buffers.
 * @param operands the number of inputs and outputs of the op; temporaries are counted from there
 */
export function programOf<K>(
  work: Problem | readonly Problem[],
  operands: number,
  generators: Generators<K>,
): Program<K> {
  if ("family" in work) {
    if (work.operands === undefined) return generate(work, generators); // the usual case, without copies
    return programOf([work], operands, generators);
  }
  const all = Array.from({ length: operands }, (_, k) => k);
  const temps: number[] = [];
  const steps = work.flatMap((problem) => {
    const program = generate(problem, generators);
    const ofProblem = problem.operands ?? all;
    const firstTemp = operands + temps.length - ofProblem.length;
    temps.push(...program.temps);
    return program.steps.map(({ kernel, buffers }) => ({
      kernel,
      buffers: buffers.map((b) => ofProblem[b] ?? firstTemp + b),
    }));
  });
  return { temps, steps };
}

const generate = <K, F extends keyof Families>({ family, spec }: ProblemOf<F>, generators: Generators<K>): Program<K> =>
  generators[family](spec);
