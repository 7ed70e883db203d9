"""Tokenizers of all kinds, learned from the tiny corpus."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt_core.stages.stage import Job, Resources, SilentReporter
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.learn import TokenizerReport, run

Learn = Callable[..., TokenizerReport]


@pytest.fixture(scope="session")
def learn(tiny: dict[str, Artifact], make_config: Any) -> Learn:
    """Run the stage into a folder, with these options, on the tiny corpus or on another split."""

    def learn_with(
        out: Path, split: Artifact | None = None, tags: tuple[str, ...] = (), **options: Any
    ) -> TokenizerReport:
        out.mkdir(exist_ok=True)
        rules = [{"corpus": "toy", "tag": tag} for tag in tags]
        config = make_config(tokenizer=options, mix={"corpora": rules}, model={"tied_embeddings": "two_way"})
        return run(config, {"split": split or tiny["split"]}, out, Job(SilentReporter(), Resources()))

    return learn_with
