"""Model card of a registered model in Markdown: data and licences, scores, limits, training and usage.

The complete card is a file of the logged model. The description of the version is the same card, with lists shortened
where it is longer than MLflow's database allows. It follows the current recipe: a licence that is corrected there is
corrected in the description.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flows.display.forecasts import rough_duration
from flows.display.markdown import code, link
from flows.display.markdown import in_mlflow as plain
from flows.registry.candidate import Candidate
from flows.runs.cost import PartCost, part_costs
from nmt_core.config import PipelineConfig
from nmt_core.config.budget import SECONDS_PER_HOUR
from nmt_core.corpus.index import MONOLINGUAL, CorpusIndex, StoredCorpus, licence_files
from nmt_core.evaluate.sentences import read_sentences
from nmt_core.judges.impartial import partial_judges
from nmt_core.store.artifacts import REPORT, Artifact

CARD_FILE = "model_card.md"
"""Name of the card among the files of the logged model."""
LONGEST_DESCRIPTION = 5_000  # characters; the limit of MLflow's database

_MORE = f"- and more: see `{CARD_FILE}` in the model's files"
_HARDEST = 3
_CHARACTERS_OF_A_SENTENCE = 160


@dataclass
class _Section:
    """Section of the card. Lines can be dropped from its end, its text cannot."""

    text: str
    lines: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([self.text, *([""] if self.text and self.lines else []), *self.lines])


def model_card(config: PipelineConfig, candidate: Candidate, most_characters: int = 0) -> str:
    """Return the card of a model that is registered or is about to be.

    Args:
        config: Current recipe.
        candidate: Model, with its artifacts that still exist.
        most_characters: Maximum length. The longest lists are shortened to fit. 0 means no limit.
    """
    sections = [
        _about(config, candidate),
        *_data(config, candidate),
        _scores(candidate),
        _limits(config, candidate),
        _training(config, candidate),
        _usage(config),
    ]
    while most_characters and len(_joined(sections)) > most_characters:
        longest = max(sections, key=lambda section: sum(map(len, section.lines)))
        if len(longest.lines) < 2:
            return _joined(sections)[:most_characters]
        end = 2 if longest.lines[-1] == _MORE else 1
        longest.lines[-end:] = [_MORE]
    return _joined(sections)


def _joined(sections: Sequence[_Section]) -> str:
    return "\n\n".join(filter(None, map(str, sections)))


def _about(config: PipelineConfig, candidate: Candidate) -> _Section:
    text = plain(config.description) or f"The recipe {plain(config.name)}."
    languages = config.languages
    if languages.pairs:
        text += f"\n\nTranslates the pairs {', '.join(languages.pairs)}, one sentence at a time. "
    else:
        text += (
            f"\n\nTranslates {languages.source} into {languages.target}, one sentence at a time, in this direction "
            "only. "
        )
    text += (
        "It is meant for text similar to its training data. A person who knows both languages must review every "
        "translation that matters to health, law or money."
    )
    if candidate.started_from:
        text += (
            f"\n\nIts training started from {plain(candidate.started_from)}, so the training data of that model "
            "counts as well."
        )
    for teacher in _report(candidate.synthesise).get("teachers", []):
        version = candidate.teachers.get(teacher["teacher"], "") or "not a registered model"
        text += (
            f"\n\nThe part {plain(teacher['part'])} of its training text was translated by "
            f"{plain(teacher['teacher'])} ({plain(version)}; {teacher['sentences']:,} sentences; sha256 of the model "
            f"{teacher['sha256'][:12]}), so the training data of that model counts as well."
        )
    if candidate.members:
        text += (
            f"\n\nIt is an ensemble of {len(candidate.members)} models, whose probabilities are averaged: "
            f"{'; '.join(_member(member, candidate) for member in candidate.members)}."
        )
    if candidate.other_members:
        text += " The training data of the members of other runs counts as well."
    return _Section(text)


def _member(member: Mapping[str, Any], candidate: Candidate) -> str:
    """Return the name of a member of an ensemble, with its registered versions if another run trained it."""
    name = plain(member["model"]) + (f" after update {member['checkpoint']}" if member["checkpoint"] else "")
    version = "of this run" if member["is_own"] else candidate.teachers.get(member["model"], "")
    return f"{name} ({plain(version or 'not a registered model')}; sha256 of the weights {member['sha256'][:12]})"


def _data(config: PipelineConfig, candidate: Candidate) -> list[_Section]:
    """Return the licence, page and citation of each corpus.

    They come from the current recipe, or else from what was known of the addresses.
    """
    download, clean = candidate.download, candidate.clean
    if not download:
        return [_Section(f"Licence of the text: {plain(config.corpus.licence) or 'not stated in the recipe'}")]
    index = CorpusIndex.of(download)
    left_out = index.skipped | (clean.report()["skipped"] if clean else {})
    stored = [*index.of_role("train"), *_translated(config, index)]
    trained_on = [corpus.as_of(config.corpus) for corpus in stored if corpus.name not in left_out]
    about = [(plain(_licence_of(corpus, download)), link(corpus.page)) for corpus in trained_on]
    lines = [f"- {', '.join(filter(None, parts))}" for parts in about]
    lines += [f"- {plain(name)}: skipped, because it could not be fetched or read" for name in left_out]
    citations = dict.fromkeys(" ".join(corpus.citation.split()) for corpus in trained_on if corpus.citation)
    sections = [_Section("## Trained on", lines)]
    return [*sections, _Section("Please cite:", [f"- {plain(text)}" for text in citations])] if citations else sections


def _translated(config: PipelineConfig, index: CorpusIndex) -> list[StoredCorpus]:
    """Return the monolingual corpora that teachers translated."""
    parts = [part for part in config.synthesis.parts if part.text != "parallel_source"]
    taken = {name for part in parts for name in part.corpora or config.text_of(part)}
    return [corpus for corpus in index.of_role(MONOLINGUAL) if corpus.name in taken]


def _licence_of(corpus: StoredCorpus, download: Artifact) -> str:
    if corpus.licence:
        return f"{corpus.name}: {corpus.licence}"
    inside = ", ".join(licence_files(download, corpus))
    return f"{corpus.name}: licence not stated" + (f" (but its archive holds {inside})" if inside else "")


def _scores(candidate: Candidate) -> _Section:
    report = _report(candidate.evaluate)
    lines = []
    for score in report.get("scores", []):
        low, high = score.get("low"), score.get("high")
        interval = f" (95% interval {low:.2f} to {high:.2f})" if low is not None and high is not None else ""
        name, signature = plain(score["test_set"]), code(score["signature"])
        lines.append(f"- {name}: {score['metric']} {score['score']:.2f}{interval}, {signature}")
    return _Section("## Scores", lines) if lines else _Section("")


def _limits(config: PipelineConfig, candidate: Candidate) -> _Section:
    report = _report(candidate.evaluate)
    split = config.search.long_lines == "split"
    lines = [
        f"- Trained on sentences of up to {config.encode.max_length} tokens; longer sentences are translated badly. "
        + (
            f"Lines of more than {config.search.max_source_tokens:,} tokens are translated sentence by sentence."
            if split
            else f"Lines of more than {config.search.max_source_tokens:,} tokens are truncated."
        ),
        f"- Not tested on domains other than its training data ({plain(_domains(config))}) and the test sets above.",
    ]
    if not config.clean.decontaminate:
        lines.append("- The training text may contain sentences of the test sets, so scores may be too high.")
    lines += [_of_lengths(rows) for rows in _by_test_set(report.get("by_length", [])) if len(rows) > 1]
    if unfinished := report.get("unfinished", 0):
        lines.append(
            f"- {unfinished:,} of {report['items_out']:,} translations of test sentences did not end, and were cut."
        )
    lines += [f"- {plain(sentence)}." for sentence in partial_judges(config)]
    for precision, reason in _report(candidate.export).get("not_published", {}).items():
        lines.append(f"- Not published: {precision} graphs ({plain(reason)}).")
    return _Section("## Limits", [*lines, *_hardest(candidate.evaluate, report)])


def _domains(config: PipelineConfig) -> str:
    return "a toy grammar" if config.corpus.toy else ", ".join(corpus.name for corpus in config.corpus.train)


def _by_test_set(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    names = dict.fromkeys(row["test_set"] for row in rows)
    return [[row for row in rows if row["test_set"] == name] for name in names]


def _of_lengths(rows: Sequence[dict[str, Any]]) -> str:
    shortest, longest = rows[0], rows[-1]
    return (
        f"- {plain(shortest['test_set'])}: BLEU {shortest['bleu']:.1f} on sentences of up to {shortest['longest']} "
        f"{shortest['unit']}, {longest['bleu']:.1f} on sentences of {longest['shortest']} or more."
    )


def _hardest(evaluate: Artifact, report: dict[str, Any]) -> list[str]:
    """Return the sentences of the main test set with the lowest chrF."""
    names = [score["test_set"] for score in report.get("scores", [])]
    rows = read_sentences(evaluate.path, names[0]) if names else None
    if rows is None:
        return []
    hardest = rows.sort("chrf", maintain_order=True).head(_HARDEST).iter_rows(named=True)
    return [
        f"- Hard (chrF {row['chrf']:.0f}): {_cut(row['source'])} -> {_cut(row['hypothesis'])} "
        f"(reference: {_cut(row['reference'])})"
        for row in hardest
    ]


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return plain(text if len(text) <= _CHARACTERS_OF_A_SENTENCE else f"{text[:_CHARACTERS_OF_A_SENTENCE]}…")


def _training(config: PipelineConfig, candidate: Candidate) -> _Section:
    parameters = _report(candidate.export).get("items_out")
    model = config.model
    kind = {"rnn": "Recurrent network"}.get(model.model_dump().get("architecture", ""), "Transformer")
    lines = [
        f"- {kind}, {model.encoder_layers} + {model.decoder_layers} layers of width {model.d_model}"
        + (f", {parameters:,} parameters" if parameters else "")
        + (f" in {len(candidate.members)} members" if candidate.members else "")
        + f"; {config.tokenizer.kind} vocabulary"
    ]
    if train := _report(candidate.train):
        lines.append(
            f"- {train['items_in']:,} sentence pairs, {train['updates']:,} updates, {train.get('tokens', 0):,} target "
            f"tokens; dev loss {train['dev_loss']:.3f} nats per token"
        )
        if operations := train.get("floating_point_operations"):
            lines.append(f"- {operations:.2e} floating-point operations")
        gpus = train.get("gpu_seconds", 0.0) / SECONDS_PER_HOUR
        lines.append(
            f"- {gpus:.2f} GPU hours"
            if gpus
            else f"- {train.get('cpu_seconds', 0.0) / SECONDS_PER_HOUR:.2f} CPU hours, without a GPU"
        )
    for part in part_costs(None, _report(candidate.synthesise)):
        lines.append(f"- {plain(part.part)}: {_time_and_tokens(part)}")
    for model_of_round in candidate.rounds[:-1]:
        of_round = f"Round {model_of_round.round}, {model_of_round.direction}"
        lines += [f"- {plain(f'{of_round}, {part.part}')}: {_time_and_tokens(part)}" for part in model_of_round.costs]
    lines.append(f"- Artifacts: export {candidate.export.fingerprint}, evaluate {candidate.evaluate.fingerprint}")
    return _Section("## Training", lines)


def _time_and_tokens(part: PartCost) -> str:
    tokens = "" if part.tokens is None else f"{part.tokens:,} target tokens, "
    return f"{tokens}{rough_duration(part.seconds)}"


def _usage(config: PipelineConfig) -> _Section:
    name, languages = config.model_name, config.languages
    to, params = "", ""
    if len(languages.targets) > 1:
        to, params = f" --to {languages.target}", f', params={{"to": "{languages.target}"}}'
    return _Section(
        "## Use\n\n"
        f"    nmt translate --model models:/{name}@champion --input in.txt --output out.txt{to}\n\n"
        f'    mlflow.pyfunc.load_model("models:/{name}@champion").predict(["A line of text."]{params})\n\n'
        "The second command needs `mlflow`, `numpy`, `onnxruntime`, `sentencepiece`, `sentencex`, `ahocorasick-rs`, "
        "`pydantic` and `ftfy`, but neither torch nor this pipeline."
    )


def _report(artifact: Artifact | None) -> dict[str, Any]:
    """Return the report of an artifact, or nothing if it no longer exists."""
    file = artifact.path / REPORT if artifact else None
    return json.loads(file.read_text(encoding="utf-8")) if file and file.is_file() else {}
