/**
 * Exports of the package, read from its sources by ts-morph: the declaration of each name without bodies, its
 * docstring, and its place.
 */
import { join, relative } from "node:path";
import {
  type ClassDeclaration,
  type ExportedDeclarations,
  type JSDoc,
  Node,
  Project,
  type SourceFile,
  ts,
  type VariableDeclaration,
} from "ts-morph";
import { packageFolder } from "../../packageFolder.ts";

export interface EntryPoint {
  /** Specifier of an import: `worldgrad/engine`. */
  readonly specifier: string;
  /** Name of the page: `engine`. */
  readonly page: string;
  readonly file: string;
  /** Comment at the head of the file, Markdown. */
  readonly text: string;
  readonly names: readonly Name[];
}

export interface Name {
  readonly name: string;
  readonly kind: "function" | "class" | "interface" | "type" | "constant";
  /** Its name in its own file. */
  readonly declaredAs: string;
  /** Path from the root, and lines from 1. */
  readonly file: string;
  readonly line: number;
  readonly lastLine: number;
  /** Comment at the head of its file, Markdown. */
  readonly about: string;
  /** The heading under which the file of the entry point exports it; "" if there is none. */
  readonly group: string;
  /** TypeScript: overloads of a function, public members of a class, a type in full. */
  readonly declaration: string;
  readonly doc: Doc;
}

/** A docstring, Markdown. */
export interface Doc {
  readonly text: string;
  readonly params: readonly { readonly name: string; readonly text: string }[];
  readonly returns: string;
  readonly throws: readonly string[];
  /** Example programs. */
  readonly examples: readonly string[];
}

const ENTRIES = [
  ["worldgrad/engine", "engine", "engine/index.ts"],
  ["worldgrad/nn", "nn", "nn/index.ts"],
  ["worldgrad/rl", "rl", "rl/index.ts"],
  ["worldgrad/methods", "methods", "methods/index.ts"],
  ["worldgrad/data", "data", "data/index.ts"],
  ["worldgrad/papers", "papers", "papers/index.ts"],
  ["worldgrad/environments", "environments", "environments/index.ts"],
  ["worldgrad/pretrained", "pretrained", "pretrained/index.ts"],
  ["worldgrad/distribute", "distribute", "distribute/index.ts"],
  ["worldgrad/math", "math", "math/index.ts"],
  ["worldgrad/compiled", "compiled", "compiled/index.ts"],
  ["worldgrad/tune", "tune", "tune/index.ts"],
  ["worldgrad/node", "node", "run/node/index.ts"],
  ["worldgrad/tensor-methods", "tensor-methods", "tensorMethods.ts"],
  ["worldgrad/fast-check", "fast-check", "fastCheck.ts"],
] as const;

/**
 * Reads entry points, by default those that the reference has; takes a few seconds.
 * @param entries specifier, name of the page, file
 */
export function readReference(entries: readonly (readonly [string, string, string])[] = ENTRIES): EntryPoint[] {
  const project = new Project({
    skipAddingFilesFromTsConfig: true,
    compilerOptions: {
      target: ts.ScriptTarget.ES2023,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      allowImportingTsExtensions: true,
      noEmit: true,
      strict: true,
      types: ["node"],
    },
  });
  for (const [, , file] of entries) project.addSourceFileAtPath(join(packageFolder, file));
  project.resolveSourceFileDependencies();
  return entries.map(([specifier, page, file]) => {
    const source = project.getSourceFileOrThrow(join(packageFolder, file));
    const groups = groupsOf(source);
    const exported = source.getExportedDeclarations();
    // In the order of the file: ts-morph has those of `export *` last.
    const names = [...new Set([...groups.keys(), ...exported.keys()])].flatMap((name) => {
      const ours = (exported.get(name) ?? []).filter((node) =>
        node.getSourceFile().getFilePath().startsWith(packageFolder),
      );
      return ours.length === 0 ? [] : [nameOf(name, ours, groups.get(name) ?? "")];
    });
    return { specifier, page, file, text: headOf(source), names };
  });
}

