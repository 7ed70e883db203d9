"""Spread one model over many processes: replicated (DDP), sharded (FSDP), or sharded in replicated groups (HSDP).

Each process computes the loss of its own micro-batches. The optimizer gets the gradients of the whole update, for any
number of processes and any way to spread the weights. FSDP is PyTorch's `fully_shard` (Zhao et al. 2023, "PyTorch
FSDP"). Every layer is a group of its own, and the weights outside of layers form one group. So the embeddings and the
output matrix are in one group, which is necessary where they share weights.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from nmt_core.batches.collate import Batch
from nmt_core.config import TrainConfig
from nmt_core.errors import ConfigError
from nmt_core.models.build import build_model
from nmt_core.models.loss import alignment_loss, smoothed_cross_entropy
from nmt_core.models.model import TranslationModel
from nmt_core.tokenizer.tokenizer import PAD_ID
from nmt_core.train.device import autocast, compute_dtype
from nmt_core.train.distributed import World

_CHECKPOINT_WRAPPER = "_checkpoint_wrapped_module."


class Objective(nn.Module):
    """Model with its loss, as the processes compute it together.

    Args:
        model: the model.
        label_smoothing: label smoothing of the training loss.
        dtype: type of the matrix products.
        alignment_weight: factor of the loss of guided alignment, for a model with `alignment_layer`.
    """

    def __init__(
        self, model: TranslationModel, label_smoothing: float, dtype: torch.dtype, alignment_weight: float = 0.0
    ) -> None:
        super().__init__()
        self.alignment_weight = alignment_weight if model.config.alignment_layer else 0.0
        self.model = model
        self.label_smoothing = label_smoothing
        self.dtype = dtype

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the loss to descend on and the unsmoothed loss, in nats, each summed over the target tokens of a pass.

        The first one is the smoothed loss. With guided alignment, its loss is added (Garg et al. 2019).
        """
        given = batch.source, batch.decoder_input, batch.source_layout, batch.target_layout
        alignment: Tensor | None = None
        with autocast(self.dtype, batch.source.device):
            if self.alignment_weight and batch.aligned is not None:
                states_M, attention = self.model.forward_with_attention(*given)
                with torch.autocast(batch.source.device.type, enabled=False):
                    alignment = alignment_loss(attention.log_weights(), attention.targets(batch.aligned))
            else:
                states_M = self.model(*given)
        output = self.model.output
        smoothed, plain = smoothed_cross_entropy(
            states_M.to(self.dtype), output.weight, batch.target, self.label_smoothing, PAD_ID, output.bias
        )
        return smoothed if alignment is None else smoothed + self.alignment_weight * alignment, plain


