"""Compute the positional encoding of Vaswani et al. (2017) by its formula, for pictures. Imports no torch."""

import numpy as np

from nmt_core.search.step import Floats


def sinusoidal(length: int, width: int) -> Floats:
    """Return sinusoidal positions [length, width] (Vaswani et al. 2017, section 3.5).

    Even columns hold sines, odd ones cosines. `models.layers.sinusoidal_positions` gives the same. With the width of a
    head, the result holds the sines and cosines of the angles of rotary positions (Su et al. 2021, section 3.2.2).
    """
    frequency_M = 10_000.0 ** (-(np.arange(width) // 2 * 2) / width)
    angle_LM = np.arange(length)[:, None] * frequency_M
    return np.where(np.arange(width) % 2, np.cos(angle_LM), np.sin(angle_LM)).astype(np.float32)
