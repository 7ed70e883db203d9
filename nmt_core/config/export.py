"""`export`: ONNX graphs, and the gates that they pass."""

from typing import Literal, get_args

from pydantic import Field

from nmt_core.config.section import Section

Precision = Literal["fp32", "int8", "fp16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class ExportConfig(Section):
    """ONNX export, and the gates that compare it with PyTorch and the precisions with each other."""

    precisions: tuple[Precision, ...] = PRECISIONS
    """Graphs to make: int8 is for CPUs and fp16 for GPUs; fp32 is always made, for it is what the others are compared
    with."""
    parity_sentences: int = Field(500, ge=1)
    """Sentences of the dev set that PyTorch and the fp32 graphs translate; every beam must be identical, all its
    hypotheses, but for ties."""
    parity_beam_size: int = Field(4, ge=1, le=64)
    """Beam size of that comparison, and of that of precisions, whatever `search` says: a model is exported once for all
    searches."""
    parity_tolerance: float = Field(1e-4, gt=0)
    """Largest difference of log-probabilities, in nats."""
    calibration_sentences: int = Field(200, ge=1)
    """Sentences of the dev set that are translated to measure the scales of int8, and whether fp16 can hold all
    numbers."""
    quality_sentences: int = Field(1_000, ge=1)
    """Sentences that each precision translates; these and the others are spread evenly over the dev set."""
    max_bleu_loss: float = Field(0.2, ge=0)
    """BLEU that a precision may lose there against fp32, or any of them by the shortlist. What loses more is not
    published if the loss is significant (p < 0.05): a thousand sentences move BLEU by as much by themselves."""
    bleu_loss_bound: float = Field(1.0, ge=0)
    """BLEU from which on a loss counts whether it is significant or not, as of a dev set of few sentences; never less
    than `max_bleu_loss`."""
    shortlist: bool = False
    """Whether to add what `search.shortlist` needs: likely translations of each source piece, learnt from the training
    text (Jean et al. 2015), and graphs that choose from these alone. With a vocabulary of tens of thousands of pieces,
    that is faster."""
    shortlist_frequent: int = Field(2_000, ge=1)
    """Most frequent target pieces, which any translation may hold."""
    shortlist_translations: int = Field(20, ge=1, le=1_000)
    """Target pieces that each piece of the source adds to these."""
    shortlist_pairs: int = Field(500_000, ge=1)
    """Sentence pairs, about, that the likely translations are learnt from: a sample, if the text has more."""
