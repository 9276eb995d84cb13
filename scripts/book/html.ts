/**
 * Frame of the pages of the book and the reference: static, readable without JavaScript, under a strict content
 * security policy.
 */

/** Text that is safe between tags and in a double-quoted attribute. */
export function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

/** Code in colours. It may be wider than its box, so the keyboard must reach it to scroll. */
export function codeBox(highlighted: string, kind: "code" | "block", label = ""): string {
  const named = label === "" ? "" : ` role="group" aria-label="${escape(label)}"`;
  return `<pre class="${kind}" tabindex="0"${named}><code>${highlighted}</code></pre>`;
}

/** Name of an anchor: letters and digits of any script, joined by dashes. */
export function slug(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, "-")
    .replaceAll(/^-|-$/g, "");
}

/**
 * Content security policy. Scripts and styles come from the page's own origin; a cell runs in a worker, as a module
 * made of its text (`blob:`). Nothing is sent anywhere, and no text of a page can become a script.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self' blob: 'wasm-unsafe-eval'",
  "worker-src 'self' blob:",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

export interface PageParts {
  readonly title: string;
  readonly description: string;
  /** Path from the page's folder to that of the site: "../" for a page in `book/`. */
  readonly up: string;
  /** Entry of the site's navigation to which the page belongs. */
  readonly part: "book" | "api" | "docs";
  /** Addresses from the page's folder. */
  readonly styles: readonly string[];
  readonly modules?: readonly string[];
  /** Content of <main>. */
  readonly main: string;
  /** Class of <body>. */
  readonly kind: string;
}

export function htmlPage({ title, description, up, part, styles, modules = [], main, kind }: PageParts): string {
  const entry = (name: PageParts["part"] | "run", address: string, text: string): string =>
    `<a href="${up}${address}"${name === part ? ' aria-current="true"' : ""}>${text}</a>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="${escape(description)}">
<title>${escape(title)}</title>
<link rel="icon" href="data:,">
${styles.map((style) => `<link rel="stylesheet" href="${style}">`).join("\n")}
${modules.map((script) => `<script type="module" src="${script}"></script>`).join("\n")}
</head>
<body class="${kind}">
<a class="skip" href="#content">Skip to the text</a>
<header class="top">
<p class="brand">worldgrad</p>
<nav aria-label="Site">
${entry("book", "book/index.html", "Book")}
${entry("api", "api/index.html", "API reference")}
${entry("docs", "docs/index.html", "Docs")}
${entry("run", "index.html", "Live run")}
</nav>
</header>
<main id="content">
${main}
</main>
</body>
</html>
`;
}
