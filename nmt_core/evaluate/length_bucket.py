"""Define the scores of sentences of similar length. This module imports only pydantic, for programs that show them."""

from pydantic import BaseModel, ConfigDict


class LengthBucket(BaseModel):
    """Sentences of a test set whose sources have a similar length."""

    model_config = ConfigDict(frozen=True)
    test_set: str
    shortest: int
    """Length of the shortest source, in `unit`."""
    longest: int
    """Length of the longest source, in `unit`."""
    mean: float
    """Mean length of the sources, in `unit`."""
    unit: str
    """`words`, or `characters` if most of the sources are in scripts without spaces between words."""
    sentences: int
    """Number of sentences."""
    bleu: float
    """Corpus BLEU of these sentences, 0 to 100."""
