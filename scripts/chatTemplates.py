"""
Output of transformers' apply_chat_template, recorded for scripts/chatTemplates.ts:

    python3 scripts/chatTemplates.py FOLDER > recorded.json

FOLDER holds templates (*.jinja) and conversations.json: {"tools": [...], "variables": {...}, "conversations": [...]},
each a list of messages, or an object {"messages", "tools": true, "variables"}. Instead of a folder it takes a JSON file
{"variables", "templates": [...]}, and records one text for each template. Needs jinja2 alone, set up as
transformers/utils/chat_template_utils.py does; null stands for an error. `strftime_now` tells 2026-11-26 15:04:05.
"""

import datetime
import json
import pathlib
import sys

import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    """{% generation %}, which writes its content unchanged."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_written"), [], [], body).set_lineno(line)

    def _written(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


environment = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
)
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = datetime.datetime(2026, 11, 26, 15, 4, 5).strftime


def render(template, conversation, given, prompt):
    one = conversation if isinstance(conversation, dict) else {"messages": conversation}
    variables = {**given["variables"], **one.get("variables", {})}
    try:
        return template.render(
            messages=json.loads(json.dumps(one["messages"])),
            tools=given["tools"] if one.get("tools") else None,
            documents=variables.pop("documents", None),
            add_generation_prompt=prompt,
            **variables,
        )
    except Exception as error:
        if "--errors" in sys.argv:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return None


def compiled(source, name):
    try:
        return environment.from_string(source)
    except Exception as error:
        print(f"{name}: {error}", file=sys.stderr)
        return None


def recorded(folder):
    given = json.loads((folder / "conversations.json").read_text())
    tries = [(one, prompt) for one in given["conversations"] for prompt in (False, True)]
    for path in sorted(folder.glob("*.jinja")):
        template = compiled(path.read_bytes().decode(), path.name)
        yield path.name, template and [render(template, one, given, prompt) for one, prompt in tries]


def snippets(path):
    given = json.loads(path.read_text())
    for source in given["templates"]:
        template = compiled(source, source)
        yield template and render(template, [], {"variables": given["variables"]}, False)


given = pathlib.Path(sys.argv[1])
result = dict(recorded(given)) if given.is_dir() else list(snippets(given))
json.dump(result, sys.stdout, ensure_ascii=False)
