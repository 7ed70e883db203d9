"""The recurrent models against the equations of their papers, written out word by word in numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from nmt_core.batches.layout import Packed
from nmt_core.config import ModelConfig
from nmt_core.errors import ConfigError
from nmt_core.models.build import build_model
from nmt_core.models.decoding import graphs_of, plain_kernels
from nmt_core.models.model import TranslationModel
from nmt_core.models.recurrent.cells import truncate_gradients
from nmt_core.models.recurrent.model import RecurrentModel
from nmt_core.models.transformer import Transformer, count_parameters
from nmt_core.tokenizer.tokenizer import PAD_ID

Floats = np.ndarray[Any, np.dtype[np.float64]]
Step = Callable[[Floats, tuple[Floats, ...]], tuple[Floats, ...]]

VOCABULARY = 30
WIDTHS = {"hidden_size": 6, "alignment_size": 7, "maxout_size": 4}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "cho": ({}, {"attention": "none", "bidirectional": False}),
    "cho, LSTM, deep, both directions": (
        {"encoder_layers": 2, "decoder_layers": 2},
        {"attention": "none", "cell": "lstm"},
    ),
    "sutskever": (
        {"encoder_layers": 2, "decoder_layers": 2},
        {"attention": "none", "cell": "lstm", "context": "first_state", "bidirectional": False, "reverse_source": True},
    ),
    "bahdanau": ({}, {}),
    "bahdanau, LSTM, deep": ({"encoder_layers": 2}, {"cell": "lstm"}),
    "luong": ({"encoder_layers": 2, "decoder_layers": 2}, {"attention": "dot", "cell": "lstm", "bidirectional": False}),
    "bahdanau, plain units": ({"encoder_layers": 2}, {"cell": "rnn"}),
    "luong, GRU": ({}, {"attention": "dot", "bidirectional": False}),
    "luong, general": (
        {"encoder_layers": 2, "decoder_layers": 2},
        {"attention": "general", "cell": "lstm", "bidirectional": False},
    ),
    "luong, concat": ({}, {"attention": "concat", "bidirectional": False}),
    "luong, general, input feeding": (
        {"encoder_layers": 2, "decoder_layers": 2},
        {"attention": "general", "cell": "lstm", "bidirectional": False, "input_feeding": True},
    ),
    "luong, local-m": ({}, {"attention": "dot", "bidirectional": False, "window": "monotonic", "window_size": 1}),
    "luong, local-m, input feeding": (
        {"encoder_layers": 2, "decoder_layers": 2},
        {"attention": "general", "cell": "lstm", "bidirectional": False, "input_feeding": True}
        | {"window": "monotonic", "window_size": 1},
    ),
    "luong, local-p": (
        {"encoder_layers": 2, "decoder_layers": 2},
        {"attention": "general", "cell": "lstm", "bidirectional": False, "window": "predictive", "window_size": 2},
    ),
    "luong, concat, local-p, input feeding": (
        {},
        {"attention": "concat", "bidirectional": False, "input_feeding": True}
        | {"window": "predictive", "window_size": 1},
    ),
    "luong, concat, plain units, input feeding": (
        {},
        {"attention": "concat", "cell": "rnn", "bidirectional": False, "input_feeding": True},
    ),
}
SOURCE_BS = torch.tensor([[5, 6, 7, 8, 9, 3], [10, 11, 3, 0, 0, 0], [12, 13, 14, 15, 3, 0]])
TARGET_BT = torch.tensor([[2, 20, 21, 22], [2, 23, 0, 0], [2, 24, 25, 0]])


def config_of(kind: str, **changes: Any) -> ModelConfig:
    layers, rnn = KINDS[kind]
    values = {"architecture": "rnn", "d_model": 9, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    return ModelConfig.model_validate(values | {"tied_embeddings": "none", **layers, "rnn": WIDTHS | rnn} | changes)


def random_model(kind: str) -> TranslationModel:
    """Weights are so large that every part of an equation matters."""
    torch.manual_seed(4)
    model = build_model(config_of(kind), VOCABULARY, source_vocab_size=20).eval().requires_grad_(False)
    for weight in model.parameters():
        weight.normal_(std=0.7)
    return model


def sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


class Equations:
    """Model as in its papers, for one sentence."""

    def __init__(self, model: TranslationModel) -> None:
        self.weights = {name: weight.double().numpy() for name, weight in model.named_parameters()}
        self.config = model.config
        self.rnn = model.config.rnn

    def product(self, name: str, x: Floats) -> Floats:
        """Return W x + b."""
        return np.asarray(self.weights[f"{name}.weight"] @ x + self.weights.get(f"{name}.bias", 0.0))

    def cell(self, name: str, x: Floats, state: tuple[Floats, ...], context: Floats | None = None) -> Any:
        """Compute one step of a layer."""
        projected = self.product(f"{name}.input", x)
        if context is not None:
            projected = projected + self.product(f"{name}.context", context)
        if self.rnn.cell == "gru":
            (h,) = state
            z_x, r_x, n_x = np.split(projected, 3)
            z_h, r_h = np.split(self.product(f"{name}.recurrent", h), 2)
            z, r = sigmoid(z_x + z_h), sigmoid(r_x + r_h)
            return (z * h + (1 - z) * np.tanh(n_x + self.product(f"{name}.candidate", r * h)),)
        if self.rnn.cell == "rnn":
            return (np.tanh(projected + self.product(f"{name}.recurrent", state[0])),)
        h, c = state
        i, o, f, g = np.split(projected + self.product(f"{name}.recurrent", h), 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    def nothing(self) -> tuple[Floats, ...]:
        return (np.zeros(self.rnn.hidden_size),) * (2 if self.rnn.cell == "lstm" else 1)

    def encode(self, source: list[int]) -> tuple[list[Floats], list[list[Any]]]:
        """Return the annotations, and the last states by layer and direction."""
        words = [self.weights["source_embedding.weight"][token] for token in source]
        ends = []
        for layer in range(self.config.encoder_layers):
            of_directions, last = [], []
            backwards = [False, True] if self.rnn.bidirectional else [self.rnn.reverse_source]
            for number, backward in enumerate(backwards):
                state, said = self.nothing(), []
                for word in reversed(words) if backward else words:
                    state = self.cell(f"encoder.{layer}.directions.{number}", word, state)
                    said.append(state[0])
                of_directions.append(said[::-1] if backward else said)
                last.append(state)
            words = [np.concatenate(of_word) for of_word in zip(*of_directions, strict=True)]
            ends.append(last)
        return words, ends

    def maxout(self, h: Floats, word: Floats, context: Floats) -> Floats:
        both = self.product("readout_state", h) + self.product("readout_word", word)
        both = both + self.product("readout_context", context)
        return np.array([max(both[2 * unit], both[2 * unit + 1]) for unit in range(self.rnn.maxout_size)])

    def states(self, source: list[int], target: list[int]) -> Floats:
        """Return the output of the decoder, [T, M]."""
        words = [self.weights["target_embedding.weight"][token] for token in target]
        annotations, ends = self.encode(source)
        run = {"none": self.fixed, "additive": self.search}.get(self.rnn.attention, self.luong)
        return np.array(run(words, annotations, ends))

    def fixed(self, words: list[Floats], annotations: list[Floats], ends: list[list[Any]]) -> list[Floats]:
        if self.rnn.context == "first_state":
            states = [of_layer[0] for of_layer in ends]
            context = None
        else:
            context = np.tanh(self.product("summary", np.concatenate([state[0] for state in ends[-1]])))
            states = [
                (np.tanh(self.product(f"first_states.{layer}", context)), *self.nothing()[1:])
                for layer in range(self.config.decoder_layers)
            ]
        found = []
        for word in words:
            x = word
            for layer in range(len(states)):
                states[layer] = self.cell(f"decoder.{layer}", x, states[layer], None if layer else context)
                x = states[layer][0]
            found.append(x if context is None else self.maxout(x, word, context))
        return found

    def search(self, words: list[Floats], annotations: list[Floats], ends: list[list[Any]]) -> list[Floats]:
        backward_at_first_word = ends[-1][-1][0]
        state = (np.tanh(self.product("first_state", backward_at_first_word)), *self.nothing()[1:])
        found = []
        for word in words:
            query = self.product("decoder.0.query", state[0])
            scores = [self.product("decoder.0.score", np.tanh(query + self.product("key", h)))[0] for h in annotations]
            shares = np.exp(scores) / np.exp(scores).sum()
            context = sum(share * h for share, h in zip(shares, annotations, strict=True))
            found.append(self.maxout(state[0], word, context))
            state = self.cell("decoder.0.recurrence", word, state, context)
        return found

    def luong(self, words: list[Floats], annotations: list[Floats], ends: list[list[Any]]) -> list[Floats]:
        """Equations 5 and 8 to 10 of Luong et al. 2015, and section 3.3."""
        states, found = [of_layer[0] for of_layer in ends], []
        fed = np.zeros(self.rnn.hidden_size)
        for place, word in enumerate(words):
            x = word
            for layer in range(len(states)):
                is_fed = self.rnn.input_feeding and layer == 0
                states[layer] = self.cell(f"decoder.{layer}", x, states[layer], fed if is_fed else None)
                x = states[layer][0]
            shares = self.luong_shares(x, annotations, place)
            context = sum(share * h for share, h in zip(shares, annotations, strict=True))
            fed = np.tanh(self.product("combine", np.concatenate([context, x])))
            found.append(fed)
        return found

    def luong_shares(self, target: Floats, annotations: list[Floats], place: int) -> Floats:
        """Attention to each annotation, by a loop over the window."""
        length, size = len(annotations), self.rnn.window_size
        centre = float(min(place, length - 1))
        if self.rnn.window == "predictive":
            centre = length * float(sigmoid(self.product("centre_score", np.tanh(self.product("centre", target))))[0])
        window = [s for s in range(length) if self.rnn.window == "all" or abs(s - centre) <= size]
        scores = np.array([self.luong_score(target, annotations[s]) for s in window])
        shares = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        if self.rnn.window == "predictive":
            deviation = size / 2
            shares = shares * np.array([np.exp(-((s - centre) ** 2) / (2 * deviation**2)) for s in window])
        found = np.zeros(length)
        found[window] = shares
        return found

    def luong_score(self, target: Floats, source: Floats) -> float:
        if self.rnn.attention == "dot":
            return float(target @ source)
        if self.rnn.attention == "general":
            return float(target @ self.weights["key.weight"] @ source)
        both = np.concatenate([self.weights["query.weight"], self.weights["key.weight"]], axis=1)
        return float((self.weights["score.weight"] @ np.tanh(both @ np.concatenate([target, source])))[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_batch_gives_what_the_equations_give_for_each_sentence_alone(kind: str) -> None:
    model = random_model(kind)
    states_BTM = model(SOURCE_BS, TARGET_BT)
    for source, target, states_TM in zip(SOURCE_BS.tolist(), TARGET_BT.tolist(), states_BTM, strict=True):
        alone = [[token for token in ids if token != PAD_ID] for ids in (source, target)]
        expected_TM = Equations(model).states(*alone)
        np.testing.assert_allclose(states_TM[: len(alone[1])].numpy(), expected_TM, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_step_by_step_equals_decoding_at_once_while_beams_are_reordered(kind: str) -> None:
    model = random_model(kind)
    graphs = graphs_of(plain_kernels(model))
    encoded = graphs.encoder(SOURCE_BS)
    cross, past = encoded[: len(graphs.cross)], encoded[len(graphs.cross) :]
    assert [tuple(tensor.shape[1:]) for tensor in past] == [held.shape[1:] for held in graphs.past]
    generator = torch.Generator().manual_seed(1)
    prefixes_RT, parents_R, beams = torch.full((3, 1), 2), torch.arange(3), 1
    everything = torch.zeros(VOCABULARY, dtype=torch.int64)
    for position in range(6):
        mask_BS, position_1 = SOURCE_BS != PAD_ID, torch.tensor([position])
        past = [of_rows[parents_R] for of_rows in past]
        (log_probs_RC, ids_RC), past = graphs.step(prefixes_RT[:, -1], position_1, mask_BS, [everything], cross, past)
        expected_RV = model.output(model(SOURCE_BS.repeat_interleave(beams, 0), prefixes_RT)[:, -1]).log_softmax(-1)
        expected_RV[:, [0, 2]] = float("-inf")
        found_RV = torch.empty_like(log_probs_RC).scatter(1, ids_RC, log_probs_RC)
        torch.testing.assert_close(found_RV, expected_RV, atol=2e-5, rtol=0)
        chosen_BK = torch.randint(beams, (3, 4), generator=generator) + beams * torch.arange(3)[:, None]
        beams, parents_R = 4, chosen_BK.flatten()
        tokens_R = torch.randint(4, VOCABULARY, (12,), generator=generator)
        prefixes_RT = torch.cat([prefixes_RT[parents_R], tokens_R[:, None]], dim=1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_is_learnt(kind: str) -> None:
    """Exceptions are rows of embeddings without a token in the batch, and units of maxout that are never the larger."""
    model = random_model(kind).requires_grad_(True)
    model.output(model(SOURCE_BS, TARGET_BT)).square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        share = float((weight.grad != 0).float().mean())
        least = 0.1 if "embedding" in name else 0.5 if "readout" in name else 0.9
        assert share > least, f"{name}: {share}"


def test_weights_are_drawn_as_published() -> None:
    torch.manual_seed(1)
    size = {"rnn": {"hidden_size": 64, "alignment_size": 64, "maxout_size": 64}, "d_model": 64}
    model = build_model(config_of("bahdanau", **size), 500)
    weights = dict(model.named_parameters())
    for name in ("encoder.0.directions.0.recurrent.weight", "decoder.0.recurrence.candidate.weight"):
        for gate in weights[name].chunk(len(weights[name]) // 64):
            torch.testing.assert_close(gate @ gate.T, torch.eye(64), atol=1e-5, rtol=0)
    assert float(weights["decoder.0.query.weight"].std()) == pytest.approx(0.001, rel=0.1)
    assert float(weights["key.weight"].std()) == pytest.approx(0.001, rel=0.1)
    assert float(weights["readout_context.weight"].std()) == pytest.approx(0.01, rel=0.1)
    assert not weights["decoder.0.score.weight"].any()
    assert not any(weight.any() for name, weight in weights.items() if name.endswith("bias"))


def test_embeddings_and_output_may_be_one_matrix() -> None:
    size = {"d_model": 8, "rnn": WIDTHS | {"maxout_size": 8}}
    tied = config_of("bahdanau", **size, tied_embeddings="three_way")
    model = build_model(tied, VOCABULARY)
    assert model.output.weight is model.target_embedding.weight is model.source_embedding.weight
    untied = count_parameters(build_model(config_of("bahdanau", **size), VOCABULARY))
    assert count_parameters(model) == untied - 2 * 8 * VOCABULARY
    with pytest.raises(ConfigError, match=r"needs a joint vocabulary"):
        build_model(tied, VOCABULARY, source_vocab_size=20)


def test_packed_sentences_are_refused() -> None:
    zeros = torch.zeros(4, dtype=torch.int64)
    layout = Packed(torch.tensor([0, 4], dtype=torch.int32), zeros, torch.arange(4), 4, 1)
    with pytest.raises(ConfigError, match=r"cannot read packed sentences: set train\.batching to padded"):
        random_model("bahdanau")(torch.ones(4), torch.ones(4), layout, layout)


@pytest.mark.parametrize("kind", KINDS)
def test_the_operations_of_training_are_what_pytorch_counts(kind: str) -> None:
    """Exceptions are attention, whose work depends on both lengths, and what is computed once per sentence."""
    sizes = {"hidden_size": 64, "alignment_size": 8, "maxout_size": 32}
    layers, rnn = KINDS[kind]
    model = build_model(config_of(kind, **layers, d_model=48, rnn=rnn | sizes), 300)
    source, target = torch.randint(4, 300, (4, 15)), torch.randint(4, 300, (4, 14))
    with FlopCounterMode(display=False) as counter:
        model.output(model(source, target)).sum().backward()
    at_source, at_target = model.weights_per_token
    assert 6 * (at_source * source.numel() + at_target * target.numel()) == pytest.approx(
        counter.get_total_flops(), rel=0.15
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_gradient_reaches_no_further_back_and_changes_no_number(kind: str) -> None:
    """The gradient of the last output in the words before it, with cuts before the positions 3 and 6."""
    model = random_model(kind)
    assert isinstance(model, RecurrentModel)
    y_BTE = torch.randn(2, 8, 9, generator=torch.Generator().manual_seed(1)).requires_grad_()
    cross, states = model.start(model.encode(SOURCE_BS[:2], SOURCE_BS[:2] != PAD_ID))
    cross = [tensor.detach() for tensor in cross]
    before_BTM = model.decode(y_BTE, cross, SOURCE_BS[:2] != PAD_ID, states)
    truncate_gradients(model, 3)
    after_BTM = model.decode(y_BTE, cross, SOURCE_BS[:2] != PAD_ID, states)
    torch.testing.assert_close(after_BTM, before_BTM, rtol=0, atol=0)
    weights_M = torch.arange(1.0, before_BTM.shape[-1] + 1)
    (whole_BTE,), (cut_BTE,) = (
        torch.autograd.grad((outputs[:, -1] * weights_M).sum(), y_BTE) for outputs in (before_BTM, after_BTM)
    )
    reached = [bool(of_word.any()) for of_word in whole_BTE.unbind(1)]
    assert all(reached[:7]), "without a cut, every word but perhaps the last one counts"
    assert [bool(of_word.any()) for of_word in cut_BTE.unbind(1)] == [False] * 6 + reached[6:]


def test_the_architecture_chooses_the_model() -> None:
    assert isinstance(build_model(ModelConfig(d_model=16, num_heads=2, d_ff=16), 20), Transformer)
    kinds = {type(random_model(kind)).__name__ for kind in KINDS}
    assert kinds == {"FixedContextModel", "SearchModel", "GlobalAttentionModel"}
