/**
 * Servers that answer as vLLM, SGLang and Atropos do, written from their sources (named in connect/remote/), and
 * stricter: a field that their requests do not have is refused, where they would ignore it. Tokens are drawn by a model
 * of ours; `shift` is added to the log-probabilities, as other kernels would.
 */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Rng } from "../../engine/random.ts";
import type { Model } from "../../nn/transformer.ts";
import { GenerationEngine } from "../../connect/serve/engine.ts";

type Fields = Record<string, unknown>;
type Answer = { readonly status?: number; readonly body: unknown };
type Route = (body: Fields) => Answer | Promise<Answer>;

export interface FakeServer {
  readonly url: string;
  /** Every request, as `POST /path`, with its body. */
  readonly received: { readonly route: string; readonly body: Fields }[];
  /** Connections so far. */
  readonly connections: () => number;
  close(): Promise<void>;
}

async function bodyOf(request: IncomingMessage): Promise<Fields> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text === "" ? {} : (JSON.parse(text) as Fields);
}

async function serve(
  routes: Readonly<Record<string, Route>>,
  close = async (): Promise<void> => undefined,
): Promise<FakeServer> {
  const received: FakeServer["received"] = [];
  const server = createServer((request, response) => {
    void bodyOf(request)
      .then(async (body) => {
        const route = `${request.method} ${request.url}`;
        received.push({ route, body });
        const { status = 200, body: answer } = (await routes[route]?.(body)) ?? {
          status: 404,
          body: { detail: "Not Found" },
        };
        response.writeHead(status, { "content-type": typeof answer === "string" ? "text/plain" : "application/json" });
        response.end(typeof answer === "string" ? answer : JSON.stringify(answer));
      })
      .catch((error: unknown) => response.writeHead(500).end(String(error)));
  });
  let connections = 0;
  server.on("connection", () => connections++);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: urlOf(server),
    received,
    connections: () => connections,
    async close() {
      await new Promise((resolve) => (server.close(resolve), server.closeAllConnections()));
      await close();
    },
  };
}

const urlOf = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

/** A server that takes requests and never answers. `asked` resolves with the first. */
export async function silentServer(): Promise<{
  readonly url: string;
  readonly asked: Promise<void>;
  close(): Promise<void>;
}> {
  let hear = (): void => undefined;
  const asked = new Promise<void>((resolve) => (hear = resolve));
  const server = createServer(() => hear());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = async (): Promise<void> => {
    await new Promise((resolve) => (server.close(resolve), server.closeAllConnections()));
  };
  return { url: urlOf(server), asked, close };
}

/** Throws unless the fields are exactly these, and each is as its check wants it. */
function exactly(body: Fields, checks: Readonly<Record<string, (value: unknown) => boolean>>): void {
  for (const name of Object.keys(body)) if (!(name in checks)) throw new Error(`unknown field ${name}`);
  for (const [name, isRight] of Object.entries(checks)) {
    if (!isRight(body[name])) throw new Error(`field ${name} is ${JSON.stringify(body[name])}`);
  }
}
const isText = (value: unknown): boolean => typeof value === "string";
const isCount = (value: unknown): boolean => Number.isInteger(value);
const isNumber = (value: unknown): boolean => typeof value === "number";
const isIds = (value: unknown): boolean => Array.isArray(value) && value.length > 0 && value.every(isCount);
const is =
  (expected: unknown) =>
  (value: unknown): boolean =>
    value === expected;

async function draw(
  engine: GenerationEngine,
  ids: number[],
  maxTokens: number,
  temperature: number,
  stopIds: number[],
  seed: number,
) {
  const sampling = { temperature, topK: 0, topP: 1, minP: 0 };
  return engine.generate({ prompt: ids, maxTokens, sampling, stopIds, rng: new Rng(seed), top: 0 });
}

export interface FakeOptions {
  readonly model: Model;
  readonly shift?: number;
  /** Changes an answer before it is sent. */
  readonly spoil?: (answer: Fields) => unknown;
}

/** vLLM with VLLM_ALLOW_RUNTIME_LORA_UPDATING and `--logprobs-mode processed_logprobs`. */
export async function fakeVllm({ model, shift = 0, spoil = (a) => a }: FakeOptions): Promise<FakeServer> {
  const engine = new GenerationEngine(model);
  const adapters = new Set<string>();
  return serve(
    {
      "POST /v1/completions": async (body) => {
        exactly(body, {
          model: isText,
          prompt: isIds,
          max_tokens: isCount,
          temperature: isNumber,
          seed: isCount,
          logprobs: is(0),
          stop_token_ids: isIds,
          ignore_eos: is(true),
          return_token_ids: is(true),
        });
        const name = String(body["model"]);
        if (name !== "toy" && !adapters.has(name)) {
          const error = {
            message: `The model \`${name}\` does not exist.`,
            type: "NotFoundError",
            param: "model",
            code: 404,
          };
          return { status: 404, body: { error } };
        }
        const prompt = body["prompt"] as number[];
        const { tokens, finishReason } = await draw(
          engine,
          prompt,
          body["max_tokens"] as number,
          body["temperature"] as number,
          body["stop_token_ids"] as number[],
          body["seed"] as number,
        );
        const ids = tokens.map(({ id }) => id);
        const choice = {
          index: 0,
          text: "",
          logprobs: {
            text_offset: ids.map(() => 0),
            token_logprobs: tokens.map(({ logProb }) => Math.min(0, logProb + shift)),
            tokens: ids.map((id) => `token_id:${id}`),
            top_logprobs: ids.map(() => ({})),
          },
          finish_reason: finishReason,
          stop_reason: finishReason === "stop" ? ids.at(-1) : null,
          token_ids: ids,
          prompt_logprobs: null,
          prompt_token_ids: prompt,
        };
        const usage = {
          prompt_tokens: prompt.length,
          completion_tokens: ids.length,
          total_tokens: prompt.length + ids.length,
        };
        return {
          body: spoil({ id: "cmpl-1", object: "text_completion", created: 0, model: name, choices: [choice], usage }),
        };
      },
      "POST /v1/load_lora_adapter": (body) => {
        exactly(body, { lora_name: isText, lora_path: isText });
        adapters.add(String(body["lora_name"]));
        return { body: `Success: LoRA adapter '${String(body["lora_name"])}' added successfully.` };
      },
      "POST /v1/unload_lora_adapter": (body) => {
        exactly(body, { lora_name: isText });
        if (!adapters.delete(String(body["lora_name"])))
          return { status: 404, body: { error: { message: "not found" } } };
        return { body: `Success: LoRA adapter '${String(body["lora_name"])}' removed successfully.` };
      },
    },
    () => engine.close(),
  );
}

