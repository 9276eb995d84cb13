/** The kinds of given actions that a worker elsewhere knows (`EpisodeRequest.given`): those of the plug-ins here. */
import { check } from "../engine/errors.ts";
import type { EpisodeRequest, GivenActions } from "../rl/play/episode.ts";
import { withPrefix } from "./expertPrefix.ts";
import { explored } from "./exploration.ts";

/** ε-tool exploration by the random baseline, or the expert's first `length` actions. */
export type KnownActions =
  { readonly kind: "explore"; readonly epsilon: number } | { readonly kind: "expertPrefix"; readonly length: number };

const KINDS = ["explore", "expertPrefix"];
const isKnown = (given: GivenActions): given is KnownActions => KINDS.includes(given.kind);

/** @throws if a plug-in from outside gives actions of another kind */
export function knownActions(given: readonly GivenActions[]): KnownActions[] {
  return given.map((actions) => {
    const fits = isKnown(actions);
    check(fits, () => `given actions of the kind "${actions.kind}": a worker elsewhere knows ${KINDS.join(" and ")}`);
    return actions;
  });
}

/** The request with these actions given, too. */
export const withActions = (request: EpisodeRequest, actions: KnownActions): EpisodeRequest =>
  actions.kind === "expertPrefix" ? withPrefix(request, actions.length) : explored(request, actions.epsilon);
