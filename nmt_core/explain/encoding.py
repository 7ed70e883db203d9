"""Write arrays of bytes as text for the script of the page."""

import base64

import numpy as np
import numpy.typing as npt


def encoded(levels: npt.NDArray[np.uint8] | npt.NDArray[np.int8] | npt.NDArray[np.bool_]) -> str:
    """Return the bytes of an array in base64, row by row."""
    return base64.b64encode(np.ascontiguousarray(levels).tobytes()).decode()
