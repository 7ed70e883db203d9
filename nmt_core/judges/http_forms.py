"""Write requests for translations in the forms of four kinds of services, and read their answers.

The forms follow the published descriptions: LibreTranslate's `/translate`, `/chat/completions` of OpenAI and of the
many servers that speak like it, DeepL's `/v2/translate` and Google's Cloud Translation, basic. The services themselves
were not called from here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nmt_core.config import HttpForm, LanguagesConfig, System

Answer = Any
"""JSON value of an answer."""


@dataclass(frozen=True)
class Request:
    """Request for the translations of some sentences."""

    path: str
    """Path after the address of the service."""
    body: Mapping[str, Any]
    headers: Mapping[str, str]


def request_for(system: System, sources: Sequence[str], languages: LanguagesConfig, key: str) -> Request:
    """Return the request for the translations of some sentences.

    Args:
        system: service.
        sources: sentences. With form=openai, exactly one.
        languages: languages of the recipe.
        key: key of the service. Empty means that it needs none.
    """
    return _FORMS[system.form][0](system, list(sources), languages, key)


def translations_in(form: HttpForm, answer: Answer) -> list[str]:
    """Return the translations in an answer.

    Raises:
        ValueError: the answer has another form.
    """
    try:
        found = _FORMS[form][1](answer)
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"the answer has another form than {form}: {type(error).__name__} {error}") from None
    if not all(isinstance(text, str) for text in found):
        raise ValueError(f"the answer has another form than {form}: a translation is no text")
    return [" ".join(text.split()) for text in found]


def _libretranslate(system: System, sources: list[str], languages: LanguagesConfig, key: str) -> Request:
    body = {"q": sources, "source": languages.source, "target": languages.target, "format": "text"}
    return Request("/translate", body | ({"api_key": key} if key else {}), {})


def _openai(system: System, sources: list[str], languages: LanguagesConfig, key: str) -> Request:
    values = {"source": languages.tag("source"), "target": languages.tag("target"), "text": sources[0]}
    prompt = system.prompt
    for name in ("source", "target", "text"):  # the text last: it may hold the other placeholders
        prompt = prompt.replace(f"{{{name}}}", values[name])
    body = {"model": system.model, "temperature": 0, "messages": [{"role": "user", "content": prompt}]}
    return Request("/chat/completions", body, {"Authorization": f"Bearer {key}"} if key else {})


def _deepl(system: System, sources: list[str], languages: LanguagesConfig, key: str) -> Request:
    body = {"text": sources, "source_lang": languages.source.upper(), "target_lang": languages.target.upper()}
    return Request("/v2/translate", body, {"Authorization": f"DeepL-Auth-Key {key}"})


def _google(system: System, sources: list[str], languages: LanguagesConfig, key: str) -> Request:
    body = {"q": sources, "source": languages.source, "target": languages.target, "format": "text"}
    return Request("/language/translate/v2", body, {"X-goog-api-key": key})


_FORMS: Mapping[
    HttpForm,
    tuple[Callable[[System, list[str], LanguagesConfig, str], Request], Callable[[Answer], list[str]]],
] = {
    "libretranslate": (_libretranslate, lambda answer: list(answer["translatedText"])),
    "openai": (_openai, lambda answer: [answer["choices"][0]["message"]["content"]]),
    "deepl": (_deepl, lambda answer: [one["text"] for one in answer["translations"]]),
    "google": (_google, lambda answer: [one["translatedText"] for one in answer["data"]["translations"]]),
}
