"""The registry of routers: its content, and the registration of scorers and balancers written in Python."""
from typing import Any, Callable, Dict, Optional

import torch

from . import _core


def routers() -> Dict[str, Any]:
    """Methods, scorers, selectors and balancers with their options, as `penstock routers --json` prints them."""
    return _core.routers()


class Scorer(torch.nn.Module):
    """A scorer in Python: parameters, and `score`. Each layer makes its own as `cls(shape, **options)`.

    The model's seed draws the initial matrices from N(0, std^2). Vectors are initially zero."""

    def score(self, hidden: torch.Tensor, context: _core.Context) -> torch.Tensor:
        """Logits [T, E] of rows [T, d]."""
        raise NotImplementedError(f"{type(self).__name__} has no score()")


class Balancer(torch.nn.Module):
    """A balancer in Python, one for all layers of a model. The model makes it as `cls(shape, **options)`.

    Its buffers are saved with the model. Change them in place. With the trait biases_choice it also has
    `choice_bias(layer)` -> [E]. It may have `state()` -> {name: number}, the values to log."""

    def balance(self, scores: _core.Scores, plan: _core.Plan, context: _core.Context) -> Any:
        """Returns a scalar to add to the loss, or None, or a pair of this and a dict of tensors to log."""
        raise NotImplementedError(f"{type(self).__name__} has no balance()")

    def after_step(self, statistics: _core.StepStatistics) -> None:
        """Called once after every optimizer step."""


def _maker(factory):
    """`factory`, with an error that says what to do if the class forgets the `__init__` of torch.nn.Module."""
    advice = f"{getattr(factory, '__name__', factory)}.__init__ must call super().__init__() before it sets attributes"

    def make(shape, **options):
        try:
            part = factory(shape, **options)
        except AttributeError as error:
            if "Module.__init__() call" in str(error):  # torch's words for a tensor or module that comes too early
                raise _core.Error(advice) from error
            raise
        if isinstance(part, torch.nn.Module) and "_parameters" not in vars(part):
            raise _core.Error(advice)
        return part
    return make


def _registrar(kind, name, options, summary, source, traits):
    if not isinstance(name, str):
        below = f" above class {name.__name__}" if isinstance(name, type) else ""
        raise TypeError(f"register_{kind} takes the {kind}'s name first: write @penstock.register_{kind}(\"NAME\"){below}")
    register = getattr(_core, f"register_{kind}")

    def decorate(factory):
        if not callable(factory):
            raise _core.Error(f"'{name}': expected a class, found {factory!r}")
        said = summary or (factory.__doc__ or "written in Python").strip().split("\n")[0]
        register(name, _maker(factory), options or {}, traits, said, source)
        return factory
    return decorate


def register_scorer(name: str, *, options: Optional[Dict[str, Any]] = None, summary: Optional[str] = None,
                    source: str = "Python", **traits: Any) -> Callable[[Any], Any]:
    """Class decorator that registers a scorer under a name. Recipes and layers of this process can then use it.

    Args:
        options: the scorer's options with their defaults. The class gets them as keyword arguments.
        traits: properties of the scorer, such as `stochastic=True` (`routers()["traits"]["scorers"]` explains all).

    A later call with the same name, options and traits replaces the class, as when a notebook's cell runs again."""
    return _registrar("scorer", name, options, summary, source, traits)


def register_balancer(name: str, *, options: Optional[Dict[str, Any]] = None, summary: Optional[str] = None,
                      source: str = "Python", **traits: Any) -> Callable[[Any], Any]:
    """Class decorator that registers a balancer under a name. Its arguments are those of `register_scorer`.

    `routers()["traits"]["balancers"]` explains the traits."""
    return _registrar("balancer", name, options, summary, source, traits)
