"""Runs, studies and conversions. Each function does the same as the program's command of its name."""
import json
import os
import sys
from typing import Any, Callable, Dict, List, Optional, Union

from . import _core, notebook
from .model import Model, Path, load


def _progress(progress):
    return sys.stderr.isatty() if progress is None else bool(progress)


class Run:
    """A run directory."""

    def __init__(self, path: Path):
        self.path = os.fspath(path)

    @property
    def finished(self) -> bool:
        """Whether the run has ended and written finished.json."""
        return os.path.exists(os.path.join(self.path, "finished.json"))

    @property
    def result(self) -> Dict[str, Any]:
        """The content of finished.json, with final losses, tokens and times."""
        with open(os.path.join(self.path, "finished.json"), encoding="utf-8") as file:
            return json.load(file)

    def metrics(self) -> List[Dict[str, Any]]:
        """The lines of metrics.jsonl, as one dict a line."""
        with open(os.path.join(self.path, "metrics.jsonl"), encoding="utf-8") as file:
            lines = file.read().split("\n")
        return [json.loads(line) for line in lines[:-1]]  # the last line is empty, or cut off by a kill

    def load(self, **options: Any) -> Model:
        """Opens the model of the best checkpoint. The options are those of `penstock.load`."""
        return load(self.path, **options)

    def plot(self, key: str = "loss", *, ax: Any = None) -> Any:
        """Draws a value of metrics.jsonl over steps, for training and for validation; returns matplotlib's axes.

        Args:
            key: "loss", "active_experts", "lambda" or any other key whose value is a number.
            ax: axes to draw into, for example those of another run; default: the axes of a new figure.

        Raises ImportError if matplotlib is missing."""
        lines = self.metrics()
        steps = [(line["step"], line[key]) for line in lines if isinstance(line.get(key), (int, float))]
        validations = [(line["step"], line["validation"][key]) for line in lines
                       if isinstance(line.get("validation", {}).get(key), (int, float))]
        if not steps and not validations:
            raise _core.Error(f"no line of {os.path.join(self.path, 'metrics.jsonl')} has a number {key!r}")
        ax, name = notebook.axes(ax), os.path.basename(os.path.normpath(self.path))
        drawn = ax.plot(*zip(*steps), label=name)[0].get_color() if steps else None
        if validations:
            ax.plot(*zip(*validations), "o--", color=drawn, label=f"{name}, validation")
        ax.set(xlabel="step", ylabel=key)
        ax.legend()
        return ax

    def _last(self):
        """The last line of metrics.jsonl with a loss; None if there is no such line yet."""
        if not os.path.exists(os.path.join(self.path, "metrics.jsonl")):
            return None
        return next((line for line in reversed(self.metrics()) if "loss" in line), None)

    def _repr_html_(self):
        line = self._last() or {}
        validation = self.result.get("validation", {}) if self.finished else {}

        def number(value, form):
            return None if value is None else format(value, form)

        return notebook.table(f"penstock.Run {self.path}", {
            "state": "finished" if self.finished else "unfinished" if line else "not begun",
            "step": line.get("step"), "loss": number(line.get("loss"), ".4f"),
            "experts per token": number(line.get("active_experts"), ".2f"),
            "validation loss": number(validation.get("loss"), ".4f")})

    def __repr__(self):
        if not os.path.exists(os.path.join(self.path, "metrics.jsonl")):
            return f"<penstock.Run {self.path!r}: not begun>"
        line = self._last()
        last = f"step {line['step']}, loss {line['loss']:.4f}" if line else "no step yet"
        return f"<penstock.Run {self.path!r}: {'finished' if self.finished else 'unfinished'}, {last}>"


def train(recipe: Union[Path, Dict[str, Any]], out: Optional[Path] = None, *, set: Optional[Dict[str, Any]] = None,
          on_step: Optional[Callable[[Dict[str, Any]], Any]] = None, resume: bool = False,
          progress: Optional[bool] = None, force: bool = False) -> Run:
    """Trains a model, in this process, and returns its `Run`.

    Args:
        recipe: a TOML file, or a recipe as nested dicts.
        out: the run directory; default, also for "": runs/NAME for a file NAME.toml.
        set: keys to override: {"train.steps": 100}, or {"train": {"steps": 100}}, which leaves the others of [train].
        on_step: called with each line of metrics.jsonl as a dict. There is a line for each step, and one for step 0
            if the initial model is validated. The return value is ignored. If the callback raises an exception, the
            run is saved and ended, and the exception is raised again. StopIteration ends the run without an exception.
        resume: continues the run in the directory.
        progress: whether a progress line is shown on standard error; default: if standard error is a terminal.
        force: trains even if memory seems too small for the run.

    Ctrl-C saves the last complete step and raises KeyboardInterrupt. `resume=True` then continues the run, bit for
    bit. A second Ctrl-C ends the process at once, as with the program."""
    out = "" if out is None else os.fspath(out)
    if not isinstance(recipe, dict):
        recipe = os.fspath(recipe)
        out = out or os.path.join("runs", os.path.splitext(os.path.basename(recipe))[0])
    elif not out:
        raise TypeError("a recipe of dicts has no name: give out, the run directory")
    _core.train(recipe, out, set or {}, on_step, resume, _progress(progress), force)
    return Run(out)


