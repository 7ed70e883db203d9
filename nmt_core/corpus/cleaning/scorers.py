"""Load external scorers and filters of pairs by name, and run programs that score pairs.

A name is an entry point of an installed package (group `nmt_pipeline.scorers` or `nmt_pipeline.filters`) or a function
as module:function. The function gets a polars table of normalised pairs (columns source and target) and returns a
polars Series with one value for each pair, in order. A scorer returns numbers. A filter returns true for each pair to
drop. The function may be called in any process, any number of times and for any number of pairs. Its value for a pair
must therefore depend only on that pair.

A program is started for each shard. It reads lines of source, tab, target from its standard input until the input ends,
and writes one number a line to its standard output. This matches the mode `--score_only ... - -` of
bicleaner-ai-classify, for which it is intended. That program and its models were not available, so only other programs
have been tested.
"""

import functools
import hashlib
import importlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Literal

import polars as pl

from nmt_core.config import CleanConfig, ScoreRule
from nmt_core.errors import ConfigError, counted
from nmt_core.store.digests import sha256_of

Kind = Literal["scorers", "filters", "identifiers"]
External = Callable[[pl.DataFrame], pl.Series]

_SHOWN = 300  # characters of a program's output in a message
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|java|lua|php|Rscript|bash|dash|zsh|sh|env)[\d.]*")


def scorer_of(rule: ScoreRule) -> External:
    """Return the function that scores pairs, or a function that runs the program.

    Raises:
        ConfigError: there is no such function. Calling the result raises it if the program cannot be started, fails, or
            does not write one number for each pair.
    """
    if rule.command:
        return functools.partial(_scores_by_program, rule)
    return find("scorers", rule.scorer)


@functools.lru_cache(maxsize=64)
def find(kind: Kind, name: str) -> External:
    """Return the function of this name, wrapped so that its result is checked.

    Raises:
        ConfigError: there is no such function, or it cannot be imported. Calling the result raises it if the function
            does not return one value of the right type for each pair.
    """
    function = load(kind, name)
    if not callable(function):
        raise ConfigError(f"{_place(kind, name)}: is a {type(function).__name__}, not a function: name another")

    def checked(pairs: pl.DataFrame) -> pl.Series:
        return _checked(function(pairs), pairs.height, kind, name)

    return checked


def require_allowed(config: CleanConfig) -> None:
    """Reject a recipe that names code to run: a program, or a function that is not an installed entry point.

    Raises:
        ConfigError: the recipe names such code.
    """
    places = [f"clean.scores: command {rule.command!r}" for rule in config.scores if rule.command]
    names = [("scores", rule.scorer) for rule in config.scores if not rule.command]
    names += [("filters", name) for name in config.filters] + [("identifier", config.identifier)]
    places += [f"clean.{kind}: {name!r}" for kind, name in names if ":" in name]
    if places:
        raise ConfigError(
            f"{places[0]}: this recipe names code to run, which NMT_ALLOW_CODE forbids here (the default for recipes "
            "from a Prefect server): run the recipe with `nmt run`, or provide the function as an entry point of an "
            "installed package; set NMT_ALLOW_CODE=1 for the worker only if everyone who can reach that server may run "
            "programs there"
        )


def version(kind: Kind, name: str) -> str:
    """Return a string that changes when the function of this name does. Empty means an unknown function.

    It is the version of the package with the entry point, or the sha256 of the file of module:function. Imports from
    other files are not tracked.
    """
    module, colon, _ = name.partition(":")
    if colon:
        return _sha256_of_module(module)
    points = metadata.entry_points(group=f"nmt_pipeline.{kind}", name=name)
    return next((point.dist.version for point in points if point.dist), "")


def files_of(command: str) -> dict[str, str]:
    """Return the sha256 of each word of a command that is a file (a program, a script, a model), by the word.

    The first line of a script that is the program does not count, because it names a path of this machine. Interpreters
    such as python3, whose version belongs to this machine, and folders do not count either.
    """
    try:
        program, *words = shlex.split(command)
    except ValueError:  # reported when the command is started
        return {}
    paths = {word: Path(word.partition("=")[2] if "=" in word else word) for word in words}  # as in --model=FILE
    hashes = {word: sha256_of(path) for word, path in paths.items() if _is_file(path)}
    place = shutil.which(program)
    if place and not _INTERPRETER.fullmatch(Path(place).name):
        hashes[program] = _sha256_of_program(Path(place))
    return dict(sorted(hashes.items()))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # not a path, such as a word of thousands of letters
        return False


