"""Gate before production: it collects the results of a challenger and of the champion, and decides about promotion."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from flows.registry import contamination, shadows
from flows.registry.candidate import Candidate
from flows.registry.champions import Author, Champions
from flows.registry.copies import copy_folder
from flows.registry.fetching import fetch_model
from flows.runs.ownership import FLOW_RUN_TAG
from flows.runs.start_from import tag_of
from flows.settings import Settings
from nmt_core.bundle.folder import BUNDLE_FILE, sha256_of
from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError, FormatError, ModelError, words_of
from nmt_core.evaluate import gate, quality
from nmt_core.evaluate.judges import GateJudge
from nmt_core.evaluate.must_translate import SentenceCheck
from nmt_core.evaluate.report import check_sentences
from nmt_core.evaluate.suites import MadeSuite, make_suites
from nmt_core.evaluate.test_sets import TestSet, main_sets, read_hypotheses, read_test_sets
from nmt_core.evaluate.verdict import Check, Verdict
from nmt_core.export.dev import Dev
from nmt_core.export.speed import describe_search, speed_ratio
from nmt_core.judges.lines import ProgramError
from nmt_core.scoring import Statistics
from nmt_core.store.artifacts import Artifact
from nmt_core.translator import Translator

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

_SPEED_LINES = 200  # lines of the dev set on which the speeds of both models are compared
_UNUSABLE = (ConfigError, ModelError)  # errors of a model that cannot be read, or cannot run here
_OUTDATED = (ConfigError, FormatError)  # errors of an intact model that this version or machine cannot use
_COMPARISONS = 3  # attempts, if another process changes the champion during a comparison


def pass_gate(
    config: PipelineConfig, candidate: Candidate, version: "ModelVersion", champions: Champions, settings: Settings
) -> Verdict:
    """Judge a challenger, and make it the champion if it passes.

    The verdict always refers to the current champion: if it changes meanwhile, the comparison is repeated.
    """
    for _ in range(_COMPARISONS):
        with _incumbents(champions, config, settings) as (champion, of_pairs):
            verdict = Gate(config, candidate, champions, settings, of_pairs).judge(version, champion)
            compared = {pair: incumbent.version for pair, incumbent in of_pairs.items()}
        if config.registry.champion == "pair" and not champion:
            compared = dict.fromkeys(config.languages.pairs, "")
        author = Author(by="gate", why=verdict.reason, flow_run=version.tags.get(FLOW_RUN_TAG, ""))
        promote = partial(champions.promote, str(version.version), author)
        if verdict.promoted:
            is_done = promote(verdict.champion, pairs=compared)
        else:
            is_done = all(promote(compared[pair], pair=pair) for pair in verdict.pairs)
        if is_done:
            return verdict
    reason = f"stays challenger: the champion changed {_COMPARISONS} times during the comparison: run it again"
    return verdict.model_copy(update={"promoted": False, "pairs": (), "reason": reason})


@contextlib.contextmanager
def _incumbents(
    champions: Champions, config: PipelineConfig, settings: Settings
) -> Iterator[tuple["Incumbent | None", dict[str, "Incumbent"]]]:
    """Yield the champion for all pairs of languages, and the champion for each pair if pairs have their own.

    A version that is the champion of several pairs is one object.
    """
    current = champions.current
    if not current:
        yield None, {}
        return
    known: dict[str, Incumbent] = {}
    with contextlib.ExitStack() as stack:

        def incumbent(version: "ModelVersion") -> Incumbent:
            number = str(version.version)
            if number not in known:
                known[number] = Incumbent(version, config, settings, stack.enter_context(copy_folder(settings.home)))
            return known[number]

        pairs = config.languages.pairs if config.registry.champion == "pair" else ()
        yield incumbent(current), {pair: incumbent(champions.of_pair(pair) or current) for pair in pairs}


class Incumbent:
    """Champion in a comparison: its stored translations, and the model itself, which is fetched when it is needed.

    Args:
        version: Model version.
        config: Recipe of the challenger. Both models translate its sentences.
        settings: Settings that locate the store and the registry.
        folder: Folder for the files of the model.
    """

    def __init__(self, version: "ModelVersion", config: PipelineConfig, settings: Settings, folder: Path) -> None:
        self.version = str(version.version)
        self._uri = f"models:/{version.name}/{version.version}"
        self._config = config
        self._settings = settings
        self._folder = folder
        self.evaluate: Artifact | None = settings.store.find("evaluate", version.tags.get(tag_of("evaluate"), "none"))

    @cached_property
    def bundle(self) -> Path:
        """Folder of the exported model.

        Raises:
            ModelError: The model cannot be fetched.
        """
        try:
            return fetch_model(self._uri, self._folder, self._settings)
        except (ModelError, OSError) as error:
            raise ModelError(f"{self._uri} cannot be fetched ({words_of(error)})") from None

    def hypotheses(self, test: TestSet) -> list[str]:
        """Return the translations of a test set, from the store if they are of the same text.

        Otherwise the model translates it, with the search that is registered with it.

        Raises:
            ConfigError: The model cannot run here.
            ModelError: The model cannot be fetched or read.
        """
        if self.evaluate and self.evaluate.report().get("test_sets", {}).get(test.name) == test.sha256:
            with contextlib.suppress(OSError):
                return read_hypotheses(self.evaluate.path, test.name)
        translator = into_pair(self.translator, test.pair or self._config.languages.pair)
        return [translation.text for translation in translator.translate(test.sources)]

    def lacks(self, pair: str) -> bool:
        """Return True if the model does not translate a pair of languages. No model lacks an empty one.

        Raises:
            ConfigError: The model cannot run here.
            ModelError: The model cannot be fetched or read.
        """
        languages = self.translator.all_languages
        return bool(pair) and languages is not None and pair not in (languages.known_pairs or (languages.pair,))

    def sentences(self) -> list[SentenceCheck]:
        """Translate the sentences that a model must get right, and check the translations.

        Raises:
            ConfigError: The model cannot run here.
            ModelError: The model cannot be fetched or read.
        """
        return check_sentences(self._config, self.translator)

    @cached_property
    def translator(self) -> Translator:
        """Translator of the model, with the search that is registered with it.

        Raises:
            ModelError: The model cannot be fetched or read.
            ConfigError: The model cannot run here, for example because a package is missing.
        """
        return Translator.load(self.bundle, threads=self._settings.threads, scores=False)


def into_pair(translator: Translator, pair: str) -> Translator:
    """Return a translator for a pair of languages, if the model has many pairs. A model for one pair stays as it is."""
    languages = translator.all_languages
    return translator.into(pair) if languages and languages.pairs else translator


class Gate:
    """Checks for one challenger.

    Args:
        config: Recipe of the challenger.
        candidate: Artifacts of the challenger.
        champions: Champion and history of its registered model.
        settings: Settings with the store and the number of threads for translation.
        of_pairs: Champion for each pair of languages. A pair without one is compared with the champion for all pairs.
    """

    def __init__(
        self,
        config: PipelineConfig,
        candidate: Candidate,
        champions: Champions,
        settings: Settings,
        of_pairs: Mapping[str, Incumbent],
    ) -> None:
        self._of_pairs = of_pairs
        self._config = config
        self._candidate = candidate
        self._champions = champions
        self._settings = settings
        self._judge = GateJudge(
            config.registry.metric, config.evaluate, config.languages.target, allow_code=settings.allow_code
        )
        self._known: dict[str, tuple[Statistics, Statistics]] = {}

    def judge(self, version: "ModelVersion", champion: Incumbent | None) -> Verdict:
        """Compare a version with the champion, or judge it alone if there is no champion."""
        checks = [
            *self._quality(champion),
            gate.parity(self._candidate.export.report(), self._config.export),
            *self._speed(champion),
            self._contamination(),
            *self._sentences(champion),
            self._history(version),
            *(self._shadow() if champion else []),
        ]
        versions = (champion.version if champion else "", str(version.version))
        return gate.decide(self._config.model_name, versions, checks, tuple(self._of_pairs))

    def _quality(self, champion: Incumbent | None) -> list[Check]:
        metric, split = self._config.registry.metric, self._candidate.split
        if not split and not champion and self._config.registry.min_score == 0:
            return []  # no condition is set
        if not split:
            problem = "the test sets are no longer in the store; run the recipe again from its first stage"
            scores = self._candidate.evaluate.report()["scores"]
            names = dict.fromkeys(score["test_set"] for score in scores)
            return [quality.not_compared(name, metric, problem, champion=bool(champion)) for name in names]
        tests = [test for test in read_test_sets(split.path) if not test.zero_shot]
        checks = []
        for number, test in enumerate(tests):
            judged = partial(self._compared, champion=self._rival(test, champion)) if champion else self._first
            checks.append(judged(test, is_main=number == 0).model_copy(update={"pair": test.pair}))
        if champion:
            for main in main_sets(tests):
                suites = self._suites(main, self._rival(main, champion))
                checks += [check.model_copy(update={"pair": main.pair}) for check in suites]
        return checks

    def _rival(self, test: TestSet, champion: Incumbent) -> Incumbent:
        """Return the champion for the pair of languages of a test set."""
        return self._of_pairs.get(test.pair, champion)

    def _suites(self, main: TestSet, champion: Incumbent) -> list[Check]:
        """Compare the challenger with the champion on the suites that have enough sentences."""
        suites = make_suites(main, self._config.evaluate.suites, main.languages(self._config.languages))
        return [self._on_suite(suite, main, champion) for suite in suites if not suite.problem]

    def _on_suite(self, suite: MadeSuite, main: TestSet, champion: Incumbent) -> Check:
        registry, name = self._config.registry, suite.test.name
        try:
            if suite.is_selection:
                of_main = self._statistics(main, champion)
                both = of_main[0].of_sentences(suite.places), of_main[1].of_sentences(suite.places)
            else:
                both = self._statistics(suite.test, champion, suite)
        except ProgramError as error:
            return quality.not_compared(name, registry.metric, str(error), champion=False)
        except _UNUSABLE as error:
            return quality.not_compared(name, registry.metric, str(error))
        return quality.suite_against_champion(name, both, registry)

    def _statistics(
        self, test: TestSet, champion: Incumbent, suite: MadeSuite | None = None
    ) -> tuple[Statistics, Statistics]:
        """Return the statistics of both models' translations of a test set, as they are scored in its suite."""
        if test.sha256 not in self._known:
            texts = champion.hypotheses(test), read_hypotheses(self._candidate.evaluate.path, test.name)
            scored = suite.scored if suite else test
            old, new = map(suite.comparable, texts) if suite else texts
            self._known[test.sha256] = (
                self._judge.statistics(scored, old, champion.evaluate),
                self._judge.statistics(scored, new, self._candidate.evaluate),
            )
        return self._known[test.sha256]

    def _first(self, test: TestSet, *, is_main: bool) -> Check:
        hypotheses, registry = read_hypotheses(self._candidate.evaluate.path, test.name), self._config.registry

        def statistics(texts: Sequence[str]) -> Statistics:
            return self._judge.statistics(test, texts, self._candidate.evaluate)

        try:
            return quality.first_champion(test, hypotheses, statistics, registry, is_main=is_main)
        except (ProgramError, ConfigError) as error:
            return quality.not_compared(test.name, registry.metric, str(error), champion=False)

    def _compared(self, test: TestSet, *, is_main: bool, champion: Incumbent) -> Check:
        registry = self._config.registry
        try:
            if test.pair and self._is_new(test, champion):
                return self._first(test, is_main=is_main)
            both = self._statistics(test, champion)
        except ProgramError as error:
            return quality.not_compared(test.name, registry.metric, str(error), champion=False)
        except _UNUSABLE as error:  # for example, a format that is no longer supported
            return quality.not_compared(test.name, registry.metric, str(error))
        return quality.against_champion(test.name, both, registry, is_main=is_main)

    def _is_new(self, test: TestSet, champion: Incumbent) -> bool:
        """Return True if the champion lacks the pair of languages of a test set, so that nothing can be compared."""
        is_stored = champion.evaluate and test.name in champion.evaluate.report().get("test_sets", {})
        return not is_stored and champion.lacks(test.pair)

    def _speed(self, champion: Incumbent | None) -> list[Check]:
        registry, split = self._config.registry, self._candidate.split
        if not champion or not split:
            return []
        try:
            champion_translator = into_pair(champion.translator, self._config.languages.pair)
        except _OUTDATED as error:
            return [gate.speed_unknown(f"version {champion.version}: {error}", registry, passed=True)]
        except ModelError as error:
            return [gate.not_measured("speed", str(error))]
        try:
            translator = Translator.load(
                self._candidate.export.path, self._config.search.without_judge, self._settings.threads, scores=False
            )
            translator = into_pair(translator, self._config.languages.pair)
        except _UNUSABLE as error:
            return [gate.speed_unknown(f"the challenger: {error}", registry, passed=False)]
        lines = Dev.read(split.path).in_pair(self._config.languages.pair).spread(_SPEED_LINES).sources
        ratio = speed_ratio(lines, translator, champion_translator, bound=1 - registry.max_slowdown)
        # Each model uses its registered search.
        ways = dict.fromkeys(map(describe_search, (translator, champion_translator)))
        threads = f"{translator.threads} thread{'s' if translator.threads > 1 else ''}"
        note = f"version {champion.version} on this machine ({', the champion '.join(ways)}; {threads})"
        return [gate.speed(ratio.median, note, registry, (ratio.low, ratio.high))]

    def _contamination(self) -> Check:
        unknown = contamination.unknown(self._config, self._candidate, self._settings.store)
        return gate.contamination(unknown, contamination.leaks(self._candidate), self._config.registry)

    def _sentences(self, champion: Incumbent | None) -> list[Check]:
        checks = [SentenceCheck.model_validate(one) for one in self._candidate.evaluate.report()["must_translate"]]
        champion_checks, unread = None, ""
        try:
            champion_checks = self._sentences_of_champions(champion) if champion else None
        except _OUTDATED as error:
            unread = f"the champion cannot translate them ({error})"
        except ModelError as error:
            return [*gate.sentences(checks, None, self._config.registry), gate.not_measured("sentences", str(error))]
        return gate.sentences(checks, champion_checks, self._config.registry, unread)

    def _sentences_of_champions(self, champion: Incumbent) -> list[SentenceCheck]:
        """Return the checked sentences of the champion for each pair of languages."""
        rivals = {one.version: one for one in (champion, *self._of_pairs.values())}
        return [
            check
            for rival in rivals.values()
            for check in rival.sentences()
            if self._of_pairs.get(check.pair, champion) is rival
        ]

    def _shadow(self) -> list[Check]:
        results = shadows.read_results(self._settings, sha256_of(self._candidate.export.path / BUNDLE_FILE))
        return shadows.shadow_check(results, self._config.registry)

    def _history(self, version: "ModelVersion") -> Check:
        event = self._champions.taken_back(version)
        if not event:
            return gate.history("")
        return gate.history(
            f"version {event.before}, which is the same model, was rolled back on {event.when:%Y-%m-%d} by "
            f"{event.who} ({event.why})"
        )
