"""What is known of the sentences of about one length; light to import, for whoever shows it."""

from pydantic import BaseModel, ConfigDict


class LengthBucket(BaseModel):
    """The sentences of a test set whose sources are of about one length."""

    model_config = ConfigDict(frozen=True)
    test_set: str
    shortest: int
    """Source length, in `unit`, of the shortest sentence in it."""
    longest: int
    mean: float
    unit: str
    """words, or characters of a source language that has no spaces between words."""
    sentences: int
    bleu: float
    """Corpus BLEU of these sentences, 0 to 100."""
