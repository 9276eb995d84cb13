/** Colours of code, made with the page: highlight.js writes spans, and style sheets name their colours. */
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import diff from "highlight.js/lib/languages/diff";
import json from "highlight.js/lib/languages/json";
import typescript from "highlight.js/lib/languages/typescript";
import { escape } from "./html.ts";

hljs.registerLanguage("ts", typescript);
hljs.registerLanguage("sh", bash);
hljs.registerLanguage("diff", diff);
hljs.registerLanguage("json", json);

/** HTML of code. A language that is not registered, such as `text`, has no colours. */
export function highlight(code: string, language: string): string {
  return hljs.getLanguage(language) === undefined ? escape(code) : hljs.highlight(code, { language }).value;
}

/** Lines of highlighted code. A span over several lines is closed at each line end and opened again. */
export function splitLines(html: string): string[] {
  const open: string[] = [];
  return html.split("\n").map((line) => {
    const before = open.join("");
    for (const [tag] of line.matchAll(/<span[^>]*>|<\/span>/g)) {
      if (tag === "</span>") open.pop();
      else open.push(tag);
    }
    return before + line + "</span>".repeat(open.length);
  });
}

/**
 * Links names of types in highlighted code, outside comments and strings. Other names are not linked: a parameter may
 * have the name of an exported function.
 * @param addressOf undefined for a name without an address
 */
export function linkNames(html: string, addressOf: (name: string) => string | undefined): string {
  const open: string[] = [];
  return html
    .split(/(<[^>]+>)/)
    .map((part) => {
      if (part.startsWith("</span")) open.pop();
      else if (part.startsWith("<span")) open.push(part);
      if (part.startsWith("<") || open.some((tag) => /hljs-(comment|string)/.test(tag))) return part;
      return part.replaceAll(/&\w+;|\b[A-Z]\w*/g, (name) => {
        const address = addressOf(name);
        return address === undefined ? name : `<a href="${address}">${name}</a>`;
      });
    })
    .join("");
}
