/** The answers of `shell`: a real bash in a sandbox. It is loaded with the first episode, and in Node only. */
import { fail, reasonOf } from "../../engine/errors.ts";
import type { Episode, FamilyInfo, GameRules, Move, SettledOptions } from "../../environments/index.ts";
import { type Ending, render, rules as ofTerminal } from "../../environments/terminal/shared.ts";
import { type FileTree, makeFiles, readFiles } from "../sandbox/files.ts";
import type { SandboxLimits } from "../sandbox/bubblewrap.ts";
import { Session } from "../sandbox/session.ts";
import type { FamilyName } from "./families.ts";
import type { SHELL } from "./options.ts";
import { makeTask, type ShellTask } from "./tasks.ts";

/** The state of an episode; actions change it, and nobody copies it. */
interface ShellState {
  readonly session: Session;
  /** The machine whose answers are shown instead, if there is one. */
  readonly other?: Session;
  /** The number of the plan's commands that have been run. */
  planned: number;
}
type ShellEpisode = Episode<typeof SHELL, ShellTask, ShellState>;

/** Throws in one line if no sandbox can be started here. */
export async function checkSandbox(options: SettledOptions<typeof SHELL>): Promise<void> {
  let session: Session | undefined;
  try {
    session = new Session(options);
    await makeFiles(session, new Map());
  } catch (error) {
    fail(
      `shell: ${reasonOf(error)}; it needs bubblewrap from 0.8 on, util-linux, bash and user namespaces ` +
        "(docs/shell.md)",
    );
  } finally {
    session?.close();
  }
}

/** The agent's ending of the episode, if the line is one: `answer TEXT`, or `done`. */
export function endingOf(line: string): Ending | undefined {
  if (line === "done") return { kind: "done", text: "" };
  const text = /^answer\s+(.*)$/s.exec(line)?.[1];
  return text === undefined ? undefined : { kind: "answer", text: text.replace(/^(["'])(.*)\1$/s, "$2") };
}

async function play({ task, state, options }: ShellEpisode, action: string): Promise<Move<ShellState>> {
  // As in a terminal: the return key is a line end, and NUL is nothing.
  const line = action.replaceAll("\0", "").replaceAll("\r\n", "\n").trim();
  if (line === task.plan[state.planned]) state.planned++;
  const { session } = state;
  if (line === "answer") return { observation: "usage: answer TEXT\n[exit 2]", failed: true, info: { exitCode: 2 } };
  const ending = endingOf(line);
  if (ending !== undefined) {
    const found = await readFiles(session);
    const isSolved = found !== undefined && task.verify(ending, found);
    return { observation: "", ending: { kind: ending.kind, score: isSolved ? 1 : 0 }, info: { exitCode: 0 } };
  }
  const limits = { seconds: options.seconds, outputBytes: OUTPUT_BYTES };
  const [own, shown] = await Promise.all([session.run(line, limits), state.other?.run(line, limits)]);
  const { output, code, problem } = own.problem === "gone" ? own : (shown ?? own);
  if (problem === "gone") {
    // An agent can bring this about, so it is the end of its episode, and not the end of the world.
    return { observation: "[the shell is gone]", failed: true, ending: { kind: "broken", score: 0 } };
  }
  const text = render(output, code ?? 0, options.maxOutput);
  const note = problem === undefined ? [] : [`[${problem}]`];
  return {
    observation: [...(text === "" ? [] : [text]), ...note].join("\n"),
    failed: code !== 0,
    info: { exitCode: code ?? -1 },
  };
}

/** A session with these files. @throws WorldgradError with the sandbox's own error */
async function begun(files: FileTree, limits: SandboxLimits): Promise<Session> {
  const session = new Session(limits);
  try {
    await makeFiles(session, files);
    return session;
  } catch (error) {
    session.close();
    throw error;
  }
}

/** Bytes of output that are kept for `maxOutput` characters to be cut from. */
const OUTPUT_BYTES = 2 ** 16;

export const rules: GameRules<typeof SHELL, FamilyInfo & { readonly name: FamilyName }, ShellTask, ShellState> = {
  makeTask(rng, family, options) {
    const task = makeTask(rng, family, options);
    if (options.answers === "own") return task;
    const { files } = makeTask(rng.split("another machine"), family, options);
    return { ...task, others: files };
  },
  async start({ files, others }, options) {
    const session = await begun(files, options);
    if (others === undefined) return { session, planned: 0 };
    try {
      return { session, other: await begun(others, options), planned: 0 };
    } catch (error) {
      session.close();
      throw error;
    }
  },
  play,
  expert: ({ task: { plan }, state: { planned } }) => plan[planned] ?? "done",
  random: (rng, task, options) => ofTerminal.random(rng, task, { ...options, formatWeight: 0 }),
  close({ session, other }) {
    session.close();
    other?.close();
  },
};
