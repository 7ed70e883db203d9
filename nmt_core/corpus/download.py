"""Run the stage `download`: fetch every file that the recipe names, unchanged, or make the toy corpus."""

import threading
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from nmt_core.config import SIDES, MonolingualCorpus, PipelineConfig
from nmt_core.corpus import toy
from nmt_core.corpus.fetching import partial
from nmt_core.corpus.fetching.addresses import RequestedFile, Resolution, only, scheme_of
from nmt_core.corpus.fetching.fetcher import Fetcher, StoppedError
from nmt_core.corpus.fetching.lockfile import Lockfile
from nmt_core.corpus.fetching.mirror import Mirror
from nmt_core.corpus.fetching.progress import TransferProgress
from nmt_core.corpus.fetching.resolvers import RESOLVERS, Question
from nmt_core.corpus.fetching.supply import EarlierDownloads, Supply
from nmt_core.corpus.index import INDEX, MONOLINGUAL, ROLES, CorpusIndex, Role, StoredCorpus, StoredFile, short_key
from nmt_core.corpus.sources import Corpus, columns_of, corpora_of, label_of, pairs_of, resolve, roles_of
from nmt_core.errors import DataError, StageError
from nmt_core.stages.stage import Inputs, Job, StageReport
from nmt_core.store.digests import sha256_of

_PARTS = "fetching"  # a folder beside the artifacts, which outlives the run
_CORPORA_AT_A_TIME = 8
_SECONDS_BETWEEN_REPORTS = 0.5
_SECONDS_TO_STOP = 3.0


class CorpusRecord(BaseModel):
    """Origin, licence, size and citation of one corpus."""

    model_config = ConfigDict(frozen=True)
    corpus: str
    role: Role
    licence: str
    url: str
    files: int
    bytes: int
    citation: str

    @staticmethod
    def of(corpus: StoredCorpus) -> "CorpusRecord":
        """Summarize one corpus of an index."""
        sizes = {file.file: file.bytes for file in corpus.files}  # counts a file with both sides once
        return CorpusRecord(
            corpus=corpus.name,
            role=corpus.role,
            licence=corpus.licence,
            url=corpus.page,
            files=len(sizes),
            bytes=sum(sizes.values()),
            citation=corpus.citation,
        )


class SkippedCorpus(BaseModel):
    """A training corpus that could not be fetched and that the recipe allows to be skipped."""

    model_config = ConfigDict(frozen=True)
    corpus: str
    reason: str


class DownloadReport(StageReport):
    """Numbers of files that were fetched or made."""

    bytes: int
    reused: int
    """Number of files taken from an earlier download instead of being fetched again."""
    skipped: int
    """Number of training corpora that were left out."""
    planted: dict[str, int]
    """Number of dirty rows in the toy corpus, by kind. Empty for other corpora."""
    corpora: list[CorpusRecord]
    skipped_corpora: list[SkippedCorpus]


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> DownloadReport:
    """Fetch every file of the recipe, unchanged, or make the toy corpus, and list the files in `corpora.json`.

    Raises:
        DataError: a file cannot be fetched, or is not the one that the recipe or its lock file expects.
        StageError: no training corpus could be fetched.
    """
    planted: dict[str, int] = {}
    skipped: dict[str, str] = {}
    reused = 0
    if rules := config.corpus.toy:
        made = toy.generate(pairs=rules.pairs, seed=rules.seed, held_out=rules.held_out)
        planted = made.dirt
        corpora = [
            _store_toy(role, pairs, config, out)
            for role, pairs in zip(ROLES, (made.train, made.dev, made.test), strict=True)
        ]
    else:
        download = _Download(config, out, job)
        corpora = download.all()
        skipped, reused = download.skipped, download.supply.reused
    index = CorpusIndex(corpora=tuple(corpora), on_bad_corpus=config.corpus.on_bad_corpus, skipped=skipped)
    (out / INDEX).write_text(index.model_dump_json(indent=1), encoding="utf-8")
    records = [CorpusRecord.of(corpus) for corpus in corpora]
    files = sum(record.files for record in records)
    return DownloadReport(
        items_in=files,
        items_out=files,
        unit="files",
        bytes=sum(record.bytes for record in records),
        reused=reused,
        skipped=len(skipped),
        planted=planted,
        corpora=records,
        skipped_corpora=[SkippedCorpus(corpus=name, reason=reason) for name, reason in skipped.items()],
    )


