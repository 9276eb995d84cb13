/** The learner's policies at the server: an object for each version, and the entry that names the newest. */
import { fail } from "../../engine/errors.ts";
import type { Policy } from "../async/messages.ts";
import { type Link, sha256 } from "./connection.ts";
import { policyToJson, weightsToBytes } from "./protocol.ts";
import type { Queue } from "./queue.ts";

/** The object with a version's weights. */
export interface Published {
  readonly object: string;
  readonly sha256: string;
}

/** The number of versions whose hashes a checkpoint keeps; episodes of older versions are too stale for any bound. */
const REMEMBERED = 64;

/** The published policies of a run. */
export class Policies {
  readonly #published = new Map<number, Published>();
  /** The hashes of this run's weights, also of versions before the checkpoint. */
  readonly #lineage = new Map<number, string>();

  /** The state for a checkpoint: versions with their hashes. */
  get state(): readonly (readonly [number, string])[] {
    return [...this.#lineage].slice(-REMEMBERED);
  }

  restore(state: readonly unknown[]): void {
    for (const entry of state) {
      const [version, hash] = entry as readonly [number, string];
      this.#lineage.set(version, hash);
    }
  }

  /** The hash of the weights that this run has, or had, as this version. */
  hashOf(version: number): string | undefined {
    return this.#lineage.get(version);
  }

  find(version: number): Published {
    return this.#published.get(version) ?? fail(`nats: version ${version} is not published`);
  }

  /** Publishes the object, then the entry that names it. */
  async publish(
    link: Link,
    { weights, policy: entries }: Queue,
    policy: Policy,
    learner: { readonly run: string; readonly life: number; readonly configuration: string; readonly setup: string },
  ): Promise<void> {
    const { version } = policy;
    const bytes = weightsToBytes(policy);
    const made = { object: `${learner.run}.${learner.life}.${version}`, sha256: sha256(bytes) };
    await link.insist(`weights of version ${version}`, () => weights.putBlob({ name: made.object }, bytes));
    this.#published.set(version, made);
    this.#lineage.set(version, made.sha256);
    await link.insist("the policy", () => entries.put("policy", policyToJson({ version, ...made, ...learner })));
  }

  /**
   * Removes the versions below `newest` that nothing needs. The one before the newest stays for workers that are
   * reading it.
   * @returns the objects to delete
   */
  prune(newest: number, needed: ReadonlySet<number>): readonly string[] {
    const objects: string[] = [];
    for (const [version, { object }] of this.#published) {
      if (version === newest || version === newest - 1 || needed.has(version)) continue;
      this.#published.delete(version);
      objects.push(object);
    }
    return objects;
  }
}
