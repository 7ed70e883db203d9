"""`budget`: what training may take."""

from pydantic import Field

from nmt_core.config.section import Section


class BudgetConfig(Section):
    """What training may take, over all its attempts; at its end it stops with a checkpoint, and a larger budget goes on
    from there. It decides when, and never what: no artifact is made anew because of it. The other stages are short,
    have no checkpoints and are not limited."""

    max_gpu_hours: float = Field(0.0, ge=0)
    """GPUs times hours, from the start of the processes that train to their end; 0: any. Training on CPUs has none."""
    max_hours: float = Field(0.0, ge=0)
    """Hours of training, on whatever it runs and however many processes; 0: any."""
