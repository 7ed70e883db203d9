"""Compare the languages that a document states with the languages of the model."""

from nmt_core.documents.document import Options
from nmt_core.errors import DataError
from nmt_core.formats.languages import same_language


def require_languages(name: str, options: Options, source: str = "", target: str = "") -> None:
    """Check the languages of a document. A language that is not stated fits any model.

    Raises:
        DataError: the document states another language than the model has.
    """
    pairs = (("from", source, options.source_language), ("to", target, options.target_language))
    for way, stated, own in pairs:
        if stated and own and not same_language(stated, own):
            raise DataError(
                f"{name}: is a translation {way} {stated!r}, and the model translates {way} {own!r}: use another "
                "model, or correct the language in the file"
            )