/** SGLang. `load` is called with the folder of new weights. */
export async function fakeSglang({
  model,
  shift = 0,
  spoil = (a) => a,
  load = () => true,
}: FakeOptions & { readonly load?: (folder: string) => boolean }): Promise<FakeServer> {
  const engine = new GenerationEngine(model);
  let version = "default";
  return serve(
    {
      "POST /generate": async (body) => {
        exactly(body, { input_ids: isIds, sampling_params: (v) => typeof v === "object", return_logprob: is(true) });
        const sampling = body["sampling_params"] as Fields;
        exactly(sampling, {
          max_new_tokens: isCount,
          temperature: isNumber,
          stop_token_ids: isIds,
          ignore_eos: is(true),
          sampling_seed: isCount,
          skip_special_tokens: is(false),
        });
        const ids = body["input_ids"] as number[];
        const stops = sampling["stop_token_ids"] as number[];
        const { tokens, finishReason } = await draw(
          engine,
          ids,
          sampling["max_new_tokens"] as number,
          sampling["temperature"] as number,
          stops,
          sampling["sampling_seed"] as number,
        );
        const length = tokens.length;
        const reason =
          finishReason === "stop" ? { type: "stop", matched: tokens.at(-1)!.id } : { type: "length", length };
        const meta = {
          id: "1",
          finish_reason: reason,
          prompt_tokens: ids.length,
          weight_version: version,
          output_token_logprobs: tokens.map(({ id, logProb }) => [Math.min(0, logProb + shift), id, null]),
          input_token_logprobs: [],
          completion_tokens: length,
          cached_tokens: 0,
        };
        return { body: spoil({ text: "", output_ids: tokens.map(({ id }) => id), meta_info: meta }) };
      },
      "POST /pause_generation": async (body) => {
        exactly(body, { mode: (mode) => ["abort", "retract", "in_place"].includes(String(mode)) });
        await engine.pause();
        return { body: { message: "Generation paused successfully.", status: "ok" } };
      },
      "POST /continue_generation": (body) => {
        exactly(body, {});
        engine.resume();
        return { body: { message: "Generation continued successfully.", status: "ok" } };
      },
      "POST /update_weights_from_disk": (body) => {
        exactly(body, { model_path: isText, weight_version: isText, flush_cache: is(true) });
        const success = load(String(body["model_path"]));
        if (success) version = String(body["weight_version"]);
        const message = success ? "Succeeded to update model weights." : "Failed to update model weights.";
        return { status: success ? 200 : 400, body: { success, message, num_paused_requests: 0 } };
      },
    },
    () => engine.close(),
  );
}

/**
 * Atropos' server with one trainer: batches of whole groups, as `grab_exact_from_heterogeneous_queue` makes them of
 * equal ones.
 */
export async function fakeAtropos(): Promise<FakeServer> {
  let size: number | undefined;
  const queue: Fields[] = [];
  const isLists = (value: unknown): boolean => Array.isArray(value) && value.every(Array.isArray);
  const fields = [
    "advantages",
    "ref_logprobs",
    "messages",
    "generation_params",
    "overrides",
    "group_overrides",
    "images",
  ];
  return serve({
    "POST /register": (body) => {
      exactly(body, {
        wandb_group: isText,
        wandb_project: isText,
        batch_size: isCount,
        max_token_len: isCount,
        checkpoint_dir: isText,
        save_checkpoint_interval: isCount,
        starting_step: isCount,
        num_steps: isCount,
      });
      size = body["batch_size"] as number;
      return { body: { uuid: 1 } };
    },
    "POST /scored_data": (body) => {
      const optional = (value: unknown): boolean => value === undefined || isCount(value);
      exactly(body, {
        tokens: isLists,
        masks: isLists,
        scores: Array.isArray,
        inference_logprobs: isLists,
        env_id: optional,
      });
      queue.push({ ...Object.fromEntries(fields.map((name) => [name, null])), ...body });
      return { body: { status: "received" } };
    },
    "GET /batch": () => {
      if (size === undefined) {
        return { body: { status: "error", message: "Trainer not registered. Call /register first.", batch: [] } };
      }
      const held = queue.reduce((n, group) => n + (group["tokens"] as unknown[]).length, 0);
      return { body: { batch: held < size ? null : queue.splice(0) } };
    },
  });
}
