/**
 * The table of attention's schedules by adapter and shape: the one place to change after a measurement. A schedule
 * depends on the adapter's features and on the shape only.
 *
 * H200, 2026-11-27 (`npm run bench -- attention`): GFLOP/s of causal shapes, by their queries in all (batch · queries ·
 * heads) and the queries and size of a head. Nothing was measured between 1,024 and 24,576 queries in all, for heads
 * above 64, or on another GPU.
 *
 * |                 | 1,024 (64 of 32) | 24,576 (2,048 of 64) | 32,768 (64 of 32) | 49,152 (512 of 64) |
 * | --------------- | ---------------: | -------------------: | ----------------: | -----------------: |
 * | forward         |                  |                      |                   |                    |
 * | `thread`        |               87 |                4,569 |             2,588 |              3,414 |
 * | `lanesSplit4`   |              537 |                4,512 |             1,660 |              4,171 |
 * | `split4chunk4`  |              466 |               10,158 |             3,473 |              9,355 |
 * | `tiled64chunk4` |              231 |               11,826 |             4,809 |             15,069 |
 * | backward        |                  |                      |                   |                    |
 * | `thread`        |               74 |                1,078 |             1,684 |              1,291 |
 * | `lanesChunk4`   |              287 |                7,014 |             2,517 |              6,384 |
 * | `lanesRows2`    |              210 |                9,088 |             2,760 |              8,533 |
 * | `split4`        |              221 |                5,585 |             2,539 |              5,029 |
 * | `tiled64`       |              135 |                4,528 |             2,868 |              6,390 |
 */
import type { AdapterProfile, AttentionClass, AttentionSchedule } from "../kernel.ts";

/** The schedules by name, for the table, benchmarks and tests. Those with lanes need subgroups. */
export const attentionSchedules: Readonly<Record<string, AttentionSchedule>> = {
  thread: { kind: "thread" },
  tiled64: { kind: "group" },
  tiled64chunk4: { kind: "group", chunk: 4 },
  split4: { kind: "group", splits: 4 },
  split4chunk4: { kind: "group", splits: 4, chunk: 4 },
  lanesChunk4: { kind: "group", lanes: 4, chunk: 4 },
  lanesRows2: { kind: "group", lanes: 4, rows: 2, chunk: 2 },
  lanesSplit4: { kind: "group", lanes: 4, splits: 4, chunk: 4 },
};

/** The owners of a walk (queries, or keys): in all, and of a head. */
interface Owners {
  readonly count: number;
  readonly owners: number;
  readonly headDim: number;
}

/** Below so many owners in all, more threads share each. A choice between the measurements at 1,024 and 24,576. */
const FEW = 8192;
/** The same for `split4` against `tiled64`, which cross between the measurements at 24,576 and 32,768. */
const FEW_UNDIVIDED = 32768;
/** A workgroup of 64 threads, one for each owner of a head, is mostly idle for so few. Not measured. */
const SHORT = 16;
/**
 * Above this size of a head, a thread with a query of its own has two arrays of the head, over 128 floats, in registers
 * forward, as one has three or four of 64 backward. It must not take four others at a time then: backward, on 49,152
 * queries, `tiled64chunk4` had 1,222 and `tiled64` 6,390. Lanes with two rows have as many backward. Larger heads were
 * not measured.
 */
const LONG = 64;

/** The schedule of a walk: the profile's, if it names one, else the one that was measured, else the table's. */
export function chooseSchedule(pass: "forward" | "backward", walk: Owners, profile: AdapterProfile): AttentionSchedule {
  if (profile.attention !== undefined) return profile.attention;
  const name = classOf(pass, walk, profile);
  const measured = name && profile.schedules?.attention[name];
  return measured ?? attentionSchedules[tableSchedule(pass, walk, profile)]!;
}

/**
 * The class of a walk, for schedules that are measured; undefined for heads of few owners, or large, which always have
 * the table's. Software adapters have one class for each pass.
 */
export function classOf(
  pass: "forward" | "backward",
  { count, owners, headDim }: Owners,
  { schedule }: AdapterProfile,
): AttentionClass | undefined {
  if (schedule === "software") return `${pass}/few`;
  if (owners <= SHORT || headDim > LONG) return undefined;
  return `${pass}/${count < FEW ? "few" : "many"}`;
}

/** Whether groups of four threads exchange parts of a head on this adapter: see `tableSchedule`. */
export const hasLanes = ({ adapter, features = [] }: AdapterProfile): boolean =>
  adapter === "nvidia" && features.includes("subgroups");

/**
 * The name of the table's schedule of a walk. Four lanes divide heads of whole quads of `vec4f`. They exchange by quad
 * operations, and WGSL does not promise that a quad is four neighbours of `local_invocation_index`: lanes are only for
 * drivers on which that was seen.
 */
export function tableSchedule(
  pass: "forward" | "backward",
  { count, owners, headDim }: Owners,
  profile: AdapterProfile,
): string {
  if (profile.schedule === "software") return "thread";
  const lanes = hasLanes(profile) && headDim % 16 === 0;
  const [few, short, long] = [count < FEW, owners <= SHORT, headDim > LONG];
  if (pass === "forward") {
    if (lanes && few) return "lanesSplit4";
    if (!long) return few || short ? "split4chunk4" : "tiled64chunk4";
  }
  if (lanes) return few || short || (long && pass === "backward") ? "lanesChunk4" : "lanesRows2";
  return short || count < FEW_UNDIVIDED ? "split4" : "tiled64";
}