def _sha256_of_program(file: Path) -> str:
    with file.open("rb") as program:
        if program.read(2) != b"#!":
            return sha256_of(file)
        program.readline()
        return hashlib.file_digest(program, "sha256").hexdigest()


def _sha256_of_module(name: str) -> str:
    file = _file_of(name)
    return sha256_of(file) if file else ""


def _file_of(module: str) -> Path | None:
    """Return the file of a module, found as an import would find it.

    Nothing is imported, not even the packages that contain the module.
    """
    path: Sequence[str] | None = None
    spec, name = None, ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        try:
            specs = (finder.find_spec(name, path) for finder in sys.meta_path)
            spec = next(filter(None, specs), None)
        except (ImportError, AttributeError, ValueError):  # raised by the stage when it imports the module
            return None
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or [])
    file = Path(spec.origin) if spec and spec.origin else None
    return file if file and file.is_file() else None


def load(kind: Kind, name: str) -> object:
    """Return what an entry point, or module:function, names.

    Raises:
        ConfigError: there is no such name, or it cannot be imported.
    """
    group = f"nmt_pipeline.{kind}"
    module, colon, attribute = name.partition(":")
    try:
        if colon:
            return getattr(importlib.import_module(module), attribute)
        points = metadata.entry_points(group=group)
        if name in points.names:
            return points[name].load()
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{_place(kind, name)}: {error}: install its package, or correct the name") from error
    known = ", ".join(sorted(points.names)) or "none"
    raise ConfigError(
        f"{_place(kind, name)}: no entry point of the group {group} has this name (installed: {known}): install the "
        "package that has it, or name a function as module:function"
    )


def _checked(result: object, pairs: int, kind: Kind, name: str) -> pl.Series:
    expected = "a polars Series with " + ("a number" if kind == "scorers" else "true or false") + " for each pair"
    if not isinstance(result, pl.Series):
        problem = f"a {type(result).__name__}"
    elif len(result) != pairs:
        problem = f"{counted(len(result), 'value')} for {counted(pairs, 'pair')}"
    elif kind == "scorers" and result.dtype.is_numeric():
        return result.cast(pl.Float64)
    elif kind == "filters" and result.dtype == pl.Boolean:
        return result
    else:
        problem = f"values of type {result.dtype}"
    raise ConfigError(f"{_place(kind, name)}: returned {problem}: it must return {expected}")


def _scores_by_program(rule: ScoreRule, pairs: pl.DataFrame) -> pl.Series:
    if pairs.is_empty():
        return pl.Series(dtype=pl.Float64)
    place = f"{_place('scorers', rule.scorer)}: `{rule.command}`"
    # Normalised text contains no tabs and no line ends.
    lines = pairs.select(pl.format("{}\t{}\n", "source", "target").str.join("")).item()
    try:
        done = subprocess.run(shlex.split(rule.command), input=lines.encode(), capture_output=True, check=False)
    except OSError as error:
        raise ConfigError(
            f"{place}: cannot be started ({error.strerror or error}): install it where the workers run, or correct "
            "the command"
        ) from None
    if done.returncode:
        raise ConfigError(f"{place}: ended with exit code {done.returncode}{last_words(done.stderr)}: run it by hand")
    written = done.stdout.decode("utf-8", "replace").splitlines()
    texts = pl.Series(written, dtype=pl.String).str.strip_chars()
    scores = texts.cast(pl.Float64, strict=False)
    if len(scores) != pairs.height:
        raise ConfigError(
            f"{place}: wrote {counted(len(scores), 'line')} for {counted(pairs.height, 'pair')}"
            f"{last_words(done.stderr)}: it must write one number for each line that it reads"
        )
    if scores.has_nulls():
        line = int(scores.is_null().arg_true()[0])
        raise ConfigError(
            f"{place}: wrote {texts[line][:_SHOWN]!r} as line {line + 1:,}: it must write one number for each line "
            "that it reads, and nothing else"
        )
    return scores


def last_words(stderr: bytes) -> str:
    """Return the last line that a program wrote to its standard error, for a message."""
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return f" ({lines[-1].strip()[:_SHOWN]})" if lines else ""


def _place(kind: Kind, name: str) -> str:
    option = {"scorers": "scores", "filters": "filters", "identifiers": "identifier"}[kind]
    return f"clean.{option}: {name!r}"
