"""`model`: the Transformer, or a recurrent network."""

from typing import Literal

from pydantic import Field, model_validator

from nmt_core.config.section import Section


class RnnConfig(Section):
    """A recurrent network, with `model.architecture: rnn`; the defaults are RNNsearch (Bahdanau et al. 2015).

    Of the other knobs of `model` it reads `d_model`, the width of its embeddings, the numbers of layers, `dropout` (on
    embeddings, between layers and before the output) and `tied_embeddings`.
    """

    cell: Literal["gru", "lstm"] = "gru"
    """The gated hidden unit (Cho et al. 2014, section 2.3), or long short-term memory with a forget gate."""
    attention: Literal["none", "additive", "dot"] = "additive"
    """How the decoder sees the source: as one vector (Cho et al. 2014; Sutskever et al. 2014), by an alignment model
    (Bahdanau et al. 2015), or by products with its own state (Luong et al. 2015)."""
    context: Literal["every_step", "first_state"] = "every_step"
    """Of attention=none: every step and the readout read the vector (Cho et al. 2014, appendix A), or it is the
    decoder's first state and no more (Sutskever et al. 2014)."""
    hidden_size: int = Field(1_000, ge=1)
    """Hidden units of a layer and direction."""
    alignment_size: int = Field(1_000, ge=1)
    """Of attention=additive: hidden units of the alignment model."""
    maxout_size: int = Field(500, ge=1)
    """Maxout units of the readout, of attention=additive and of context=every_step; each is the larger of two."""
    bidirectional: bool = True
    """Whether each layer of the encoder reads the source in both directions."""
    reverse_source: bool = False
    """Whether an encoder of one direction reads the source from its end (Sutskever et al. 2014, section 3.3)."""

    @property
    def hands_over_states(self) -> bool:
        """Whether the decoder's layers start from the last states of the encoder's."""
        return self.attention == "dot" or (self.attention == "none" and self.context == "first_state")

    @property
    def state_size(self) -> int:
        """Width of what the output matrix reads."""
        return self.hidden_size if self.hands_over_states else self.maxout_size

    @model_validator(mode="after")
    def _fits_together(self) -> "RnnConfig":
        if self.context == "first_state" and self.attention != "none":
            raise ValueError(f"context=first_state is for attention=none, not for {self.attention}: remove either")
        if self.hands_over_states and self.bidirectional:
            raise ValueError(
                "bidirectional=true leaves two last states to each layer of the encoder, and the decoder starts from "
                f"one, with attention={self.attention} and context={self.context}: set bidirectional to false"
            )
        if self.reverse_source and self.bidirectional:
            raise ValueError("reverse_source=true is for one direction: set bidirectional to false, or leave it false")
        return self


class ModelConfig(Section):
    """The Transformer (Vaswani et al. 2017), whose base model the defaults are, or a recurrent network."""

    architecture: Literal["transformer", "rnn"] = "transformer"
    """The Transformer, or the recurrent network of `rnn`."""
    rnn: RnnConfig = RnnConfig()
    """The recurrent network, with architecture=rnn."""
    d_model: int = Field(512, ge=8)
    """Width of the embeddings and of every sub-layer's output."""
    d_ff: int = Field(2_048, ge=8)
    """Width of the feed-forward sub-layer's inner layer."""
    num_heads: int = Field(8, ge=1)
    """Attention heads; must divide `d_model`, unless the next two are set."""
    key_width: int = Field(0, ge=0)
    """Width of the queries and keys of a head, d_k (section 3.2.2); 0: d_model / num_heads."""
    value_width: int = Field(0, ge=0)
    """Width of the values of a head, d_v; 0: d_model / num_heads."""
    activation: Literal["relu", "gelu", "swiglu"] = "relu"
    """Of the feed-forward sub-layer: ReLU, as published, GELU (Hendrycks and Gimpel 2016), or SwiGLU (Shazeer 2020),
    whose gate is a third matrix: two thirds of `d_ff` give it as many weights."""
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    """Positions are computed and added (section 3.5); or learned: a vector for each, in one table for both languages
    (Table 3, row E); or turn the queries and keys of self-attention (Su et al. 2021)."""
    max_positions: int = Field(2_048, ge=64, le=65_536)
    """Vectors of learned positions: the longest sequence, in tokens, that the model can read or write. Those beyond
    the longest sequence in training stay random."""
    encoder_layers: int = Field(6, ge=1)
    """Layers of the encoder."""
    decoder_layers: int = Field(6, ge=1)
    """Layers of the decoder."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout on the output of each sub-layer and on the sums of embeddings and positions (section 5.4)."""
    norm: Literal["post", "pre"] = "post"
    """Layer norm after the residual sum, as published, or before the sub-layer."""
    tied_embeddings: Literal["three_way", "two_way", "none"] = "three_way"
    """Matrices that are one: source, target and output; target and output; or none."""

    @model_validator(mode="after")
    def _is_a_recurrent_network_that_can_be(self) -> "ModelConfig":
        rnn = self.rnn
        if self.architecture == "transformer":
            if rnn != RnnConfig():
                raise ValueError("rnn says nothing for architecture=transformer: set architecture to rnn, or remove it")
            return self
        if rnn.attention == "additive" and self.decoder_layers != 1:
            raise ValueError(
                f"decoder_layers={self.decoder_layers}: a decoder with an alignment model (rnn.attention=additive) has "
                "one: set decoder_layers to 1"
            )
        if rnn.hands_over_states and self.encoder_layers != self.decoder_layers:
            raise ValueError(
                f"encoder_layers={self.encoder_layers} and decoder_layers={self.decoder_layers}: each layer of the "
                f"decoder starts from one of the encoder with rnn.attention={rnn.attention}: set both to one number"
            )
        if self.tied_embeddings != "none" and rnn.state_size != self.d_model:
            raise ValueError(
                f"tied_embeddings={self.tied_embeddings} needs an output of the embeddings' width, and a readout of "
                f"{rnn.state_size} is not d_model={self.d_model}: set tied_embeddings to none"
            )
        return self

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> "ModelConfig":
        if self.architecture == "rnn":  # it has neither heads nor positions
            return self
        if self.d_model % self.num_heads and not (self.key_width and self.value_width):
            raise ValueError(
                f"d_model={self.d_model} is not a multiple of num_heads={self.num_heads}: change either, or set "
                "key_width and value_width"
            )
        if self.d_model % 2 and self.positions == "sinusoidal":
            raise ValueError(f"d_model={self.d_model} is odd: sinusoidal positions come in pairs")
        if self.head_widths[0] % 2 and self.positions == "rotary":
            raise ValueError(
                f"positions=rotary turns pairs, and the keys of a head are {self.head_widths[0]} wide: set "
                "key_width to an even number"
            )
        return self

    @property
    def head_widths(self) -> tuple[int, int]:
        """Width of a head's queries and keys, and of its values."""
        usual = self.d_model // self.num_heads
        return self.key_width or usual, self.value_width or usual
