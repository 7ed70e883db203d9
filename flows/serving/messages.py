"""Requests and answers of the service, as JSON."""

from typing import Any, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from nmt_core.config import Precision

_NO_SEARCH = {"text", "q", "source", "target", "format", "output", "glossary"}
"""Fields that are no options of the search."""


class TranslateRequest(BaseModel):
    """Lines to translate, and how."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"text": ["I am a student.", "A red house."]}]}
    )

    text: str | list[str | None] | None = None
    """A line, or a list of lines. A null is an empty line."""
    q: str | list[str | None] | None = None
    """Lines in the form of LibreTranslate. The answer then has its form too."""
    source: str = "auto"
    """Language of the text. It is checked, and says which pair of a model for many languages is meant."""
    target: str = Field("auto", validation_alias=AliasChoices("target", "to"))
    """Language of the translation, or a pair of languages such as en-de. A model for one pair only checks it, and a
    model with several target languages needs it. `to` is another name for it."""
    format: Literal["text", "html"] = "text"
    """`html`: text is translated, and everything else stays as it is. Tags within a sentence move with their words."""
    output: Literal["text", "full"] = "text"
    """`full`: each translation with its score, its status and the number of its tokens."""
    glossary: dict[str, str | None] | None = None
    """Terms and the translations that they must have. Null keeps a term as it is. They replace the glossary of the
    service for this request."""
    beam_size: int | None = Field(None, ge=1, le=64)
    n_best: int | None = Field(None, ge=1, le=64)
    length_penalty: float | None = None
    target_prefix: str | None = None
    precision: Precision | Literal["fastest"] | None = None
    alignments: Literal["none", "words", "pieces"] | None = None
    method: Literal["beam", "sample"] | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    """Options of the search, see the section `search` of a recipe. Null means as the model was registered."""

    @model_validator(mode="after")
    def _has_one_text(self) -> Self:
        if (self.text is None) == (self.q is None):
            raise ValueError("give the lines as `text`, or as `q` for an answer in the form of LibreTranslate")
        return self

    @property
    def given(self) -> str | list[str | None]:
        """The text, by either name."""
        text = self.text if self.q is None else self.q
        assert text is not None
        return text

    @property
    def lines(self) -> list[str]:
        """The lines of the text."""
        given = self.given
        return [given] if isinstance(given, str) else [line or "" for line in given]

    @property
    def search(self) -> dict[str, Any]:
        """Options of the search that differ from the options of the model."""
        options = self.model_dump(exclude=_NO_SEARCH, exclude_none=True)
        return dict(options)


class TranslateAnswer(BaseModel):
    """Translations in the order of the lines, and the model that made them."""

    translations: list[Any]
    """A text for each line, or with `output=full` a record: text, score, status, tokens, and n_best and alignment if
    the search has them."""
    model: str
    version: str


class LibreAnswer(BaseModel):
    """Translations in the form of LibreTranslate."""

    translatedText: str | list[str]  # the name is theirs
