/**
 * A rollout worker from the inside: it is sent policies and episodes, plays them with continuous batching, and hands every episode over the
 * moment it is over. It knows nothing of groups, steps or other workers.
 *
 * A new policy is taken between two tokens, at once: an episode may hold tokens of several versions, each marked with its own.
 * Pinned episodes are the exception: a policy that comes after them waits until they are over.
 */
import { fail } from "../../engine/errors.ts";
import { type Device, outsideScopes, treeLeaves, zeros } from "../../engine/index.ts";
import type { Model, ModelConfig } from "../../nn/index.ts";
import { buildParams } from "../../nn/parameters.ts";
import type { EnvironmentSpec } from "../../environments/index.ts";
import type { Player } from "../play/player.ts";
import { playerFor, type RolloutOptions } from "../play/rollout.ts";
import type { Template } from "../episode/template.ts";
import { type FromWorker, installPolicy, type Job, requestOf, type ToWorker } from "./messages.ts";

/** What a worker needs to play. */
export interface ServerOptions {
  readonly config: ModelConfig;
  /** Its own copy of the weights lives here. */
  readonly device: Device;
  readonly template: Template;
  readonly rollout: RolloutOptions;
  /** Episodes at a time that are to be expected. */
  readonly rows: number;
  /** The environment of a name, for requests that came as plain data. */
  readonly environment?: (name: string) => EnvironmentSpec;
}

/** A player of one way of sampling, and whether its loop runs. */
interface Table {
  readonly player: Player;
  /** Resolves when the loop has ended. */
  running: Promise<void> | undefined;
}

export class RolloutServer {
  readonly #options: ServerOptions;
  readonly #reply: (message: FromWorker) => void;
  readonly #model: Model;
  readonly #closed = new AbortController();
  readonly #inbox: ToWorker[] = [];
  readonly #tables = new Map<string, Table>();
  #version = -1;
  /** Pinned episodes that are not over. */
  #pinned = 0;

  constructor(options: ServerOptions, reply: (message: FromWorker) => void) {
    const { config, device } = options;
    this.#options = options;
    this.#reply = reply;
    const params = outsideScopes(() => buildParams(config, (shape) => zeros(shape, { device, dtype: device.float })));
    this.#model = { config, params };
  }

  receive(message: ToWorker): void {
    this.#inbox.push(message);
    this.#guard(() => this.#advance());
  }

  /** Stops playing. Resolves when nothing is in use any more; nothing is said after this call. */
  async close(): Promise<void> {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort(new Error("the rollout worker was stopped"));
    await Promise.all([...this.#tables.values()].map(({ running }) => running ?? Promise.resolve()));
    for (const { player } of this.#tables.values()) player.dispose();
    for (const x of treeLeaves(this.#model.params)) x.dispose();
  }

  #advance(): void {
    for (let message = this.#inbox[0]; message !== undefined; message = this.#inbox[0]) {
      if (message.kind === "policy" && this.#pinned > 0) return;
      this.#inbox.shift();
      if (message.kind === "policy") {
        installPolicy(this.#model, message.policy);
        this.#version = message.policy.version;
        for (const { player } of this.#tables.values()) player.refresh(this.#version);
      } else for (const job of message.jobs) this.#begin(job);
    }
  }

  #begin(job: Job): void {
    const { id, sampling, pinned } = job;
    const { environment = (name: string): never => fail(`rollout worker: no environment is known as "${name}"`) } = this.#options; // prettier-ignore
    const request = requestOf(job, environment);
    const table = this.#tableFor(sampling);
    if (pinned) this.#pinned++;
    table.player.add(request, (trajectory) => {
      if (this.#closed.signal.aborted) return;
      this.#reply({ kind: "episode", id, trajectory });
      if (!pinned) return;
      this.#pinned--;
      this.#guard(() => this.#advance());
    });
    table.running ??= this.#run(table);
  }

  /** The player of this way of sampling. Those of others that have nothing to do are done with. */
  #tableFor(sampling: Job["sampling"]): Table {
    const key = JSON.stringify(sampling);
    const known = this.#tables.get(key);
    if (known) return known;
    for (const [other, { running, player }] of this.#tables) {
      if (running !== undefined) continue;
      player.dispose();
      this.#tables.delete(other);
    }
    const { template, rollout, rows } = this.#options;
    const options: RolloutOptions = { ...rollout, ...sampling, version: this.#version, signal: this.#closed.signal };
    const table: Table = { player: playerFor(this.#model, template, options, rows), running: undefined };
    this.#tables.set(key, table);
    return table;
  }

  async #run(table: Table): Promise<void> {
    try {
      // Whoever adds an episode sees `running` and starts no second loop; so look again before it is taken away.
      while (table.player.hasWork) await table.player.run();
    } catch (error) {
      this.#fail(error);
    } finally {
      table.running = undefined;
    }
  }

  #guard(work: () => void): void {
    try {
      if (!this.#closed.signal.aborted) work();
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (this.#closed.signal.aborted) return;
    this.#reply({ kind: "failed", message: error instanceof Error ? error.message : String(error) });
  }
}
