"""Triton kernels for NVIDIA GPUs that train faster than PyTorch's own operators.

They compute the same as the plain formulas beside them (`attention.attend_reference`, `loss.py`). Tests compare both
without a GPU, in Triton's interpreter. Triton comes with PyTorch's builds for CUDA. With other builds, nothing here is
imported.
"""
