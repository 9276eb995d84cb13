/**
 * The data inside report.html: the metric lines, and the transcripts with every distinct token text stored once. Each
 * render.ts writes it and each page.ts reads it; this file has both directions of the format.
 */
import { fail } from "../../engine/errors.ts";
import type { Knower } from "./factMap.ts";
import {
  decodeMetrics,
  encodeMetrics,
  packTranscript,
  unpackTranscript,
  type MetricsRecord,
  type PackedTranscript,
  type Transcript,
} from "../records.ts";

type SharedTranscript = Omit<PackedTranscript, "tokens"> & {
  readonly tokens: Omit<PackedTranscript["tokens"], "texts"> & { readonly texts: readonly number[] };
};

interface Embedded {
  readonly metrics: readonly string[];
  readonly texts: readonly string[];
  readonly transcripts: readonly SharedTranscript[];
  readonly knowers?: readonly Knower[];
}

/**
 * The data as the page uses it. Transcripts are unpacked one at a time: there may be hundreds, and only one is shown.
 */
export interface ReportData {
  readonly metrics: readonly MetricsRecord[];
  readonly transcripts: readonly TranscriptHandle[];
  /** What is known of the world, for the map of facts; empty if it has none that can be asked for. */
  readonly knowers: readonly Knower[];
}

export interface TranscriptHandle extends Omit<Transcript, "tokens"> {
  readonly length: number;
  open(): Transcript;
}

/** The report's data for its page. @param knowers what is shown in the map of facts; none: there is no map */
export function encodeReportData(
  metrics: readonly MetricsRecord[],
  transcripts: readonly Transcript[],
  knowers: readonly Knower[] = [],
): string {
  const indices = new Map<string, number>();
  const share = (text: string): number => {
    const known = indices.get(text) ?? indices.size;
    indices.set(text, known);
    return known;
  };
  const shared = transcripts.map((transcript): SharedTranscript => {
    const packed = packTranscript(transcript);
    return { ...packed, tokens: { ...packed.tokens, texts: packed.tokens.texts.map(share) } };
  });
  const embedded: Embedded = {
    metrics: metrics.map(encodeMetrics),
    texts: [...indices.keys()],
    transcripts: shared,
    ...(knowers.length > 0 && { knowers }),
  };
  return embedJson(embedded);
}

/**
 * JSON that can stand inside `<script type="application/json">`. Without `<` there is no `</script>` and no `<!--`,
 * whatever a model wrote. U+2028 and U+2029 are escaped, too, for tools that read JSON as JavaScript.
 */
export function embedJson(value: unknown): string {
  const escapes: Readonly<Record<string, string>> = { "<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029" };
  return JSON.stringify(value).replace(/[<\u2028\u2029]/g, (char) => escapes[char] ?? "");
}

/** The inverse of `encodeReportData`. */
export function decodeReportData(json: string): ReportData {
  const { metrics, texts, transcripts, knowers = [] } = JSON.parse(json) as Embedded;
  return {
    metrics: metrics.map(decodeMetrics),
    knowers,
    transcripts: transcripts.map((shared): TranscriptHandle => {
      const { tokens, ...head } = shared;
      return {
        ...head,
        reward: Number(head.reward),
        length: tokens.ids.length,
        open: () =>
          unpackTranscript({
            ...head,
            tokens: { ...tokens, texts: tokens.texts.map((i) => texts[i] ?? fail(`report data: no text ${i}`)) },
          }),
      };
    }),
  };
}
