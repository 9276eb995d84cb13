/**
 * The inside of a rollout worker: it receives policies and episodes, plays them with continuous batching, and returns
 * every episode as soon as it is over. It knows nothing of groups, steps or other workers.
 *
 * A new policy is installed at once, between two tokens, so an episode may have tokens of several versions; each token
 * records its version. While pinned episodes are being played, new policies wait until these are over.
 */
import { fail } from "../../engine/errors.ts";
import { type Device, mapTree, outsideScopes, treeLeaves, zeros, zerosLike } from "../../engine/index.ts";
import { type Model, type ModelConfig, trainableOf } from "../../nn/index.ts";
import { buildParams } from "../../nn/parameters.ts";
import type { EnvironmentSpec } from "../../rl/environment.ts";
import type { Player } from "../../rl/play/player.ts";
import { playerFor, type RolloutOptions } from "../../rl/play/rollout.ts";
import type { Template } from "../../rl/episode/template.ts";
import { type FromWorker, installPolicy, type Job, requestOf, type ToWorker } from "./messages.ts";

/** Options of `RolloutServer`. */
export interface ServerOptions {
  readonly config: ModelConfig;
  /**
   * A model with an adapter: its frozen weights are shared, and the adapter's come with the policies. Without it all
   * weights come with the policies.
   */
  readonly model?: Model | undefined;
  /** The device of the worker's own copy of the weights. */
  readonly device: Device;
  readonly template: Template;
  readonly rollout: RolloutOptions;
  /** The number of episodes to expect at a time. */
  readonly rows: number;
  /** Finds an environment by its name, for requests that came as plain data. */
  readonly environment?: (name: string) => EnvironmentSpec;
}

/** A player with its sampling options, and its loop while that runs. */
interface Table {
  readonly player: Player;
  /** Resolves when the loop has ended. */
  running: Promise<void> | undefined;
}

/** A model whose trained weights are yet to come. */
function emptyModel({ config, model, device }: ServerOptions): Model {
  if (model?.trainable) return model.trainable.modelOf(mapTree(model.trainable.params, zerosLike));
  return { config, params: buildParams(config, (shape) => zeros(shape, { device, dtype: device.float })) };
}

/** Plays the episodes that a learner requests. */
export class RolloutServer {
  readonly #options: ServerOptions;
  readonly #reply: (message: FromWorker) => void;
  readonly #model: Model;
  readonly #closed = new AbortController();
  readonly #inbox: ToWorker[] = [];
  readonly #tables = new Map<string, Table>();
  #version = -1;
  /** The number of pinned episodes that are not over. */
  #pinned = 0;

  constructor(options: ServerOptions, reply: (message: FromWorker) => void) {
    this.#options = options;
    this.#reply = reply;
    this.#model = outsideScopes(() => emptyModel(options));
  }

  /** Takes a message from the learner. */
  receive(message: ToWorker): void {
    this.#inbox.push(message);
    this.#guard(() => this.#advance());
  }

  /** Stops playing and resolves when everything is freed. No message is sent after this call. */
  async close(): Promise<void> {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort(new Error("the rollout worker was stopped"));
    await Promise.all([...this.#tables.values()].map(({ running }) => running ?? Promise.resolve()));
    for (const { player } of this.#tables.values()) player.dispose();
    for (const x of treeLeaves(trainableOf(this.#model).params)) x.dispose();
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
    const unknown = (name: string): never => fail(`rollout worker: no environment is known as "${name}"`);
    const request = requestOf(job, this.#options.environment ?? unknown);
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

  /** The player with these sampling options. Players with other options are freed if they have nothing to do. */
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
      // An episode that is added while `running` is set starts no second loop, so check for work again before clearing
      // it.
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
