"""Trained models: logits, text, losses, routing."""
import operator
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import torch

from . import _core, notebook

Path = Union[str, "os.PathLike[str]"]
Ids = Union[torch.Tensor, Sequence[int]]


def load(path: Path, *, tokenizer: Optional[Path] = None, fold: bool = False, as_trained: bool = False) -> "Model":
    """Opens the model at `path`: a directory, a llama2.c or GGUF file, or a run directory (its best checkpoint).

    The weights stay in the file, so the model takes as much memory as the file. The model can be measured and can
    generate text, but it cannot be trained. To train it further, give its path to a recipe (`train.init_from`).

    Args:
        tokenizer: a tokenizer that replaces the model's own.
        fold: whether each router is first folded into one matrix and bias.
        as_trained: whether experts choose among all tokens of a pass, as in training, instead of by their thresholds.
    """
    return _open(os.fspath(path), "" if tokenizer is None else os.fspath(tokenizer), fold, as_trained)


def _open(path: str, tokenizer: str, fold: bool, as_trained: bool, step: Optional[int] = None) -> "Model":
    return Model(_core.load(path, tokenizer, fold, as_trained), (tokenizer, fold, as_trained), step)


class Model:
    """A language model that `load` opened.

    Nothing changes a model, so a copy is the model itself. A pickle has the path and no weights: unpickling opens the
    model at its path again, which must be there.
    """

    def __init__(self, loaded, options, step=None):
        self._loaded, self._options, self._step = loaded, options, step

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        tokenizer, *others = self._options
        if os.path.exists(tokenizer):  # the other process may have another current directory
            tokenizer = os.path.abspath(tokenizer)
        return _open, (os.path.abspath(self.path), tokenizer, *others, self.step)

    @property
    def path(self) -> str:
        """The path of the model or checkpoint that was opened."""
        return self._loaded.path

    @property
    def step(self) -> Optional[int]:
        """The step of a run's checkpoint; None for any other model."""
        return self._loaded.step if self._step is None else self._step

    @property
    def config(self) -> Dict[str, Any]:
        """The model's config, as nested dicts."""
        return self._loaded.config

    def __repr__(self):
        config, (total, active) = self.config, self._loaded.parameters
        experts = ""
        if self._loaded.moe_layers:
            experts = (f", {self._loaded.moe_layers} layers of {config['moe']['experts']} experts, "
                       f"method={config['router']['method']!r}, k={config['router']['k']:g}")
        step = "" if self.step is None else f", step={self.step}"
        return (f"<penstock.Model {self.path!r}{step}: {total:,} parameters, {active:,} active, "
                f"d_model={config['d_model']}, layers={config['layers']}{experts}>")

    def _repr_html_(self):
        config, (total, active) = self.config, self._loaded.parameters
        entries = {"checkpoint of step": self.step, "parameters": f"{total:,}", "active parameters": f"{active:,}",
                   "width": config["d_model"], "layers": config["layers"]}
        if self._loaded.moe_layers:
            entries.update({"layers with experts": self._loaded.moe_layers, "experts": config["moe"]["experts"],
                            "method": config["router"]["method"], "experts per token": f"{config['router']['k']:g}"})
        return notebook.table(f"penstock.Model {self.path}", entries)

    def encode(self, text: str) -> List[int]:
        """The token ids of a text. They begin with the beginning-of-document token if the tokenizer adds one."""
        return self._loaded.encode(text)

    def decode(self, ids: Ids) -> str:
        """The text of token ids."""
        return self._loaded.decode(_ids(ids))

    def logits(self, ids: Union[Ids, Sequence[Sequence[int]]], *, k: int = 0) -> torch.Tensor:
        """Logits of the token after each id, without gradient: ids [T] or [B, T] -> [T, V] or [B, T, V].

        Texts may be longer than the model's context, which `trace` and `generate` refuse; the positions behind it are
        ones that the model did not see in training.

        `k`: experts per token; 0: the model's own number."""
        if isinstance(ids, str):
            raise _core.Error(f"token ids are a list or a tensor of whole numbers, not {ids!r:.100}; encode() makes them of a text")
        return self._loaded.logits(torch.as_tensor(ids), k)

    def trace(self, text_or_ids: Union[str, Ids]) -> Dict[str, torch.Tensor]:
        """The inputs, logits and gates of every router for each token, as a dict of tensors (`penstock trace`).

        The dict has layers.N.router_input [T, d], layers.N.logits [T, E] and layers.N.gates [T, E] for each layer N
        with experts, and tokens [T]."""
        ids = self.encode(text_or_ids) if isinstance(text_or_ids, str) else _ids(text_or_ids)
        return self._loaded.trace(ids)

    def plot_routing(self, text_or_ids: Union[str, Ids], *, layer: Optional[int] = None, ax: Any = None) -> Any:
        """Draws the gates of one layer, a column for each token and a row for each expert; returns matplotlib's axes.

        Args:
            layer: index of the layer; default: the first layer with experts.
            ax: axes to draw into; default: the axes of a new figure.

        Raises ImportError if matplotlib is missing."""
        trace = self.trace(text_or_ids)
        layers = sorted(int(name.split(".")[1]) for name in trace if name.endswith(".gates"))
        layer = layers[0] if layer is None and layers else layer
        if layer not in layers:
            raise _core.Error(f"layer {layer} has no experts; layers that have: {layers}")
        gates, pieces = trace[f"layers.{layer}.gates"], [self.decode([i]) for i in trace["tokens"].tolist()]
        ax = notebook.axes(ax, width=max(4.0, 0.25 * len(pieces) + 2), height=0.3 * gates.shape[1] + 1.5)
        image = ax.imshow(gates.T.numpy(), aspect="auto", cmap="viridis", vmin=0)
        ax.set_yticks(range(gates.shape[1]))
        ax.set_xticks(range(len(pieces)))
        ax.set_xticklabels([repr(piece)[1:-1] for piece in pieces], rotation=90, parse_math=False)
        ax.set(ylabel="expert", title=f"gates of layer {layer}")
        ax.figure.colorbar(image, ax=ax)
        return ax

    def generate(self, prompt: Union[str, Ids, Sequence[str], Sequence[Ids]] = "", *, max_tokens: int = 256,
                 samples: int = 1, temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0,
                 repetition_penalty: float = 1.0, frequency_penalty: float = 0.0, presence_penalty: float = 0.0,
                 seed: int = 0, stop: Union[str, Sequence[str]] = (),
                 on_text: Optional[Callable[[int, int, str], Any]] = None
                 ) -> Union[_core.Completion, List[_core.Completion]]:
        """Continues a prompt (a text, or ids) or a list of prompts. Returns a `Completion` for one prompt.

        For a list of prompts, or with `samples` above 1, it returns a list of them. It calls
        `on_text(prompt, sample, piece)` for each piece of text as soon as the piece is generated."""
        several = isinstance(prompt, (list, tuple)) and len(prompt) > 0 and not _is_id(prompt[0])
        prompts = [p if isinstance(p, str) else _ids(p) for p in (prompt if several else [prompt])]
        options = {"max_tokens": max_tokens, "samples": samples, "temperature": temperature, "top_k": top_k,
                   "top_p": top_p, "min_p": min_p, "repetition_penalty": repetition_penalty,
                   "frequency_penalty": frequency_penalty, "presence_penalty": presence_penalty, "seed": seed,
                   "stop": [stop] if isinstance(stop, str) else list(stop)}
        found = self._loaded.generate(prompts, options, on_text)
        return found if several or samples > 1 else found[0]

    def eval(self, data: Optional[Path] = None, *, text: Optional[str] = None, split: Optional[str] = None,
             sequence_length: Optional[int] = None, max_tokens: Optional[int] = None,
             protocol: Optional[str] = None) -> Dict[str, Any]:
        """Loss, perplexity and bits per byte, as a dict, on a corpus directory (`data`) or on a text.

        A corpus takes `split` (default: "validation") and `max_tokens` (0: all). A text takes `protocol`: "windows"
        (default) or "llama-perplexity". On a corpus, settings that are not given are those of the evaluation at the
        end of the model's run. A `sequence_length` of 0 means the model's context length. For a text this is also the
        default. For a text, the dict also has `tokens`, the number N of scored tokens, and their `log_probabilities`
        [N] and `ids` [N]."""
        if (data is None) == (text is None):
            raise TypeError("give either data, a corpus directory, or text")
        of_corpora, of_texts = {"split": split, "max_tokens": max_tokens}, {"protocol": protocol}
        for name, value in (of_corpora if data is None else of_texts).items():
            if value is not None:
                raise TypeError(f"{name} is for {'a corpus' if data is None else 'a text'}; leave it out")
        options = {**of_corpora, "sequence_length": sequence_length}
        options = {name: value for name, value in options.items() if value is not None}
        if data is not None:
            return self._loaded.eval_corpus(os.fspath(data), options)
        return self._loaded.eval_text(text, options, protocol or "windows")


def _is_id(value):
    """Whether the value is one whole number, of Python, NumPy or torch."""
    return hasattr(value, "__index__") and getattr(value, "ndim", 0) == 0


def _ids(ids):
    values = ids.tolist() if hasattr(ids, "tolist") else ids
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise _core.Error(f"token ids are a list or a tensor [T] of whole numbers, not {ids!r}")
    try:
        return [operator.index(value) for value in values]
    except TypeError:
        raise _core.Error(f"token ids are whole numbers, one for each token; found {values!r:.100}") from None
