/**
 * Conversations in a checkpoint's own chat template (worldgrad/chat), with tools where the template has them. The
 * messages that follow an answer are rendered after a placeholder for it. So the answer keeps the tokens that were
 * sampled, even if the template would render its text differently.
 */
import type { ChatTemplate } from "../chat/index.ts";
import { parseExactly } from "../chat/json.ts";
import { check, fail } from "../../engine/errors.ts";
import { append, emptyStream, type Role, type TokenStream } from "../../rl/episode/stream.ts";
import type { ChatFormat, ChatMessage } from "./chat.ts";
import { writesThoughts } from "../chat/thoughts.ts";
import { callsWrittenBy, type NoForm } from "../chat/toolCalls.ts";

/** Options of `checkpointChat`. */
export interface CheckpointChatOptions {
  /** Further tokens that end an answer, such as the model's `eosIds`. */
  readonly stopIds?: readonly number[];
  /** Further variables of the template, `enable_thinking` for example. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

const NO_TOOLS: Readonly<Record<NoForm, string>> = {
  none: "this model's chat template writes none",
  unsaid:
    "this model's chat template writes tools, but no calls, and tells the model no form of them that is supported",
  other: "this model's chat template writes calls of tools in a form that is not supported",
};

/** The placeholder for an answer. */
const ANSWER = "qANSWERq";

/**
 * A chat format from a chat template.
 * @throws WorldgradError if no special token ends what the assistant says
 *
 * @example
 * const chat = checkpointChat(await chatTemplate({ tokenizer, template }), { stopIds: model.config.eosIds });
 * const server = await servePolicy({ model, tokenizer }, { chat });
 */
export function checkpointChat(
  template: ChatTemplate,
  { stopIds = [], variables = {} }: CheckpointChatOptions = {},
): ChatFormat {
  const { tokenizer } = template;
  const { end } = template.episodeFormat({ variables });
  const endId = tokenizer.special[end] ?? fail(`${template.name}: "${end}" is no special token`);
  const endIds = [...new Set([endId, ...stopIds])];
  const written = callsWrittenBy(template);
  return {
    stopIds: endIds,
    thinks: writesThoughts(template, variables),
    withVariables: (more) => checkpointChat(template, { stopIds, variables: { ...variables, ...more } }),
    ...(written === "none" || written === "unsaid" || written === "other"
      ? { noTools: NO_TOOLS[written] }
      : { toolForm: written }),
    begin(messages, tools, news) {
      const stream = emptyStream();
      const options = { addGenerationPrompt: true, variables, ...(tools ? { tools } : {}) };
      if (!news?.size) {
        append(stream, "prompt", 0, template.render(messages.map(asRendered), options));
        return stream;
      }
      const marked = template.renderMarked(messages.map(asRendered), options);
      const { ids, offsets } = template.encodeMarked(marked);
      const said = placesOf(marked.text, messages).filter((_, i) => news.has(i));
      appendMarked(stream, 0, { ids, offsets }, said, "prompt");
      return stream;
    },
    extend(messages, lastId, turn) {
      check(
        messages.length > 0 && messages.every(({ role }) => role !== "assistant"),
        () => "messages: what follows an answer of the model must be another's",
      );
      const conversation = [
        { role: "user", content: "q" },
        { role: "assistant", content: ANSWER },
      ];
      const { text, plain } = template.renderMarked([...conversation, ...messages.map(asRendered)], {
        addGenerationPrompt: true,
        variables,
      });
      const behind = text.indexOf(ANSWER) + ANSWER.length;
      const start = text.indexOf(end, behind) + end.length;
      check(
        behind >= ANSWER.length && start >= end.length,
        () => `${template.name}: the template does not write what the assistant said`,
      );
      const own = { text: text.slice(start), plain: plain.map(([a, b]): [number, number] => [a - start, b - start]) };
      const { ids, offsets } = template.encodeMarked(own);
      const stream = emptyStream();
      if (!endIds.includes(lastId)) append(stream, "scaffold", turn, [endId]);
      appendMarked(stream, turn, { ids, offsets }, placesOf(own.text, messages), "scaffold");
      return stream;
    },
  };
}

type Place = readonly [from: number, to: number];

/**
 * Appends the tokens of a rendered text: those of messages' contents as observations, all others in the role `around`.
 */
function appendMarked(
  stream: TokenStream,
  turn: number,
  { ids, offsets }: { readonly ids: readonly number[]; readonly offsets: readonly Place[] },
  said: readonly Place[],
  around: Role,
): void {
  const places = said.filter(([a, b]) => a < b);
  ids.forEach((id, t) => {
    const [from, to] = offsets[t]!;
    append(stream, places.some(([a, b]) => from < b && a < to) ? "observation" : around, turn, [id]);
  });
}

/** The place of each message's content in the rendered text; it is empty if the template does not write the content. */
function placesOf(text: string, messages: readonly ChatMessage[]): Place[] {
  let at = 0;
  return messages.map(({ content }): Place => {
    const said = content.trim();
    const found = said === "" ? -1 : text.indexOf(said, at);
    if (found < 0) return [at, at];
    at = found + said.length;
    return [found, at];
  });
}

/** A message as templates read it: the arguments of a call are an object. */
function asRendered({ tool_calls: calls, ...message }: ChatMessage): Readonly<Record<string, unknown>> & ChatMessage {
  if (calls === undefined) return message;
  const tool_calls = calls.map(({ id, type, function: { name, arguments: json } }) => ({
    id,
    type,
    function: { name, arguments: parseExactly(json) },
  }));
  return { ...message, tool_calls } as never;
}
