/**
 * Stand-ins for programs that fetch things from the network: apt-get, pip, uv and `curl … | sh` of uv's installer.
 * They install nothing. They say yes to what is on this machine, and refuse the rest by its name. Builds have them;
 * verifiers only with `env.standIns`, because that changes what a task's authors wrote.
 */
import { execFile } from "node:child_process";

/** The directory inside that has them. */
export const STAND_INS = "/.stand-ins";

const SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin";

/** apt-get: `$PACKAGES` lists Debian's packages that are here; a command of that name will do, too. */
const APT = `#!/bin/sh
verb= missing=
while [ $# -gt 0 ]; do
  case $1 in
    -o|-t|-c|--option|--target-release) shift ;;
    -*) ;;
    *) if [ -z "$verb" ]; then verb=$1
       elif [ "$verb" = install ]; then
         name=\${1%%=*}; name=\${name%%/*}
         grep -qxF -- "$name" ${STAND_INS}/packages || PATH=${SYSTEM} command -v -- "$name" >/dev/null ||
           missing="$missing $name"
       fi ;;
  esac
  shift
done
[ -z "$missing" ] && exit 0
echo "E: not on this machine:$missing" >&2
exit 100
`;

/** pip: a package that Python finds is there, whatever version is asked for. */
const PIP = `#!/usr/bin/python3
import importlib.metadata, re, sys
words = sys.argv[1:]
if not words or words[0] in ("--version", "-V"):
    print("pip 0 (stand-in)"); sys.exit(0)
verb, names, i = None, [], 0
while i < len(words):
    word = words[i]
    if word in ("-r", "--requirement"):
        i += 1
        names += [line.split("#")[0].strip() for line in open(words[i])]
    elif word in ("-i", "--index-url", "--extra-index-url", "-c", "--constraint", "-t", "--target", "--python"): i += 1
    elif word.startswith("-"): pass
    elif verb is None: verb = word
    else: names.append(word)
    i += 1
if verb != "install": sys.exit(0)
missing = []
for name in names:
    asked = re.match(r"[A-Za-z0-9][\\w.-]*", name)
    if asked is None or asked[0] in ("pip", "setuptools", "wheel", "uv"): continue
    try: found = importlib.metadata.version(asked[0])
    except importlib.metadata.PackageNotFoundError: missing.append(name); continue
    pinned = re.search(r"==\\s*([\\w.]+)", name)
    if pinned and pinned[1] != found: print(f"{asked[0]} {found} stands in for {pinned[1]}", file=sys.stderr)
if missing:
    print("ERROR: not on this machine: " + " ".join(missing), file=sys.stderr); sys.exit(1)
`;

/** uv and uvx: the tool runs as a module of Python's, and pytest without what only its plug-in for reports knows. */
const UV = `#!/bin/bash
[ "\${0##*/}" = uvx ] || { verb=$1; shift; }
case $verb in
  pip) exec ${STAND_INS}/pip "$@" ;;
  add) exec ${STAND_INS}/pip install "$@" ;;
  init|sync|lock|python|self|--version) exit 0 ;;
  venv) mkdir -p .venv/bin; echo "deactivate() { :; }" > .venv/bin/activate; exit 0 ;;
  tool) [ "$1" = run ] && shift ;;
esac
while [ $# -gt 0 ]; do
  case $1 in
    --with) ${STAND_INS}/pip install "$2" || case $2 in pytest-json-ctrf*) ;; *) exit 1 ;; esac; shift 2 ;;
    -p|--python|--from|--directory|--project|--index-url) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
tool=\${1%%[=@]*}; shift
words=()
while [ $# -gt 0 ]; do
  case $1 in
    --ctrf) shift ;;
    --ctrf=*) ;;
    *) words+=("$1") ;;
  esac
  shift
done
case $tool in
  python*|bash|sh|/*|./*) exec "$tool" "\${words[@]}" ;;
  *) exec python3 -m "\${tool//-/_}" "\${words[@]}" ;;
esac
`;

/** curl: the installer of uv, which needs nothing; the real one for the rest, such as a server of the task's. */
const CURL = `#!/bin/sh
case "$*" in
  *astral.sh/uv*) echo 'mkdir -p "$HOME/.local/bin"; : > "$HOME/.local/bin/env"' ;;
  *) exec /usr/bin/curl "$@" ;;
esac
`;

/** ln: a link in a directory of programs that cannot be written goes to /usr/local/bin, as `python` often does. */
const LN = `#!/bin/sh
/usr/bin/ln "$@" 2>${STAND_INS}/.said && exit
for last; do :; done
case $last in
  /usr/bin/*|/usr/sbin/*|/bin/*|/sbin/*)
    if [ -w /usr/local/bin ]; then
      for first; do case $first in -*) ;; *) break ;; esac; done
      exec /usr/bin/ln -sf -- "$first" "/usr/local/bin/\${last##*/}"
    fi ;;
esac
/usr/bin/cat ${STAND_INS}/.said >&2
exit 1
`;

let known: Promise<string> | undefined;

/** The names of Debian's packages on this machine, one a line; none where there is no dpkg. */
const packages = (): Promise<string> =>
  (known ??= new Promise((resolve) => {
    const words = ["-W", "-f", "${db:Status-Abbrev} ${Package}\n"];
    execFile("dpkg-query", words, { maxBuffer: 2 ** 24 }, (error, stdout) => {
      const lines = error ? [] : stdout.split("\n").filter((line) => line.startsWith("ii "));
      resolve(lines.map((line) => `${line.slice(3).trim()}\n`).join(""));
    });
  }));

/** The files of `STAND_INS`, by name; all but `packages` are programs. */
export async function standIns(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ["packages", await packages()],
    ...["apt-get", "apt"].map((name) => [name, APT] as const),
    ...["pip", "pip3"].map((name) => [name, PIP] as const),
    ...["uv", "uvx"].map((name) => [name, UV] as const),
    ["curl", CURL],
    ["ln", LN],
  ]);
}
