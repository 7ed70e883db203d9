"""`model`: the Transformer, or a recurrent network."""

from typing import Literal

from pydantic import Field, model_validator

from nmt_core.config.section import Section, later


class RnnConfig(Section):
    """Recurrent network, used with `model.architecture: rnn`. The defaults are RNNsearch (Bahdanau et al. 2015).

    It also uses these options of `model`: `d_model`, the width of the embeddings; `encoder_layers` and
    `decoder_layers`; `dropout`, applied to the embeddings, between layers and before the output; and `tied_embeddings`.
    """

    cell: Literal["rnn", "gru", "lstm"] = "gru"
    """Recurrent unit: the plain unit with tanh (Elman 1990), the gated hidden unit (Cho et al. 2014, section 2.3), or
    long short-term memory with a forget gate."""
    attention: Literal["none", "additive", "dot", "general", "concat"] = "additive"
    """Access of the decoder to the source. `none`: one fixed vector (Cho et al. 2014, Sutskever et al. 2014).
    `additive`: an alignment model (Bahdanau et al. 2015). `dot`, `general` and `concat`: global attention with one of
    three scores of the decoder's own state and an encoder's state (Luong et al. 2015, section 3.1): their dot product,
    their product with a matrix between them, or a layer of tanh over both."""
    input_feeding: bool = later(False)
    """True if each step of the decoder also reads the attentional vector of the step before (Luong et al. 2015, section
    3.3). Training then computes one target position after the other. Needs attention=dot, general or concat."""
    window: Literal["all", "monotonic", "predictive"] = later("all")
    """Source positions that attention=dot, general or concat weighs. `all`: global attention. The others are local
    attention to `window_size` positions on each side of a centre (Luong et al. 2015, section 3.2). `monotonic`
    (local-m): the centre is the number of the target position, but at most the last source position. `predictive`
    (local-p): the model predicts the centre, and a Gaussian around it multiplies the weights."""
    window_size: int = later(10, ge=1)
    """Number of source positions on each side of the centre of a window, D. The Gaussian's deviation is D / 2."""
    context: Literal["every_step", "first_state"] = "every_step"
    """Use of the fixed vector with attention=none. `every_step`: every step and the readout read it (Cho et al. 2014,
    appendix A). `first_state`: it is only the first state of the decoder (Sutskever et al. 2014)."""
    hidden_size: int = Field(1_000, ge=1)
    """Number of hidden units of a layer, in each direction."""
    alignment_size: int = Field(1_000, ge=1)
    """Number of hidden units of the alignment model, with attention=additive or concat."""
    maxout_size: int = Field(500, ge=1)
    """Number of maxout units of the readout, each the larger of two values. Used with attention=additive and with
    context=every_step."""
    bidirectional: bool = True
    """True if each layer of the encoder reads the source in both directions."""
    reverse_source: bool = False
    """True if an encoder of one direction reads the source from its end (Sutskever et al. 2014, section 3.3)."""

    @property
    def is_global(self) -> bool:
        """True if the score is one of Luong et al. (2015), over all source positions or in a window."""
        return self.attention in ("dot", "general", "concat")

    @property
    def hands_over_states(self) -> bool:
        """True if the layers of the decoder start from the last states of the encoder's layers."""
        return self.is_global or (self.attention == "none" and self.context == "first_state")

    @property
    def state_size(self) -> int:
        """Width of the input of the output matrix."""
        return self.hidden_size if self.hands_over_states else self.maxout_size

    @model_validator(mode="after")
    def _fits_together(self) -> "RnnConfig":
        if self.context == "first_state" and self.attention != "none":
            raise ValueError(f"context=first_state needs attention=none, not {self.attention}: remove either")
        if self.input_feeding and not self.is_global:
            raise ValueError(
                f"input_feeding=true feeds back the attentional vector, which attention={self.attention} does not "
                "have: set attention to dot, general or concat, or remove input_feeding"
            )
        if self.window != "all" and not self.is_global:
            raise ValueError(
                f"window={self.window} restricts the attention of Luong et al. (2015), and attention={self.attention} "
                "is another one: set attention to dot, general or concat, or remove window"
            )
        if self.hands_over_states and self.bidirectional:
            raise ValueError(
                "bidirectional=true gives each encoder layer two last states, but the decoder starts from one with "
                f"attention={self.attention} and context={self.context}: set bidirectional to false"
            )
        if self.reverse_source and self.bidirectional:
            raise ValueError(
                "reverse_source=true needs bidirectional=false: set bidirectional or reverse_source to false"
            )
        return self


