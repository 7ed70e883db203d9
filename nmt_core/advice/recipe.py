"""Write a recipe, each line below its reason."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from nmt_core.advice.decisions import Part
from nmt_core.advice.findings import Corpus, Findings
from nmt_core.config import PipelineConfig
from nmt_core.config.faults import explain_fault
from nmt_core.errors import ConfigError
from nmt_core.store.atomic import write_atomically

_WIDTH = 110
_ROLES = {
    "train": "the text to train on",
    "dev": "the dev set, which checks training. Its name says so",
    "test": "the test sets, which decide whether a model becomes champion. Their names say so",
}
_REASONS_SHOWN = 6


def rendered(findings: Findings, parts: Sequence[Part], about: Sequence[str]) -> str:
    """Return the text of a recipe.

    Args:
        findings: what is known of the text.
        parts: the sections, in their order.
        about: lines for the head of the file: who wrote it, and from what.

    Raises:
        ConfigError: the values do not fit together, for example after answers that contradict each other.
    """
    source, target = findings.languages
    lines = [comment for text in about for comment in _comment(text, "")]
    lines += [f"name: {_flow(findings.name)}"]
    lines += [f"description: {_flow(f'{source} to {target}, {findings.kept_pairs:,} pairs. Written by nmt init.')}"]
    lines += [
        *_comment(_languages_reason(findings), ""),
        f"languages: {_flow({'source': source, 'target': target})}",
        "",
    ]
    lines += _corpus_lines(findings)
    lines += ["", *_filter_comments(findings)]
    for part in parts:
        lines += [f"{part.name}:"]
        for line in part.lines:
            lines += [*_comment(line.reason, "  "), f"  {line.key}: {_flow(line.value)}"]
        lines += [""]
    text = "\n".join(lines).rstrip("\n") + "\n"
    _require_valid(text)
    return text


def require_free(path: Path, *, force: bool) -> None:
    """Check that a recipe may be written to a file: it does not exist, unless `force` is set.

    Raises:
        ConfigError: the file exists, or is called something else than a recipe.
    """
    if path.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"{path}: a recipe is a YAML file: give it a name that ends in .yaml")
    if path.exists() and not force:
        raise ConfigError(f"{path}: exists already: name another file with --output, or replace it with --force")


def write(path: Path, text: str, *, force: bool) -> None:
    """Write a recipe to a file (see `require_free`).

    Raises:
        ConfigError: the file exists, or cannot be written.
    """
    require_free(path, force=force)
    try:
        write_atomically(path, text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}): name another file with --output") from None


def _require_valid(text: str) -> None:
    try:
        PipelineConfig.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        faults = "; ".join(explain_fault(detail) for detail in error.errors())
        raise ConfigError(f"the answers do not fit together: {faults}") from None


def _languages_reason(findings: Findings) -> str:
    if findings.sample is None:
        return "named on the command line. Turn them around for the other direction"
    shares = [
        f"{share.get(language, 0.0):.0%} of the {side} is in {language}"
        for share, language, side in zip(findings.sample.shares, findings.languages, ("source", "target"), strict=True)
    ]
    return f"{' and '.join(shares)}, by language identification. `nmt init --languages` turns them around"


def _corpus_lines(findings: Findings) -> list[str]:
    lines = ["# Paths are relative to the folder in which nmt runs. State the licence of your text: it is shown with"]
    lines += ["# the model, as in {..., licence: CC-BY-4.0}", "corpus:"]
    for role, about in _ROLES.items():
        corpora = findings.of_role(role)  # type: ignore[arg-type]
        if corpora:
            lines += [*_comment(about, "  "), f"  {role}:", *map(_entry, corpora)]
    return lines


def _entry(corpus: Corpus) -> str:
    return f"    - {_flow(corpus.entry)}  # {_one_line(corpus.about)}"


def _filter_comments(findings: Findings) -> list[str]:
    """Return what the filters drop, as a comment: nearly all of them stay at their defaults."""
    sample = findings.sample
    if sample is None:
        return _comment("No text was looked at, so the filters of `clean` stay at their defaults", "")
    reasons = [
        f"{reason} {share:.1%}" for reason, share in list(sample.reasons.items())[:_REASONS_SHOWN] if share >= 5e-4
    ]
    dropped = f" They drop: {', '.join(reasons)}." if reasons else ""
    what = "the text" if sample.is_whole else f"a sample of {sample.judged:,} pairs, in which not all copies are seen"
    return _comment(
        f"The filters of `clean` keep {sample.kept_share:.1%} of {what}.{dropped} `nmt clean` shows examples, and "
        "lets you move thresholds. Thresholds that are not written here are the defaults",
        "",
    )


def _comment(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        _one_line(text[:1].upper() + text[1:]),
        _WIDTH,
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _one_line(text: str) -> str:
    """Return a text that stays within a comment, whatever a file name holds."""
    return "".join(character if character.isprintable() else " " for character in text)


def _flow(value: Any) -> str:
    """Return a value as YAML in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, sort_keys=False, width=1_000_000)
    return text.removesuffix("\n").removesuffix("\n...").removesuffix("\n")
