"""New processes that need not import torch: each is a fork of one server that has imported it."""

from multiprocessing import get_context

CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch._dynamo", "torchsims.cli", "torchsims.sweeps", "torchsims.workloads.scenes"])