class ModelConfig(Section):
    """Transformer (Vaswani et al. 2017), or recurrent network.

    The defaults are the base Transformer.
    """

    architecture: Literal["transformer", "rnn"] = "transformer"
    """Architecture: the Transformer, or the recurrent network that `rnn` describes."""
    rnn: RnnConfig = RnnConfig()
    """Recurrent network, used with architecture=rnn."""
    d_model: int = Field(512, ge=2)
    """Width of the embeddings and of every sub-layer's output."""
    d_ff: int = Field(2_048, ge=2)
    """Width of the inner layer of the feed-forward sub-layers."""
    num_heads: int = Field(8, ge=1)
    """Number of attention heads. It must divide `d_model`, unless `key_width` and `value_width` are set."""
    key_width: int = Field(0, ge=0)
    """Width of the queries and keys of a head, d_k (Vaswani et al. 2017, section 3.2.2). 0 means d_model /
    num_heads."""
    value_width: int = Field(0, ge=0)
    """Width of the values of a head, d_v (Vaswani et al. 2017, section 3.2.2). 0 means d_model / num_heads."""
    activation: Literal["relu", "gelu", "swish", "swiglu"] = "relu"
    """Activation of the feed-forward sub-layers: ReLU, as published, GELU (Hendrycks and Gimpel 2016), swish
    (Ramachandran et al. 2017), or SwiGLU (Shazeer 2020). The gate of SwiGLU is a third matrix, so two thirds of `d_ff`
    give the same number of weights."""
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    """Position encoding. `sinusoidal`: sinusoids added to the embeddings (Vaswani et al. 2017, section 3.5). `learned`:
    learned vectors in one table for both languages (Vaswani et al. 2017, Table 3, row E). `rotary`: rotation of the
    queries and keys of self-attention (Su et al. 2021)."""
    max_positions: int = Field(2_048, ge=64, le=65_536)
    """Number of learned position vectors, and so the longest sequence, in tokens, that the model can read or write.
    Vectors beyond the longest training sequence stay random."""
    encoder_layers: int = Field(6, ge=1)
    """Number of encoder layers."""
    decoder_layers: int = Field(6, ge=1)
    """Number of decoder layers."""
    decoder_autoregression: Literal["self_attention", "ssru"] = later("self_attention")
    """Sub-layer by which a decoder layer reads the target so far. `self_attention`: masked attention, as published.
    `ssru`: the simpler simple recurrent unit (Kim et al. 2019, "From Research to Production and Back"), whose cost does
    not grow with the length of the target. It makes small decoders faster."""
    attention_width: int = later(0, ge=0)
    """Number of positions that self-attention sees, r (restricted self-attention, Vaswani et al. 2017, section 4). In
    the encoder, the r positions around each position, so r is odd. In the decoder, the last r positions, so that the
    cost of a step does not grow with the length. Attention to the source is not restricted. 0 means all positions."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout rate on the output of each sub-layer and on the sums of embeddings and positions (Vaswani et al. 2017,
    section 5.4)."""
    norm: Literal["post", "pre"] = "post"
    """Place of layer normalisation. `post`: after the residual sum, as published. `pre`: before the sub-layer."""
    layer_norm_eps: float = later(1e-5, gt=0, le=1)
    """Number that layer normalisation adds to the variance, so that it never divides by zero (Ba et al. 2016).
    PyTorch and fairseq use 1e-5, Tensor2Tensor 1e-6."""
    attention_bias: bool = later(False)
    """True if the four projections of attention add a bias, as in Marian, fairseq and PyTorch."""
    output_bias: bool = later(False)
    """True if the output matrix adds a bias to the logit of each piece, as in Marian."""
    tied_embeddings: Literal["three_way", "two_way", "none"] = "three_way"
    """Embedding matrices that share their weights. `three_way`: source, target and output. `two_way`: target and
    output."""

    alignment_layer: int = later(0, ge=0)
    """Number of the decoder layer, from 1, in which attention to the source learns word alignments (guided alignment,
    Chen et al. 2016 and Garg et al. 2019). Alignments of translations then come from it. 0 means none. It needs
    `encode.alignments`."""
    alignment_heads: int = later(1, ge=1)
    """Number of heads of `alignment_layer` that learn them."""

    @model_validator(mode="after")
    def _has_heads_to_align(self) -> "ModelConfig":
        if self.alignment_layer and self.architecture == "rnn":
            raise ValueError(
                f"alignment_layer={self.alignment_layer} needs heads of attention, which architecture=rnn lacks: set "
                "alignment_layer to 0"
            )
        if self.alignment_layer > self.decoder_layers:
            raise ValueError(
                f"alignment_layer={self.alignment_layer} is more than decoder_layers={self.decoder_layers}: lower it"
            )
        if self.alignment_heads > 1 and not self.alignment_layer:
            raise ValueError(
                f"alignment_heads={self.alignment_heads} has no effect with alignment_layer=0: set alignment_layer"
            )
        if self.alignment_layer and self.alignment_heads > self.num_heads:
            raise ValueError(
                f"alignment_heads={self.alignment_heads} is more than num_heads={self.num_heads}: lower it"
            )
        return self

    @model_validator(mode="after")
    def _is_a_recurrent_network_that_can_be(self) -> "ModelConfig":
        rnn = self.rnn
        if self.architecture == "transformer":
            if rnn != RnnConfig():
                raise ValueError(
                    "rnn has no effect with architecture=transformer: set architecture to rnn, or remove rnn"
                )
            return self
        if rnn.attention == "additive" and self.decoder_layers != 1:
            raise ValueError(
                f"decoder_layers={self.decoder_layers}: a decoder with an alignment model (rnn.attention=additive) has "
                "one layer: set decoder_layers to 1"
            )
        if rnn.hands_over_states and self.encoder_layers != self.decoder_layers:
            raise ValueError(
                f"encoder_layers={self.encoder_layers} and decoder_layers={self.decoder_layers} differ, but with "
                f"rnn.attention={rnn.attention} each decoder layer starts from an encoder layer: set both to one number"
            )
        if self.tied_embeddings != "none" and rnn.state_size != self.d_model:
            raise ValueError(
                f"tied_embeddings={self.tied_embeddings} needs a readout as wide as the embeddings, but its width "
                f"{rnn.state_size} is not d_model={self.d_model}: set tied_embeddings to none"
            )
        return self

    @model_validator(mode="after")
    def _only_a_transformer_has_sub_layers_and_norms(self) -> "ModelConfig":
        if self.architecture == "rnn" and self.decoder_autoregression != "self_attention":
            raise ValueError(
                f"decoder_autoregression={self.decoder_autoregression} has no effect with architecture=rnn, which is "
                "recurrent already: set architecture to transformer, or remove decoder_autoregression"
            )
        for name in ("attention_bias", "output_bias"):
            if self.architecture == "rnn" and getattr(self, name):
                raise ValueError(
                    f"{name}=true is an option of the Transformer: set architecture to transformer, or remove {name}"
                )
        if self.architecture == "rnn" and self.layer_norm_eps != ModelConfig.model_fields["layer_norm_eps"].default:
            raise ValueError(
                f"layer_norm_eps={self.layer_norm_eps:g} has no effect with architecture=rnn, which has no layer "
                "normalisation: set architecture to transformer, or remove layer_norm_eps"
            )
        return self

    @model_validator(mode="after")
    def _can_be_restricted(self) -> "ModelConfig":
        if self.attention_width and self.architecture == "rnn":
            raise ValueError(
                f"attention_width={self.attention_width} restricts self-attention, which architecture=rnn lacks: set "
                "architecture to transformer, or remove attention_width"
            )
        if self.attention_width and self.attention_width % 2 == 0:
            raise ValueError(
                f"attention_width={self.attention_width} is even, but as many positions lie before as after the one "
                f"in the middle: set it to {self.attention_width - 1} or {self.attention_width + 1}"
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
            raise ValueError(
                f"d_model={self.d_model} is odd, but sinusoidal positions come in pairs: set an even number"
            )
        if self.head_widths[0] % 2 and self.positions == "rotary":
            raise ValueError(
                f"positions=rotary rotates pairs, but the keys of a head are {self.head_widths[0]} wide: set "
                "key_width to an even number"
            )
        return self

    @property
    def head_widths(self) -> tuple[int, int]:
        """Width of a head's queries and keys, and width of its values."""
        usual = self.d_model // self.num_heads
        return self.key_width or usual, self.value_width or usual
