"""A shortlist: the few pieces of the vocabulary that the translation of a source may hold. Imports no torch.

The product of the decoder's state and the output matrix is a large part of a step, if the vocabulary is large. It is
taken with few columns of the matrix alone: those of the most frequent target pieces, and those of the likeliest
translations of each piece of the source (Jean et al. 2015, section 3.3). A batch has the columns of all its sentences,
but a sentence may only use its own: its translation does not depend on its company. Log-probabilities are those of the
model among the pieces of the list, as if there were no others.

`export/lexicon.py` makes the shortlist of a model; this file reads it, and holds a search to it.

Letters in names of arrays: B sentences, S source positions, V source vocabulary, K translations of a piece, F frequent
pieces, R rows of a step, C candidates, W blocks of a list, E pieces of a block.
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
"""Pieces of a block. Of a step, only the best blocks are sorted: as many as there are candidates, and some more."""
SPECIAL_IDS = EOS_ID + 1
"""They are in every list, at their own places."""

Ids = npt.NDArray[np.unsignedinteger]
"""As they are stored."""


@dataclass(frozen=True)
class Shortlist:
    """What a model's lists are made from."""

    frequent_F: Ids
    """The most frequent target pieces, most frequent first."""
    translations_VK: Ids
    """The likeliest translations of each source piece, likeliest first; filled up with `PAD_ID`."""
    vocab_size: int
    """Pieces of the target vocabulary."""

    def save(self, file: Path) -> None:
        """Write it; the same shortlist gives the same bytes."""
        np.savez_compressed(file, frequent=self.frequent_F, translations=self.translations_VK)

    @classmethod
    def load(cls, file: Path, source_vocab_size: int, vocab_size: int) -> "Shortlist":
        """Read what `save` wrote, of a model with these vocabularies.

        Raises:
            ModelError: the file is no shortlist, or of another model.
        """
        try:
            with np.load(file, allow_pickle=False) as arrays:
                frequent_F, translations_VK = arrays["frequent"], arrays["translations"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ModelError(f"{file}: no shortlist ({error}): fetch or export the bundle again") from None
        largest = max(frequent_F.max(initial=0), translations_VK.max(initial=0))
        if translations_VK.shape[:1] != (source_vocab_size,) or largest >= vocab_size:
            raise ModelError(
                f"{file}: has translations of {len(translations_VK):,} pieces, up to the id {largest:,}, but the model "
                f"has {source_vocab_size:,} source and {vocab_size:,} target pieces: it belongs to another model; "
                "fetch or export the bundle again"
            )
        return cls(frequent_F, translations_VK, vocab_size)

    def of_batch(self, source_BS: Ints) -> Listed:
        """The list of a batch, and what of it is that of each sentence.

        Args:
            source_BS: source ids, end marks included, padded at the end.
        """
        sentences = len(source_BS)
        is_listed_BV = np.zeros((sentences, self.vocab_size), dtype=bool)
        is_listed_BV[:, :SPECIAL_IDS] = True
        is_listed_BV[:, self.frequent_F] = True
        read_BS = np.where(source_BS == PAD_ID, EOS_ID, source_BS)  # padding says nothing that the end does not
        is_listed_BV[np.arange(sentences)[:, None, None], self.translations_VK[read_BS]] = True
        ids = np.flatnonzero(is_listed_BV.any(axis=0))
        spare = -len(ids) % BLOCK_PIECES
        penalty_BL = np.full((sentences, len(ids) + spare), -np.inf, dtype=np.float32)
        penalty_BL[:, : len(ids)][is_listed_BV[:, ids]] = 0.0
        ids_WE = np.pad(ids, (0, spare), constant_values=PAD_ID).reshape(-1, BLOCK_PIECES)
        return Listed(ids_WE, penalty_BL.reshape(sentences, -1, BLOCK_PIECES))


class ShortlistStepper:
    """A stepper that is held to a shortlist, as `search.step.Stepper`.

    Args:
        stepper: the model.
        shortlist: of the model.
    """

    def __init__(self, stepper: ListedStepper, shortlist: Shortlist) -> None:
        self.stepper = stepper
        self.shortlist = shortlist

    @property
    def vocab_size(self) -> int:
        """Pieces of the vocabulary; a list has fewer, and a step may return fewer candidates than are asked for."""
        return self.stepper.vocab_size

    def start(self, source_BS: Ints, candidates: int) -> "ShortlistDecoding":
        """Encode a batch; see `search.step.Stepper`."""
        listed = self.shortlist.of_batch(source_BS)
        return ShortlistDecoding(self.stepper.start(source_BS, min(candidates, listed.ids_WE.size), listed), listed)


class ShortlistDecoding:
    """One batch; see `search.step.Decoding`. Here, and nowhere else, places in a list become ids of the vocabulary."""

    def __init__(self, decoding: Decoding, listed: Listed) -> None:
        self.decoding = decoding
        self.listed = listed

    def step(self, tokens_R: Ints, parents_R: Ints) -> tuple[Floats, Ints]:
        """One token per row, be it in the list or not; see `search.step.Decoding`."""
        log_probs_RC, places_RC = self.decoding.step(tokens_R, parents_R)
        return log_probs_RC, self.listed.ids_WE.take(places_RC)

    def keep(self, sentences: Ints) -> None:
        """Drop the other sentences; see `search.step.Decoding`."""
        self.decoding.keep(sentences)
