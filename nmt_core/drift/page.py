"""Write the page about a drift: one HTML file with histograms of a job and of other text."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from nmt_core.drift.comparison import Difference, Drift
from nmt_core.drift.profile import EDGES, Profile, label_of, words_of
from nmt_core.pages.page import render_page

_WIDTH, _HEIGHT, _FOOT = 480, 130, 18
_MOST_NAMES = 16


@dataclass(frozen=True)
class Compared:
    """Comparison of a job, with the profile that it was compared with."""

    drift: Drift
    reference: Profile


def page(title: str, job: Profile, compared: Sequence[Compared]) -> str:
    """Return the page as text.

    Args:
        title: what was translated, and by which model.
        job: profile of the job.
        compared: comparisons of the job, each of which is a section.
    """
    sections = [
        {
            "words": one.drift.in_words(),
            "against": one.drift.against,
            "lines": one.drift.lines,
            "reference_lines": one.drift.reference_lines,
            "differences": one.drift.differences,
            "charts": [(difference, chart(difference, job, one.reference)) for difference in one.drift.differences],
        }
        for one in compared
    ]
    return render_page("nmt_core.drift", words_of, title=title, sections=sections)


def chart(difference: Difference, job: Profile, reference: Profile) -> str:
    """Return the histograms of one measure as SVG: bars for the job, and a line for the reference."""
    own, other, labels = _bars(difference.measure, job, reference)
    highest = max(float(own.max()), float(other.max()), 1e-9)
    width, most = _WIDTH / len(labels), _HEIGHT - _FOOT
    parts, steps = [], []
    for place, label in enumerate(labels):
        tall, mark = (most * float(value[place]) / highest for value in (own, other))
        about = escape(f"{label}: {own[place]:.1%} of the job, {other[place]:.1%} of the reference")
        parts.append(
            f'<rect class="job" x="{place * width:.1f}" y="{most - tall:.1f}" width="{max(width - 1, 1):.1f}" '
            f'height="{tall:.1f}"><title>{about}</title></rect>'
        )
        steps.append(f"{place * width:.1f} {most - mark:.1f}H{(place + 1) * width:.1f}")
    path = f'<path class="reference" d="M{"V".join(steps).replace("V", "L")}"/>'
    ends = (
        f'<text x="0" y="{_HEIGHT - 4}">{escape(labels[0])}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT - 4}" text-anchor="end">{escape(labels[-1])}</text>'
    )
    about = escape(f"Distribution of {words_of(difference.measure)} in the job and in the reference")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{about}">{"".join(parts)}{path}'
        f'<line class="axis" x1="0" y1="{most}" x2="{_WIDTH}" y2="{most}"/>{ends}</svg>'
    )


def _bars(measure: str, job: Profile, reference: Profile) -> tuple[NDArray[np.float64], NDArray[np.float64], list[str]]:
    """Return the shares of the job and of the reference, with a label for each pair of them."""
    if measure in EDGES:
        own, other = job.counts(measure), reference.counts(measure)
        used = np.flatnonzero(own + other)
        first, end = int(used[0]), int(used[-1]) + 1
        labels = [label_of(measure, number) for number in range(first, end)]
        return own[first:end] / own.sum(), other[first:end] / other.sum(), labels
    first_names, second_names = job.categories[measure], reference.categories[measure]
    names = sorted({*first_names, *second_names}, key=lambda name: (-first_names.get(name, 0), name))[:_MOST_NAMES]
    shares = (
        np.array([counts.get(name, 0) for name in names]) / sum(counts.values())
        for counts in (first_names, second_names)
    )
    return next(shares), next(shares), names
