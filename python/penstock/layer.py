"""MoE layers as torch modules.

The C++ layer owns the tensors. This file registers the same tensors, not copies, in a tree of torch modules under the
same names. Optimizers, state dicts and gradients then work as with any torch module.
"""
import copy
from typing import Any, Dict, List, Optional, Tuple

import torch

from . import _core


class _Tensors(torch.nn.Module):
    """A node of the tree: parameters and buffers that a C++ module reads, too.

    Parameters are changed in place only, because C++ would not know an object that replaces a parameter."""

    def _apply(self, fn, *arguments, **options):
        buffers = dict(self._buffers)
        before = dict(self._parameters)
        super()._apply(fn, *arguments, **options)
        for name, parameter in before.items():
            if self._parameters[name] is not parameter:  # a torch.__future__ setting replaces parameters
                parameter.data = self._parameters[name].data
                self._parameters[name] = parameter
        for name, buffer in buffers.items():
            # A balancer's state keeps its type: in float16, rounding would keep lambda from changing.
            moved = self._buffers[name]
            if moved.device != buffer.device:
                buffer.data = buffer.data.to(moved.device)
            self._buffers[name] = buffer
        return self

    def _load_from_state_dict(self, state, prefix, local_metadata, *arguments):
        local_metadata = {**local_metadata, "assign_to_params_buffers": False}
        super()._load_from_state_dict(state, prefix, local_metadata, *arguments)


def _hang(root, name, tensor, parameter):
    *path, last = name.split(".")
    for part in path:
        if part not in root._modules:
            root.add_module(part, _Tensors())
        root = root._modules[part]
    if parameter:
        # A tensor from C++ becomes a Parameter itself. Parameter(tensor) would make another tensor object.
        tensor.__class__ = torch.nn.Parameter
        root.register_parameter(last, tensor)
    else:
        root.register_buffer(last, tensor)


class _Family:
    """C++ layers that are made together and share the balancers. They are pickled and copied as a whole."""

    def __init__(self, options):
        self.options = options
        self.layers = _core.make_moe_layers(options)

    def tensors(self):
        for number, layer in enumerate(self.layers):
            for name, tensor in layer.parameters() + layer.buffers():
                yield f"{number}.{name}", tensor

    def __getstate__(self):
        return {"options": self.options,
                "tensors": {name: tensor.detach() for name, tensor in self.tensors()},
                "frozen": [name for name, tensor in self.tensors() if not tensor.requires_grad]}

    def __setstate__(self, state):
        random = torch.get_rng_state()
        self.__init__(state["options"])
        torch.set_rng_state(random)  # the numbers drawn here are not used
        frozen = set(state["frozen"])
        for name, tensor in self.tensors():
            tensor.data = state["tensors"][name].clone()
            if tensor.is_floating_point() and tensor.is_leaf:
                tensor.requires_grad_(name not in frozen)


def _options(d_model, experts, d_ffn, layers, method, k, scorer, selector, balancers, options, more):
    if "router" in more:
        raise TypeError("router is no option; give method, k, scorer, selector, balancers and options by themselves")
    router = {"method": method, "k": k, **(options or {})}
    if "router_init_std" in more:
        router["init_std"] = more.pop("router_init_std")
    for name, value in (("scorer", scorer), ("selector", selector), ("balancers", balancers)):
        if value is not None:
            router[name] = value
    given = {"d_model": d_model, "experts": experts, "d_ffn": 4 * d_model if d_ffn is None else d_ffn, "layers": layers, **more}
    return _core.complete_layer_options({**given, "router": router})


_TREES = ("_modules", "_parameters", "_buffers")
_OF_CORE = {"_family", "_number", "_core", "_parts", "_hung"}


