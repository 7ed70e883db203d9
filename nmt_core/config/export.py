"""`export`: ONNX graphs, and the gates that they must pass."""

from typing import Literal, get_args

from pydantic import Field

from nmt_core.config.section import Section, later

Precision = Literal["fp32", "int8", "fp16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class ExportConfig(Section):
    """ONNX export, with gates that compare the graphs with PyTorch, and the other precisions with fp32."""

    precisions: tuple[Precision, ...] = PRECISIONS
    """Precisions of the graphs to make: int8 is for CPUs, fp16 for GPUs. fp32 is always made, because the others are
    compared with it."""
    members: tuple[str, ...] = later(())
    """Other models that are exported together with the model of the run, as one model that translates by the mean of
    their probabilities, such as models of other seeds: registered models (`models:/NAME@ALIAS` or
    `models:/NAME/VERSION`), artifacts (`average/FINGERPRINT`) or folders. They need the same `model` section, except
    dropout, and the same vocabulary (`tokenizer.start_from`)."""
    parity_sentences: int = Field(500, ge=1)
    """Number of sentences, evenly spread over the dev set, that PyTorch and the fp32 graphs both translate. All
    hypotheses of every beam must be identical, except for ties."""
    parity_beam_size: int = Field(4, ge=1, le=64)
    """Beam size for the comparison with PyTorch and for the comparison of precisions. It is independent of `search`,
    because a model is exported once for all searches."""
    parity_tolerance: float = Field(1e-4, gt=0)
    """Maximum difference between log-probabilities, in nats."""
    calibration_sentences: int = Field(200, ge=1)
    """Number of sentences, evenly spread over the dev set, that are translated to measure the scales of int8, and to
    check that fp16 can hold all values."""
    quality_sentences: int = Field(1_000, ge=1)
    """Number of sentences, evenly spread over the dev set, that each precision translates."""
    max_bleu_loss: float = Field(0.2, ge=0)
    """Accepted loss of BLEU of a precision against fp32, or of the shortlist against the same precision without it. A
    precision that loses more is not published if the loss is significant (p < 0.05). On a thousand sentences, BLEU
    varies by as much by chance. Where BLEU of fp32 is 0, nothing else is published. 100 accepts any loss."""
    bleu_loss_bound: float = Field(1.0, ge=0)
    """Loss of BLEU above which a precision is not published, significant or not. This matters for small dev sets. A
    value below `max_bleu_loss` counts as `max_bleu_loss`."""
    shortlist: bool = False
    """Export a shortlist, which `search.shortlist` needs: likely translations of each source piece, learned from the
    training text (Jean et al. 2015), and graphs that choose only from these. It makes translation faster with a
    vocabulary of tens of thousands of pieces."""
    shortlist_frequent: int = Field(2_000, ge=1)
    """Number of most frequent target pieces that are in every shortlist."""
    shortlist_translations: int = Field(20, ge=1, le=1_000)
    """Number of target pieces that each source piece adds to the shortlist."""
    shortlist_pairs: int = Field(500_000, ge=1)
    """Approximate number of sentence pairs from which the likely translations are learned. Larger text is sampled."""
