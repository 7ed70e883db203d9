"""Measure word alignments: how good they are by layer and by step, and what they cost.

    .venv/bin/python benchmarks/alignments.py BUNDLE [--pairs 2000]

BUNDLE is the export of `nmt run quickstart`. The truth comes from the toy grammar: an English noun and its Korean are
linked in pairs in which both occur once. For each of these links, the links of the Korean word are examined. Recall is
the share of words with the true link, and precision the share of their links that is true. The reference is given to
the decoder, so the result does not depend on the model's own translation.

"said" takes the attention of the step that produces a piece, and "read" the attention of the next step, which reads it.
With "end", the mark at the end of the source may be linked as well, and such links are dropped. "jobs" is the attention
that translations are aligned by: of the heads that learned to align, or else of the last two layers.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nmt_core.config import SearchConfig
from nmt_core.corpus.toy import generate, words_of
from nmt_core.corpus.toy.lexicon import NOUNS
from nmt_core.search.alignment import Aligner, Alignment
from nmt_core.search.attention import AttentionGraph
from nmt_core.search.step import pad_sources
from nmt_core.tokenizer.tokenizer import BOS_ID, PAD_ID, Tokenizers
from nmt_core.translator import Translator

Pair = tuple[str, str]
BATCH = 64


def true_links(source: str, target: str) -> dict[int, int]:
    """Return the place of the English noun that each Korean word renders, by the place of the Korean word."""
    english, korean = words_of(source), target.rstrip(".?").split()
    links = {}
    for noun in (noun for row in NOUNS.values() for noun in row):
        left = [place for place, word in enumerate(english) if word in (noun.en, noun.plural)]
        right = [place for place, word in enumerate(korean) if word.startswith(noun.ko)]
        if len(left) == len(right) == 1:
            links[right[0]] = left[0] if right[0] not in links else -1  # two nouns begin alike
    return {right: left for right, left in links.items() if left >= 0}


def attention(bundle: Path, tokenizers: Tokenizers, pairs: list[Pair]) -> Iterator[tuple]:
    """Ids of both sides, the cross-attention and the aligning attention of each pair."""
    graph, aligner = AttentionGraph(bundle / "fp32"), Aligner(bundle / "fp32", BATCH)
    for start in range(0, len(pairs), BATCH):
        batch = pairs[start : start + BATCH]
        sources = tokenizers.source.encode([source for source, _ in batch])
        targets = tokenizers.target.encode([target for _, target in batch])
        target_BT = np.full((len(batch), 1 + max(map(len, targets))), PAD_ID)
        for row, ids in zip(target_BT, targets, strict=True):
            row[: len(ids) + 1] = [BOS_ID, *ids]
        source_BS = pad_sources(sources)
        weights, aligning = graph.run(source_BS, target_BT).cross_attention, aligner.attention(source_BS, target_BT)
        yield from zip(batch, sources, targets, weights, aligning, strict=True)


def measure(bundle: Path, pairs: list[Pair]) -> None:
    tokenizers = Tokenizers.load(bundle)
    counts: dict[tuple[str, str, str], np.ndarray] = {}
    for (source, target), source_ids, target_ids, weights_NHTS, aligning_TS in attention(bundle, tokenizers, pairs):
        truth = true_links(source, target)
        pieces = [
            tuple(map(side.piece, ids))
            for side, ids in ((tokenizers.source, source_ids), (tokenizers.target, target_ids))
        ]
        layers = {str(number + 1): weights.mean(axis=0) for number, weights in enumerate(weights_NHTS)}
        layers |= {
            f"{layer + 1} head {head + 1}": weights_NHTS[layer, head]
            for layer in range(len(weights_NHTS))
            for head in range(weights_NHTS.shape[1])
        }
        layers["last two"] = weights_NHTS[-2:].mean(axis=(0, 1))
        layers["all"] = weights_NHTS.mean(axis=(0, 1))
        layers["jobs"] = aligning_TS
        for layer, weights_TS in layers.items():
            for how, start in (("said", 0), ("read", 1)):
                for end in (False, True):
                    best = weights_TS[start : start + len(target_ids), : len(source_ids) + end].argmax(axis=1)
                    links = sorted((int(left), right) for right, left in enumerate(best))
                    kept = tuple(link for link in links if link[0] < len(source_ids))
                    links_found = Alignment(kept, *pieces).of_words(source, target).links
                    of_truth = [link for link in links_found if link[1] in truth]
                    right = sum(truth[j] == i for i, j in of_truth)
                    key = (layer, how, "with end" if end else "without end")
                    counts.setdefault(key, np.zeros(3))
                    counts[key] += np.array([right, len(of_truth), len(truth)])
    print("| layer | step | end mark | precision | recall | F1 |\n| --- | --- | --- | --- | --- | --- |")
    for (layer, how, end), (right, linked, true) in sorted(counts.items()):
        precision, recall = right / linked, right / true
        f1 = 2 * precision * recall / (precision + recall)
        print(f"| {layer} | {how} | {end} | {precision:.3f} | {recall:.3f} | {f1:.3f} |")
    print(f"{int(true):,} links of {len(pairs):,} pairs")


def cost(bundle: Path, lines: list[str], beam_size: int) -> None:
    """Lines per second with and without alignments, in turn."""
    plain = SearchConfig(beam_size=beam_size)
    translators = {
        alignments: Translator.load(bundle, plain.model_copy(update={"alignments": alignments}))
        for alignments in ("none", "words", "pieces")
    }
    rates: dict[str, list[float]] = {name: [] for name in translators}
    for _ in range(4):
        for name, translator in translators.items():
            started = time.process_time()
            translator.translate(lines)
            rates[name].append(len(lines) / (time.process_time() - started))
    best = {name: max(rates_of_runs) for name, rates_of_runs in rates.items()}
    shares = ", ".join(f"{name} {rate:,.0f} ({rate / best['none']:.0%})" for name, rate in best.items())
    print(f"lines per CPU-second, beam {beam_size}, {translators['none'].search.precision}: {shares}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--pairs", type=int, default=2_000)
    given = parser.parse_args()
    pairs = generate(pairs=2 * given.pairs + 1_000, seed=77, held_out=given.pairs).test
    measure(given.bundle, pairs)
    for beam_size in (1, 4):
        cost(given.bundle, [source for source, _ in pairs], beam_size)


if __name__ == "__main__":
    main()
