/** The worker of one agent: a session that carries out the page's orders, one after the other. */
import { device as makeDevice } from "../engine/index.ts";
import { check } from "../engine/errors.ts";
import type { Observer } from "../run/observer.ts";
import type { Preset } from "../run/preset.ts";
import { AGENTS, type FromAgent, type ToAgent } from "./messages.ts";
import { Session, warmUp } from "./session.ts";

/** The part of a worker's global object that is used, typed here because the page's library has the window's. */
interface Scope {
  postMessage(message: FromAgent): void;
  addEventListener(type: "message", listener: (event: { readonly data: ToAgent }) => void): void;
}
const scope = globalThis as unknown as Scope;
const send = (message: FromAgent): void => scope.postMessage(message);

/** The page's orders so far: each begins when the one before it is done. */
let work: Promise<void> = Promise.resolve();
let session: Session | null = null;
let preset: Preset | null = null;
/** Questions that came while the agent played, one after the other. */
let answered: Promise<void> = Promise.resolve();

scope.addEventListener("message", ({ data }) => {
  // A pause must reach the order under way, so it does not queue behind it; nor does a request for the log.
  if (data.kind === "pause") session?.pause();
  else if (data.kind === "tell") tell();
  else if (data.kind === "ask") ask(data);
  else
    work = work.then(() => perform(data)).catch((error: unknown) => send({ kind: "failed", message: textOf(error) }));
});

function tell(): void {
  const { step = 0, metrics = [], transcripts = [], summary = null } = session ?? {};
  send({ kind: "log", step, metrics, transcripts, ...(summary ? { summary } : {}) });
}

type Ask = Extract<ToAgent, { readonly kind: "ask" }>;

/** Answers a question between two steps while the agent plays, else after the orders before it. */
function ask(order: Ask): void {
  const inTurn = (): Promise<void> => (answered = answered.then(() => reply(order)));
  if (session?.isPlaying) void inTurn();
  else work = work.then(inTurn);
}

async function reply({ id, question }: Ask): Promise<void> {
  try {
    check(session !== null && preset !== null, () => "expected begin before a question");
    const { answer } = await import("./answers.ts");
    send({ kind: "answer", id, answer: await answer(question, session, preset) });
  } catch (error) {
    send({ kind: "refused", id, message: textOf(error) });
  }
}

async function perform(order: Exclude<ToAgent, { readonly kind: "pause" | "tell" | "ask" }>): Promise<void> {
  if (order.kind === "begin") return begin(order);
  const own = session;
  if (own === null) throw new Error("expected begin as the first message");
  if (order.kind === "goTo") await own.goTo(order.step);
  else await own.playTo(order.to);
  rest(own);
}

async function begin(order: Extract<ToAgent, { readonly kind: "begin" }>): Promise<void> {
  const { device, warm } = order;
  preset = order.preset;
  const executor = await makeDevice(device, { threads: threadsPerAgent() });
  const start = warm ?? (await warmUp(preset, executor, warming, new AbortController().signal))!;
  session = new Session(preset, start, executor, playing, (step, facts) => send({ kind: "knows", step, facts }));
  send({ kind: "ready", executor: executor.description, warm: start });
}

/** The agent's share of the processors if the page is isolated, so that threads can share memory; else 1. */
function threadsPerAgent(): number {
  const { crossOriginIsolated, navigator } = globalThis;
  return crossOriginIsolated ? Math.max(1, Math.floor(navigator.hardwareConcurrency / AGENTS)) : 1;
}

function rest(own: Session): void {
  const { step, metrics, summary } = own;
  send({ kind: "rests", step, metrics, ...(summary ? { after: summary.after } : {}) });
}

const silent: Observer = { phase() {}, update() {}, evaluation() {}, transcript() {}, note() {} };

let total = 0;
const warming: Observer = {
  ...silent,
  phase: (_, steps) => void (total = steps),
  update: (step) => send({ kind: "warming", step, total }),
};

const playing: Observer = {
  ...silent,
  update: (step, metrics) => send({ kind: "step", step, metrics }),
  evaluation: (step, score) => send({ kind: "evaluation", step, score }),
  transcript: (record) => send({ kind: "transcript", record }),
};

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
