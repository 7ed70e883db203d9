"""`evaluate.systems`: other systems that translate the same test sets."""

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from nmt_core.config.section import Command, Section

HttpForm = Literal["libretranslate", "openai", "deepl", "google"]
"""Form of the requests and answers of an HTTP service."""

PROMPT = "Translate from {source} into {target}, and answer with the translation alone: {text}"
_HERE = {"localhost", "127.0.0.1", "::1"}
_ORIGINS = ("file", "command", "address", "bundle")
_ONLY_FOR = {
    "form": ("address",),
    "key": ("address",),
    "model": ("address",),
    "prompt": ("address",),
    "batch": ("address",),
    "retries": ("address",),
    "request_seconds": ("address",),
    "max_seconds": ("address", "command"),
}
"""Origins of translations that each option has an effect on. Other options are for all."""


class System(Section):
    """Other system, whose translations of the test sets are scored beside the model's and compared with them.

    Exactly one of `file`, `command`, `address` and `bundle` names where its translations come from.
    """

    name: str = Field(pattern="^[A-Za-z0-9][A-Za-z0-9._+ -]*$", max_length=60)
    """Name of the system in tables."""
    file: str = ""
    """Path of a text file with its translations, one a line. `{test_set}` stands for the name of the test set. Empty
    means that they come from elsewhere."""
    command: Command = ""
    """Program that reads source lines and writes a translation for each, such as a decoder of Marian or CTranslate2. It
    runs without a shell. The translation of a line must depend on this line alone. Empty means that translations come
    from elsewhere."""
    address: str = ""
    """Address of an HTTP service without the path of its form, such as http://127.0.0.1:5000. Empty means that
    translations come from elsewhere."""
    form: HttpForm = "libretranslate"
    """Form of the service's requests: `libretranslate` (/translate), `openai` (/chat/completions, one sentence a
    request), `deepl` (/v2/translate) or `google` (/language/translate/v2)."""
    key: str = Field("", pattern="^([A-Za-z_][A-Za-z0-9_]*)?$")
    """Name of the environment variable that holds the key of the service. The key itself is never stored. Empty means
    that no key is sent."""
    model: str = Field("", max_length=200)
    """Name of the model that the service shall use, for form=openai. Empty means that none is named."""
    prompt: str = Field(PROMPT, max_length=10_000)
    """Prompt for form=openai, with the placeholders {source}, {target} and {text}."""
    batch: int = Field(20, ge=1, le=1_000)
    """Number of sentences in a request. With form=openai it is always one."""
    retries: int = Field(4, ge=0, le=100)
    """Number of times that a request is repeated after a failure that may pass: no connection, no answer in time, too
    many requests, or an error of the server."""
    request_seconds: float = Field(60, gt=0)
    """Longest time for an answer, in seconds."""
    max_seconds: float = Field(3_600, gt=0)
    """Longest time for one test set, in seconds. What was translated by then is kept."""
    bundle: str = ""
    """Model of this package: `models:/NAME@ALIAS`, `models:/NAME/VERSION`, `export/FINGERPRINT` or the folder of a
    bundle. Empty means that translations come from elsewhere."""
    version: str = Field("", max_length=60)
    """Version of the system. A new version translates anew. Empty means that it is not named."""

    @model_validator(mode="after")
    def _fits_together(self) -> "System":
        given = [origin for origin in _ORIGINS if getattr(self, origin)]
        if len(given) != 1:
            named = " and ".join(given) or "none"
            raise ValueError(f"name={self.name}: needs one of {', '.join(_ORIGINS)}, and has {named}: write one")
        for option, origins in _ONLY_FOR.items():
            if option in self.changed and given[0] not in origins:
                raise ValueError(f"name={self.name}: {option} has no effect on {given[0]}: remove it")
        if self.address:
            self._require_a_safe_address()
        if self.form == "openai":
            missing = [part for part in ("{source}", "{target}", "{text}") if part not in self.prompt]
            if missing:
                raise ValueError(f"name={self.name}: prompt has no {missing[0]}: add it")
            if not self.model:
                raise ValueError(f"name={self.name}: form=openai needs the name of a model: set model")
        elif {"model", "prompt"} & self.changed:
            raise ValueError(f"name={self.name}: model and prompt are only for form=openai: remove them")
        return self

    def _require_a_safe_address(self) -> None:
        parts = urlsplit(self.address)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"address={self.address!r}: must begin with http:// or https://: correct it")
        if parts.username or parts.password or parts.query:
            raise ValueError("address: must hold neither a password nor a query: name the variable of a key in `key`")
        if self.key and parts.scheme == "http" and parts.hostname not in _HERE:
            raise ValueError(f"address={self.address!r}: a key is sent only over https: write https://")
        if self.form in {"deepl", "google"} and not self.key:
            raise ValueError(f"form={self.form} needs a key: name the environment variable that holds it in `key`")
