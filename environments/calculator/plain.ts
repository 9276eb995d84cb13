/**
 * Tasks that want a plain answer and no call, after the negative examples of Agent-FLAN (Chen et al. 2024, arXiv
 * 2403.12881): a problem of two small numbers, which does not need the calculator that is there, or a problem that
 * needs one where there is none, so that the right answer is `answer unknown`. A policy that only sees problems that
 * need the calculator learns to call it whatever is asked. Any call makes the answer wrong, and is counted.
 */
import type { Rng } from "../../engine/index.ts";
import type { Move } from "../game.ts";
import { drawUntil, isHeldOut, type Split } from "../selection.ts";
import type { CalculatorEpisode, CalculatorTask } from "./episode.ts";
import { DRAFTS, drawProblem, NAMES, THINGS } from "./problems.ts";
import { rational } from "./rational.ts";

/** The answer that gives up. */
export const UNKNOWN = "unknown";

export function makePlainTask(rng: Rng, split: Split): CalculatorTask {
  if (rng.int(2) === 0) {
    const { texts, answer } = drawProblem(rng, DRAFTS[rng.choice(["gain", "loss"] as const)], split);
    const text = `No calculator here. ${rng.choice(texts)}`;
    return { text, answer, plain: UNKNOWN, plan: [`answer ${UNKNOWN}`] };
  }
  return drawUntil("calculator", () => {
    const [a, b] = [1 + rng.int(9), 1 + rng.int(9)];
    const [who, what] = [rng.choice(NAMES), rng.choice(THINGS)];
    const text = rng.choice([
      `${who} has ${a} ${what} and gets ${b} more. How many now?`,
      `${who} adds ${b} ${what} to ${a}. How many now?`,
    ]);
    if (isHeldOut(text) !== (split === "heldout")) return undefined;
    return { text, answer: rational(BigInt(a + b)), plain: String(a + b), plan: [`answer ${a + b}`] };
  });
}

/**
 * A move in a task that wants a plain answer. The state is the number of calls so far.
 * @param call what the calculator answers, where there is one
 */
export function playPlain(
  { task, state }: CalculatorEpisode,
  command: string,
  rest: string,
  call: Move<number>,
): Move<number> {
  const info = (calls: number): Move<number>["info"] => ({ family: "plain", falseCalls: calls });
  if (command === "calc") {
    const answer = task.plain === UNKNOWN ? { observation: "error: there is no calculator", failed: true } : call;
    return { ...answer, state: state + 1, info: info(state + 1) };
  }
  if (command !== "answer") return { ...call, state, info: info(state) };
  const score = rest === task.plain && state === 0 ? 1 : 0;
  return { observation: "", ending: { kind: "answer", score }, info: info(state) };
}
