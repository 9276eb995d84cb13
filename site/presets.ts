/** Experiments that are worth a look, each an address: those that work, and those that a doctor can name. */
import type { FailureMode } from "../tools/doctor/diagnose.ts";

export interface PagePreset {
  readonly title: string;
  /** What is to be seen. */
  readonly about: string;
  /** The words of the experiment; "": what the page shows by itself. */
  readonly address: string;
  /** What the doctor finds in the first agent, and not in the second. */
  readonly disease?: FailureMode;
}

export const WORKING: readonly PagePreset[] = [
  {
    title: "The main job",
    about: "an unknown home; GRPO against GRPO + ECHO, as npm start has it",
    address: "",
  },
  { title: "A quick look", about: "every part in a few seconds; nothing is learnt", address: "quick=true" },
];

export const BROKEN: readonly PagePreset[] = [];

/** An address of `page` with these words. */
export const linkTo = ({ address }: PagePreset): string => (address === "" ? "?" : `?${address}`);
