/** Pages of other sites (CORS): those that are named may use the server, all others get what they got before. */
import { afterAll, afterEach, beforeAll, expect, it, test } from "vitest";
import type { Device } from "../../../engine/device.ts";
import { type PolicyServer, servePolicy, type ServePolicyOptions } from "../../../connect/serve/index.ts";
import { wasm } from "../../support/rlExecutors.ts";
import { toyModel, toyTemplate, toyTokenizer } from "../../support/rlToy.ts";

const [OURS, THEIRS] = ["https://ours.example", "https://theirs.example"];
let device: Device;
let server: PolicyServer | undefined;
beforeAll(async () => void (device = await wasm.open()));
afterEach(() => server?.close());
afterAll(() => device.dispose());

const start = async (options: ServePolicyOptions): Promise<void> => {
  const served = { model: toyModel(device), tokenizer: toyTokenizer, template: toyTemplate };
  server = await servePolicy(served, { name: "toy", ...options });
};
const ask = (method: string, path: string, headers: Record<string, string>, body?: object): Promise<Response> =>
  fetch(server!.url + path, {
    method,
    headers: { ...(body ? { "content-type": "application/json" } : {}), ...headers },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
const QUESTION = {
  "access-control-request-method": "POST",
  "access-control-request-headers": "authorization,content-type,x-stainless-lang",
};
const allowed = ({ headers }: Response): string | null => headers.get("access-control-allow-origin");
const prompt = { model: "toy", prompt: [12, 3, 4, 1], max_tokens: 2 };

test("a page that is named asks before it sends, and then reads answers, errors and streams", async () => {
  await start({ allowedOrigins: [OURS], apiKey: "secret" });
  const asked = await ask("OPTIONS", "/v1/completions", { origin: OURS, ...QUESTION });
  expect([asked.status, allowed(asked)]).toEqual([204, OURS]);
  expect(asked.headers.get("access-control-allow-methods")).toBe("GET, POST");
  expect(asked.headers.get("access-control-allow-headers")).toBe(QUESTION["access-control-request-headers"]);
  const refused = await ask("POST", "/v1/completions", { origin: OURS }, prompt);
  expect([refused.status, allowed(refused)]).toEqual([401, OURS]); // the page can say what was wrong
  const own = { origin: OURS, authorization: "Bearer secret" };
  const answered = await ask("POST", "/v1/completions", own, prompt);
  expect([answered.status, allowed(answered), answered.headers.get("vary")]).toEqual([200, OURS, "Origin"]);
  const stream = await ask("POST", "/v1/completions", own, { ...prompt, stream: true });
  expect([stream.headers.get("content-type"), allowed(stream)]).toEqual(["text/event-stream; charset=utf-8", OURS]);
  expect(await stream.text()).toContain("[DONE]");
  const models = await ask("GET", "/v1/models", own);
  expect([models.status, allowed(models)]).toEqual([200, OURS]);
});

test.each([THEIRS, "null", `${OURS}:8443`, "http://ours.example", `${OURS}.evil.example`])(
  "a page of %s is not told that it may, and no browser sends for it",
  async (origin) => {
    await start({ allowedOrigins: [OURS] });
    const asked = await ask("OPTIONS", "/v1/completions", { origin, ...QUESTION });
    expect([asked.status, allowed(asked)]).toEqual([404, null]);
    expect(allowed(await ask("GET", "/v1/models", { origin }))).toBeNull();
  },
);

it("is off without origins, and for all pages with a star", async () => {
  await start({});
  const asked = await ask("OPTIONS", "/v1/completions", { origin: OURS, ...QUESTION });
  expect([asked.status, allowed(asked), asked.headers.get("vary")]).toEqual([404, null, null]);
  await server!.close();
  await start({ allowedOrigins: ["*"] });
  expect(allowed(await ask("OPTIONS", "/v1/completions", { origin: THEIRS, ...QUESTION }))).toBe(THEIRS);
  // No page asks: nothing is said of pages.
  expect(allowed(await ask("GET", "/v1/models", {}))).toBeNull();
  // OPTIONS that is no question of a browser.
  expect((await ask("OPTIONS", "/v1/completions", { origin: THEIRS })).status).toBe(404);
});

it.each([[["ours.example"]], [[`${OURS}/`]], [[`${OURS}/page`]], [["https://*.example"]], [[7]], [OURS]])(
  "refuses %j as origins",
  async (origins) => {
    const wrong = start({ allowedOrigins: origins as unknown as string[] });
    await expect(wrong).rejects.toThrow(/allowedOrigins.*a list of origins/);
  },
);
