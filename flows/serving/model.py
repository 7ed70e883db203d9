"""The model that a service answers with, and its replacement while requests are running."""

import logging
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack

from flows.registry.models import Model, model_of, resolve
from flows.settings import Settings
from nmt_core.bundle.folder import read_bundle
from nmt_core.config import LanguagesConfig
from nmt_core.errors import ConfigError
from nmt_core.terms.glossary import Term
from nmt_core.translator import Translator

_log = logging.getLogger(__name__)

ReadGlossary = Callable[[LanguagesConfig], tuple[Term, ...]]


class ServedModel:
    """One version of a model, loaded. Its files are there as long as anything refers to it.

    Args:
        address: `models:/NAME/VERSION`, the folder of an exported model, or the name of an export artifact.
        settings: settings that locate the registry and the store.
        read_glossary: function that returns the terms of the glossary for the languages of the model.

    Raises:
        NmtError: there is no such model, or it or the glossary cannot be loaded.
    """

    def __init__(self, address: str, settings: Settings, read_glossary: ReadGlossary | None = None) -> None:
        self.address = address
        with ExitStack() as stack:
            model: Model = stack.enter_context(model_of(address, settings))
            self.version = model.version
            bundle = read_bundle(model.folder)
            self.languages = bundle.languages
            if self.languages.pairs and read_glossary:
                raise ConfigError(
                    f"{address}: translates many pairs of languages, and a glossary is for one: leave out the "
                    "glossary, and send terms with each request"
                )
            self.has_alignments = bundle.has_alignments
            """True if the model can say where the tags of a page go."""
            translator = Translator.load(model.folder, threads=1, scores=False)  # the batches are the threads
            self.translator = translator.with_glossary(read_glossary(self.languages) if read_glossary else ())
            for fault in self.translator.faults_of_terms():
                _log.warning("term %s. Lines with it have the status terms_missing", fault)
            self.translator.translate("", to=next(iter(self.languages.pairs), ""))
            weakref.finalize(self, stack.pop_all().close)


class CurrentModel:
    """The model at an address that may come to mean another version, such as `models:/NAME@champion`.

    Args:
        address: address, folder or name.
        settings: settings that locate the registry and the store.
        read_glossary: see `ServedModel`. It is called for each version.

    Raises:
        NmtError: there is no such model, or it or the glossary cannot be loaded.
    """

    def __init__(self, address: str, settings: Settings, read_glossary: ReadGlossary | None = None) -> None:
        self._address = address
        self._settings = settings
        self._read_glossary = read_glossary
        self._lock = threading.Lock()
        self.now = ServedModel(resolve(address, settings), settings, read_glossary)
        """The version that new requests get. Running requests keep theirs."""

    def refresh(self) -> bool:
        """Look the address up again. Return True if it means another version, which is loaded now.

        Raises:
            NmtError: the registry does not answer, or the new version cannot be loaded. The earlier one stays.
        """
        with self._lock:
            address = resolve(self._address, self._settings)
            if address == self.now.address:
                return False
            self.now = ServedModel(address, self._settings, self._read_glossary)
            return True
