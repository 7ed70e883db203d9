"""Beam search for translations that contain given terms, over any `Stepper` of the whole vocabulary.

The beam is shared out among banks: hypotheses that contain as many terms, and as many tokens of the term that they
begin, compete with each other only. So a hypothesis with a term is not displaced by likelier ones without it. The
successors of a hypothesis are its likeliest ones, and those that begin or continue a term. A hypothesis ends only if it
has all terms. This is the dynamic beam allocation of Post and Vilar (2018, "Fast Lexically Constrained Decoding with
Dynamic Beam Allocation for Neural Machine Translation", section 3), except that terms that are complete count as such
and not by their tokens: there are fewer banks, with more room each.

A term may be written in several ways, of which the likeliest one wins. Words are whole: a term is in a translation when
the next token does not continue its last word.

Letters: see `nmt_core.models`. Here N counts likely successors of a row, X counts ids among which they are, V counts
pieces of the vocabulary, G counts groups of them, and W counts pieces of a group.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nmt_core.config import SearchConfig
from nmt_core.search.constraints import Prefixes, limits, with_rules, with_tokens
from nmt_core.search.hypothesis import Ending, History, Hypothesis, Sums, length_penalties
from nmt_core.search.step import Floats, Ints, Stepper, pad_sources
from nmt_core.terms.pieces import Form, TermPieces
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID

Required = Sequence[tuple[Form, ...]]
"""Terms of a sentence. Each is given as the ways to write it, of which a translation has to contain one."""

BANK = 3
"""Hypotheses for each number of terms, if their tokens are few."""
MOST_BEAM = 24
"""Most hypotheses, unless `beam_size` is more."""
LIKELIEST = 6
"""Likely successors of a hypothesis that are considered."""

_GROUP = 16
_MOST_TOKENS = 1 << 16

Pointer = tuple[int, int, int]
"""Place in a term that has begun: the term, the way in which it is written, and the number of its tokens so far."""


class Progress(NamedTuple):
    """Terms of a hypothesis so far."""

    met: int = 0
    """Set of the terms that it contains, as bits."""
    begun: tuple[Pointer, ...] = ()
    """Terms that its last tokens begin, or complete if no word continues them."""
    end: int = 0
    """Class of the end of its last token."""


class Terms:
    """Terms of one sentence, and the progress of hypotheses."""

    def __init__(self, required: Required, pieces: TermPieces) -> None:
        self._required = required
        self._begin_V, self._end_V = pieces.begin_V.tolist(), pieces.end_V.tolist()
        self._successors: dict[Progress, set[int]] = {}
        self._all = (1 << len(required)) - 1

    def after(self, progress: Progress, token: int) -> Progress:
        """Return the progress when a token is added."""
        met, begun = self._closed(progress, self._begin_V[token])
        if token not in self.successors(progress):
            return Progress(met, (), self._end_V[token])
        continued = [
            (term, way, count + 1)
            for term, way, count in begun
            if count < len(ids := self._required[term][way].ids) and ids[count] == token
        ]
        continued += [
            (term, way, 1) for term, way in self._starts(met, progress.end) if self._first(term, way) == token
        ]
        whole = next((one for one in continued if self._is_whole(one) and not self._form(one).end), None)
        if whole:
            met, continued = met | 1 << whole[0], []
        return Progress(met, tuple(continued), self._end_V[token])

    def successors(self, progress: Progress) -> set[int]:
        """Return the tokens that begin or continue a term."""
        tokens = self._successors.get(progress)
        if tokens is None:
            tokens = {self._form(one).ids[one[2]] for one in progress.begun if not self._is_whole(one)}
            starts = self._starts(self._closed(progress, 0)[0], progress.end)
            tokens |= {self._first(term, way) for term, way in starts}
            self._successors[progress] = tokens
        return tokens

    def bank(self, progress: Progress) -> int:
        """Return a number that grows with the terms of a hypothesis, and with the tokens of the one that has begun."""
        return progress.met.bit_count() * _MOST_TOKENS + max((count for _, _, count in progress.begun), default=0)

    def are_met(self, progress: Progress) -> bool:
        """Return True if a hypothesis that ends here contains all terms."""
        return self._closed(progress, 0)[0] == self._all

    def _closed(self, progress: Progress, begin: int) -> tuple[int, tuple[Pointer, ...]]:
        """Return the progress before a token whose beginning has this class: a term is complete if a word ends here."""
        for one in progress.begun:
            if self._is_whole(one) and (not begin or self._form(one).end != begin):
                return progress.met | 1 << one[0], ()
        return progress.met, progress.begun

    def _starts(self, met: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the terms that may begin, each with a way to write it."""
        for term, forms in enumerate(self._required):
            if not met >> term & 1:
                yield from ((term, way) for way, form in enumerate(forms) if not form.begin or form.begin != end)

    def _form(self, one: Pointer) -> Form:
        return self._required[one[0]][one[1]]

    def _first(self, term: int, way: int) -> int:
        return self._required[term][way].ids[0]

    def _is_whole(self, one: Pointer) -> bool:
        return one[2] == len(self._form(one).ids)


