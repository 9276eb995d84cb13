/**
 * A page's script and style as text. esbuild bundles them from their source whenever a page is written, so a page is
 * never older than its source. Only the programs of a checkout write pages; the package has none.
 */
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { check } from "../../engine/errors.ts";

export interface PageAssets {
  readonly script: string;
  readonly style: string;
  /** Their names in a content policy. */
  readonly scriptHash: string;
  readonly styleHash: string;
}

/** The three pages, with the path of each one's script. */
const SCRIPTS = {
  report: "../report/page.ts",
  compare: "../compare/page.ts",
  ablate: "../../studies/ablate/page.ts",
} as const;
export type PageName = keyof typeof SCRIPTS;

/** Bundles a page's script, and the style of all pages. */
export const bundlePage = (page: PageName): Promise<PageAssets> => bundleScript(SCRIPTS[page]);

/** Bundles a script, and the style of all pages. @param source of the script, relative to this folder */
export async function bundleScript(source: string): Promise<PageAssets> {
  const { build } = await import("esbuild");
  const folder = fileURLToPath(new URL("./", import.meta.url));
  const result = await build({
    entryPoints: [source, "page.css"],
    absWorkingDir: folder,
    outdir: folder,
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: "es2022",
    // ASCII only, so that the file reads the same in any encoding.
    charset: "ascii",
    legalComments: "inline",
    logLevel: "silent",
  });
  const text = (end: string): string => {
    const file = result.outputFiles.find(({ path }) => path.endsWith(end));
    check(file !== undefined, () => `report: the bundle has no ${end}`);
    return file.text.trim();
  };
  // Inside <script> and <style> nothing may look like their closing tags.
  const script = text(".js").replaceAll("</script", "<\\/script");
  const style = text(".css").replaceAll("</style", "<\\/style");
  return withHashes({ script, style });
}

/** Script and style with the hashes by which a content policy names them. */
export const withHashes = (source: Pick<PageAssets, "script" | "style">): PageAssets => ({
  ...source,
  scriptHash: sourceHash(source.script),
  styleHash: sourceHash(source.style),
});

/** The name of an inline script or style in a content policy. */
function sourceHash(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}
