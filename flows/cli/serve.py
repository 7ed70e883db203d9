"""`nmt serve`: answer requests for translations over HTTP, with one model."""

import os
from functools import partial
from typing import Annotated

import typer

from flows.cli.arguments import Debug
from flows.cli.interruption import interruptible

_Reload = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="Time between two looks at the registry: when models:/NAME@champion means another version, that one "
        "answers, and no request is lost. 0: none.",
    ),
]


def serve(
    model: Annotated[str, typer.Argument(help="models:/NAME@champion, or the folder of an exported model.")],
    host: Annotated[str, typer.Option(help="Address to listen on. Others than 127.0.0.1 need NMT_SERVE_TOKEN.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on. 0: any free one.")] = 8080,
    reload: _Reload = 30,
    most_lines: Annotated[int, typer.Option(min=1, help="Lines that one request may have.")] = 1_024,
    most_waiting: Annotated[
        int, typer.Option(min=1, help="Lines of all requests that may wait. Further requests get the status 429.")
    ] = 4_096,
    most_bytes: Annotated[int, typer.Option(min=1, help="Bytes that one request may have.")] = 1 << 20,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds after which a request gets the status 503.")] = 60,
    glossary: Annotated[
        str,
        typer.Option(
            "--glossary", metavar="FILE", help="TSV or CSV with terms and translations for requests without their own."
        ),
    ] = "",
    keep_terms: Annotated[
        str, typer.Option("--keep-terms", metavar="FILE", help="Terms that stay as they are, one on each line.")
    ] = "",
    debug: Debug = False,
) -> None:
    """Answer requests for translations over HTTP, until Ctrl-C. The pages at /docs describe them."""
    import logging

    from flows.display.progress import terminal
    from flows.serving.app import Limits, Service, make_app
    from flows.serving.model import CurrentModel
    from flows.serving.server import bound, require_token
    from flows.serving.server import serve as answer
    from flows.settings import Settings
    from nmt_core.terms.reading import read_terms

    token = os.environ.get("NMT_SERVE_TOKEN", "")
    require_token(host, token)
    settings = Settings.load()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("flows.serving").setLevel(logging.INFO)
    with interruptible(), bound(host, port) as listening:
        current = CurrentModel(model, settings, partial(read_terms, glossary, keep_terms))
        limits = Limits(most_bytes, most_lines, most_waiting, timeout)
        service = Service(current, settings.threads, limits, reload)
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        version = current.now.version
        console = terminal(to_stderr=False)
        console.print(f"{version.name} version {version.version} answers at {address}", soft_wrap=True)
        console.print(f'Try: curl {address}/translate --json \'{{"text": "..."}}\'', soft_wrap=True)
        console.print(f"Pages: {address}/docs   Press Ctrl-C to stop.", soft_wrap=True)
        answer(make_app(service, token), listening)
