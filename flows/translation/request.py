"""Request of a user: the text to translate and how, with the terms and the languages that it names."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from flows.registry.models import Model
from flows.settings import Settings
from nmt_core.bundle.folder import read_bundle, read_tokenizers
from nmt_core.config import SearchConfig
from nmt_core.errors import ConfigError, counted
from nmt_core.terms.glossary import Term
from nmt_core.tokenizer.language_tokens import pair_for

PIPE = "-"

_TERMS_SHOWN = 5
"""Most terms with a fault that are shown."""


@dataclass(frozen=True)
class TranslationRequest:
    """Text to translate, and how to translate it. See the options of `nmt translate`."""

    model: str
    source: str
    target: str
    _: KW_ONLY
    column: str = ""
    job: str = ""
    """Folder of the job. Empty means a folder beside the target."""
    beam_size: int | None = None
    long_lines: str = ""
    prefix_column: str = ""
    to: str = ""
    """Target language, or pair of languages, such as de or en-de. Empty means the model's only one."""
    to_column: str = ""
    """Column of a table with the target language of each row. Empty means none."""
    overrides: tuple[str, ...] = ()
    """Options of the search, such as `search.n_best=3`."""
    alignments: str = ""
    """none, words or pieces. Empty means the model's own setting."""
    line_by_line: bool = False
    """True translates and writes each line before the next one is read, if input or output is a pipe."""

    keep: tuple[str, ...] = ()
    """Columns of the input to carry over to the output, or `all`."""
    glossary: str = ""
    """Table of terms and their translations. Empty means none."""
    keep_terms: str = ""
    """List of terms that stay as they are. Empty means none."""
    inflected_terms: bool = False
    """True finds inflected forms of the terms too."""

    redo: str = "none"
    """Translations in documents to replace: none, fuzzy or all."""
    for_review: bool = False
    """True marks new translations in documents for review."""
    shadow: str = ""
    """Challenger that translates a share of the lines too. Empty means none."""
    share: float = 0.05
    """Share of the lines that the challenger translates."""
    review: int = 0
    """Number of lines to write for correction. 0 means none."""

    @property
    def is_job(self) -> bool:
        """True if files are read and written, so that the job can be resumed."""
        return PIPE not in (self.source, self.target)


def pair_of(request: TranslationRequest, model: Model) -> str:
    """Return the pair of languages into which lines are translated that name none.

    It is empty for a model for one pair, and for a model for many if a column names the language of each line.

    Raises:
        ConfigError: the model does not know the language, or knows several and none is named.
    """
    languages = read_bundle(model.folder).languages
    if request.to_column and not request.to:
        return ""
    try:
        return pair_for(languages, request.to)
    except ConfigError as error:
        raise ConfigError(f"--to {request.to}: {error}" if request.to else f"--to: {error}") from None


def search_of(request: TranslationRequest, model: Model, settings: Settings) -> SearchConfig:
    """Return the search of a request: the model's own, with the options that the request changes.

    Raises:
        ConfigError: an option is wrong.
        ProgramError: it names a program, and requests may not name programs here (NMT_ALLOW_CODE).
    """
    search = model.search(request.beam_size, request.long_lines, request.overrides, request.alignments)
    if search.judge:
        from nmt_core.judges.reranking import require_allowed

        require_allowed(search, allow_code=settings.allow_code)
    return search


def not_judged_warning(not_judged: int, lines: int, reason: str) -> str:
    """Return the warning that a judge did not choose for some lines, with the first reason and the remedy."""
    return (
        f"{not_judged:,} of {counted(lines, 'line')} have the first candidate of the search, because the judge did not "
        f"choose ({reason}): once it works, translate again into another folder with --job"
    )


def terms_for(
    request: TranslationRequest, model: Model, search: SearchConfig, warn: Callable[[str], None]
) -> tuple[Term, ...]:
    """Return the terms of the glossary, and warn about those that no translation can have.

    Raises:
        NmtError: A file cannot be read, two terms conflict, or a package is missing.
    """
    if not (request.glossary or request.keep_terms):
        if request.inflected_terms:
            raise ConfigError("--inflected-terms: there is no glossary: give one with --glossary")
        return ()
    from nmt_core.terms.glossary import lemmatiser
    from nmt_core.terms.pieces import TermPieces, faults_of
    from nmt_core.terms.reading import read_terms

    bundle, pair = read_bundle(model.folder), pair_of(request, model)
    languages = bundle.languages.of(pair) if pair else bundle.languages
    terms = read_terms(request.glossary, request.keep_terms, languages, inflected=request.inflected_terms)
    if any(term.inflected for term in terms):
        lemmatiser(languages.source)
    tokenizers = read_tokenizers(model.folder, bundle)
    faults = faults_of(terms, TermPieces(tokenizers.target), tokenizers.source, search.max_source_tokens)
    for fault in faults[:_TERMS_SHOWN]:
        warn(f"term {fault}. Lines with it get the status terms_missing")
    if len(faults) > _TERMS_SHOWN:
        warn(f"{len(faults) - _TERMS_SHOWN:,} more terms cannot be written either")
    return terms
