"""Compute additional scores, which are reported beside the main ones and do not affect the gate."""

from collections.abc import Callable, Mapping, Sequence

from nmt_core.evaluate.test_sets import TestSet
from nmt_core.scoring import Score, score, score_morphemes
from nmt_core.spelling import Spelling
from nmt_core.tokenizer.tokenizer import UNK_ID
from nmt_core.translator import Translator


def further_scores(
    test: TestSet, hypotheses: Sequence[str], known: Mapping[int, str], target_language: str, log: Callable[[str], None]
) -> list[Score]:
    """Return BLEU over Korean morphemes, and BLEU of the sentences without unknown words.

    The second is the column "No UNK" of Bahdanau et al. (2015, table 1): neither the source nor the reference has an
    unknown word, and the model must not produce one. It is left out if no sentence, or every sentence, is like this.

    Args:
        test: test set.
        hypotheses: its translations.
        known: result of `translate_known`.
        target_language: ISO 639 code.
        log: receives a message if a score is left out.
    """
    scores = list[Score]()
    if target_language == "ko":
        scores += score_morphemes(test.name, hypotheses, test.references)
        if not scores:
            log("BLEU over Korean morphemes is left out: `pip install 'nmt-pipeline[korean]'` installs what it needs")
    if 0 < len(known) < len(test.sources):
        references = [test.references[place] for place in known]
        bleu, _ = score(test.name, list(known.values()), references, target_language)
        scores.append(bleu.model_copy(update={"metric": "BLEU no UNK"}))
    return scores


def translate_known(test: TestSet, hypotheses: Sequence[str], translator: Translator) -> dict[int, str]:
    """Translate, without <unk>, the pairs that have no <unk> on either side, and return translations by index.

    If no pair has <unk>, return the `hypotheses`, because nothing would be compared.
    """
    places = known_sentences(test, translator)
    if len(places) == len(test.sources):
        return dict(enumerate(hypotheses))
    knowing = translator.with_search(allow_unknown=False)
    translations = knowing.translate([test.sources[place] for place in places])
    return {place: one.text for place, one in zip(places, translations, strict=True)}


def known_sentences(test: TestSet, translator: Translator) -> list[int]:
    """Return the indices of the pairs that have no <unk> on either side."""
    tokenizers = translator.tokenizers
    sources = tokenizers.source.has_unknown([translator.spelling.tidy(line) for line in test.sources])
    targets = tokenizers.target.has_unknown(_tidied_references(test, translator))
    return [place for place, unknown in enumerate(zip(sources, targets, strict=True)) if not any(unknown)]


def unknown_in_references(test: TestSet, translator: Translator) -> float:
    """Return the share of the references' tokens that are <unk>. No translation can contain their text."""
    ids = translator.tokenizers.target.encode(_tidied_references(test, translator))
    return round(sum(line.count(UNK_ID) for line in ids) / max(1, sum(map(len, ids))), 6)


def _tidied_references(test: TestSet, translator: Translator) -> list[str]:
    """Return the references in the spelling of the training text's target side."""
    spelling = Spelling(translator.spelling.unicode_form)
    return [spelling.tidy(line) for line in test.references]
