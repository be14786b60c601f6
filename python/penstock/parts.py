"""The registry of routers: what there is, and parts of one's own written in Python."""
from typing import Any, Callable, Dict, Optional

import torch

from . import _core


def routers() -> Dict[str, Any]:
    """Methods, scorers, selectors and balancers with their options, as `penstock routers --json` prints them."""
    return _core.routers()


class Scorer(torch.nn.Module):
    """A scorer in Python: parameters, and `score`. Made as `cls(shape, **options)` for each layer.

    Matrices are drawn by the model's seed, N(0, std^2), and vectors begin as zeros."""

    def score(self, hidden: torch.Tensor, context: _core.Context) -> torch.Tensor:
        """Logits [T, E] of rows [T, d]."""
        raise NotImplementedError


class Balancer(torch.nn.Module):
    """A balancer in Python, one for all layers of a model. Made as `cls(shape, **options)`.

    Its buffers are saved with the model; change them in place. It may also have
    `choice_bias(layer)` -> [E], with the trait biases_choice, and `state()` -> {name: number}."""

    def balance(self, scores: _core.Scores, plan: _core.Plan, context: _core.Context) -> Any:
        """A scalar to add to the loss, or None; or that and a dict of tensors to log."""
        raise NotImplementedError

    def after_step(self, statistics: _core.StepStatistics) -> None:
        """Called once after every optimizer step."""


def _registrar(register, name, options, summary, source, traits):
    def decorate(factory):
        said = summary or (factory.__doc__ or "written in Python").strip().split("\n")[0]
        register(name, factory, options or {}, traits, said, source)
        return factory
    return decorate


def register_scorer(name: str, *, options: Optional[Dict[str, Any]] = None, summary: Optional[str] = None,
                    source: str = "Python", **traits: Any) -> Callable[[Any], Any]:
    """Class decorator: recipes and layers of this process then know the scorer by that name.

    Args:
        options: the part's options with their defaults, which become keyword arguments.
        traits: what it says of itself, such as `stochastic=True` (`routers()["traits"]["scorers"]` explains all).

    A cell that runs again may put another class in its place, with the same options and traits."""
    return _registrar(_core.register_scorer, name, options, summary, source, traits)


def register_balancer(name: str, *, options: Optional[Dict[str, Any]] = None, summary: Optional[str] = None,
                      source: str = "Python", **traits: Any) -> Callable[[Any], Any]:
    """The same for a balancer (`routers()["traits"]["balancers"]`)."""
    return _registrar(_core.register_balancer, name, options, summary, source, traits)
