"""Run the stage `clean`: normalise, filter, deduplicate and decontaminate the training text. Account for every pair.

The text is cut into shards as it is read, so memory does not grow with it. Workers judge shards while the next ones are
read. The order of the pairs and every byte of the result are the same for any number of workers.
"""

import hashlib
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import polars as pl

from nmt_core.config import CROSS_ENTROPY_DIFFERENCE, SIDES, CleanConfig, LanguagesConfig, PipelineConfig, Side
from nmt_core.corpus import reading
from nmt_core.corpus.cleaning import cross_entropy, filters, identifiers, scorers, unchecked
from nmt_core.corpus.cleaning.filters import word_lists
from nmt_core.corpus.cleaning.filters.base import languages_by_side
from nmt_core.corpus.cleaning.thresholds import CleanRules, rules_for
from nmt_core.corpus.duplicates import exact
from nmt_core.corpus.funnel import CleanReport, Tally
from nmt_core.corpus.held_out import decontaminate
from nmt_core.corpus.index import MONOLINGUAL, CorpusIndex, Role, StoredCorpus
from nmt_core.corpus.shard import JudgedShard, RawShard, finish_shard, judge_shard
from nmt_core.errors import DataError, StageError, counted
from nmt_core.stages.stage import Inputs, Job, require_sum
from nmt_core.store import storage
from nmt_core.store.artifacts import Identity
from nmt_core.store.digests import sha256_of

TRAIN_FILES = "train-*.parquet"
DROPPED_FILES = "dropped-*.parquet"
MONOLINGUAL_FILES = "monolingual-[0-9]*.parquet"

_WORD_LISTS = ("source_word_list", "target_word_list")
_JUDGED, _COMPARED = 0.8, 0.9  # shares of the work that are done after these steps, for the progress bar
_FEWEST_SWAPPED = 20  # pairs: a smaller number may be an accident of a small corpus


def identity(config: PipelineConfig) -> Identity:
    """Return the values that decide the result. Word lists count by their content, and external code by its version.

    The files that a command names count by their content.
    """
    values = config.clean.model_dump(mode="json")
    for option in _WORD_LISTS:
        if values[option] and Path(values[option]).is_file():  # the stage reports a missing file
            values[option] = sha256_of(Path(values[option]))
    versions = {name: scorers.version("filters", name) for name in config.clean.filters}
    versions |= {rule.scorer: scorers.version("scorers", rule.scorer) for rule in config.clean.scores}
    values["versions"] = versions
    if config.clean.identifier:
        versions[config.clean.identifier] = identifiers.version(config.clean.identifier)
        if Path(config.clean.identifier_model).is_file():
            values["identifier_model"] = sha256_of(Path(config.clean.identifier_model))
    programs = {rule.scorer: files for rule in config.clean.scores if (files := scorers.files_of(rule.command))}
    if programs:
        values["programs"] = programs
    return {"clean": values, "languages": config.languages.model_dump(mode="json")}


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> CleanReport:
    """Write `train-NNNNN.parquet` and `dropped-NNNNN.parquet`, one of each for every shard.

    The former holds source, target, corpus, line, licence, the requested scores, and the number of the document if a
    corpus of the recipe tells documents apart. The latter holds corpus, line, reason, value, source and target. The
    text is normalised in both. Of monolingual text, `monolingual-NNNNN.parquet` holds text, side, corpus, line and
    licence, and the language if there are many pairs of languages. `monolingual-dropped-NNNNN.parquet` is like the
    table of dropped pairs, with one side empty.

    Raises:
        ConfigError: the recipe names code to run, and running code is not allowed.
        DataError: a corpus cannot be read, and `corpus.on_bad_corpus` is `fail`.
        StageError: no pair is left.
    """
    if not job.allow_code:
        scorers.require_allowed(config.clean)
    if config.clean.identifier:
        identifiers.require_loadable(config.clean.identifier, config.clean.identifier_model)
    pairs = config.languages.pairs or ("",)
    of_pairs = [
        unchecked.notes(config.clean, config.languages.of(pair) if pair else config.languages) for pair in pairs
    ]
    for note in dict.fromkeys(chain.from_iterable(of_pairs)):
        job.reporter.log(note)
    cleaning = _Cleaning(config, inputs, out, job)
    try:
        cleaning.judge()
        cleaning.compare()
        report = cleaning.finish()
    finally:
        storage.remove_folder(cleaning.scratch)
    require_sum("clean", report.items_in, {"kept": report.items_out, "dropped": sum(report.dropped.values())})
    if not report.items_out:
        raise StageError(_nothing_left(config, report))
    return report


