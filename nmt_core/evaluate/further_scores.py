"""Scores that are reported beside the main ones, and decide nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nmt_core.scoring import Score, score, score_morphemes
from nmt_core.spelling import Spelling
from nmt_core.translator import Translator


@dataclass(frozen=True)
class TranslatedSet:
    """A test set and its translations, line by line."""

    name: str
    sources: Sequence[str]
    references: Sequence[str]
    hypotheses: Sequence[str]


def further_scores(
    test: TranslatedSet, known: Sequence[int], target_language: str, log: Callable[[str], None]
) -> list[Score]:
    """Of Korean, BLEU over morphemes; and BLEU of the sentences that the vocabulary knows, where there are others.

    The latter is the column "No UNK" of Bahdanau et al. (2015, table 1): neither the source nor the reference holds
    an unknown word.

    Args:
        test: what was translated.
        known: places of the sentences of which all is known.
        target_language: ISO 639 code.
        log: is told what is left out, and why.
    """
    scores: list[Score] = []
    if target_language == "ko":
        scores += score_morphemes(test.name, test.hypotheses, test.references)
        if not scores:
            log("BLEU over Korean morphemes is left out: `pip install 'nmt-pipeline[korean]'` brings what it needs")
    if 0 < len(known) < len(test.sources):
        hypotheses, references = ([lines[place] for place in known] for lines in (test.hypotheses, test.references))
        bleu, _ = score(test.name, hypotheses, references, target_language)
        scores.append(bleu.model_copy(update={"metric": "BLEU no UNK"}))
    return scores


def known_sentences(test: TranslatedSet, translator: Translator) -> list[int]:
    """Places of the pairs that hold no <unk> on either side."""
    tokenizers, of_target = translator.tokenizers, Spelling(translator.spelling.unicode_form)
    sources = tokenizers.source.has_unknown([translator.spelling.tidy(line) for line in test.sources])
    targets = tokenizers.target.has_unknown([of_target.tidy(line) for line in test.references])
    return [place for place, unknown in enumerate(zip(sources, targets, strict=True)) if not any(unknown)]
