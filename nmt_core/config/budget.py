"""`budget`: limits on the time that training takes."""

from pydantic import Field

from nmt_core.config.section import Section

SECONDS_PER_HOUR = 3_600


class BudgetConfig(Section):
    """Limits on the time of training, over all its attempts.

    When a limit is reached, training stops with a checkpoint, and resumes from it if the limit is raised. A budget
    never changes a result, so no artifact is made again because of it. The other stages are short, have no checkpoints
    and are not limited.
    """

    max_gpu_hours: float = Field(0.0, ge=0)
    """GPU hours: number of GPUs times hours, from the start of the training processes to their end. 0 means no limit.
    Training on CPUs uses none."""
    max_hours: float = Field(0.0, ge=0)
    """Hours of training, on any hardware and with any number of processes. 0 means no limit."""
