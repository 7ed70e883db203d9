"""Scores of the sentences that a model has words for: the column "No UNK" (Bahdanau et al. 2015, table 1).

A vocabulary of whole words knows the most frequent ones; what a model makes of a sentence with another word says more
about the vocabulary than about the model.
"""

from collections.abc import Sequence

from nmt_core.scoring import Score, score
from nmt_core.tokenizer.tokenizer import UNK_ID
from nmt_core.translator import Translator


def places_of_known_words(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> list[int]:
    """Sentences in whose source and reference the tokenizers know every word."""
    tokenizers, spelling = translator.tokenizers, translator.spelling
    encoded = zip(
        tokenizers.source.encode([spelling.tidy(line) for line in sources]),
        tokenizers.target.encode(list(references)),
        strict=True,
    )
    return [place for place, sides in enumerate(encoded) if not any(UNK_ID in ids for ids in sides)]


def scores_of_known_words(
    name: str, translator: Translator, texts: tuple[Sequence[str], Sequence[str], Sequence[str]], target_language: str
) -> tuple[list[Score], int]:
    """BLEU and chrF of these sentences alone, and their number; no scores if they are all, or if there are none.

    Args:
        name: of the test set.
        translator: whose tokenizers decide.
        texts: sources, references and translations.
        target_language: of the references.
    """
    sources, references, hypotheses = texts
    known = places_of_known_words(translator, sources, references)
    if not known or len(known) == len(sources):
        return [], len(known)
    of_known = ([hypotheses[place] for place in known], [references[place] for place in known])
    return score(name, *of_known, target_language), len(known)