class Study:
    """A study's results: `rows`, a dict for each finished run, and `text`, the table that the program prints."""

    def __init__(self, path, results, text):
        self.path, self.results, self.text = path, results, text

    @property
    def rows(self) -> List[Dict[str, Any]]:
        """One dict for each finished run."""
        return self.results["rows"]

    def plot(self, *, ax: Any = None) -> Any:
        """Draws the validation loss of each run by variant, and each variant's mean; returns matplotlib's axes.

        Raises ImportError if matplotlib is missing."""
        losses: Dict[str, List[float]] = {}
        for row in self.rows:
            if row.get("validation"):
                losses.setdefault(row["variant"], []).append(row["validation"]["loss"])
        ax = notebook.axes(ax)
        for place, of_variant in enumerate(losses.values()):
            ax.plot([place] * len(of_variant), of_variant, "o", color="C0", alpha=0.6)
            ax.plot([place - 0.2, place + 0.2], [sum(of_variant) / len(of_variant)] * 2, color="C1")
        ax.set_xticks(range(len(losses)))
        ax.set_xticklabels(losses, parse_math=False)
        ax.set(ylabel="validation loss", title="each run, and the mean of a variant")
        return ax

    def _repr_html_(self):
        return notebook.preformatted(self.text)

    def __repr__(self):
        return self.text


def study(path: Path, out: Optional[Path] = None, *, set: Optional[Dict[str, Any]] = None, scale: str = "",
          results: Path = "", report_only: bool = False, retry_diverged: bool = False,
          progress: Optional[bool] = None, force: bool = False) -> Study:
    """Trains the unfinished runs of a study file, one after another, measures all runs, and returns a `Study`.

    The arguments are the options of `penstock study`."""
    return Study(*_core.run_study(os.fspath(path), "" if out is None else os.fspath(out), set or {}, scale,
                                  os.fspath(results), report_only, retry_diverged, _progress(progress), force))


def upcycle(dense: Path, out: Path, *, method: str = "router-upcycling", router: Optional[Dict[str, Any]] = None,
            seed: int = 1, force: bool = False, **options: Any) -> str:
    """Converts the dense model (a directory or a run) to an MoE, and returns the MoE's path.

    Args:
        options: experts, k, start, granularity, calibration and the other keys of a study's `upcycle`
            (docs/upcycling.md).
        router: keys of model.router that override the method's: {"load-balance": {"coefficient": 0}}.
        force: converts even if memory or the disk seems too small for the MoE.
    """
    return _core.upcycle(os.fspath(dense), os.fspath(out), {"method": method, **options}, router or {}, seed, force)


def export(model: Path, out: Path, *, format: str, architecture: str = "", dtype: str = "", sample: Path = "",
           check_tokens: int = 256, tokenizer: bool = True, fit_bias: bool = False,
           importance_tokens: int = 0) -> Dict[str, Any]:
    """Writes the model in a format of other programs and returns the certificate, a dict.

    Args:
        format: "hf", a Hugging Face directory, or "gguf", a file for llama.cpp.
        sample: a text file or a corpus on which the written file is measured; default: a built-in sentence.
        importance_tokens: number of tokens of `sample` over which the model runs first. The rounding errors of q4_k
            and q6_k are then weighted by the mean squares of each weight's inputs. Needs `sample`. 0: equal weights.

    Raises NotPortableError if no architecture of the format computes what the model computes. Its text says why."""
    options = {"format": format, "check_tokens": check_tokens, "with_tokenizer": tokenizer, "fit_bias": fit_bias,
               "importance_tokens": importance_tokens}
    options.update((key, word) for key, word in (("architecture", architecture), ("dtype", dtype)) if word)
    return _core.export(os.fspath(model), os.fspath(out), os.fspath(sample), options)
