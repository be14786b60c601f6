"""Penstock from Python: MoE layers for PyTorch models, and training, measuring and running of MoE language models.

    import penstock
    moe = penstock.MoeLayer(d_model=64, experts=8, method="remoe")   # a torch.nn.Module
    y, routing = moe(x)                                              # loss: += routing.loss
    run = penstock.train("recipe.toml", out="runs/a", set={"data.corpus": "corpus"}, on_step=print)
    print(run.load().generate("Once upon a time").text)

The program `penstock` uses the same library. The tensors are torch's own. docs/python.md has examples.
"""
import os as _os
import sys as _sys

# The program sets the same variable. It has an effect only if OpenMP's library is not loaded yet. Threads that spin
# longer take the cores from other programs.
if "torch" not in _sys.modules and "OMP_WAIT_POLICY" not in _os.environ:
    _os.environ.setdefault("GOMP_SPINCOUNT", "10000")

import torch as _torch  # noqa: E402, F401  (imported before _core, because _core needs torch's symbols)

from ._core import (BugError, Completion, Context, DivergedError, Error, NotPortableError, Plan,  # noqa: E402
                    Routing, Scores, Shape, StepStatistics, __version__, set_threads)
from .layer import MoeLayer, make_moe_layers  # noqa: E402
from .model import Model, load  # noqa: E402
from .parts import Balancer, Scorer, register_balancer, register_scorer, routers  # noqa: E402
from .run import Run, Study, export, study, train, upcycle  # noqa: E402

__all__ = ["Balancer", "BugError", "Completion", "Context", "DivergedError", "Error", "Model", "MoeLayer",
           "NotPortableError", "Plan", "Routing", "Run", "Scorer", "Scores", "Shape", "StepStatistics", "Study",
           "__version__", "export", "load", "make_moe_layers", "register_balancer", "register_scorer", "routers",
           "set_threads", "study", "train", "upcycle"]
