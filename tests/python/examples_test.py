#!/usr/bin/env python3
"""Tests the parts of the Python package besides its functions: examples, tables and plots in notebooks, type stubs and
docstrings.

    examples_test.py BUILD SOURCE [unittest's arguments]

Exits with 77 (skipped) if the package is not built."""
import ast
import os
import re
import subprocess
import sys
import unittest
import unittest.mock

from fixture import BUILD, SOURCE, Fixture, main
import penstock
import penstock._core
import torch


class Examples(Fixture):
    def run_example(self, name, *arguments):
        done = subprocess.run([sys.executable, os.path.join(SOURCE, "examples", "python", name), *arguments],
                              capture_output=True, text=True, timeout=300,
                              env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_an_moe_in_a_gpt(self):
        lines = self.run_example("moe_gpt.py", "text.txt", "--steps", "40").splitlines()
        first, last = (float(re.search(r"loss ([\d.]+)", line)[1]) for line in (lines[0], lines[-1]))
        self.assertLess(last, first - 1)
        for method in ("hash", "smoe-dropout", "lory"):
            self.run_example("moe_gpt.py", "text.txt", "--steps", "2", "--method", method)

    def test_a_balancer_of_ones_own(self):
        said = self.run_example("own_balancer.py", "corpus", "own", "--steps", "2")
        self.assertEqual([line.split()[0] for line in said.splitlines()], ["none", "load-balance", "recent-load"])
        self.assertIn("recent_load_worst", penstock.Run("own/recent-load").metrics()[-1])

    def test_the_rows_of_a_study(self):
        with open("study.toml", "w", encoding="utf-8") as file:
            file.write('name = "small"\nbase = "recipe.toml"\nseeds = [1, 2]\n[variants.remoe]\n')
        study = penstock.study("study.toml", out="rows", set={"train.steps": 2}, progress=False)
        said = self.run_example("study_table.py", "rows/results.json")
        mean = sum(row["validation"]["loss"] for row in study.rows) / 2
        self.assertRegex(said, f"remoe +2 +{mean:.4f}" if "validation loss" in said else "remoe")


class Notebook(Fixture):
    def drawing(self):
        """Skips the test if matplotlib is missing."""
        try:
            import matplotlib
        except ImportError:
            self.skipTest("missing package: python3-matplotlib")
        matplotlib.use("Agg")

    def small_study(self):
        rows = [{"variant": "a<b", "seed": 1, "validation": {"loss": 2.0}}, {"variant": "a<b", "seed": 2, "validation": {"loss": 3.0}},
                {"variant": "diverged", "seed": 1, "validation": None}, {"variant": "c", "seed": 1, "validation": {"loss": 1.0}}]
        return penstock.Study("study", {"rows": rows}, "a<b  2.5")

    def test_html(self):
        run = penstock.Run("run")
        self.assertIn("finished", run._repr_html_())
        self.assertIn(f"{run.result['validation']['loss']:.4f}", run._repr_html_())
        self.assertIn("not begun", penstock.Run("a<b")._repr_html_())
        self.assertIn("penstock.Run a&lt;b", penstock.Run("a<b")._repr_html_())
        shown = run.load()._repr_html_()
        for part in ("remoe", "step-6", "<th style='text-align:left'>experts</th><td style='text-align:left'>4</td>"):
            self.assertIn(part, shown)
        self.assertIn("a&lt;b  2.5", self.small_study()._repr_html_())

    def test_without_matplotlib(self):
        with unittest.mock.patch.dict(sys.modules, {"matplotlib": None}):
            for plot in (penstock.Run("run").plot, self.small_study().plot,
                         lambda: penstock.load("run").plot_routing("line")):
                with self.assertRaisesRegex(ImportError, "python3-matplotlib"):
                    plot()
        with self.assertRaisesRegex(penstock.Error, "no line .* has a number 'nothing'"):
            penstock.Run("run").plot("nothing")
        with self.assertRaisesRegex(penstock.Error, r"layer 7 has no experts; layers that have: \[0, 1\]"):
            penstock.load("run").plot_routing("line", layer=7)

    def test_a_run_is_drawn(self):
        self.drawing()
        run = penstock.Run("run")
        training, validation = run.plot().lines
        lines = run.metrics()
        self.assertEqual(list(training.get_ydata()), [line["loss"] for line in lines if "loss" in line])
        self.assertEqual(list(validation.get_xdata()), [0, 3, 6])
        axes = run.plot("lambda")
        self.assertEqual((len(axes.lines), axes.get_ylabel()), (1, "lambda"))
        self.assertIs(run.plot(ax=axes), axes)
        self.assertEqual(len(axes.lines), 3)

    def test_a_study_is_drawn(self):
        self.drawing()
        axes = self.small_study().plot()
        self.assertEqual([list(line.get_ydata()) for line in axes.lines], [[2.0, 3.0], [2.5, 2.5], [1.0], [1.0, 1.0]])
        self.assertEqual([label.get_text() for label in axes.get_xticklabels()], ["a<b", "c"])

    def test_routing_is_drawn(self):
        self.drawing()
        model = penstock.load("run")
        axes = model.plot_routing("$a$\n", layer=1)
        gates = model.trace("$a$\n")["layers.1.gates"]
        self.assertTrue((torch.as_tensor(axes.images[0].get_array()) == gates.T).all())
        self.assertEqual([label.get_text() for label in axes.get_xticklabels()], ["$", "a", "$", "\\n"])
        axes.figure.savefig("routing.png")
        self.assertEqual(model.plot_routing("a").get_title(), "gates of layer 0")


class Stubs(unittest.TestCase):
    def test_stubs_name_what_there_is(self):
        folder = os.path.dirname(penstock.__file__)
        self.assertTrue(os.path.exists(os.path.join(folder, "py.typed")))
        with open(os.path.join(folder, "_core.pyi"), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        named = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        there = {name for name in dir(penstock._core) if not name.startswith("__")}
        self.assertEqual(set(named), there)
        for name, node in named.items():
            thing = getattr(penstock._core, name)
            if isinstance(node, ast.ClassDef) and not issubclass(thing, BaseException):
                members = {item.name for item in node.body if isinstance(item, ast.FunctionDef)} | {
                    item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
                self.assertEqual(members,
                                 {member for member in vars(thing) if not member.startswith("_")}, name)
            elif isinstance(node, ast.FunctionDef):
                self.assertEqual([argument.arg for argument in node.args.args],
                                 re.findall(r"(\w+): ", thing.__doc__.split(") ->")[0]), name)

    def test_everything_public_says_what_it_is(self):
        for name in penstock.__all__:
            thing = getattr(penstock, name)
            if name.startswith("__"):
                continue
            self.assertTrue((thing.__doc__ or "").strip(), name)
            if callable(thing) and thing.__module__ != "penstock._core" and not isinstance(thing, type):
                self.assertIn("return", thing.__annotations__, name)
            if isinstance(thing, type) and thing.__module__ not in ("penstock", "penstock._core"):
                for member, value in vars(thing).items():
                    if not member.startswith("_") and (callable(value) or isinstance(value, property)) \
                            and member not in ("extra_repr", "training"):
                        self.assertTrue((getattr(value, "__doc__", "") or "").strip(), f"{name}.{member}")


if __name__ == "__main__":
    main()
