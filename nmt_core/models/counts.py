"""Count the weights of a model by its options, without building it. Imports no torch."""

from nmt_core.config import ModelConfig


def parameters(model: ModelConfig, vocab_size: int, source_vocab_size: int = 0) -> int:
    """Return the number of weights of a model without building it.

    `source_vocab_size` is 0 if source and target share a vocabulary.
    """
    core = sum(_of_recurrent(model)) if model.architecture == "rnn" else _of_transformer(model)
    is_own = model.tied_embeddings != "three_way"
    core += vocab_size * model.output_bias
    embeddings = (vocab_size + is_own * (source_vocab_size or vocab_size)) * model.d_model
    return core + embeddings + _of_output(model, vocab_size)


def weights_per_token(model: ModelConfig, vocab_size: int) -> tuple[int, int]:
    """Return the weights that multiply each source token and each target token, see `TranslationModel`.

    Norms outside the layers are left out. A recurrent decoder counts in full for each target token.
    """
    if model.architecture == "rnn":
        encoder, decoder = _of_recurrent(model)
        return encoder, decoder + vocab_size * (
            model.rnn.state_size if model.tied_embeddings == "none" else model.d_model
        )
    attention, feed_forward, norm = _parts_of_layer(model)
    encoder = model.encoder_layers * (attention + feed_forward + 2 * norm)
    decoder = model.decoder_layers * (_reading_target(model, attention) + attention + feed_forward + 3 * norm)
    at_source = model.decoder_layers * (attention // 2)  # keys and values of the source, which the decoder computes
    return encoder + at_source, decoder - at_source + vocab_size * model.d_model


def _of_output(model: ModelConfig, vocab_size: int) -> int:
    """Return the size of the output matrix, or 0 if it is tied to the target embeddings."""
    if model.tied_embeddings != "none":
        return 0
    return vocab_size * (model.rnn.state_size if model.architecture == "rnn" else model.d_model)


def _parts_of_layer(model: ModelConfig) -> tuple[int, int, int]:
    """Return the weights of one attention, one feed-forward network and one norm of a Transformer."""
    d, ff, inner = model.d_model, model.d_ff, model.d_ff * (2 if model.activation == "swiglu" else 1)
    # Queries and keys, then values and the output projection
    key_width, value_width = (model.num_heads * width for width in model.head_widths)
    attention = 2 * d * (key_width + value_width) + (2 * key_width + value_width + d) * model.attention_bias
    return attention, d * inner + inner + ff * d + d, 2 * d


def _reading_target(model: ModelConfig, attention: int) -> int:
    """Return the weights of the sub-layer that reads the target so far: one attention, or an SSRU."""
    is_recurrent = model.decoder_autoregression == "ssru"
    return 2 * model.d_model * model.d_model + model.d_model if is_recurrent else attention


def _of_transformer(model: ModelConfig) -> int:
    d = model.d_model
    attention, feed_forward, norm = _parts_of_layer(model)
    encoder = model.encoder_layers * (attention + feed_forward + 2 * norm)
    decoder = model.decoder_layers * (_reading_target(model, attention) + attention + feed_forward + 3 * norm)
    last_norms = 2 * norm if model.norm == "pre" else 0
    positions = model.max_positions * d if model.positions == "learned" else 0
    return encoder + decoder + last_norms + positions


def _of_recurrent(model: ModelConfig) -> tuple[int, int]:
    """Return the weights of the encoder and of the decoder, without embeddings and output."""
    rnn, word, hidden = model.rnn, model.d_model, model.rnn.hidden_size
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[rnn.cell] * hidden
    directions = 2 if rnn.bidirectional else 1
    annotation = directions * hidden
    encoder = sum(
        directions * gates * ((annotation if number else word) + 1 + hidden) for number in range(model.encoder_layers)
    )
    decoder = sum(gates * ((hidden if number else word) + 1 + hidden) for number in range(model.decoder_layers))
    if rnn.is_global:
        decoder += 2 * hidden * hidden + gates * hidden * rnn.input_feeding
        decoder += (hidden + 1) * hidden * (rnn.window == "predictive")
        general, concat = annotation * hidden, rnn.alignment_size * (annotation + hidden + 1)
        decoder += {"dot": 0, "general": general, "concat": concat}[rnn.attention]
    elif not rnn.hands_over_states:
        context = hidden if rnn.attention == "none" else annotation
        decoder += gates * context + 2 * rnn.maxout_size * (hidden + 1 + word + context)
        first = hidden * (hidden + 1)
        if rnn.attention == "none":
            decoder += hidden * (annotation + 1) + model.decoder_layers * first
        else:
            decoder += first + rnn.alignment_size * (hidden + annotation + 2)
    return encoder, decoder
