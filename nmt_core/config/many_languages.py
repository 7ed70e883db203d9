"""Rules between the sections of a recipe that trains one model for many pairs of languages."""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from nmt_core.config.corpus import ParallelCorpus, name_of_set
from nmt_core.config.languages import SIDES
from nmt_core.config.section import first_repeated

if TYPE_CHECKING:
    from nmt_core.config.pipeline import PipelineConfig

_TOY_PAIRS = (("en-ko",), ("en-ko", "ko-en"))
_OF_ONE_PAIR = ("clean.in_domain",)
_CUT_BY_LANGUAGE = ("moses", "morphemes", "kiwi")


def problem_of_pairs(config: "PipelineConfig") -> str:
    """Return what is wrong with the pairs of languages of a recipe, with the remedy, or an empty string."""
    problems = _of_many(config) if config.languages.pairs else _of_one(config)
    return next(problems, "")


def _of_one(config: "PipelineConfig") -> Iterator[str]:
    """Yield the problems of a recipe that names one pair of languages, but uses an option of many."""
    remedy = "set languages.pairs to all pairs of the model, or remove it"
    for place, corpus in _corpora(config):
        if corpus.pairs:
            yield f"{place}.pairs={corpus.pairs[0]} has no effect without languages.pairs: {remedy}"
        if corpus.zero_shot:
            yield f"{place}.zero_shot has no effect without languages.pairs: {remedy}"
    if config.registry.champion == "pair":
        yield f"registry.champion=pair has no effect without languages.pairs: {remedy}"
    if config.tokenizer.added_pieces:
        yield f"tokenizer.added_pieces has no effect without languages.pairs: {remedy}"
    if config.mix.pairs:
        yield f"mix.pairs names {config.mix.pairs[0].pair}, but languages.pairs is empty: {remedy}"
    for place, pair in _named_pairs(config):
        yield f"{place}={pair} has no effect without languages.pairs: {remedy}"
    yield from _of_monolingual(config)


def _of_many(config: "PipelineConfig") -> Iterator[str]:
    """Yield the problems of a recipe that names many pairs of languages."""
    pairs = config.languages.pairs
    known = ", ".join(pairs)
    yield from _of_unsupported(config)
    if config.corpus.toy:
        if pairs not in _TOY_PAIRS:
            yield (
                f"languages.pairs=[{known}], but the toy corpus is English and Korean: write [en-ko, ko-en], or name "
                "files in corpus.train"
            )
    else:
        yield from _of_corpora(config)
    for rule in config.mix.pairs:
        if rule.pair not in pairs:
            yield f"mix.pairs: {rule.pair} is not in languages.pairs ({known}): correct it"
    yield from _of_made_text(config)
    yield from _of_monolingual(config)
    languages = set(chain.from_iterable(map(_languages, pairs)))
    for language in config.tokenizer.added_pieces:
        if language not in languages:
            yield f"tokenizer.added_pieces: {language} is not in languages.pairs ({known}): correct it"
    for number, sentence in enumerate(config.evaluate.must_translate):
        if sentence.pair and not config.languages.could_translate(sentence.pair):
            place = f"evaluate.must_translate.{number}"
            yield f"{place}.pair={sentence.pair}: the model knows {known}: correct it, or leave it out"


def _of_made_text(config: "PipelineConfig") -> Iterator[str]:
    pairs = config.languages.pairs
    known = ", ".join(pairs)
    for number, part in enumerate(config.synthesis.parts):
        place = f"synthesis.parts.{number}"
        if not part.pair:
            yield f"{place} ({part.name}) names no pair: set its `pair` to one of languages.pairs ({known})"
        elif part.pair not in pairs:
            yield f"{place}.pair: {part.pair} is not in languages.pairs ({known}): correct it"
    for number, copies in enumerate(config.augmentation.parts):
        if unknown := [pair for pair in copies.pairs if pair not in pairs]:
            yield f"augmentation.parts.{number}.pairs: {unknown[0]} is not in languages.pairs ({known}): correct it"


