"""Write the pages of the reference that follow from the code: commands, options and settings.

`make docs` and `make docs-check` run this before they build the site. Git ignores the pages, so they cannot drift.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

import flows.settings
from flows.cli.app import app
from nmt_core.config import PipelineConfig
from nmt_core.recipes.reference import option_reference

FOLDER = Path(__file__).parent / "reference"


def main() -> None:
    """Write all generated pages."""
    for name, text in {"commands": commands(), "options": options(), "settings": settings()}.items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")


def commands() -> str:
    """Return the page of all commands, read from the command line's own definition."""
    runnable = list(leaves(get_command(app), "nmt"))
    lines = [
        "# Commands",
        "",
        "Generated from the program. `nmt COMMAND --help` prints the same in a terminal.",
        "",
        "Exit codes: 0 after success, 1 after an error, 2 after a usage error, 75 if training was preempted (run the "
        "same command again), 130 after Ctrl-C.",
        "",
        "`nmt --install-completion` teaches the shell to complete commands, recipes, stages and the options of "
        "`--set`.",
        "",
        "| command | purpose |",
        "| --- | --- |",
    ]
    for path, command in runnable:
        lines.append(f"| [`{path}`](#{_slug(path)}) | {_plain(_paragraphs(command)[0])} |")
    for path, command in runnable:
        lines += ["", *_command(path, command)]
    return "\n".join(lines) + "\n"


def options() -> str:
    """Return the page of all options of a recipe, a table for each section."""
    sections: dict[str, list[str]] = {}
    for row in option_reference().splitlines()[2:]:
        name = re.match(r"\| `([a-z_]+)(?=([.\[`]))", row)
        if name is None:
            raise ValueError(f"option_reference: {row!r} does not begin with the name of an option")
        sections.setdefault(name[1] if name[2] != "`" else "recipe", []).append(row)
    lines = [
        "# Options",
        "",
        "Generated from `nmt_core/config`. An option of a recipe decides what the model is. In a recipe, `train.seed` "
        "is the key `seed` of the section `train`; on the command line it is `--set train.seed=2`. `[]` marks a list.",
        "",
        'Text that is not set is empty: leave the option out, or write `""`. Its meaning says what *empty means*. A '
        "number without a default is `null` while it is not set, which is an empty field in Prefect's form.",
        "",
        "What decides where and how fast something runs is a [setting](settings.md).",
    ]
    for section, rows in sections.items():
        lines += ["", f"## {section}", "", *_introduction(section)]
        lines += ["| option | default | allowed | meaning |", "| --- | --- | --- | --- |"]
        lines += [_option(row) for row in rows]
    return "\n".join(lines) + "\n"


def settings() -> str:
    """Return the page of all settings, read from the table in the docstring of `flows.settings`."""
    lines = [
        "# Settings",
        "",
        "Generated from `flows/settings`. A setting is an environment variable. It says where something runs and which "
        "servers it uses, and never changes what a model is; that is the work of [options](options.md).",
        "",
        "| setting | meaning | default |",
        "| --- | --- | --- |",
    ]
    for names, text in setting_entries(flows.settings.__doc__ or ""):
        anchors = ", ".join(f"`{name}`{{ #{name.lower()} }}" for name in names)
        meaning, default = _without_default(text)
        lines.append(f"| {anchors} | {_plain(meaning)} | {_plain(default)} |")
    return "\n".join(lines) + "\n"


def setting_entries(docstring: str) -> Iterator[tuple[list[str], str]]:
    """Yield the names and the text of each entry of the table: names at the margin, their text indented.

    Raises:
        ValueError: the docstring has no such table.
    """
    entry = re.compile(r"^([A-Z][A-Z0-9_]+(?:, [A-Z][A-Z0-9_]+)*)(?: {2,}(.*))?$")
    names: list[str] = []
    words: list[str] = []
    has_entries = False
    for line in [*docstring.splitlines(), ""]:
        match = entry.match(line)
        if names and (match or not line.startswith("  ")):
            has_entries = True
            yield names, " ".join(words)
            names, words = [], []
        if match:
            names, words = match[1].split(", "), [match[2]] if match[2] else []
        elif names:
            words.append(line.strip())
    if not has_entries:
        raise ValueError("flows.settings: its docstring has no table of settings, such as `NMT_HOME   folder of ...`")


def leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each command that does something, with the words that call it."""
    subcommands = getattr(command, "commands", {})
    if not subcommands:
        yield path, command
    for name, subcommand in subcommands.items():
        yield from leaves(subcommand, f"{path} {name}")


def _command(path: str, command: Any) -> Iterator[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    flags = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    usage = " ".join([path, *(["[OPTIONS]"] if flags else []), *map(_shown_argument, arguments)])
    yield from (f"## {path} {{ #{_slug(path)} }}", "", "```text", usage, "```", "")
    for paragraph in _paragraphs(command):
        yield from (_plain(paragraph), "")
    if arguments or flags:
        yield from ("| argument or option | default | meaning |", "| --- | --- | --- |")
    for each in (*arguments, *flags):
        yield f"| {_shown(each)} | {_shown_default(each)} | {_plain(getattr(each, 'help', '') or '')} |"


def _shown(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_shown_argument(parameter)}`"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    value = "" if parameter.is_flag else f" `{parameter.metavar or parameter.name.upper()}`"
    return f"{names}{value}".replace("|", "\\|")


def _shown_argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name.upper()) + ("..." if parameter.nargs == -1 else "")
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def _shown_default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    return "" if parameter.default in (None, "", False, "-") else f"`{parameter.default}`"


def _paragraphs(command: Any) -> list[str]:
    """Return the paragraphs of a command's help."""
    return [" ".join(text.split()) for text in (command.help or "").split("\n\n")]


def _introduction(section: str) -> Iterator[str]:
    """Yield what the section's class says of itself."""
    field = PipelineConfig.model_fields.get(section)
    text = (field and getattr(field.annotation, "__doc__", None)) or ""
    if text:
        yield from (_plain(" ".join(text.split())), "")


def _option(row: str) -> str:
    """Give the row of an option an anchor of its name, and show its text as it is."""
    name, default, allowed, meaning = re.split(r"(?<!\\) \| ", row.removeprefix("| ").removesuffix(" |"), maxsplit=3)
    anchor = re.sub(r"[^a-z0-9_.]", "", name).strip(".").replace(".", "-")
    named = f"{name}{{ #{anchor} }}" if "..." not in name else name
    return f"| {named} | {default} | {allowed} | {_plain(meaning)} |"


def _without_default(text: str) -> tuple[str, str]:
    """Cut `(default: ...)` out of the text of a setting."""
    match = re.search(r" ?\(default: ((?:[^()]|\([^()]*\))*)\)", text)
    if match is None:
        return text, ""
    return (text[: match.start()] + text[match.end() :]).strip(), match[1]


def _plain(text: str) -> str:
    """Show text as it is, outside of code: no HTML, emphasis or links of Markdown in it."""
    parts = re.split(r"(`[^`]*`)", text)
    escaped = [re.sub(r"([*_\[\]])", r"\\\1", each).replace("<", "&lt;") for each in parts[::2]]
    parts[::2] = [re.sub(r"(?<!\\)\|", r"\\|", each) for each in escaped]
    return "".join(parts)


def _slug(path: str) -> str:
    return path.replace(" ", "-")


if __name__ == "__main__":
    main()