class Parallel:
    """Model on this process' device, replicated or sharded.

    Args:
        model: model, equal in every process. Its parameters may become shards.
        config: options of the training. `parallel`, `shard_size`, `activation_checkpointing`, `compile_layers`,
            `batching`, `label_smoothing`, `alignment_weight` and `precision` are used.
        world: the processes.

    Raises:
        ConfigError: `shard_size` does not divide the number of processes.
    """

    def __init__(self, model: TranslationModel, config: TrainConfig, world: World) -> None:
        self.model = model.to(world.device)
        self.dtype = compute_dtype(config.precision, world.device)
        objective = Objective(self.model, config.label_smoothing, self.dtype, config.alignment_weight)
        self._compiled = self._graphed = False
        """True if layers are compiled, and if the kernels of each layer are launched as one CUDA graph."""
        if config.compile_layers and model.compiles and world.device.type == "cuda":
            self._compile(config)
        for layers in (self.model.encoder, self.model.decoder):
            for number, layer in enumerate(layers):
                if config.activation_checkpointing:
                    layers[number] = checkpoint_wrapper(layer)
        self._objective: nn.Module = objective
        if config.parallel != "ddp":
            self._objective = _sharded(objective, _mesh(config, world), self.dtype)
        elif world.size > 1:
            # Buffers are constants. A view of the bucket saves a copy of the summed gradients.
            self._objective = DistributedDataParallel(objective, broadcast_buffers=False, gradient_as_bucket_view=True)

    def _compile(self, config: TrainConfig) -> None:
        """Compile each layer, so that layers of one kind share their code.

        Where shapes and the addresses of weights never change, each layer is launched as one CUDA graph. Otherwise a
        host takes longer to launch some 600 kernels than an H200 to run them: the base model reaches 783,163 target
        tokens per second with graphs, and 438,859 without.
        """
        self._compiled = True
        is_packed = config.batching == "packed" and not self.model.config.attention_width  # which unpacks sentences
        self._graphed = is_packed and config.parallel == "ddp" and not config.activation_checkpointing
        for layer in chain(self.model.encoder, self.model.decoder):
            layer.compile(mode="reduce-overhead" if self._graphed else None)

    def eager(self) -> AbstractContextManager[Any]:
        """Return a context without compilation, which would take longer than a few batches of other shapes."""
        return torch.compiler.set_stance("force_eager") if self._compiled else nullcontext()

    @property
    def is_sharded(self) -> bool:
        """True if this process holds only a part of each parameter."""
        return isinstance(self._objective, FSDPModule)

    def backward(self, batch: Batch, weight: float, *, is_last: bool) -> Tensor:
        """Run one forward and backward pass. The last pass of an update exchanges the gradients between processes.

        Args:
            batch: batch on the device of this process.
            weight: factor on the summed loss. Gradients are averaged over the processes, so the gradient of a mean over
                all tokens needs the number of processes divided by the number of tokens.
            is_last: True for the last pass of an update.

        Returns:
            Sum of the unsmoothed loss, in nats.
        """
        if self._graphed:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
            if not is_last:
                self._own_gradients()
        if isinstance(self._objective, FSDPModule):
            self._objective.set_requires_gradient_sync(is_last)
        with self._no_sync(is_last):
            smoothed, plain = self._objective(batch)
            torch.autograd.backward(smoothed * weight)
        summed: Tensor = plain
        return summed

    def clip(self, max_norm: float) -> Tensor:
        """Scale the gradient down to at most this norm, and return its norm before. 0 does not scale."""
        parameters = list(self.model.parameters())
        norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
        if isinstance(norm, DTensor):
            norm = norm.full_tensor()
        if max_norm:
            nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
        return norm

    def plain_model(self) -> TranslationModel:
        """Return the model with complete weights, for use outside of training. Sharded weights are copied.

        Called by every process.
        """
        if not self.is_sharded:
            return self.model
        weights, model = get_model_state_dict(self.model, options=StateDictOptions(full_state_dict=True)), self.model
        copy = build_model(model.config, model.vocab_size, model.max_positions, model.source_vocab_size)
        copy.load_state_dict(weights)
        return copy.to(model.device)

    def parameters(self) -> dict[str, Tensor]:
        """Return each parameter, or this process' part of it, by name. Tied parameters are listed once."""
        return {name.replace(_CHECKPOINT_WRAPPER, ""): weight for name, weight in self.model.named_parameters()}

    def _own_gradients(self) -> None:
        """Allocate memory for the gradients. The next pass of a CUDA graph overwrites the graph's own results."""
        for parameter in self.model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def _no_sync(self, is_last: bool) -> AbstractContextManager[None]:
        if isinstance(self._objective, DistributedDataParallel) and not is_last:
            context: AbstractContextManager[None] = self._objective.no_sync()
            return context
        return nullcontext()


@torch.no_grad()
def whole_copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of tensors on the CPU, assembled from the parts of all processes. Called by every process."""
    whole = {name: part.full_tensor() if isinstance(part, DTensor) else part for name, part in tensors.items()}
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in whole.items()}


def _mesh(config: TrainConfig, world: World) -> DeviceMesh:
    """Return a mesh with one row of all processes, or with one row for each copy of the weights."""
    if config.parallel == "fsdp":
        return init_device_mesh(world.device.type, (world.size,), mesh_dim_names=("shard",))
    size = config.shard_size or world.local_size
    if world.size % size:
        raise ConfigError(
            f"train.shard_size={size} does not divide the {world.size} processes: set it to a divisor, or change the "
            "number of processes"
        )
    return init_device_mesh(world.device.type, (world.size // size, size), mesh_dim_names=("replicate", "shard"))


def _sharded(objective: Objective, mesh: DeviceMesh, dtype: torch.dtype) -> nn.Module:
    """Shard the objective. GPUs exchange weights in the type of the matrix products, and sum gradients in fp32."""
    is_half = dtype != torch.float32 and mesh.device_type != "cpu"  # layer norm on CPUs needs weights in fp32
    policy = MixedPrecisionPolicy(
        param_dtype=dtype if is_half else None,
        reduce_dtype=torch.float32 if is_half else None,
        cast_forward_inputs=False,
    )
    for layer in chain(objective.model.encoder, objective.model.decoder):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(objective, mesh=mesh, mp_policy=policy)
    return objective
