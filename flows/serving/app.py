"""The HTTP interface of the service: /translate, /languages, /health and /metrics, with a page about them at /docs."""

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException as StarletteError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flows.serving.batching import Batcher, OverloadedError
from flows.serving.messages import LibreAnswer, TranslateAnswer, TranslateRequest
from flows.serving.metrics import Metrics
from flows.serving.model import CurrentModel, ServedModel
from nmt_core.config.faults import problem_of
from nmt_core.documents.document import Translated
from nmt_core.documents.html import filled, html_of
from nmt_core.errors import ConfigError, NmtError, shown
from nmt_core.search.translation import Translation
from nmt_core.tokenizer.language_tokens import pair_for
from nmt_core.translator import Translator

logger = logging.getLogger(__name__)

_UNREADABLE = 400
_NO_OBJECT = (
    'the request is no JSON object in UTF-8: send  {"text": "..."}  with the header  Content-Type: application/json'
)
_BEARER = HTTPBearer(auto_error=False)
_RETRY_AFTER = {"Retry-After": "1"}
_Key = tuple[ServedModel, Translator]


@dataclass(frozen=True)
class Limits:
    """Bounds of what the service accepts and holds."""

    body_bytes: int = 1 << 20
    """Bytes of a request."""
    lines: int = 1_024
    """Lines of a request."""
    waiting_lines: int = 4_096
    """Lines of all requests that wait. Further requests are answered with 429."""
    seconds: float = 60.0
    """Seconds from a request to its answer. Later it is answered with 503."""


class Service:
    """A model, the threads that translate with it, and what they have done.

    Args:
        model: the model.
        threads: number of batches that are translated at the same time.
        limits: bounds of what is accepted.
        reload_seconds: seconds between two looks at the registry. 0 means that none is taken.
    """

    def __init__(self, model: CurrentModel, threads: int, limits: Limits, reload_seconds: float) -> None:
        self.model = model
        self.limits = limits
        self._reload_seconds = reload_seconds
        self._batcher: Batcher[_Key, Translation] = Batcher(_translate, threads, limits.waiting_lines)
        self.metrics = Metrics(lambda: self._batcher.waiting)
        self.metrics.serves(model.now.version.name, model.now.version.version)

    async def translate(
        self,
        lines: Sequence[str],
        served: ServedModel,
        search: dict[str, Any],
        glossary: dict[str, str | None] | None = None,
        pair: str = "",
    ) -> list[Translation]:
        """Translate lines, together with lines of other requests of the same search, glossary and pair of languages.

        Args:
            lines: lines of a request.
            served: model that translates them.
            search: options of the search. The others stay.
            glossary: terms with their translations. None means the terms of the service.
            pair: pair of languages. Empty means the only one of the model.

        Raises:
            ConfigError: an option of the search is wrong.
            DataError: two terms of the glossary conflict.
            OverloadedError: there is no room for the lines.
            TimeoutError: it takes longer than the limit.
        """
        # Opening the graphs that another search needs takes time: other requests are answered meanwhile.
        translator = await asyncio.to_thread(served.translator.with_search, **search) if search else served.translator
        if glossary is not None:
            translator = await asyncio.to_thread(translator.with_glossary, glossary)
        translator = translator.into(pair) if pair else translator
        futures = [asyncio.wrap_future(future) for future in self._batcher.submit((served, translator), lines)]
        try:
            async with asyncio.timeout(self.limits.seconds):
                return [await future for future in futures]
        finally:
            for future in futures:
                future.cancel()  # a line that no thread has taken yet needs no translation any more

    async def watch(self) -> None:
        """Replace the model whenever its address means another version."""
        while self._reload_seconds:
            await asyncio.sleep(self._reload_seconds)
            try:
                changed = await asyncio.to_thread(self.model.refresh)
            except NmtError as error:
                self.metrics.reloaded("failed")
                logger.warning("%s: version %s still answers", error, self.model.now.version.version)
                continue
            if changed:
                version = self.model.now.version
                self.metrics.reloaded("done")
                self.metrics.serves(version.name, version.version)
                logger.info("%s version %s answers from now on", version.name, version.version)

    def close(self) -> None:
        """Translate what is waiting, and end the threads."""
        self._batcher.close()


def _translate(key: _Key, lines: Sequence[str]) -> list[Translation]:
    return key[1].translate(lines)


