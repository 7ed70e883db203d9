"""Run JoeyNMT's side of `train.py`, by an interpreter that has JoeyNMT and nothing of this project.

It trains through JoeyNMT's own `train`, on text whose words are piece numbers. Time and tokens come from its own log:
wall-clock time of the loop, and target tokens without padding, </s> included.
"""

import json
import sys
from pathlib import Path
from typing import Any

import joeynmt.training  # type: ignore[import-not-found]
import torch
from joeynmt.config import load_config  # type: ignore[import-not-found]

_LOG_EVERY = 5
_NEVER = 1_000_000_000


class _Measured(joeynmt.training.TrainManager):  # type: ignore[misc]
    """Notes what JoeyNMT logs."""

    points: list[dict[str, float]] = []  # noqa: RUF012 - one training a process

    def _log_scores(self, epoch_no: int, elapsed_time: float, start_tokens: int, *others: Any) -> None:
        tokens = self.stats.total_tokens - start_tokens
        self.points.append({"update": self.stats.steps, "target_tokens": tokens, "seconds": elapsed_time})
        super()._log_scores(epoch_no, elapsed_time, start_tokens, *others)


def main() -> None:
    """Train by the job file of the first argument. The last line printed is the measurement."""
    job = json.loads(Path(sys.argv[1]).read_bytes())
    folder = Path(job["folder"])
    torch.set_num_threads(job["threads"])
    model_dir = folder / "joeynmt"
    model_dir.mkdir(exist_ok=True)
    file = folder / "joeynmt.yaml"
    file.write_text(json.dumps(_config(job, folder, model_dir)))  # JSON is YAML
    joeynmt.training.TrainManager = _Measured
    joeynmt.training.train(rank=0, world_size=None, cfg=load_config(file), skip_test=True)
    print(json.dumps({"points": _Measured.points}))


def _config(job: dict[str, Any], folder: Path, model_dir: Path) -> dict[str, Any]:
    sizes = job["model"]

    def side(language: str) -> dict[str, Any]:
        return {"lang": language, "level": "word", "voc_file": str(folder / "vocabulary")}

    def stack(layers: int) -> dict[str, Any]:
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": sizes["num_heads"],
            "hidden_size": sizes["d_model"],
            "ff_size": sizes["d_ff"],
            "dropout": sizes["dropout"],
            "layer_norm": sizes["norm"],
            "embeddings": {"embedding_dim": sizes["d_model"], "scale": True},
        }

    return {
        "name": "bench",
        "random_seed": job["seed"],
        "model_dir": str(model_dir),
        "use_cuda": False,
        "data": {
            "dataset_type": "plain",
            "train": str(folder / "train"),
            "dev": str(folder / "dev"),
            "src": side("source"),
            "trg": side("target"),
        },
        "testing": {},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "scheduling": "noam",
            "learning_rate_warmup": job["warmup_updates"],
            "learning_rate_min": 0,
            "normalization": "tokens",
            "label_smoothing": job["label_smoothing"],
            "batch_type": "token",
            "batch_size": job["max_tokens"],
            "updates": job["updates"],
            "epochs": _NEVER,
            "logging_freq": _LOG_EVERY,
            "validation_freq": _NEVER,
        },
        "model": {
            "initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": stack(sizes["encoder_layers"]),
            "decoder": stack(sizes["decoder_layers"]),
        },
    }


if __name__ == "__main__":
    main()
