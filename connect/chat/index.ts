/** `worldgrad/chat`: the chat templates of published checkpoints, which are Jinja programs. */
export { chatTemplate, ChatTemplate } from "./template.ts";
export type { ChatTemplateOptions } from "./template.ts";
export type { ChatMessage, MarkedText, RenderedText, Renderer, RenderOptions } from "./types.ts";
export type { RenderedRoles } from "./roles.ts";
export type { EpisodeFormatOptions } from "./format.ts";
