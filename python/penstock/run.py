"""Runs, studies, conversions: what the program's commands of the same names do."""
import json
import os
import sys
from typing import Any, Callable, Dict, List, Optional, Union

from . import _core
from .model import Model, Path, load


def _progress(progress):
    return sys.stderr.isatty() if progress is None else bool(progress)


class Run:
    """A run directory."""

    def __init__(self, path: Path):
        self.path = os.fspath(path)

    @property
    def finished(self) -> bool:
        """Whether it has come to its end."""
        return os.path.exists(os.path.join(self.path, "finished.json"))

    @property
    def result(self) -> Dict[str, Any]:
        """What finished.json says: final losses, tokens, times."""
        with open(os.path.join(self.path, "finished.json"), encoding="utf-8") as file:
            return json.load(file)

    def metrics(self) -> List[Dict[str, Any]]:
        """The lines of metrics.jsonl, a dict each."""
        with open(os.path.join(self.path, "metrics.jsonl"), encoding="utf-8") as file:
            lines = file.read().split("\n")
        return [json.loads(line) for line in lines[:-1]]  # the last is empty, or torn by a kill

    def load(self, **options: Any) -> Model:
        """The best checkpoint's model; options as `penstock.load` takes them."""
        return load(self.path, **options)

    def __repr__(self):
        if not os.path.exists(os.path.join(self.path, "metrics.jsonl")):
            return f"<penstock.Run {self.path!r}: not begun>"
        lines = [line for line in self.metrics() if "loss" in line]
        last = f"step {lines[-1]['step']}, loss {lines[-1]['loss']:.4f}" if lines else "no step yet"
        return f"<penstock.Run {self.path!r}: {'finished' if self.finished else 'unfinished'}, {last}>"


def train(recipe: Union[Path, Dict[str, Any]], out: Optional[Path] = None, *, set: Optional[Dict[str, Any]] = None,
          on_step: Optional[Callable[[Dict[str, Any]], Any]] = None, resume: bool = False,
          progress: Optional[bool] = None, force: bool = False) -> Run:
    """Trains a model, in this process, and returns its `Run`.

    Args:
        recipe: a TOML file, or a recipe as nested dicts.
        out: the run directory; runs/NAME of a file NAME.toml unless given.
        set: keys to override: {"train.steps": 100}.
        on_step: called with each line of metrics.jsonl, a dict: one for each step, and for step 0 where the
            beginning is validated. What it returns does not count. Where it raises, the run is saved and ended, and
            the exception goes on; StopIteration ends the run without one.
        resume: go on with the run in the directory.
        progress: the program's progress line on standard error; where that is a terminal unless given.
        force: train also where memory seems too small for it.

    Ctrl-C saves the last complete step and raises KeyboardInterrupt; `resume=True` goes on, bit for bit. A second one
    ends the process at once, as it does the program."""
    if not isinstance(recipe, dict):
        recipe = os.fspath(recipe)
        if out is None:
            out = os.path.join("runs", os.path.splitext(os.path.basename(recipe))[0])
    elif out is None:
        raise TypeError("a recipe of dicts has no name: give out, the run directory")
    out = os.fspath(out)
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

    def __repr__(self):
        return self.text


def study(path: Path, out: Optional[Path] = None, *, set: Optional[Dict[str, Any]] = None, scale: str = "",
          results: Path = "", report_only: bool = False, retry_diverged: bool = False,
          progress: Optional[bool] = None, force: bool = False) -> Study:
    """Trains the variants and seeds of a study file that are not finished yet, measures them, and returns a `Study`.

    The arguments are the options of `penstock study`. Runs are trained one after another."""
    return Study(*_core.run_study(os.fspath(path), "" if out is None else os.fspath(out), set or {}, scale,
                                  os.fspath(results), report_only, retry_diverged, _progress(progress), force))


def upcycle(dense: Path, out: Path, *, method: str = "router-upcycling", router: Optional[Dict[str, Any]] = None,
            seed: int = 1, **options: Any) -> str:
    """Makes an MoE of the dense model (a directory or a run), and returns its path.

    Args:
        options: experts, k, start, granularity, calibration and the other keys of a study's `upcycle`
            (docs/upcycling.md).
        router: of model.router, over the method's: {"load-balance": {"coefficient": 0}}.
    """
    return _core.upcycle(os.fspath(dense), os.fspath(out), {"method": method, **options}, router or {}, seed)


def export(model: Path, out: Path, *, format: str, architecture: str = "", dtype: str = "", sample: Path = "",
           check_tokens: int = 256, tokenizer: bool = True, fit_bias: bool = False) -> Dict[str, Any]:
    """Writes the model for other programs and returns the certificate, a dict.

    Args:
        format: "hf", a Hugging Face directory, or "gguf", a file for llama.cpp.
        sample: a text file or a corpus to measure the file on; a sentence of Penstock's unless given.

    Raises NotPortableError, whose text says why, where no architecture computes what the model computes."""
    return _core.export(os.fspath(model), os.fspath(out), format, architecture, dtype, os.fspath(sample),
                        check_tokens, tokenizer, fit_bias)