def search_with_terms(
    stepper: Stepper,
    source_ids: Sequence[Sequence[int]],
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]],
    required: Sequence[Required],
    pieces: TermPieces,
) -> list[list[Hypothesis]]:
    """Search all sources together, as one batch, for translations with all terms.

    Args:
        stepper: model to search with. All of its vocabulary must be available: no shortlist.
        source_ids: ids of each source without the end mark.
        config: rules of the search. Its method is a beam search, whatever `config.method` says.
        prefixes: ids with which each target has to begin. Empty means that targets may begin with anything.
        required: terms of each source.
        pieces: pieces of the target vocabulary.

    Returns:
        For each source, in order, at most `config.n_best` hypotheses, best first. There is none if no hypothesis with
        all terms has ended before its greatest length.
    """
    if not source_ids:
        return []
    terms = [Terms(one, pieces) for one in required]
    sizes = [beam_size(config, one) for one in required]
    limit_B = limits(source_ids, config, prefixes)
    given = Prefixes(prefixes, limit_B)
    penalties = length_penalties(int(limit_B.max()) + 1, config.length_penalty)
    sentences = [
        _Sentence(place, own, (sizes[place], max(sizes)), config, penalties, (int(limit_B[place]), given))
        for place, own in enumerate(terms)
    ]
    active, history = sentences, History()
    decoding = stepper.start(pad_sources(source_ids), stepper.vocab_size)
    token_R, parent_R = np.full(len(active), BOS_ID), np.arange(len(active))
    written_RT = np.empty((len(active), 0), dtype=np.int64)
    for length in range(int(limit_B.max()) + 1):
        history.add(token_R, parent_R)
        log_prob_RV = in_order(*decoding.step(token_R, parent_R))
        if config.limits_repetition and length:
            written_RT = with_tokens(written_RT, token_R, parent_R)
        log_prob_RV = with_rules(log_prob_RV, length, config, written_RT)
        rows = len(log_prob_RV) // len(active)
        best_RN = likeliest(log_prob_RV, LIKELIEST)
        for number, one in enumerate(active):
            own = slice(number * rows, (number + 1) * rows)
            one.advance(log_prob_RV[own], best_RN[own], number * rows, length)
        is_left_B = np.array([not one.is_done for one in active])
        if not is_left_B.any():
            break
        if not is_left_B.all():
            decoding.keep(np.flatnonzero(is_left_B))
            active = [one for one in active if not one.is_done]
        token_R = np.array([token for one in active for token in one.tokens])
        parent_R = np.array([parent for one in active for parent in one.parents])
    return _results(sentences, history, config.n_best)


def beam_size(config: SearchConfig, required: Required) -> int:
    """Return the number of hypotheses for a sentence with these terms: one for each bank, and some more."""
    own = config.beam_size if config.method == "beam" else 1
    tokens = sum(max(len(form.ids) for form in forms) for forms in required)
    return max(own, config.n_best, min(max(BANK * (len(required) + 1), tokens + 2), MOST_BEAM))


def likeliest(log_prob_RV: Floats, count: int) -> Ints:
    """Return the ids of the likeliest successors of each row, in any order, [R, N].

    They are in the groups of ids whose best ones are the best, so that few ids are ranked.
    """
    width = log_prob_RV.shape[1] // _GROUP
    if width <= count:
        return np.argpartition(-log_prob_RV, min(count, log_prob_RV.shape[1]) - 1, axis=1)[:, :count]
    grouped_RGW = log_prob_RV[:, : _GROUP * width].reshape(len(log_prob_RV), _GROUP, width)
    best_RN = np.argpartition(-grouped_RGW.max(axis=1), count - 1, axis=1)[:, :count]
    ids_RX = (best_RN[:, None, :] + width * np.arange(_GROUP)[None, :, None]).reshape(len(best_RN), -1)
    rest_RX = np.broadcast_to(
        np.arange(_GROUP * width, log_prob_RV.shape[1]), (len(ids_RX), log_prob_RV.shape[1] % _GROUP)
    )
    ids_RX = np.concatenate([ids_RX, rest_RX], axis=1)
    chosen_RN = np.argpartition(-np.take_along_axis(log_prob_RV, ids_RX, axis=1), count - 1, axis=1)[:, :count]
    return np.take_along_axis(ids_RX, chosen_RN, axis=1)


def in_order(log_prob_RC: Floats, id_RC: Ints) -> Floats:
    """Return the log-probabilities of all pieces in the order of their ids."""
    if (id_RC[:, 1:] > id_RC[:, :-1]).all():
        return log_prob_RC
    log_prob_RV = np.empty_like(log_prob_RC)
    np.put_along_axis(log_prob_RV, id_RC, log_prob_RC, axis=1)
    return log_prob_RV