def make_app(service: Service, token: str) -> FastAPI:
    """Return the application of a service.

    Args:
        service: the service. The application closes it.
        token: secret that requests must send as `Authorization: Bearer TOKEN`. Empty means that they need none.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(service.watch())
        yield
        watching.cancel()
        await asyncio.to_thread(service.close)

    app = FastAPIOffline(title="nmt serve", summary="Translation with a registered model", lifespan=lifespan)
    app.add_middleware(_Limited, service=service)

    def authorised(sent: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]) -> None:
        if token and not (sent and hmac.compare_digest(sent.credentials.encode(), token.encode())):
            raise HTTPException(401, "send the header  Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})

    _add_routes(app, service, [Depends(authorised)])
    app.exception_handler(RequestValidationError)(_explain)
    app.exception_handler(StarletteError)(_explain_unreadable)
    return app


def _add_routes(app: FastAPI, service: Service, authorised: list[Any]) -> None:
    @app.post("/translate", dependencies=authorised)
    async def translate(request: TranslateRequest) -> TranslateAnswer | LibreAnswer:
        """Translate a line or a list of lines."""
        served = service.model.now
        _check(request, served, service.limits)
        return await _answer(request, served, service)

    @app.get("/languages", dependencies=authorised)
    async def languages() -> list[dict[str, Any]]:
        """List the languages of the model, in the form of LibreTranslate."""
        languages = service.model.now.languages
        targets: dict[str, list[str]] = {}
        for pair in languages.pairs or (f"{languages.source}-{languages.target}",):
            source, target = pair.split("-")
            targets.setdefault(source, []).append(target)
        return [{"code": source, "name": source, "targets": own} for source, own in targets.items()]

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Say that the service answers, and with which model."""
        version = service.model.now.version
        return {"status": "ok", "model": version.name, "version": version.version, "sha256": version.sha256}

    @app.get("/metrics", dependencies=authorised, response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Return counts and times, for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _check(request: TranslateRequest, served: ServedModel, limits: Limits) -> None:
    """Refuse what this service cannot do.

    Raises:
        HTTPException: other languages are asked for than the model has, or more lines than are accepted.
    """
    pair = served.languages
    if pair.pairs:
        _pair_of(request, served)
    for name, language, has in (("source", request.source, pair.source), ("target", request.target, pair.target)):
        if not pair.pairs and language not in ("auto", has):
            raise HTTPException(400, f"{name}={language!r}: this model translates from {pair.source} to {pair.target}")
    if len(request.lines) > limits.lines:
        raise HTTPException(413, f"{len(request.lines):,} lines: a request may have {limits.lines:,}: send several")


def _pair_of(request: TranslateRequest, served: ServedModel) -> str:
    """Return the pair of languages that a request means. Empty means the only one of the model.

    Raises:
        HTTPException: the model does not know it, or knows several and none is named.
    """
    if not served.languages.pairs:
        return ""
    to = "" if request.target == "auto" else request.target
    if to and request.source != "auto" and "-" not in to:
        to = f"{request.source}-{to}"
    try:
        return pair_for(served.languages, to)
    except ConfigError as error:
        raise HTTPException(400, str(error)) from None


async def _answer(request: TranslateRequest, served: ServedModel, service: Service) -> TranslateAnswer | LibreAnswer:
    """Return the answer to a request that has been checked.

    Raises:
        HTTPException: an option of the search is wrong, the service is overloaded, or it takes too long.
    """
    start = time.monotonic()
    search = request.search | ({"scores": True} if request.output == "full" else {})
    lines = request.lines
    try:
        pages = [html_of(line) for line in lines] if request.format == "html" else []
        if pages:
            segments = [segment for page in pages for segment in page.segments]
            lines = ["" if segment.fault else segment.text for segment in segments]
            if served.has_alignments and any(segment.tags for segment in segments):
                search.setdefault("alignments", "words")
        translated = await service.translate(lines, served, search, request.glossary, _pair_of(request, served))
    except NmtError as error:
        raise HTTPException(400, str(error)) from None
    except OverloadedError as error:
        raise HTTPException(429, f"{error}: try again in a second", _RETRY_AFTER) from None
    except TimeoutError:
        seconds = service.limits.seconds
        raise HTTPException(503, f"no answer in {seconds:g} s: try again with fewer lines", _RETRY_AFTER) from None
    service.metrics.answered(200, time.monotonic() - start, [one.status for one in translated])
    results: list[Any]
    if pages:
        translations = iter([_translated(one, search) for one in translated])
        results = [filled(page, list(islice(translations, len(page.segments)))) for page in pages]
    else:
        results = [one.record() if request.output == "full" else one.text for one in translated]
    if request.q is not None:
        return LibreAnswer(translatedText=results[0] if isinstance(request.q, str) else results)
    return TranslateAnswer(translations=results, model=served.version.name, version=served.version.version)


def _translated(translation: Translation, search: dict[str, Any]) -> Translated:
    """Return a translation with its links between words, if the search has any."""
    has_links = translation.alignment and search.get("alignments") == "words"
    return Translated(translation.text, translation.alignment.links if translation.alignment and has_links else ())


class _Limited:
    """The part of the application that refuses bodies that are too large, and counts requests that failed.

    It speaks ASGI itself: Starlette's middleware would start tasks for each request.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, size, most = time.monotonic(), 0, self._service.limits.body_bytes

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                raise HTTPException(413, f"more than {most:,} bytes: send several requests")
            return message

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] != 200 and scope["path"] == "/translate":
                self._service.metrics.answered(message["status"], time.monotonic() - start)
            await send(message)

        await self._app(scope, limited, counted)


async def _explain(request: Request, error: Exception) -> Response:
    """Answer a request of the wrong form with its mistakes."""
    assert isinstance(error, RequestValidationError)
    return JSONResponse({"detail": "; ".join(dict.fromkeys(map(_explained, error.errors())))}, 422)


async def _explain_unreadable(request: Request, error: Exception) -> Response:
    """Answer a request whose body FastAPI could not decode, such as one in another charset."""
    assert isinstance(error, StarletteError)
    if error.status_code == _UNREADABLE and error.__cause__:
        return JSONResponse({"detail": _NO_OBJECT}, _UNREADABLE)
    return await http_exception_handler(request, error)


def _explained(fault: Mapping[str, Any]) -> str:
    """Return one mistake of a request as: place, problem, remedy."""
    place = ".".join(str(part) for part in fault["loc"] if part != "body")
    if fault["type"] == "value_error":
        return problem_of(fault)
    if not place or fault["type"] == "json_invalid":
        return _NO_OBJECT
    if fault["loc"][1] in ("text", "q"):
        return f"{fault['loc'][1]}: give a line of text, or a list of lines"
    if fault["type"] == "extra_forbidden":
        return f"{place} is not a field: the fields are {', '.join(TranslateRequest.model_fields)}"
    return f"{place}={shown(fault['input'])}: {problem_of(fault)}"