def _of_monolingual(config: "PipelineConfig") -> Iterator[str]:
    languages = config.languages
    known = ", ".join(dict.fromkeys(chain.from_iterable(map(_languages, languages.pairs or [languages.pair]))))
    for number, text in enumerate(config.corpus.monolingual):
        place = f"corpus.monolingual.{number}"
        if languages.pairs and text.side:
            yield f"{place}.side={text.side} does not tell the language of {text.name}: set language instead ({known})"
        if text.language and not languages.place_of(text.language):
            yield f"{place}.language={text.language} is no language of the recipe ({known}): correct it"


def _of_corpora(config: "PipelineConfig") -> Iterator[str]:
    pairs, corpus = config.languages.pairs, config.corpus
    known = ", ".join(pairs)
    for place, text in _corpora(config):
        if not text.pairs:
            yield f"{place} ({text.name}) names no pair: set its `pairs` to one of languages.pairs ({known})"
        unknown = [pair for pair in text.pairs if pair not in pairs]
        is_test = place.startswith("corpus.test")
        if text.zero_shot and not is_test:
            yield f"{place}.zero_shot: only a test set can be zero-shot: remove it"
        if unknown and not text.zero_shot:
            mark = ", or set its zero_shot to true to score a pair that is never trained on" if is_test else ""
            yield f"{place}.pairs: {unknown[0]} is not in languages.pairs ({known}): add it there{mark}"
        if text.zero_shot and len(unknown) < len(text.pairs):
            yield f"{place}.zero_shot: {text.pairs[0]} or its reverse is in languages.pairs: remove zero_shot"
        for pair in unknown:
            if not config.languages.could_translate(pair):
                yield (
                    f"{place}.pairs: no pair of languages.pairs has the source or the target of {pair}, so no model "
                    f"can translate it ({known}): remove the test set"
                )
    trained = set(chain.from_iterable(text.pairs for text in corpus.train))
    if untrained := [pair for pair in pairs if pair not in trained]:
        yield f"languages.pairs has {untrained[0]}, but no corpus of corpus.train has it: name one, or remove the pair"
    for role, sets in (("dev", corpus.dev), ("test", corpus.test)):
        if not sets:
            yield (
                f"corpus.{role} is empty: with languages.pairs, dev and test text cannot be taken out of the training "
                f"text: name files in corpus.{role}"
            )
    names = (name_of_set(text.name, text.pairs, pair) for text in corpus.test for pair in text.pairs)
    if twice := first_repeated(names):
        yield f"corpus.test makes two test sets of the name {twice!r}: give one of the corpora another name"


def _of_unsupported(config: "PipelineConfig") -> Iterator[str]:
    """Yield the options that know one pair of languages only."""
    for option in _OF_ONE_PAIR:
        section, _, name = option.partition(".")
        if getattr(getattr(config, section), name):
            yield f"{option} works with one pair of languages only: remove it, or languages.pairs"
    for place, side in enumerate(SIDES):
        languages = {pair.split("-")[place] for pair in config.languages.pairs}
        cut = getattr(config.tokenizer, f"pretokenize_{side}")
        if cut in _CUT_BY_LANGUAGE and len(languages) > 1 and not config.tokenizer.start_from:
            yield (
                f"tokenizer.pretokenize_{side}={cut} cuts the text of one language, but languages.pairs has "
                f"{len(languages)} on the {side} side: set it to none or case_marks"
            )


def _languages(pair: str) -> list[str]:
    return pair.split("-")


def _named_pairs(config: "PipelineConfig") -> Iterator[tuple[str, str]]:
    """Yield the pairs that made text and sentences name, with their places."""
    for number, sentence in enumerate(config.evaluate.must_translate):
        if sentence.pair:
            yield f"evaluate.must_translate.{number}.pair", sentence.pair
    for number, part in enumerate(config.synthesis.parts):
        if part.pair:
            yield f"synthesis.parts.{number}.pair", part.pair
    for number, copies in enumerate(config.augmentation.parts):
        if copies.pairs:
            yield f"augmentation.parts.{number}.pairs", copies.pairs[0]


def _corpora(config: "PipelineConfig") -> Iterator[tuple[str, ParallelCorpus]]:
    for role in ("train", "dev", "test"):
        for number, corpus in enumerate(getattr(config.corpus, role)):
            yield f"corpus.{role}.{number}", corpus
