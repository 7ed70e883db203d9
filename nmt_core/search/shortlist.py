"""Shortlist: the few pieces of the vocabulary that the translation of a source may contain. Imports no torch.

With a large vocabulary, the product of the decoder's state and the output matrix is a large part of a step. With a
shortlist, only few columns of the matrix are used: the most frequent target pieces, and the most probable translations
of each source piece (Jean et al. 2015, section 3.3). A batch has the columns of all its sentences, but a sentence may
use only its own, so its translation does not depend on the rest of the batch. Log-probabilities are normalised
over the pieces of the list, as if there were no others.

`export/lexicon.py` makes the shortlist of a model. This module reads it, and restricts a search to it.

Letters: see `nmt_core.models`. Here V counts pieces of a vocabulary, source or target, K counts translations of a
piece, and L counts pieces of a list; in addition F counts frequent pieces.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt_core.errors import ModelError
from nmt_core.search.step import Decoding, Floats, Ints, Listed, ListedStepper
from nmt_core.tokenizer.tokenizer import EOS_ID, PAD_ID

SHORTLIST_FILE = "shortlist.npz"
BLOCK_PIECES = 16
"""Number of pieces of a block. A step sorts the best blocks only: as many as there are candidates, and some more."""
SPECIAL_IDS = EOS_ID + 1
"""Number of special ids. They are in every list, each at its own place."""

Ids = npt.NDArray[np.unsignedinteger]
"""Ids as they are stored."""


@dataclass(frozen=True)
class Shortlist:
    """Tables from which a model's lists are made."""

    frequent_F: Ids
    """Most frequent target pieces, the most frequent first."""
    translations_VK: Ids
    """Most probable translations of each source piece, the most probable first, filled up with `PAD_ID`."""
    vocab_size: int
    """Number of pieces of the target vocabulary."""

    def save(self, file: Path) -> None:
        """Write the shortlist to a file. The same shortlist gives the same bytes."""
        np.savez_compressed(file, frequent=self.frequent_F, translations=self.translations_VK)

    @classmethod
    def load(cls, file: Path, source_vocab_size: int, vocab_size: int) -> "Shortlist":
        """Read the file that `save` wrote, for a model with these vocabularies.

        Raises:
            ModelError: the file is not a shortlist, or belongs to another model.
        """
        try:
            with np.load(file, allow_pickle=False) as arrays:
                frequent_F, translations_VK = arrays["frequent"], arrays["translations"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ModelError(f"{file}: not a shortlist ({error}): fetch or export the bundle again") from None
        largest = max(frequent_F.max(initial=0), translations_VK.max(initial=0))
        if translations_VK.shape[:1] != (source_vocab_size,) or largest >= vocab_size:
            raise ModelError(
                f"{file}: has translations of {len(translations_VK):,} pieces, up to the id {largest:,}, but the model "
                f"has {source_vocab_size:,} source and {vocab_size:,} target pieces (it belongs to another model): "
                "fetch or export the bundle again"
            )
        return cls(frequent_F, translations_VK, vocab_size)

    def of_batch(self, source_BS: Ints) -> Listed:
        """Return the list of a batch, and the part of it that each sentence may use.

        Args:
            source_BS: source ids, end marks included, padded at the end.
        """
        sentences = len(source_BS)
        is_listed_BV = np.zeros((sentences, self.vocab_size), dtype=bool)
        is_listed_BV[:, :SPECIAL_IDS] = True
        is_listed_BV[:, self.frequent_F] = True
        read_BS = np.where(source_BS == PAD_ID, EOS_ID, source_BS)  # padding adds nothing to the end mark
        is_listed_BV[np.arange(sentences)[:, None, None], self.translations_VK[read_BS]] = True
        ids = np.flatnonzero(is_listed_BV.any(axis=0))
        spare = -len(ids) % BLOCK_PIECES
        penalty_BL = np.full((sentences, len(ids) + spare), -np.inf, dtype=np.float32)
        penalty_BL[:, : len(ids)][is_listed_BV[:, ids]] = 0.0
        ids_WE = np.pad(ids, (0, spare), constant_values=PAD_ID).reshape(-1, BLOCK_PIECES)
        return Listed(ids_WE, penalty_BL.reshape(sentences, -1, BLOCK_PIECES))


class ShortlistStepper:
    """Stepper that is restricted to a shortlist, as `search.step.Stepper`.

    Args:
        stepper: model to search with.
        shortlist: shortlist of the model.
    """

    def __init__(self, stepper: ListedStepper, shortlist: Shortlist) -> None:
        self.stepper = stepper
        self.shortlist = shortlist

    @property
    def vocab_size(self) -> int:
        """Number of pieces of the vocabulary.

        A list has fewer pieces, and a step may return fewer candidates than requested.
        """
        return self.stepper.vocab_size

    def start(self, source_BS: Ints, candidates: int) -> "ShortlistDecoding":
        """Encode a batch (see `search.step.Stepper`)."""
        listed = self.shortlist.of_batch(source_BS)
        return ShortlistDecoding(self.stepper.start(source_BS, min(candidates, listed.ids_WE.size), listed), listed)


class ShortlistDecoding:
    """Decoding of one batch (see `search.step.Decoding`).

    Only this class converts places in a list to ids of the vocabulary.
    """

    def __init__(self, decoding: Decoding, listed: Listed) -> None:
        self.decoding = decoding
        self.listed = listed

    def step(self, tokens_R: Ints, parents_R: Ints) -> tuple[Floats, Ints]:
        """Read one token per row, in the list or not (see `search.step.Decoding`)."""
        log_probs_RC, places_RC = self.decoding.step(tokens_R, parents_R)
        return log_probs_RC, self.listed.ids_WE.take(places_RC)

    def keep(self, sentences: Ints) -> None:
        """Remove the other sentences (see `search.step.Decoding`)."""
        self.decoding.keep(sentences)
