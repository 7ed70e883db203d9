"""The tree of the beam shows what the search did, and the search does the same whether it is observed or not."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from nmt_core.config import SearchConfig
from nmt_core.explain.drawing import draw
from nmt_core.explain.trace import BeamTrace, Node
from nmt_core.search.beam import n_best
from nmt_core.search.hypothesis import length_penalty
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID

A, B, C = 4, 5, 6


def path(tree: tuple[Node, ...], node: Node) -> list[int]:
    """Tokens from <s> to a node."""
    tokens = [node.token]
    while node.parent is not None:
        node = tree[node.parent]
        tokens.append(node.token)
    return tokens[::-1]


def test_a_search_worked_out_by_hand(scripted: Callable[..., Any]) -> None:
    table = {
        (): {A: 0.6, B: 0.4},
        (A,): {C: 0.5, B: 0.3, EOS_ID: 0.2},
        (B,): {EOS_ID: 0.9, A: 0.1},
        (A, C): {EOS_ID: 1.0},
    }
    trace = BeamTrace()
    config = SearchConfig(beam_size=2, length_penalty=0, n_best=2, max_length_offset=5)
    [found] = n_best(scripted(table), [[A]], config, (), trace)
    tree = trace.tree(0.0)
    shown = [(node.step, path(tree, node)[1:], round(math.exp(node.sum), 4), node.state, node.chosen) for node in tree]
    assert shown == [
        (0, [], 1.0, "alive", True),
        (1, [A], 0.6, "alive", False),
        (1, [B], 0.4, "alive", True),
        (2, [B, EOS_ID], 0.36, "ended", True),
        (2, [A, C], 0.3, "alive", False),
        (2, [A, B], 0.18, "given up", False),
        (3, [A, C, EOS_ID], 0.3, "ended", False),
    ]
    assert found[0].ids == (B,)


@pytest.mark.parametrize("beam_size", [1, 3, 6])
@pytest.mark.parametrize("prefix", [[], [A, B]])
@pytest.mark.parametrize("seed", range(6))
def test_every_node_adds_up(by_chance: Callable[..., Any], beam_size: int, prefix: list[int], seed: int) -> None:
    config = SearchConfig(beam_size=beam_size, n_best=beam_size, length_penalty=0.6, max_length_offset=5)
    stepper, trace = by_chance(seed), BeamTrace()
    [found] = n_best(stepper, [[A, C]], config, [prefix], trace)
    assert [found] == n_best(stepper, [[A, C]], config, [prefix])
    tree = trace.tree(config.length_penalty, len(prefix))
    for node in tree[1:]:
        before, tokens = path(tree, tree[node.parent or 0])[1:], path(tree, node)
        assert tokens[0] == BOS_ID
        if node.step <= len(prefix):
            assert (node.token, node.sum) == (prefix[node.step - 1], 0.0)
            continue
        log_prob = stepper.log_probs((A, C, EOS_ID), tuple(before))[node.token]
        assert node.sum == pytest.approx(tree[node.parent or 0].sum + log_prob, abs=1e-4)
    ended = [node for node in tree if node.state == "ended"]
    for node in ended:
        assert node.score == pytest.approx(node.sum / length_penalty(node.step - len(prefix), 0.6))
    [last] = [node for node in tree if node.chosen and not any(c.chosen and c.parent == tree.index(node) for c in tree)]
    ids = path(tree, last)[1:]
    assert tuple(ids[:-1] if last.state == "ended" else ids) == found[0].ids
    if not found[0].cut:
        assert last.score == pytest.approx(found[0].score) and last.score == max(node.score or 0 for node in ended)
    given_up = [number for number, node in enumerate(tree) if node.state == "given up"]
    assert not set(given_up) & {node.parent for node in tree}


def test_no_boxes_overlap(by_chance: Callable[..., Any]) -> None:
    trace = BeamTrace()
    n_best(by_chance(3), [[A, C]], SearchConfig(beam_size=5, max_length_offset=6), (), trace)
    tree = trace.tree(0.6)
    drawing = draw(tree, [f"piece{node.token}" * 3 for node in tree])
    corners = [(box.x, box.y) for box in drawing.boxes]
    assert len(set(corners)) == len(tree)
    for x, y in corners:
        assert 0 <= x <= drawing.width - drawing.box_width and 0 <= y <= drawing.height - drawing.box_height
        others = [corner for corner in corners if corner != (x, y)]
        assert all(abs(x - a) >= drawing.box_width or abs(y - b) >= drawing.box_height for a, b in others)
    assert sum(not box.path for box in drawing.boxes) == 1
    assert max(len(box.label) for box in drawing.boxes) <= 10
