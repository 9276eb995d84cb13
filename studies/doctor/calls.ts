/** Detectors that read the policy's calls in the transcripts: calls that do not exist, and calls that are repeated. */
import {
  type Call,
  callsOf,
  commonest,
  describe,
  type Finding,
  laterEpisodes,
  percent,
  quote,
  type RunLog,
} from "./run.ts";
import type { Transcript } from "../../run/records.ts";

/** Least number of bad calls to report. */
const MIN_CALLS = 5;

interface Sighting extends Call {
  readonly episode: Transcript;
}

/**
 * Number of a run's later calls, and those for which `isBad` holds, which also gets the episode's earlier calls.
 */
function badCalls(
  run: RunLog,
  isBad: (call: Call, before: readonly Call[]) => boolean,
): { readonly all: number; readonly bad: readonly Sighting[] } {
  const perEpisode = laterEpisodes(run).map((episode) => ({ episode, calls: callsOf(episode) }));
  return {
    all: perEpisode.reduce((sum, { calls }) => sum + calls.length, 0),
    bad: perEpisode.flatMap(({ episode, calls }) =>
      calls.flatMap((call, i) => (isBad(call, calls.slice(0, i)) ? [{ ...call, episode }] : [])),
    ),
  };
}

/** Answers of environments to a name that they do not know: shells (exit code 127), function-calling harnesses. */
const NO_SUCH_TOOL = [
  /command not found|\[exit 127\]/i,
  /\b(unknown|unrecognized|no such|invalid) (tool|function|command|action)\b/i,
  /\b(tool|function)\b.{0,40}\b(does not exist|not found)\b/i,
];
/** Share of unknown calls to report. A shell agent that explores makes a few per cent (6 % in the main job). */
const UNKNOWN_SHARE = 0.2;

/** The policy calls tools that the environment does not have. */
export function unknownTools(run: RunLog): Finding | null {
  const { all, bad } = badCalls(run, ({ answer }) => NO_SUCH_TOOL.some((pattern) => pattern.test(answer)));
  if (bad.length < MIN_CALLS || bad.length < UNKNOWN_SHARE * all) return null;
  const name = commonest(bad.map(({ call }) => call.split(/\s/)[0]!))!;
  const { episode } = bad[0]!;
  return {
    kind: "problem",
    step: episode.step,
    evidence: [
      `${bad.length} of ${all} calls in the later transcripts (${percent(bad.length / all)}) name a tool that ` +
        `does not exist; the most frequent is ${quote(name[0])}, ${name[1]} times`,
      describe(episode),
    ],
    change: [
      "list the tools in the task's text, as the policy reads it",
      "show every tool in the demonstrations of the warm start, or warm-start for longer",
      "a small penalty for each unknown tool, capped (−0.3 is usual), next to the reward of the outcome",
    ],
  };
}

/** Share of repeated calls to report. */
const REPEATED_SHARE = 0.2;

/**
 * The policy repeats a call of the episode and gets the same answer: it does not read answers, or cannot react to them.
 */
export function repeatedCalls(run: RunLog): Finding | null {
  const same = (a: Call, b: Call): boolean => a.call === b.call && a.answer === b.answer;
  const { all, bad } = badCalls(run, (call, before) => before.some((other) => same(call, other)));
  if (bad.length < MIN_CALLS || bad.length < REPEATED_SHARE * all) return null;
  const most = commonest(bad.map(({ call }) => call))!;
  const { episode } = bad[0]!;
  return {
    kind: "problem",
    step: episode.step,
    evidence: [
      `${bad.length} of ${all} calls in the later transcripts (${percent(bad.length / all)}) repeat an earlier ` +
        `call of the episode and get the same answer; the most frequent is ${quote(most[0])}, ${most[1]} times`,
      describe(episode),
    ],
    change: [
      "a small penalty for each duplicate in a row, capped (−0.05 is usual)",
      "see that answers reach the policy: are they cut too short, or the same for every mistake?",
      "demonstrations that recover from a mistake, so that there is something else to do",
    ],
  };
}
