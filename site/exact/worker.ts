/** The worker of exact.html: it computes, piece by piece, so that a newer question need not wait for an older one. */
import { device } from "../../engine/index.ts";
import { Laboratory } from "./laboratory.ts";
import type { Answer, Answered, Asked } from "./messages.ts";
import { comparedIn, GROUPS, type Settings } from "./settings.ts";

/** The part of a worker's global object that is used, typed here because the page's library has the window's. */
interface Scope {
  postMessage(message: Answered): void;
  addEventListener(type: "message", listener: (event: { readonly data: Asked }) => void): void;
}
const scope = globalThis as unknown as Scope;
const laboratory = device("reference").then((on) => new Laboratory(on));
let newest = 0;

scope.addEventListener("message", ({ data }) => {
  newest = data.question;
  answer(data).catch((error: unknown) => {
    const message = error instanceof Error ? error.message : String(error);
    scope.postMessage({ question: data.question, kind: "failed", message });
  });
});

async function answer({ question, settings }: Asked): Promise<void> {
  const lab = await laboratory;
  const pieces = piecesOf(lab, settings);
  for (const [done, piece] of pieces.entries()) {
    scope.postMessage({ question, kind: "progress", done, all: pieces.length });
    await new Promise((turn) => setTimeout(turn, 0)); // a newer question may have come meanwhile
    if (question !== newest) return;
    scope.postMessage({ question, ...piece() });
  }
  scope.postMessage({ question, kind: "progress", done: pieces.length, all: pieces.length });
}

type Piece = () => Answer;

/** The pieces of an answer; those that the page needs first come first. */
function piecesOf(lab: Laboratory, settings: Settings): Piece[] {
  const { state, method, group, scale, plane, steps } = settings;
  const drawn = comparedIn(settings);
  const figures = (name: string, size: number): Piece => {
    const question = { ...settings, method: name, group: size };
    return () => ({ kind: "figures", method: name, group: size, figures: lab.figures(question, scale) });
  };
  return [
    () => ({ kind: "facts", facts: lab.factsOf(state) }),
    figures(method, group),
    () => ({ kind: "sample", sample: lab.sample(settings, steps, plane, scale), shares: lab.shares(settings) }),
    ...drawn.map((name) => figures(name, group)),
    ...drawn.flatMap((name) => GROUPS.filter((size) => size !== group).map((size) => figures(name, size))),
  ];
}
