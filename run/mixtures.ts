/**
 * Several environments in one run: `--env calculator+tools`, or with weights `--env calculator:3+tools:1`. The name of
 * such a mixture says what it is made of, so that settings, threads and workers need no more.
 */
import { UsageError } from "./usage.ts";

/** An environment in the name of a mixture. */
export interface MixturePart {
  readonly name: string;
  readonly weight: number;
}

/**
 * The environments that a name stands for: those of a mixture, or the one of this name.
 * @throws UsageError on a weight that is no number above 0, and on a name that is there twice
 */
export function partsOf(env: string): readonly MixturePart[] {
  if (!env.includes("+")) return [{ name: env, weight: 1 }];
  const parts = env.split("+").map((part) => {
    const [name = "", weight, ...more] = part.split(":");
    const isWeight = weight === undefined || (/^\d+(\.\d+)?$/.test(weight) && Number(weight) > 0);
    if (name !== "" && isWeight && more.length === 0) return { name, weight: Number(weight ?? 1) };
    throw new UsageError(`--env: expected names with weights above 0, as in calculator:3+tools:1, got "${env}"`);
  });
  const twice = parts.find(({ name }, i) => parts.findIndex((other) => other.name === name) !== i);
  if (twice !== undefined) throw new UsageError(`--env: ${twice.name} is there twice in "${env}"`);
  return parts;
}
