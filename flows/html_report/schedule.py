"""Figure of the learning-rate schedule, drawn from the recipe alone (Vaswani et al. 2017, section 5.3)."""

from pathlib import Path

from flows.html_report.charts import HEIGHT, WIDTH, curves
from flows.html_report.svg import Drawing, Point
from nmt_core.config import ModelConfig, TrainConfig
from nmt_core.errors import ConfigError, DataError
from nmt_core.train.schedule import learning_rate

TITLE = "learning-rate schedule of the recipe"
_POINTS = 300
_LARGE = (720.0, 400.0)
"""Size in pixels of a figure in a file of its own."""


def schedule_points(train: TrainConfig, model: ModelConfig) -> list[Point]:
    """Return the learning rate at evenly spaced updates, and at the end of the warm-up."""
    last = train.max_updates
    updates = {1 + (last - 1) * number // (_POINTS - 1) for number in range(_POINTS)}
    if train.learning_rate_schedule != "constant":
        updates.add(min(train.warmup_updates, last))
    return [(float(update), learning_rate(update, train, model.d_model)) for update in sorted(updates)]


def schedule_chart(train: TrainConfig, model: ModelConfig, size: Point = (WIDTH, HEIGHT)) -> Drawing:
    """Draw the learning rate over all updates that the recipe allows. Patience or a limit may end training earlier."""
    return curves(TITLE, {"learning rate": schedule_points(train, model)}, "update", from_zero=True, size=size)


def write_schedule(train: TrainConfig, model: ModelConfig, file: Path) -> None:
    """Write the figure of a schedule.

    Raises:
        ConfigError: the name does not end in .svg.
        DataError: the file cannot be written.
    """
    if file.suffix != ".svg":
        raise ConfigError(f"--figure {file}: the figure is SVG: give a name that ends in .svg")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(schedule_chart(train, model, _LARGE).file())
    except OSError as error:
        raise DataError(f"--figure {file}: cannot be written ({error.strerror}): choose another file") from None
