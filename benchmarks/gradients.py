"""Measure how the gradient of a recurrent layer shrinks or grows over time steps, for each kind of unit.

    .venv/bin/python benchmarks/gradients.py [--steps 61] [--hidden 256] [--sequences 16] [--figure FILE.svg]

A layer with random weights reads random inputs. The loss is a random projection of its last state, and the table has
the norm of the loss's gradient in the state of each earlier step, relative to the last step (Bengio et al. 1994;
Pascanu et al. 2013). For LSTM, the state is output and memory together. Weights of the recurrence are orthogonal, times
a factor. "(1)" is a bias of 1 of the gate that keeps the state: the forget gate of LSTM (Gers et al. 2000; Jozefowicz
et al. 2015), and the update gate of GRU. Training changes these numbers. They show from where it starts.
"""

import argparse
import math
from pathlib import Path

import torch
from torch import Tensor, nn

from flows.html_report.charts import curves, side_by_side
from nmt_core.models.recurrent.cells import CELLS, Recurrence, State

SHOWN = (1, 5, 10, 20, 30, 40, 50, 60)
"""Distances from the last step that the table shows."""
LAYERS: dict[str, tuple[str, float, float]] = {
    # name: (unit, factor of the recurrent weights, bias of the gate that keeps the state)
    "rnn, 0.7": ("rnn", 0.7, 0.0),
    "rnn, 1.0": ("rnn", 1.0, 0.0),
    "rnn, 1.5": ("rnn", 1.5, 0.0),
    "gru": ("gru", 1.0, 0.0),
    "gru (1)": ("gru", 1.0, 1.0),
    "lstm": ("lstm", 1.0, 0.0),
    "lstm (1)": ("lstm", 1.0, 1.0),
}
_GATE = {"gru": 0, "lstm": 2}
"""Place of the gate that keeps the state among the gates: update of GRU, forget of LSTM."""


def drawn(unit: str, hidden: int, factor: float, bias: float) -> Recurrence:
    """Return a layer with random weights."""
    layer = CELLS[unit](hidden, hidden)
    nn.init.normal_(layer.input.weight, std=0.1 / math.sqrt(hidden))
    nn.init.zeros_(layer.input.bias)
    with torch.no_grad():
        for part in layer.recurrent_weights():
            for gate in part.chunk(len(part) // hidden):
                nn.init.orthogonal_(gate, gain=factor)
        if bias:
            first = _GATE[unit] * hidden
            layer.input.bias[first : first + hidden] = bias
    return layer


def gradient_norms(layer: Recurrence, x_BLI: Tensor) -> list[float]:
    """Return the norm of the gradient at each distance from the last step, from 0 on, relative to distance 0."""
    state, states = layer.nothing(x_BLI), list[State]()
    for x_BG in layer.input(x_BLI).unbind(1):
        state = layer.step(x_BG, state)
        for part in state:
            part.retain_grad()
        states.append(state)
    generator = torch.Generator().manual_seed(3)
    (state[0] * torch.randn(state[0].shape, generator=generator)).sum().backward()
    norms = [
        math.sqrt(sum(float(part.grad.double().square().sum()) for part in parts if part.grad is not None))
        for parts in reversed(states)
    ]
    return [norm / norms[0] for norm in norms]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=61)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    norms = {}
    for name, (unit, factor, bias) in LAYERS.items():
        torch.manual_seed(1)
        layer = drawn(unit, options.hidden, factor, bias)
        norms[name] = gradient_norms(layer, torch.randn(options.sequences, options.steps, options.hidden))
    shown = [distance for distance in SHOWN if distance < options.steps]
    print("| Unit | " + " | ".join(f"{distance} back" for distance in shown) + " |")
    print("| --- |" + " ---: |" * len(shown))
    for name, of_layer in norms.items():
        print(f"| {name} | " + " | ".join(f"{of_layer[distance]:.1e}" for distance in shown) + " |")
    if options.figure:
        series = {
            name: [(float(distance), math.log10(max(norm, 1e-30))) for distance, norm in enumerate(of_layer)]
            for name, of_layer in norms.items()
        }
        plain = {name: points for name, points in series.items() if name.startswith("rnn")}
        gated = {name: points for name, points in series.items() if not name.startswith("rnn")}
        charts = [
            curves(title, points, "steps back from the last state", from_zero=True)
            for title, points in (
                ("plain unit: log10 of the gradient norm", plain),
                ("gated units: log10 of the gradient norm", gated),
            )
        ]
        options.figure.write_bytes(side_by_side(charts, 2, "norm of the gradient over time steps").file())


if __name__ == "__main__":
    main()
