"""Read our weights without PyTorch, for `translate.py` to convert for the others. Needs numpy and safetensors."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

Array = npt.NDArray[np.float32]

POSITIONS_KEY = "positions_of_width"
"""In the metadata of a grown model (`translate_grow.py`): the width of the positions that it repeats."""

_EMBEDDINGS = ("output.weight", "target_embedding.weight", "source_embedding.weight")


class Weights:
    """File that `safetensors.torch.save_model` wrote. It holds one of the matrices that are tied."""

    def __init__(self, file: Path) -> None:
        with safe_open(file, "np") as reader:
            self.arrays: dict[str, Array] = {name: reader.get_tensor(name) for name in reader.keys()}  # noqa: SIM118
            self.metadata: dict[str, str] = reader.metadata() or {}

    def __getitem__(self, name: str) -> Array:
        if name in self.arrays:
            return self.arrays[name]
        # One of two ties, or the only one of three: what the others are tied to, if they are tied at all.
        tied = _EMBEDDINGS[:2] if name in _EMBEDDINGS[:2] else _EMBEDDINGS
        return next(self.arrays[other] for other in tied if name in _EMBEDDINGS and other in self.arrays)

    def layers(self, stack: str) -> int:
        """Layers of the encoder or of the decoder."""
        return 1 + max(int(name.split(".")[1]) for name in self.arrays if name.startswith(f"{stack}."))

    @property
    def is_pre_norm(self) -> bool:
        """True if the norms are before the sub-layers."""
        return "encoder_norm.weight" in self.arrays

    def positions(self, length: int) -> Array:
        """Positional encoding as ours: sines in even columns, cosines in odd ones, [length, width]."""
        width = self["output.weight"].shape[1]
        base = int(self.metadata.get(POSITIONS_KEY) or width)
        angle = np.arange(length)[:, None] * np.power(10_000.0, -np.arange(0, base, 2) / base)
        encoding = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, base)
        return encoding.repeat(width // base, axis=1).astype(np.float32)

    def sizes(self, heads: int) -> dict[str, Any]:
        """Return the options of `ModelConfig` that give these weights. No shape shows the number of heads."""
        inner = self["decoder.0.feed_forward.inner.weight"]
        embeddings = sum(name in self.arrays for name in _EMBEDDINGS)
        return {
            "d_model": inner.shape[1],
            "d_ff": inner.shape[0],
            "num_heads": heads,
            "encoder_layers": self.layers("encoder"),
            "decoder_layers": self.layers("decoder"),
            "norm": "pre" if self.is_pre_norm else "post",
            "tied_embeddings": {1: "three_way", 2: "two_way", 3: "none"}[embeddings],
        }
