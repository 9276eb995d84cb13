/** What the worlds with a real bash have in common: sessions, lines, endings. It is loaded with the first episode. */
import { fail, reasonOf } from "../../engine/errors.ts";
import type { Episode, GameTask, Move, SettledOptions } from "../../environments/index.ts";
import { type Ending, render } from "../../environments/terminal/shared.ts";
import type { SandboxLimits } from "../sandbox/bubblewrap.ts";
import { type FileTree, makeFiles, readFiles } from "../sandbox/files.ts";
import { Session } from "../sandbox/session.ts";
import type { FoundFiles } from "./found.ts";
import type { BASH } from "./options.ts";

/** A task in a sandbox. */
export interface BashTask extends GameTask {
  /** The files at first. */
  readonly files: FileTree;
  /** The files of another machine, if its answers are shown (`answers`). */
  readonly others?: FileTree;
  /** The expert's commands, the last of which ends the episode. */
  readonly plan: readonly string[];
  /** Whether the task is solved if the agent ends the episode like this, with these files. */
  readonly verify: (ending: Ending, found: FoundFiles) => boolean;
}

/** The state of an episode; actions change it, and nobody copies it. */
export interface BashState {
  readonly session: Session;
  /** The machine whose answers are shown instead, if there is one. */
  readonly other?: Session;
  /** The number of the plan's commands that have been run. */
  planned: number;
}
type BashEpisode<Task extends BashTask> = Episode<typeof BASH, Task, BashState>;

/** Throws in one line if no sandbox can be started here. @param name of the environment */
export async function checkSandbox(name: string, options: SettledOptions<typeof BASH>): Promise<void> {
  let session: Session | undefined;
  try {
    session = new Session(options);
    await makeFiles(session, new Map());
  } catch (error) {
    fail(
      `${name}: ${reasonOf(error)}; it needs bubblewrap from 0.8 on, util-linux, bash and user namespaces ` +
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

/** Runs a line, or ends the episode. */
export async function play<Task extends BashTask>(
  { task, state, options }: BashEpisode<Task>,
  action: string,
): Promise<Move<BashState>> {
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

/** Starts the sandbox of a task, and that of the other machine if there is one. */
export async function start({ files, others }: BashTask, options: SandboxLimits): Promise<BashState> {
  const session = await begun(files, options);
  if (others === undefined) return { session, planned: 0 };
  try {
    return { session, other: await begun(others, options), planned: 0 };
  } catch (error) {
    session.close();
    throw error;
  }
}

/** The expert's next line. */
export const planned = ({ task: { plan }, state }: BashEpisode<BashTask>): string => plan[state.planned] ?? "done";

/** Ends the sandboxes. */
export function close({ session, other }: BashState): void {
  session.close();
  other?.close();
}