class MoeLayer(torch.nn.Module):
    """A Mixture-of-Experts feed-forward layer: a router and its experts.

    Args:
        d_model: width of the rows that go in and come out.
        experts: number of experts, E.
        d_ffn: width of one expert; 4 * d_model unless given.
        method: any method of `penstock.routers()["methods"]` that has experts.
        k: experts per token (with some methods the mean).
        scorer, selector, balancers: parts that replace those of the method.
        options: options of the parts by their names: {"adaptive-l1": {"factor": 1.5}}.
        more: granularity, init_std, output_std, router_init_std, activation ("swiglu" or "relu"), bias, dropout,
            shared_width, shared_gate, shared_output_std, as in C++ (penstock/layers/moe.h).

    torch's default generator draws the weights (`torch.manual_seed`). A layer made by this class has its own
    balancers. `make_moe_layers` makes several layers of one model, which share their balancers. A training step::

        y, routing = moe(x)                   # x [..., d_model]
        loss = task_loss + routing.loss       # None outside training, and if the method has no loss
        loss.backward(); optimizer.step(); moe.after_step()
    """

    def __init__(self, d_model: int, experts: int, d_ffn: Optional[int] = None, method: str = "topk", k: float = 1, *,
                 scorer: Optional[str] = None, selector: Optional[str] = None,
                 balancers: Optional[List[str]] = None, options: Optional[Dict[str, Dict[str, Any]]] = None,
                 **more: Any):
        if "layers" in more:
            raise TypeError("MoeLayer is one layer; make_moe_layers() makes those of one model")
        family = _Family(self._without_parts(_options(d_model, experts, d_ffn, 1, method, k, scorer, selector,
                                                      balancers, options, more)))
        self._become(family, 0)

    @staticmethod
    def _without_parts(options):
        return {key: value for key, value in options.items() if key != "parts"}

    @classmethod
    def _of(cls, family, number):
        layer = cls.__new__(cls)
        MoeLayer._become(layer, family, number)
        return layer

    def _become(self, family, number):
        torch.nn.Module.__init__(self)
        self._family, self._number, self._core = family, number, family.layers[number]
        self._parts = _core.complete_layer_options(family.options)["parts"]
        for name, tensor in self._core.parameters():
            _hang(self, name, tensor, parameter=True)
        for name, tensor in self._core.buffers():
            _hang(self, name, tensor, parameter=False)
        self._hung = {name for kind in _TREES for name in self.__dict__[kind]}

    def __reduce_ex__(self, protocol):
        state = {key: value for key, value in self.__dict__.items() if key not in _OF_CORE}
        for kind in _TREES:  # a user's additions are part of the state; the family holds the layer's own tensors
            state[kind] = {name: value for name, value in state[kind].items() if name not in self._hung}
        return _restore, (type(self), self._family, self._number), state

    def __setstate__(self, state):
        for kind in _TREES:
            self.__dict__[kind].update(state.pop(kind))
        self.__dict__.update(state)
        for name in self._hung & set(self._modules):
            self._modules[name].train(self.training)

    @property
    def options(self) -> Dict[str, Any]:
        """A copy of every option with its value, as nested dicts."""
        return copy.deepcopy(self._family.options)

    @property
    def layer(self) -> int:
        """The layer's index among the layers that were made together, from 0."""
        return self._number

    def forward(self, x: torch.Tensor, *, step: int = 0, total_steps: int = 0,
                token_ids: Optional[torch.Tensor] = None, k: int = 0, sequence_length: int = 0,
                logit_shift: float = 0.0, generator: Optional[torch.Generator] = None,
                dropout_seed: Optional[int] = None) -> Tuple[torch.Tensor, _core.Routing]:
        """Returns (y, routing): y has x's shape, and routing holds the router's decisions (`Routing`).

        Args:
            step, total_steps: the optimizer's step and number of steps, for routers with a schedule.
            token_ids: ids of the tokens, for routers that read them (`hash`).
            k: experts per token; 0: the router's own number.
            sequence_length: tokens per sequence; for x [B, T, d] it is T.
            logit_shift: added to the logits of routers that activate experts by a logit's sign.
            generator: generator of random choices; default: torch's default generator.
            dropout_seed: seed of the experts' dropout in training; default: a drawn seed.
        """
        if dropout_seed is None and self.training and self._family.options["dropout"] > 0:
            dropout_seed = int(torch.randint(2 ** 62, ()))
        return self._core.forward(x, training=self.training, step=step, total_steps=total_steps, k=k,
                                  sequence_length=sequence_length, logit_shift=logit_shift, token_ids=token_ids,
                                  generator=generator, dropout_seed=dropout_seed if self.training else None)

    def after_step(self) -> None:
        """Updates the balancers' state, such as lambda. Call it after each optimizer step.

        One call serves all layers that share the balancers."""
        self._core.after_step()

    def extra_repr(self):
        options, parts = self._family.options, self._parts
        router = options["router"]
        text = (f"d_model={options['d_model']}, d_ffn={options['d_ffn']}, experts={options['experts']}, "
                f"method={router['method']!r}, k={router['k']:g}, scorer={parts['scorer']!r}, "
                f"selector={parts['selector']!r}, balancers={parts['balancers']!r}")
        return text if options["layers"] == 1 else f"{text}, layer={self._number} of {options['layers']}"


def _restore(kind, family, number):
    return kind._of(family, number)


def make_moe_layers(layers: int, d_model: int, experts: int, d_ffn: Optional[int] = None, method: str = "topk",
                    k: float = 1, *, scorer: Optional[str] = None, selector: Optional[str] = None,
                    balancers: Optional[List[str]] = None, options: Optional[Dict[str, Dict[str, Any]]] = None,
                    **more: Any) -> List[MoeLayer]:
    """Makes `layers` MoE layers of one model. They share the balancers (one lambda) and the scorers' shared parts.

    The other arguments are those of `MoeLayer`. A call of `after_step` of one of the layers is enough."""
    family = _Family(MoeLayer._without_parts(_options(d_model, experts, d_ffn, layers, method, k, scorer, selector,
                                                      balancers, options, more)))
    return [MoeLayer._of(family, number) for number in range(layers)]