/** Comment at the head of a file. */
function headOf(source: SourceFile): string {
  const comment = /^\/\*\*(.*?)\*\//s.exec(source.getFullText())?.[1] ?? "";
  const text = comment
    .replaceAll(/^ ?\* ?/gm, "")
    .replace(/^\s*\*/, "")
    .trim();
  return text.replace(/^@example\s*\n([\s\S]*)/m, "```ts\n$1\n```");
}

/** The `// Heading` under which a file hands on each name; `export *` has those of the file that it names. */
function groupsOf(source: SourceFile): ReadonlyMap<string, string> {
  const groups = new Map<string, string>();
  let heading = "";
  for (const exported of source.getExportDeclarations()) {
    const comment = exported.getLeadingCommentRanges().at(-1)?.getText() ?? "";
    if (comment.startsWith("// ")) heading = comment.slice(3);
    for (const one of exported.getNamedExports()) groups.set(one.getAliasNode()?.getText() ?? one.getName(), heading);
    const all = exported.isNamespaceExport() ? exported.getModuleSpecifierSourceFileOrThrow() : undefined;
    if (all !== undefined) for (const [name, own] of groupsOf(all)) groups.set(name, own || heading);
  }
  return groups;
}

function nameOf(name: string, nodes: readonly ExportedDeclarations[], group: string): Name {
  const node = nodes[0]!;
  const statement = Node.isVariableDeclaration(node) ? node.getVariableStatementOrThrow() : node;
  const docs = nodes.flatMap((node) => docsOf(node));
  return {
    name,
    kind: kindOf(node),
    declaredAs: (Node.hasName(node) && node.getName()) || name,
    file: relative(packageFolder, node.getSourceFile().getFilePath()).replaceAll("\\", "/"),
    line: statement.getStartLineNumber(),
    lastLine: statement.getEndLineNumber(),
    about: headOf(node.getSourceFile()),
    group,
    declaration: [...new Set(nodes.map(declarationOf))].join("\n"),
    doc: docOf(docs),
  };
}

function kindOf(node: Node): Name["kind"] {
  if (Node.isFunctionDeclaration(node)) return "function";
  if (Node.isClassDeclaration(node)) return "class";
  if (Node.isInterfaceDeclaration(node)) return "interface";
  if (Node.isTypeAliasDeclaration(node)) return "type";
  const isCallable = Node.isVariableDeclaration(node) && node.getType().getCallSignatures().length > 0;
  return isCallable ? "function" : "constant";
}

/** Text of a declaration without `export` and without bodies. */
function declarationOf(node: Node): string {
  const unexported = (text: string): string => text.replace(/^export (?:declare )?(?:default )?/, "");
  if (Node.isFunctionDeclaration(node)) {
    const overloads = node.isOverload() ? [] : node.getOverloads();
    const signatures = overloads.length > 0 ? overloads : [node];
    return signatures.map((one) => unexported(withoutBody(one)).replace(/^async /, "")).join("\n");
  }
  if (Node.isClassDeclaration(node)) return classText(node);
  if (Node.isVariableDeclaration(node)) {
    const made = node.getInitializer();
    const isWritten = node.getTypeNode() === undefined && Node.isArrowFunction(made);
    if (!isWritten) return `const ${node.getName()}: ${constantType(node)};`;
    const arrow = made.getEqualsGreaterThan().getStart() - made.getStart();
    return `const ${node.getName()} = ${made.getText().slice(0, arrow)}=> …;`;
  }
  return unexported(node.getText());
}

function withoutBody(node: Node & { getBody?: () => Node | undefined }): string {
  const body = node.getBody?.();
  const text = node.getText();
  const end = body === undefined ? text.length : body.getStart() - node.getStart();
  return `${text.slice(0, end).trimEnd().replace(/;$/, "")};`;
}

/** Type as written; for a function with a named type its parameters, which tell more than the name. */
function constantType(node: VariableDeclaration): string {
  const written = node.getTypeNode();
  const signatures = node.getType().getCallSignatures();
  if (signatures.length === 0 || (written !== undefined && Node.isFunctionTypeNode(written)))
    return written?.getText() ?? typeText(node);
  const flags = ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.UseAliasDefinedOutsideCurrentScope;
  const texts = signatures.map((signature) => {
    const params = signature.getParameters().map((param) => {
      const [declaration] = param.getDeclarations();
      const isRest = Node.isParameterDeclaration(declaration) && declaration.isRestParameter();
      const type = withoutPaths(param.getTypeAtLocation(node).getText(node, flags));
      return `${isRest ? "..." : ""}${param.getName()}${param.isOptional() ? "?" : ""}: ${type}`;
    });
    return `(${params.join(", ")}) => ${withoutPaths(signature.getReturnType().getText(node, flags))}`;
  });
  return texts.join(" & ");
}