class _Download:
    """Download of the corpora of one recipe, several at a time."""

    def __init__(self, config: PipelineConfig, out: Path, job: Job) -> None:
        rules = config.corpus
        self.config, self.out, self.reporter = config, out, job.reporter
        self.roles = roles_of(rules)
        self.named = [(role, corpus) for role in self.roles for corpus in corpora_of(rules, role)]
        self.progress = TransferProgress(len(self.named))
        parts = out.parent / _PARTS
        partial.sweep(parts)
        self.fetcher = Fetcher(parts, self.progress.on_bytes)
        self.supply = Supply(
            self.fetcher,
            Mirror(rules.mirror, self.progress.on_look),
            EarlierDownloads(out.parent),
            Lockfile(rules.lock),
            rules.offline,
        )
        self.slots = threading.Semaphore(_CORPORA_AT_A_TIME)
        self.skipped: dict[str, str] = {}

    def all(self) -> list[StoredCorpus]:
        """Fetch all corpora, and return them in recipe order."""
        for role in self.roles:
            (self.out / role).mkdir(exist_ok=True)
        with self.fetcher:
            tasks = [self._start(role, corpus) for role, corpus in self.named]
            try:
                self._wait(tasks)
            except BaseException:
                self.fetcher.stop.set()
                wait(tasks, _SECONDS_TO_STOP)
                raise
        stored = [task.result() for task in tasks if not task.exception()]
        if not any(corpus.role == "train" for corpus in stored):
            name, reason = next(iter(self.skipped.items()))
            raise StageError(f"download: no training corpus could be fetched; {name}: {reason}")
        self.supply.forget_parts()
        return stored

    def _start(self, role: Role, corpus: Corpus) -> "Future[StoredCorpus]":
        """Fetch one corpus in a daemon thread, so that a silent server cannot delay Ctrl-C."""
        task: Future[StoredCorpus] = Future()

        def work() -> None:
            try:
                with self.slots:
                    task.set_result(self._one(role, corpus))
            except BaseException as error:
                task.set_exception(error)

        threading.Thread(target=work, name=f"download {corpus.name}", daemon=True).start()
        return task

    def _wait(self, tasks: "list[Future[StoredCorpus]]") -> None:
        """Wait for all downloads. Only this thread uses the reporter."""
        corpus_of = dict(zip(tasks, self.named, strict=True))
        pending = set(tasks)
        while pending:
            done, pending = wait(pending, _SECONDS_BETWEEN_REPORTS, FIRST_COMPLETED)
            for task in sorted(done, key=tasks.index):
                role, corpus = corpus_of[task]
                error = task.exception()
                may_skip = role in ("train", MONOLINGUAL) and self.config.corpus.on_bad_corpus == "skip"
                if isinstance(error, DataError) and may_skip:
                    self.skipped[corpus.name] = str(error)
                    self.reporter.log(f"left out: {error} (`--force download` tries again)")
                elif error:
                    raise error
            self.progress.tell(self.reporter, len(tasks) - len(pending))
        self.skipped = {
            corpus.name: self.skipped[corpus.name] for _, corpus in self.named if corpus.name in self.skipped
        }

    def _one(self, role: Role, corpus: Corpus) -> StoredCorpus:
        """Fetch one corpus."""
        if self.fetcher.stop.is_set():
            raise StoppedError
        folder, placed = self.out / role, list[StoredFile]()
        try:
            resolution, short = self._resolve(corpus)
            source_column, target_column = columns_of(corpus, self.config.languages)
            for resolved, to in _places(resolution.files, folder / corpus.name):
                requested = replace(resolved, member=corpus.member or resolved.member)
                placed.append(self._bring(corpus, requested, to, placed, short=bool(short)))
            if short:
                self.supply.lock.record_files(short, list(dict.fromkeys(file.address for file in placed)))
        except BaseException:
            for file in placed:
                (self.out / file.file).unlink(missing_ok=True)
            raise
        return StoredCorpus(
            role=role,
            name=corpus.name,
            licence=corpus.licence or resolution.licence or self.config.corpus.licence,
            citation=corpus.citation or resolution.citation,
            known_licence=resolution.licence,
            known_citation=resolution.citation,
            url=resolution.url,
            files=tuple(placed),
            source_column=source_column or resolution.source_column,
            target_column=target_column or resolution.target_column,
            encoding=corpus.encoding,
            documents="" if isinstance(corpus, MonolingualCorpus) else corpus.documents,
            pairs=pairs_of(corpus, self.config.languages),
        )

    def _resolve(self, corpus: Corpus) -> tuple[Resolution, str]:
        """Return the files of a corpus, and its key in the lock file if a short address led to them."""
        languages = corpus.languages_in(self.config.languages)
        try:
            if resolution := resolve(corpus, self.config.languages):
                return resolution, ""
            key = short_key(corpus.address, languages)
            known = self.supply.lock.files_of(key)
            ask = None if self.config.corpus.offline else self.fetcher.json
            others = tuple(other.address for _, other in self.named)
            question = Question(corpus.address, languages, known, corpus.sha256, others, ask)
            resolution = RESOLVERS[scheme_of(corpus.address)](question)
            if isinstance(corpus, MonolingualCorpus):
                resolution = only(corpus.side_in(self.config.languages), resolution)
        except DataError as error:
            raise DataError(f"{label_of(corpus)}: {error}") from None
        if not resolution.files:
            raise DataError(
                f"{label_of(corpus)}: {corpus.address}: corpus.offline is set, and the lock file does not list the "
                "files of this address: run once with corpus.offline=false"
            )
        return resolution, key

    def _bring(
        self, corpus: Corpus, file: RequestedFile, to: Path, placed: list[StoredFile], *, short: bool
    ) -> StoredFile:
        """Put one file into the artifact. Both sides of a corpus may be in one archive."""
        for other in placed:
            if other.address in {file.address, file.otherwise}:
                return other.model_copy(update={"side": file.side, "member": file.member})
        try:
            supplied = self.supply.bring(file, to, short=short)
        except DataError as error:
            raise DataError(f"{label_of(corpus, file.side)}: {error}") from None
        return StoredFile(
            file=str(supplied.path.relative_to(self.out)),
            sha256=supplied.sha256,
            bytes=supplied.path.stat().st_size,
            address=supplied.address,
            side=file.side,
            member=file.member,
        )


