/**
 * Several environments as one, so that a run trains one agent in all of them. Each episode is one of them, drawn by the
 * episode's seed; so all tries of a group play the same task.
 *
 * The families of a mixture are its environments: tables, curricula and advantages by family tell them apart, and the
 * option `families` chooses among them. An agent is not told which environment it is in, beyond what the task says.
 */
import { check } from "../engine/errors.ts";
import type { Option } from "../engine/optionTable.ts";
import { Rng } from "../engine/random.ts";
import { showValue } from "../engine/options.ts";
import {
  type CallLimits,
  type CallOptions,
  type EndResult,
  type Environment,
  type EnvironmentOptions,
  type FamilyInfo,
  type NoviceMove,
  type OutsideEnd,
  SingleUseEnvironment,
  type StepInfo,
  type StepResult,
} from "../rl/environment.ts";
import type { FactWorld } from "./facts/questions.ts";
import { COMMON_OPTIONS, settleOptions } from "./options.ts";
import { selectFamilies } from "./selection.ts";

/** An environment of a mixture. */
export interface MixtureMember {
  readonly spec: FactWorld;
  /** Its share of the episodes, in proportion to the others' weights: more than 0. Default 1. */
  readonly weight?: number;
  /** Its name in the mixture, of letters, digits, `_` and `-`. Default: its own. */
  readonly name?: string;
}

interface Member extends FamilyInfo {
  readonly spec: FactWorld;
  readonly weight: number;
}

/** Options of a mixture: `split`, `families`, and the environments' own as `NAME.OPTION`. */
export type MixtureOptions = EnvironmentOptions & Readonly<Record<string, unknown>>;

/**
 * The environments as one. The info of its episodes has the environment's name, as `environment` and as `family`, and
 * the family there as `ownFamily`.
 *
 * It has an expert, or thoughts, if all of them have; it has a novice if one has, and random players are the novices of
 * the others. It has no `achieved`, since the text of an episode does not say where it was played. A call may take as
 * long as the slowest of them may.
 *
 * @throws WorldgradError on no environment, on two of one name, on a weight that is not positive
 * @example
 * export default mixture("both", [{ spec: calculator, weight: 2 }, { spec: mine }]);
 */
export function mixture(name: string, given: readonly MixtureMember[]): FactWorld<MixtureOptions> {
  const members = given.map((member) => memberOf(name, member));
  const names = members.map((member) => member.name);
  check(members.length > 0, () => `mixture ${name}: expected at least one environment`);
  const twice = names.find((one, i) => names.indexOf(one) !== i);
  check(twice === undefined, () => `mixture ${name}: "${twice!}" is there twice; give one of them another name`);
  const own = Object.fromEntries(members.flatMap(optionsOf));

  /** The options of a member: its own, and the mixture's split. */
  const optionsFor = (member: Member, options: MixtureOptions = {}): EnvironmentOptions => ({
    ...(options.split === undefined ? {} : { split: options.split }),
    ...Object.fromEntries(
      Object.entries(options).flatMap(([key, value]) =>
        key.startsWith(`${member.name}.`) ? [[key.slice(member.name.length + 1), value]] : [],
      ),
    ),
  });
  const selected = (options: MixtureOptions = {}): readonly Member[] => {
    const settled = settleOptions(name, own, options);
    check(
      settled.levels === undefined || settled.levels[0] <= 1,
      () => `${name}: levels are those of its environments, as in ${names[0]}.levels`,
    );
    return selectFamilies(name, members, settled);
  };
  /** What the members that have such a function say, each asked with its own options. */
  const ask = <T>(options: MixtureOptions | undefined, of: (spec: FactWorld, own: EnvironmentOptions) => T): T[] =>
    selected(options).map((member) => of(member.spec, optionsFor(member, options)));
  const some = (has: keyof FactWorld): boolean => members.some(({ spec }) => spec[has] !== undefined);
  const all = (has: keyof FactWorld): boolean => members.every(({ spec }) => spec[has] !== undefined);

  const live = (env: Environment, asked: string): { member: Member; env: Environment } => {
    check(
      env instanceof Mixed && env.drawn.members === members,
      () => `${name}.${asked}: expected an episode of ${name}, got "${env.name}"`,
    );
    return env.played;
  };
  const random = (rng: Rng, task?: string, options?: MixtureOptions, env?: Environment): string => {
    const chosen = env === undefined ? draw(rng, selected(options)) : live(env, "random").member;
    return chosen.spec.random(rng, task, optionsFor(chosen, options), env && live(env, "random").env);
  };

  return {
    name,
    description: ["one of several", ...members.map((one) => `${one.name}: ${one.description}`)].join("; "),
    families: members.map(({ name: one, level, description }) => ({ name: one, level, description })),
    options: { ...COMMON_OPTIONS, ...own },
    make(options = {}) {
      const chosen = selected(options);
      // An option that an environment refuses is refused here, not in the first episode that is one of its own.
      for (const member of chosen) member.spec.make(optionsFor(member, options)).close?.();
      return new Mixed(name, { members, chosen, options, make: (one) => one.spec.make(optionsFor(one, options)) });
    },
    random,
    ...(all("expert") && {
      expert(env: Environment) {
        const { member, env: world } = live(env, "expert");
        return member.spec.expert!(world);
      },
    }),
    ...(some("novice") && {
      novice(env: Environment, rng: Rng, turn: number, task: string): NoviceMove {
        const { member, env: world } = live(env, "novice");
        if (member.spec.novice) return member.spec.novice(world, rng, turn, task);
        return { action: random(rng, task, (env as Mixed).drawn.options, env), isGuess: true };
      },
    }),
    ...(all("thoughts") && {
      thoughts(env: Environment, rng: Rng) {
        const { member, env: world } = live(env, "thoughts");
        return member.spec.thoughts!(world, rng);
      },
    }),
    ...(some("atOnce") && {
      atOnce: (options?: MixtureOptions) =>
        Math.min(...ask(options, (spec, theirs) => spec.atOnce?.(theirs) ?? Infinity)),
    }),
    ...(some("limits") && {
      limits: (options?: MixtureOptions) => longest(ask(options, (spec, theirs) => spec.limits?.(theirs) ?? {})),
    }),
    ...(some("check") && {
      async check(options?: MixtureOptions) {
        for (const asked of ask(options, (spec, theirs) => () => spec.check?.(theirs))) await asked();
      },
    }),
    ...(some("fingerprint") && {
      fingerprint: async (options?: MixtureOptions) =>
        (await Promise.all(ask(options, async (spec, theirs) => spec.fingerprint?.(theirs) ?? ""))).join("+"),
    }),
    ...(some("facts") && {
      facts: async (options?: MixtureOptions) =>
        (await Promise.all(ask(options, async (spec, theirs) => spec.facts?.(theirs) ?? []))).flat(),
    }),
  };
}