/** A type without paths of files; a tensor of any type has no type argument. */
const withoutPaths = (type: string): string =>
  type.replaceAll(/import\("[^"]*"\)\./g, "").replaceAll("Tensor<DType>", "Tensor");

/** Type that the checker finds. */
function typeText(node: Node): string {
  const flags = ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.UseAliasDefinedOutsideCurrentScope;
  return node
    .getType()
    .getText(node, flags)
    .replaceAll(/import\("[^"]*"\)\./g, "");
}

/** A class with the docstrings and signatures of its public members. */
function classText(node: ClassDeclaration): string {
  const head = node.getText().slice(0, node.getText().indexOf("{")).trimEnd();
  const members = node.getMembers().flatMap((member) => {
    const isHidden =
      (Node.isModifierable(member) && (member.hasModifier("private") || member.hasModifier("protected"))) ||
      (Node.hasName(member) && member.getName().startsWith("#"));
    if (isHidden || Node.isClassStaticBlockDeclaration(member)) return [];
    const doc = Node.isJSDocable(member) ? member.getJsDocs().map((one) => `  ${one.getText()}`) : [];
    return [[...doc, `  ${memberText(member)}`].join("\n")];
  });
  return `${head.replace(/^export (?:abstract )?/, "")} {\n${members.join("\n")}\n}`;
}

function memberText(member: Node): string {
  if (Node.isPropertyDeclaration(member)) {
    const { text, value } = { text: member.getText(), value: member.getInitializer() };
    if (value === undefined) return text;
    const before = text.slice(0, value.getStart() - member.getStart()).replace(/\s*=\s*$/, "");
    return member.getTypeNode() === undefined ? `${before}: ${typeText(member)};` : `${before};`;
  }
  if (Node.isMethodDeclaration(member)) {
    const overloads = member.getOverloads();
    return (overloads.length > 0 ? overloads : [member]).map((one) => withoutBody(one)).join("\n  ");
  }
  return Node.isBodyable(member) ? withoutBody(member) : member.getText();
}

function docsOf(node: Node): JSDoc[] {
  if (Node.isVariableDeclaration(node)) return node.getVariableStatementOrThrow().getJsDocs();
  if (Node.isFunctionDeclaration(node))
    return [...node.getOverloads().flatMap((one) => one.getJsDocs()), ...node.getJsDocs()];
  return Node.isJSDocable(node) ? node.getJsDocs() : [];
}

/** Docstrings of overloads, joined to one. */
function docOf(docs: readonly JSDoc[]): Doc {
  const texts = new Set<string>();
  const params = new Map<string, string>();
  const [returns, throws, examples] = [new Set<string>(), new Set<string>(), new Set<string>()];
  for (const doc of docs) {
    texts.add(doc.getDescription().trim());
    for (const tag of doc.getTags()) {
      const text = (tag.getCommentText() ?? "").trim();
      if (Node.isJSDocParameterTag(tag)) params.set(tag.getName(), text.replace(/^- /, ""));
      else if (tag.getTagName() === "returns") returns.add(text);
      else if (tag.getTagName() === "throws") throws.add(throwsText(tag));
      else if (tag.getTagName() === "example") examples.add(text);
    }
  }
  return {
    text: [...texts].join("\n\n").trim(),
    params: [...params].map(([name, text]) => ({ name, text })),
    returns: [...returns].join(" "),
    throws: [...throws],
    examples: [...examples],
  };
}

/** Whole text of `@throws`: TypeScript parses a first word in braces as a type. */
function throwsText(tag: Node): string {
  return tag
    .getText()
    .replace(/^@throws\s*/, "")
    .replaceAll(/\n\s*\*\s?/g, "\n")
    .replace(/\s*\*\/?\s*$/, "") // the end of the comment
    .trim();
}