def _places(files: tuple[RequestedFile, ...], stem: Path) -> list[tuple[RequestedFile, Path]]:
    """Return each file with its path in the artifact, without a suffix.

    The name is news.source, or news.source.00002 if a side has several files.
    """
    addresses = {side: list(dict.fromkeys(f.address for f in files if f.side == side)) for side in (*SIDES, "both")}
    shared = set(addresses["source"]) & set(addresses["target"])
    places = []
    for file in files:
        name = stem.name if file.side == "both" or file.address in shared else f"{stem.name}.{file.side}"
        others = addresses[file.side]
        number = f".{others.index(file.address):05d}" if len(others) > 1 else ""
        places.append((file, stem.with_name(name + number)))
    return places


def _store_toy(role: Role, pairs: list[tuple[str, str]], config: PipelineConfig, out: Path) -> StoredCorpus:
    (out / role).mkdir(exist_ok=True)
    files = []
    for position, side in enumerate(SIDES):
        path = out / role / f"toy.{side}.txt"
        path.write_bytes("".join(f"{pair[position]}\n" for pair in pairs).encode())
        sha256, name = sha256_of(path), str(path.relative_to(out))
        size = path.stat().st_size
        files.append(StoredFile(file=name, sha256=sha256, bytes=size, address="nmt_core.corpus.toy", side=side))
    unknown = {"citation": "", "known_licence": "", "known_citation": "", "url": ""}
    known = {"licence": config.corpus.licence, "files": tuple(files), "pairs": config.languages.pairs}
    return StoredCorpus.model_validate({"role": role, "name": "toy", **known, **unknown})
