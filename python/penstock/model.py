"""Trained models: logits, text, losses, routing."""
import os

import torch

from . import _core


def load(path, *, tokenizer=None, fold=False, as_trained=False):
    """The model at `path`: a directory, a llama2.c or GGUF file, or a run directory (its best checkpoint).

    Its weights stay in the file, so that it takes the memory of the file; it is for measuring and generating. To
    train on from it, give its path to a recipe (`train.init_from`).

    Args:
        tokenizer: a tokenizer in place of the model's own.
        fold: whether each router is folded into one matrix and bias first.
        as_trained: whether experts that have thresholds choose among all tokens of a pass instead, as in training.
    """
    return Model(_core.load(os.fspath(path), "" if tokenizer is None else os.fspath(tokenizer), fold, as_trained))


class Model:
    """A language model that `load` opened."""

    def __init__(self, loaded):
        self._loaded = loaded

    @property
    def path(self):
        """Of the model or checkpoint that was opened."""
        return self._loaded.path

    @property
    def step(self):
        """Of a checkpoint; None for a model from elsewhere."""
        return self._loaded.step

    @property
    def config(self):
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

    def encode(self, text):
        """The ids of a text, with the beginning of a document where the model's texts have one."""
        return self._loaded.encode(text)

    def decode(self, ids):
        """The text of ids."""
        return self._loaded.decode(_ids(ids))

    def logits(self, ids, *, k=0):
        """Logits of what follows each id, without gradient: ids [T] or [B, T] -> [T, V] or [B, T, V].

        `k`: experts per token in place of the model's own number."""
        return self._loaded.logits(torch.as_tensor(ids), k)

    def trace(self, text_or_ids):
        """What every router sees and decides, token by token, as a dict of tensors (`penstock trace`).

        layers.N.router_input [T, d], layers.N.logits [T, E], layers.N.gates [T, E] for each layer N with experts,
        and tokens [T]."""
        ids = self.encode(text_or_ids) if isinstance(text_or_ids, str) else _ids(text_or_ids)
        return self._loaded.trace(ids)

    def generate(self, prompt="", *, max_tokens=256, samples=1, temperature=0.0, top_k=0, top_p=1.0, seed=0,
                 stop=(), on_text=None):
        """Continues a prompt (a text, or ids), or a list of prompts: a `Completion`, or a list of them.

        With `samples` above 1 a list, too. `on_text(prompt, sample, piece)` hears each piece of text as it comes."""
        several = isinstance(prompt, (list, tuple)) and len(prompt) > 0 and not isinstance(prompt[0], int)
        prompts = [p if isinstance(p, str) else _ids(p) for p in (prompt if several else [prompt])]
        options = {"max_tokens": max_tokens, "samples": samples, "temperature": temperature, "top_k": top_k,
                   "top_p": top_p, "seed": seed, "stop": [stop] if isinstance(stop, str) else list(stop)}
        found = self._loaded.generate(prompts, options, on_text)
        return found if several or samples > 1 else found[0]

    def eval(self, data=None, *, text=None, split="validation", sequence_length=None, max_tokens=None,
             protocol="windows"):
        """Loss, perplexity and bits per byte, as a dict, on a corpus directory (`data`) or on a text.

        A corpus is measured as the run that the model is of was measured at its end, but for what is given. Of a
        text, `tokens`, `log_probabilities` [N] and `ids` [N] of the scored tokens are given, too."""
        if (data is None) == (text is None):
            raise TypeError("give either data, a corpus directory, or text")
        if data is not None:
            return self._loaded.eval_corpus(os.fspath(data), split, sequence_length, max_tokens)
        return self._loaded.eval_text(text, sequence_length or 0, protocol)


def _ids(ids):
    return [int(i) for i in (ids.tolist() if hasattr(ids, "tolist") else ids)]