def _results(sentences: Sequence["_Sentence"], history: History, most: int) -> list[list[Hypothesis]]:
    best = [sorted(one.found, key=lambda ending: -ending.score)[:most] for one in sentences]
    endings = [ending for own in best for ending in own]
    hypotheses = iter(history.hypotheses(endings) if endings else ())
    return [[next(hypotheses) for _ in own] for own in best]


class _Partial(NamedTuple):
    total: float
    """Sum of log-probabilities."""
    progress: Progress


class _Candidate(NamedTuple):
    total: float
    row: int
    token: int
    progress: Progress


class _Sentence:
    """Sentence in the batch, and its partial hypotheses in the order of their rows."""

    def __init__(
        self,
        place: int,
        terms: Terms,
        sizes: tuple[int, int],
        config: SearchConfig,
        penalties: Sums,
        given: tuple[int, Prefixes],
    ) -> None:
        self._place, self._terms, self._wanted = np.array([place]), terms, config.n_best
        self._size, self._rows = sizes  # hypotheses of this sentence, and rows of each sentence of the batch
        self._limit, self._prefixes = given
        self._skipped = int(self._prefixes.length_B[place])
        self._penalties = penalties
        self._beam = [_Partial(0.0, Progress())]
        self.found: list[Ending] = []
        """Hypotheses that have ended with all terms."""
        self.tokens: list[int] = []
        """Token of each row of the next step."""
        self.parents: list[int] = []
        """Row of this step that each row of the next step continues."""
        self.is_done = False

    def advance(self, log_prob_KV: Floats, best_KN: Ints, first_row: int, length: int) -> None:
        """End hypotheses, and choose those to continue.

        Args:
            log_prob_KV: log-probabilities of all successors of each partial hypothesis.
            best_KN: likeliest successors of each, in any order.
            first_row: row of the first partial hypothesis in the batch.
            length: number of target tokens so far.
        """
        forced = self._prefixes.are_forced(self._place, length)
        if forced is not None and forced[0]:
            token = int(self._prefixes.tokens(self._place, length)[0])
            chosen = [_Candidate(0.0, 0, token, self._terms.after(self._beam[0].progress, token))]
        else:
            candidates = list(self._candidates(log_prob_KV, best_KN))
            chosen, ended = self._chosen(candidates)
            if length == self._limit and not self.found:
                ended = [one for one in candidates if one.token == EOS_ID]
            penalty = self._penalties[length + 1 - self._skipped]
            self.found += [Ending(float(one.total / penalty), length, first_row + one.row) for one in ended]
        self.tokens = [one.token for one in chosen]
        self.parents = [first_row + one.row for one in chosen]
        self._beam = [_Partial(one.total, one.progress) for one in chosen]
        spare = self._rows - len(chosen)  # rows that continue nothing, because all sentences have equally many
        self.tokens += [PAD_ID] * spare
        self.parents += [first_row] * spare
        self.is_done = not chosen or length >= self._limit or self._cannot_improve()

    def _candidates(self, log_prob_KV: Floats, best_KN: Ints) -> Iterator[_Candidate]:
        for row, ((total, progress), best) in enumerate(zip(self._beam, best_KN.tolist(), strict=False)):
            tokens = {*best, *self._terms.successors(progress)} - {EOS_ID}
            ordered = sorted(tokens | ({EOS_ID} if self._terms.are_met(progress) else set()))
            for token, log_prob in zip(ordered, log_prob_KV[row, ordered].tolist(), strict=True):
                if log_prob > -np.inf:
                    yield _Candidate(total + log_prob, row, token, self._terms.after(progress, token))

    def _chosen(self, candidates: list[_Candidate]) -> tuple[list[_Candidate], list[_Candidate]]:
        """Return the best candidates of each bank: one after the other from each, those with most tokens first.

        Candidates that end a hypothesis are returned apart, if they are among the best K of their bank.
        """
        candidates.sort(key=lambda one: (-one.total, one.token, one.row))
        banks: dict[int, list[_Candidate]] = {}
        for one in candidates:
            banks.setdefault(self._terms.bank(one.progress), []).append(one)
        ended = [one for bank in banks.values() for one in bank[: self._size] if one.token == EOS_ID]
        others = [[one for one in banks[bank] if one.token != EOS_ID] for bank in sorted(banks, reverse=True)]
        ordered = list(map(iter, others))
        chosen: list[_Candidate] = []
        while ordered and len(chosen) < self._size:
            left = []
            for bank in ordered:
                following = next(bank, None) if len(chosen) < self._size else None
                if following:
                    chosen.append(following)
                    left.append(bank)
            ordered = left
        return chosen, ended

    def _cannot_improve(self) -> bool:
        """Return True if no partial hypothesis can be better than the requested ones.

        A number of ended hypotheses is no reason to stop: bad ones that begin with their terms end first.
        """
        if len(self.found) < self._wanted:
            return False
        bound = max(one.total for one in self._beam) / self._penalties[self._limit + 1 - self._skipped]
        worst = sorted((one.score for one in self.found), reverse=True)[self._wanted - 1]
        return bool(worst >= bound)