@dataclass
class _Judged:
    """Judged shards and counts of one corpus."""

    corpus: StoredCorpus
    shards: list[RawShard] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)


class _Cleaning:
    """Steps of the stage, in order, and the state that they share."""

    def __init__(self, config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> None:
        self.scratch = job.resources.scratch_for(out)
        self._config, self._out, self._job = config, out, job
        self._download = inputs["download"]
        self._index = CorpusIndex.of(self._download)
        self._names = tuple(corpus.name for corpus in self._index.corpora if corpus.role == "train")
        self._alone = tuple(corpus.name for corpus in self._index.of_role(MONOLINGUAL))
        self._judged = {
            corpus.name: _Judged(corpus) for corpus in self._index.corpora if corpus.role in ("train", MONOLINGUAL)
        }
        self._skipped = dict(self._index.skipped)
        self._drops: list[str] = []
        self._notes: dict[str, dict[str, None]] = {}
        self._has_documents = any(judged.corpus.documents for judged in self._judged.values())
        self._drops_alone: list[str] = []

    def judge(self) -> None:
        """Read and judge all pairs, and skip the corpora that prove to be bad."""
        clean, languages = self._config.clean, self._config.languages
        lists = word_lists.read(clean, languages)
        placed = {side: self._write_down(f"{side}-words", phrases) for side, phrases in lists.items()}
        models = self._learn_selection()
        rules = {
            name: replace(
                rules_for(clean, self._languages_of(name), name),
                selection=models,
                word_lists=placed,
                sides=self._sides_of(name),
            )
            for name in (*self._names, *self._alone)
        }
        held_out = self._write_down("held-out", self._held_out())
        for shard, tally in self._job.workers.map(judge_shard, self._raw_shards(held_out, rules)):
            storage.remove([shard.raw])
            judged = self._judged[shard.corpus]
            judged.shards.append(shard)
            judged.tally.add(tally)
        for name, judged in self._judged.items():
            problem = _swapped(judged, clean.max_swapped_share)
            problem = problem or _in_another_language(judged, self._languages_of(name), clean)
            if name not in self._skipped and problem:
                self._skip(name, DataError(problem))
        if self._skipped.keys() >= set(self._names):
            raise StageError(f"clean: every training corpus was skipped: {_first(self._skipped)}")

    def compare(self) -> None:
        """Find copies among all shards, of pairs and of monolingual text."""
        clean = self._config.clean
        self._job.reporter.progress(_JUDGED, 1, "looking for copies")
        passed = [shard.passed for shard in self._shards(self._names)]
        corpora = [self._judged[name].corpus for name in (*self._names, *self._alone)]
        pairs = [corpus.pairs for corpus in corpora] if self._config.languages.pairs else []
        self._drops = exact.deduplicate(passed, clean, self._place("copies", ""), self._job.workers, pairs)
        if alone := [shard.passed for shard in self._shards(self._alone)]:
            # All sentences of a side have the same other side, which is empty. They have no scores.
            rules = clean.model_copy(update={"max_per_source": 0, "max_per_target": 0, "prefer": "first"})
            self._drops_alone = exact.deduplicate(
                alone, rules, self._place("copies-alone", ""), self._job.workers, pairs
            )

    def finish(self) -> CleanReport:
        """Write the shards of the result."""
        shards, alone = self._shards(self._names), self._shards(self._alone)
        report = self._finish(self._names, [self._finish_task(n, shard) for n, shard in enumerate(shards)], "pairs")
        if not self._alone:
            return report
        tasks = [self._finish_task_alone(number, shard) for number, shard in enumerate(alone)]
        monolingual = self._finish(self._alone, tasks, "sentences").without_pairs()
        parts = {"kept": monolingual.items_out, "dropped": sum(monolingual.dropped.values())}
        require_sum("clean, monolingual text", monolingual.items_in, parts)
        return report.model_copy(update={"monolingual": monolingual})

    def _finish(self, names: Sequence[str], tasks: Sequence[JudgedShard], unit: str) -> CleanReport:
        """Write the shards of some corpora, and return the report on them."""
        total = Tally()
        for name in names:
            if name not in self._skipped:
                total.add(self._judged[name].tally)
        for number, tally in enumerate(self._job.workers.map(finish_shard, tasks)):
            total.add(tally)
            task = tasks[number]
            for made in (task.train, task.all_dropped):
                storage.bring(made, self._out / made.rpartition("/")[2])
            storage.remove([task.passed, task.dropped, task.drops])
            share = (number + 1) / len(tasks)
            self._job.reporter.progress(_COMPARED + (1 - _COMPARED) * share, 1, f"{total.kept.total():,} {unit} kept")
        notes = {name: "; ".join(self._notes[name]) for name in names if name in self._notes}
        pairs = {name: ", ".join(self._judged[name].corpus.pairs) for name in names}
        return total.report(self._skipped, _order(self._config), notes, pairs)

    def _shards(self, names: Sequence[str]) -> list[RawShard]:
        """Return the judged shards of the corpora that are not skipped, in the order of the recipe and its lines."""
        return [shard for name in names if name not in self._skipped for shard in self._judged[name].shards]

    def _languages_of(self, name: str) -> LanguagesConfig:
        """Return the source and the target language of a corpus."""
        return self._judged[name].corpus.languages_in(self._config.languages)

    def _sides_of(self, name: str) -> tuple[Side, ...]:
        """Return the sides of a corpus that are checked."""
        return (self._judged[name].corpus.side,) if name in self._alone else SIDES

    def _learn_selection(self) -> str:
        """Train the models of the score `cross-entropy-difference`, and return their address, or an empty string.

        The string is empty if no rule requests the score.
        """
        if not any(map(cross_entropy.is_built_in, self._config.clean.scores)):
            return ""
        models, pairs = cross_entropy.learn(self._config, self._download)
        url = self._place(f"selection-{uuid.uuid4().hex}")  # a worker that outlives the run must not mix up models
        storage.write(models.to_frame(), url)
        domain = self._config.clean.in_domain
        self._job.reporter.log(
            f"{CROSS_ENTROPY_DIFFERENCE}: learnt from {counted(pairs, 'pair')} of {domain} and the same "
            "number of all text"
        )
        return url

    def _raw_shards(self, held_out: str, rules: Mapping[str, CleanRules]) -> Iterator[RawShard]:
        """Read the corpora and write them to files shard by shard, for the workers."""
        number, pairs_read = 0, 0
        names = (*self._names, *self._alone)
        for position, name in enumerate(names):
            try:
                for pairs in self._read(self._judged[name].corpus):
                    raw = self._place(f"raw-{number:05d}")
                    storage.write(pairs, raw, level=1)
                    yield RawShard(
                        raw=raw,
                        passed=self._place(f"passed-{number:05d}"),
                        dropped=self._place(f"dropped-{number:05d}"),
                        corpus=name,
                        position=position,
                        held_out=held_out,
                        rules=rules[name],
                        pair=next(iter(self._judged[name].corpus.pairs), ""),
                    )
                    number += 1
                    pairs_read += pairs.height
                    done = _JUDGED * position / len(names)
                    self._job.reporter.progress(done, 1, f"corpus {name}, {counted(pairs_read, 'pair')} read")
            except DataError as error:
                self._skip(name, error)

    def _read(self, corpus: StoredCorpus) -> Iterator[pl.DataFrame]:
        """Yield the rows of a corpus, `clean.shard_pairs` at a time. The last shard may be smaller."""
        clean, waiting = self._config.clean, pl.DataFrame()
        size = clean.shard_pairs

        def note(text: str) -> None:
            if text not in self._notes.setdefault(corpus.name, {}):
                self._notes[corpus.name][text] = None
                self._job.reporter.log(f"corpus {corpus.name}: {text}")

        for rows in reading.rows(self._download, corpus, self._config.languages, clean.max_line_bytes, note):
            if self._has_documents and not corpus.documents:
                rows = rows.with_columns(document=pl.lit(None, pl.Int64))
            waiting = pl.concat([waiting, rows]) if waiting.height else rows
            while waiting.height >= size:
                yield waiting.head(size)
                waiting = waiting.slice(size)
        if waiting.height:
            yield waiting

    def _held_out(self) -> pl.DataFrame:
        """Return all dev and test text: columns name, source, target, and the pair of languages if there are many."""
        pair_of = {(corpus.role, corpus.name): corpus.pairs[:1] for corpus in self._index.corpora}
        roles: tuple[Role, Role] = ("dev", "test")
        sets = [
            pairs.select(
                pl.lit(f"{role}/{name}").alias("name"),
                "source",
                "target",
                *(pl.lit(pair).alias("pair") for pair in pair_of[role, name]),
            )
            for role in roles
            for name, pairs in reading.held_out_sets(self._download, role, self._config.languages).items()
        ]
        return pl.concat(sets) if sets else pl.DataFrame(schema=dict.fromkeys(("name", "source", "target"), pl.String))

    def _finish_task(self, number: int, shard: RawShard) -> JudgedShard:
        return JudgedShard(
            passed=shard.passed,
            dropped=shard.dropped,
            drops=self._drops[number],
            licence=self._judged[shard.corpus].corpus.licence,
            corpora=(*self._names, *self._alone),
            train=self._place(f"train-{number:05d}"),
            all_dropped=self._place(f"all/dropped-{number:05d}"),
        )

    def _finish_task_alone(self, number: int, shard: RawShard) -> JudgedShard:
        return replace(
            self._finish_task(0, shard),
            drops=self._drops_alone[number],
            train=self._place(f"monolingual-{number:05d}"),
            all_dropped=self._place(f"monolingual-dropped-{number:05d}"),
            side=self._judged[shard.corpus].corpus.side,
            language=self._judged[shard.corpus].corpus.language,
        )

    def _skip(self, name: str, error: DataError) -> None:
        """Skip a corpus if the recipe allows it, or else raise the error."""
        if self._index.on_bad_corpus == "fail":
            raise error
        self._skipped[name] = str(error)
        self._job.reporter.log(f"corpus {name} is skipped: {error}")

    def _write_down(self, name: str, table: pl.DataFrame) -> str:
        """Write a table to a file that all workers can read, and return its address.

        The name is derived from the content: a worker that outlives the run caches the table, and must not mix it up.
        """
        url = self._place(f"{name}-{hashlib.sha256(table.write_json().encode()).hexdigest()[:32]}")
        storage.write(table, url)
        return url

    def _place(self, name: str, suffix: str = ".parquet") -> str:
        return f"{self.scratch}/{name}{suffix}"


def _swapped(judged: _Judged, most: float) -> str | None:
    """Return an error message if more than the share `most` of the pairs has swapped languages, or None."""
    looked_at, swapped = judged.tally.looked_at, judged.tally.swapped
    if swapped < _FEWEST_SWAPPED or swapped <= looked_at * most:
        return None
    return (
        f"corpus {judged.corpus.name}: in {swapped:,} of {looked_at:,} sampled pairs, the source side is in the target "
        "language and the target side in the source language: swap `source` and `target`, correct `languages`, or "
        "raise clean.max_swapped_share if this is intended"
    )


def _in_another_language(judged: _Judged, languages: LanguagesConfig, clean: CleanConfig) -> str | None:
    """Return an error message if too many of the pairs have a side in one and the same other language, or None."""
    for side, expected in languages_by_side(languages).items():
        counts: Counter[str] = getattr(judged.tally, f"{side}_languages")
        refused: Counter[str] = getattr(judged.tally, f"{side}_refused")
        language, count = next(iter(refused.most_common(1)), ("", 0))
        if clean.max_swapped_share == 1 and language in (languages.source, languages.target):
            continue  # swapped pairs are intended
        if count >= _FEWEST_SWAPPED and count > counts.total() * clean.max_other_language_share:
            return (
                f"corpus {judged.corpus.name}: {count:,} of {counts.total():,} {side} sides are identified as "
                f"{language!r}, not {expected!r}: correct `languages` or the corpus; if the text is in {expected!r} "
                "after all, set clean.min_language_probability to 0 for this corpus in clean.overrides, or raise "
                "clean.max_other_language_share"
            )
    return None


def _order(config: PipelineConfig) -> list[str]:
    """Return the reasons in the order in which they are checked."""
    return [*_filter_remedies(config), decontaminate.REASON, *exact.REMEDIES]


def _filter_remedies(config: PipelineConfig) -> dict[str, str]:
    """Return the option behind each filter's reason, including filters that are on for only one corpus."""
    corpora = ["", *(rule.corpus for rule in config.clean.overrides if rule.corpus)]
    by_corpus = [filters.remedies(rules_for(config.clean, config.languages, corpus)) for corpus in corpora]
    order = filters.remedies(rules_for(config.clean, config.languages, ""))
    return order | {reason: remedy for remedies in by_corpus for reason, remedy in remedies.items()}


def _nothing_left(config: PipelineConfig, report: CleanReport) -> str:
    reason, count = next(iter(report.dropped.items()))
    remedies = _filter_remedies(config) | exact.REMEDIES | {decontaminate.REASON: decontaminate.REMEDY}
    sample = next(sample for sample in report.samples if sample.reason == reason)
    value = f" ({sample.value})" if sample.value else ""
    return (
        f"clean: none of the {report.items_in:,} pairs is left; {reason!r} dropped most ({count:,}), for example in "
        f"corpus {sample.corpus}, line {sample.line:,}{value}: change {remedies.get(reason, 'the file')}, or check "
        "corpus.train and languages"
    )


def _first(problems: dict[str, str]) -> str:
    return next(iter(problems.values()))
