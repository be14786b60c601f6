"""MoE layers as torch modules.

The C++ layer owns the tensors. Here they are hung into a tree of torch modules under the same names: the same
tensors, not copies, so that optimizers, state dicts and gradients are torch's own business.
"""
from typing import Any, Dict, List, Optional, Tuple

import torch

from . import _core


class _Tensors(torch.nn.Module):
    """A node of the tree: parameters and buffers that a C++ module reads, too.

    They are changed in place only: an object that took a parameter's place would be unknown to C++."""

    def _apply(self, fn, *arguments, **options):
        buffers = dict(self._buffers)
        before = dict(self._parameters)
        super()._apply(fn, *arguments, **options)
        for name, parameter in before.items():
            if self._parameters[name] is not parameter:  # as a torch.__future__ setting does
                parameter.data = self._parameters[name].data
                self._parameters[name] = parameter
        for name, buffer in buffers.items():
            # A balancer's state keeps its type: lambda in float16 would not change.
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
    """The C++ layers that are made together, which share the balancers. Pickled and copied as a whole."""

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
    router = {"method": method, "k": k, **(options or {})}
    if "router_init_std" in more:
        router["init_std"] = more.pop("router_init_std")
    for name, value in (("scorer", scorer), ("selector", selector), ("balancers", balancers)):
        if value is not None:
            router[name] = value
    given = {"d_model": d_model, "experts": experts, "d_ffn": d_ffn or 4 * d_model, "layers": layers, **more}
    return _core.complete_layer_options({**given, "router": router})


_TREES = ("_modules", "_parameters", "_buffers")
_OF_CORE = {"_family", "_number", "_core", "_parts", "_hung"}


class MoeLayer(torch.nn.Module):
    """A Mixture-of-Experts feed-forward layer: a router and its experts.

    Args:
        d_model: width of the rows that go in and come out.
        experts: number of experts, E.
        d_ffn: width of one expert; 4 * d_model unless given.
        method: any method of `penstock.routers()["methods"]` but those without experts.
        k: experts per token (of some methods on average).
        scorer, selector, balancers: parts in place of the method's.
        options: options of the parts by their names: {"adaptive-l1": {"factor": 1.5}}.
        more: granularity, init_std, output_std, router_init_std, activation ("swiglu" or "relu"), bias, dropout,
            shared_width, shared_gate, shared_output_std, as in C++ (penstock/layers/moe.h).

    Weights are drawn by torch's default generator (`torch.manual_seed`). A layer by itself has balancers of its own;
    `make_moe_layers` makes those of one model, which share them::

        y, routing = moe(x)                   # x [..., d_model]
        loss = task_loss + routing.loss       # None outside training, and where a method has none
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
        for kind in _TREES:  # what was added to it goes with it; the layer's own comes with the family
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
        """Every option with its value, as nested dicts."""
        return dict(self._family.options)

    @property
    def layer(self) -> int:
        """Its number among the layers that were made together."""
        return self._number

    def forward(self, x: torch.Tensor, *, step: int = 0, total_steps: int = 0,
                token_ids: Optional[torch.Tensor] = None, k: int = 0, sequence_length: int = 0,
                logit_shift: float = 0.0, generator: Optional[torch.Generator] = None,
                dropout_seed: Optional[int] = None) -> Tuple[torch.Tensor, _core.Routing]:
        """Returns (y, routing): y of x's shape, and what the router decided (`Routing`).

        Args:
            step, total_steps: of the optimizer, for routers with a schedule.
            token_ids: ids of the tokens, for routers that look at them (`hash`).
            k: experts per token in place of the router's own number.
            sequence_length: tokens per sequence; of [B, T, d] it is T.
            logit_shift: added to logits whose sign switches experts on.
            generator: of random choices; torch's default one unless given.
            dropout_seed: of the experts' dropout in training; drawn unless given.
        """
        if dropout_seed is None and self.training and self._family.options["dropout"] > 0:
            dropout_seed = int(torch.randint(2 ** 62, ()))
        return self._core.forward(x, training=self.training, step=step, total_steps=total_steps, k=k,
                                  sequence_length=sequence_length, logit_shift=logit_shift, token_ids=token_ids,
                                  generator=generator, dropout_seed=dropout_seed if self.training else None)

    def after_step(self) -> None:
        """After each optimizer step: moves lambda and the like, once for all layers that share them."""
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
    """The `layers` MoE layers of one model, with one set of balancers (one lambda) and what scorers share.

    The arguments are `MoeLayer`'s. Calling `after_step` of one of them is enough."""
    family = _Family(MoeLayer._without_parts(_options(d_model, experts, d_ffn, layers, method, k, scorer, selector,
                                                      balancers, options, more)))
    return [MoeLayer._of(family, number) for number in range(layers)]