function memberOf(where: string, { spec, weight = 1, name = spec.name }: MixtureMember): Member {
  const isName = typeof name === "string" && /^[\w-]+$/.test(name);
  check(isName, () => `mixture ${where}: a name must be of letters, digits, "_" and "-", got ${showValue(name)}`);
  check(
    Number.isFinite(weight) && weight > 0,
    () => `mixture ${where}: the weight of ${name} must be a number above 0, got ${showValue(weight)}`,
  );
  return { spec, weight, name, level: 1, description: spec.description };
}

/** The options of a member as the mixture's; its split is the mixture's own. */
function optionsOf({ name, spec }: Member): [string, Option<unknown>][] {
  const { split: _, ...own } = spec.options ?? COMMON_OPTIONS;
  return Object.entries(own).map(([option, about]) => [`${name}.${option}`, about]);
}

/** A member by its weight. */
function draw(rng: Rng, among: readonly Member[]): Member {
  let left = rng.uniform() * among.reduce((sum, { weight }) => sum + weight, 0);
  return among.find(({ weight }) => (left -= weight) < 0) ?? among.at(-1)!;
}

/** Of each kind of call the longest time that one of them names. */
function longest(limits: readonly CallLimits[]): CallLimits {
  const kinds = ["reset", "step", "end"] as const;
  return Object.fromEntries(
    kinds.flatMap((kind) => {
      const named = limits.flatMap((limit) => limit[kind] ?? []);
      return named.length === 0 ? [] : [[kind, Math.max(...named)]];
    }),
  );
}

/** What the episodes of a mixture are drawn from. */
interface Drawn {
  readonly members: readonly Member[];
  /** Those that the options choose. */
  readonly chosen: readonly Member[];
  readonly options: MixtureOptions;
  make(member: Member): Environment;
}

/** An episode of one of the environments; its seed says of which. */
class Mixed extends SingleUseEnvironment {
  readonly name: string;
  readonly drawn: Drawn;
  #played: { readonly member: Member; readonly env: Environment } | undefined;
  #isClosed = false;
  clone?: (seed?: number) => Environment;

  constructor(name: string, drawn: Drawn) {
    super();
    this.name = name;
    this.drawn = drawn;
  }

  /** The episode and its environment. @throws before reset */
  get played(): { readonly member: Member; readonly env: Environment } {
    check(this.#played !== undefined, () => `${this.name}: the episode has no task yet; call reset first`);
    return this.#played;
  }

  get info(): StepInfo {
    return this.#told(this.played.env.info);
  }

  protected async begin(seed: number, signal?: AbortSignal): Promise<string> {
    const member = draw(new Rng(seed).split("mixture"), this.drawn.chosen);
    const env = this.drawn.make(member);
    this.#take({ member, env });
    return env.reset(seed, withSignal(signal));
  }

  protected async act(action: string, signal?: AbortSignal): Promise<StepResult> {
    const result = await this.played.env.step(action, withSignal(signal));
    return { ...result, info: this.#told(result.info) };
  }

  protected override async finish(reason: OutsideEnd, signal?: AbortSignal): Promise<EndResult | undefined> {
    const result = await this.played.env.end?.(reason, withSignal(signal));
    return result?.info === undefined ? result : { ...result, info: this.#told(result.info) };
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#played?.env.close?.();
  }

  #take(played: { readonly member: Member; readonly env: Environment }): void {
    this.#played = played;
    const { member, env } = played;
    // Whoever asks for a clone looks whether there is such a method.
    if (!env.clone) return;
    this.clone = (seed) => {
      const copy = new Mixed(this.name, this.drawn);
      copy.resumeFrom(this);
      copy.#take({ member, env: env.clone!(seed) });
      return copy;
    };
  }

  #told(info: StepInfo = {}): StepInfo {
    const { name, level } = this.played.member;
    const { family } = info;
    return { ...info, environment: name, family: name, level, ...(family === undefined ? {} : { ownFamily: family }) };
  }
}

const withSignal = (signal: AbortSignal | undefined): CallOptions => (signal ? { signal } : {});
