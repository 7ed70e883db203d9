"""Measure what int8 costs by the rounding of its weights: scaled as ours are, or with all 8 bits, which may overflow.

    .venv/bin/python benchmarks/int8_weights.py BUNDLE WEIGHTS \
        --source test.en.gz --reference test.de.gz --dev dev.en.gz [--lines 400]

BUNDLE is an artifact of `export`, and WEIGHTS the `model.safetensors` of the artifact of `average` that it was made
from. "exact" computes the products of the integers in PyTorch, and keeps past keys and values in fp32. "this CPU" is
ONNX Runtime, with everything that a bundle has in int8. A CPU without VNNI adds two products of 8 bits in 16 bits, and
cuts off what does not fit. The table counts the lines that come out as in fp32, and BLEU.
"""

import argparse
import gzip
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import sacrebleu
import torch
from torch import Tensor, nn
from translate_models import Weights

from nmt_core.config import ModelConfig, SearchConfig
from nmt_core.export import integers, onnx_kernels
from nmt_core.export.calibration import Ranges, calibrate, name_of
from nmt_core.export.graphs import export_graphs
from nmt_core.export.onnx import load_weights
from nmt_core.models.kernels import Kernels
from nmt_core.search.onnx_step import OnnxStepper
from nmt_core.search.step import Stepper
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import Tokenizers
from nmt_core.translator import Translator

_CALIBRATED = 64
"""Lines of the dev text."""


class ExactKernels(Kernels):
    """The products of `Int8Kernels`, in numbers that hold them exactly."""

    def __init__(self, kernels: onnx_kernels.Int8Kernels, ranges: Ranges) -> None:
        super().__init__(kernels.model)
        self._integers, self._ranges = kernels.integers, ranges

    def linear(self, x: Tensor, *layers: nn.Linear) -> Tensor:
        names = tuple(map(name_of, layers))
        weight_OI, scale_O = self._integers[names]
        scale, zero_point = self._ranges.of_input(names[0])
        read = ((x / scale).round() + zero_point.float()).clamp(0, 255) - zero_point.float()
        output = (read @ weight_OI.float().t()) * (scale * scale_O)
        return output if layers[0].bias is None else output + layers[0].bias


def _with_all_bits(weight_OI: Tensor) -> tuple[Tensor, Tensor]:
    """Round as `integers_of` does, but with the greatest weight of each row at 127, whatever is beside it."""
    scale_O = weight_OI.abs().amax(dim=1) / 127
    return (weight_OI / scale_O[:, None]).round().to(torch.int8), scale_O


def main() -> None:
    """Translate in all ways, and print a row of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("weights", type=Path)
    for name in ("source", "reference", "dev"):
        parser.add_argument(f"--{name}", type=Path, required=True, help="text in gzip")
    parser.add_argument("--lines", type=int, default=400, help="number of first lines of source and reference (400)")
    options = parser.parse_args()
    tokenizers = Tokenizers.load(options.bundle)
    heads = json.loads((options.bundle / "config.json").read_text(encoding="utf-8"))["num_heads"]
    model = load_weights(options.weights, ModelConfig(**Weights(options.weights).sizes(heads)), tokenizers)
    sources = tokenizers.source.encode(_lines(options.source)[: options.lines])
    references = _lines(options.reference)[: options.lines]
    dev = tokenizers.source.encode(_lines(options.dev)[:_CALIBRATED])
    ranges = calibrate(model, dev, SearchConfig(beam_size=4))

    def translate(stepper: Stepper, beam: int) -> list[Sequence[int]]:
        search = SearchConfig(beam_size=beam, length_penalty=1.0, max_length_offset=50)
        translator = Translator(stepper, tokenizers, search)
        return [best.ids for best, *_ in translator.search_ids(sources, [[] for _ in sources])]

    for beam in (1, 5):
        in_fp32 = translate(TorchStepper(model), beam)
        rows = {"fp32": in_fp32}
        for way, rounded in {"ours": integers.integers_of, "8 bits": _with_all_bits}.items():
            with patch.object(integers, "integers_of", rounded), tempfile.TemporaryDirectory() as folder:
                kernels = onnx_kernels.Int8Kernels(model, ranges)
                rows[f"{way}, exact"] = translate(TorchStepper(model, ExactKernels(kernels, ranges)), beam)
                export_graphs(kernels, Path(folder) / "int8")
                stepper = OnnxStepper(Path(folder) / "int8", model.vocab_size)
                rows[f"{way}, this CPU"] = translate(stepper, beam)
        for name, translated in rows.items():
            same = sum(one == other for one, other in zip(translated, in_fp32, strict=True)) / len(translated)
            bleu = sacrebleu.corpus_bleu(tokenizers.target.decode(translated), [references]).score
            print(f"beam {beam}, {name}: {same:.1%} of the lines as in fp32, BLEU {bleu:.2f}", flush=True)


def _lines(file: Path) -> list[str]:
    return gzip.decompress(file.read_bytes()).decode("utf-8").removesuffix("\n").split("\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
