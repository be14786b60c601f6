#!/usr/bin/python3
"""Tests scripts/update-results: `--keep`, which writes the rows of a study's runs, and the tables of pairs in pages.
Usage: update_results_test.py ROOT

The runs, the study's results.json, the study's file, the rows and the page are made up here.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv.pop()
STUDY = "recipes/studies/question3-relu.toml"
BASELINE = {"baseline": "5-gram", "baseline_bits_per_byte": 2.25}


class Keep(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.rows = os.path.join(self.folder.name, "rows.json")

    def write(self, path, value):
        path = os.path.join(self.folder.name, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)

    def finish(self, run, loss):
        """Writes finished.json of a run with these losses in validation and test."""
        self.write(f"runs/{run}/finished.json", {"validation": {"loss": loss}, "flops": 7e12, "steps": 40, "test": {
            "loss": loss + 0.5, "bits_per_byte": loss + 1, "active_by_layer": [1, 2]}})

    def report(self, *runs, **values):
        """Writes results.json of runs given by variant, seed and hash."""
        self.write("results.json", {"rows": [{"variant": variant, "seed": seed, "config_hash": recipe}
                                             for variant, seed, recipe in runs], **values})

    def keep(self, study=STUDY):
        runs = os.path.join(self.folder.name, "runs")
        return subprocess.run([os.path.join(ROOT, "scripts/update-results"), "--keep", study, runs, self.rows],
                              capture_output=True, text=True, check=False)

    def kept(self, study=STUDY):
        done = self.keep(study)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.rows, encoding="utf-8") as file:
            return json.load(file)

    def refused(self, *words):
        done = self.keep()
        self.assertEqual(done.returncode, 1)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse(os.path.exists(self.rows))

    def reference(self, text, like=""):
        """The kept reference of a study with this text that is like a study with the text `like`."""
        for name, content in (("study.toml", text), ("like.toml", like)):
            with open(os.path.join(self.folder.name, name), "w", encoding="utf-8") as file:
                file.write(content)
        return self.kept(os.path.join(self.folder.name, "study.toml"))["reference"]

    def test_keeps_each_run_and_the_baseline(self):
        self.finish("softmax-seed-1-aa", 1.5)
        self.finish("softmax-seed-2-bb", 1.25)
        self.finish("relu-topk-seed-1-cc", 2)
        self.report(("softmax", 1, "aa"), ("softmax", 2, "bb"), ("relu-topk", 1, "cc"), **BASELINE)
        kept = self.kept()
        self.assertEqual(kept["rows"], {"softmax": {"1": [1.5, 2, 2.5, 7e12, 40, 1.5], "2": [1.25, 1.75, 2.25, 7e12, 40, 1.5]},
                                        "relu-topk": {"1": [2, 2.5, 3, 7e12, 40, 1.5]}})
        self.assertEqual(kept["baseline"], {"name": "5-gram", "bits_per_byte": 2.25})

    def test_refuses_runs_of_two_recipes(self):
        self.finish("softmax-seed-1-aa", 1.5)
        self.finish("softmax-seed-1-bb", 1.25)
        self.refused("softmax-seed-1-aa", "softmax-seed-1-bb", "Move")

    def test_does_not_count_an_unfinished_run_of_another_recipe(self):
        self.finish("softmax-seed-1-aa", 1.5)
        os.makedirs(os.path.join(self.folder.name, "runs/softmax-seed-1-bb"))
        self.assertEqual(list(self.kept()["rows"]), ["softmax"])

    def test_takes_the_baseline_only_of_these_runs(self):
        self.finish("softmax-seed-1-aa", 1.5)
        self.report(("softmax", 1, "bb"), **BASELINE)
        self.refused("results.json", "softmax-seed-1-aa", "penstock study")
        self.report(("softmax", 1, "aa"), ("softmax", 2, "dd"), **BASELINE)
        self.refused("results.json", "softmax-seed-2-dd")
        self.report(**BASELINE)
        self.refused("results.json", "softmax-seed-1-aa")

    def test_keeps_the_reference_of_the_study(self):
        self.finish("softmax-seed-1-aa", 1.5)
        variants = "[variants.b]\n[variants.a]\n"
        self.assertEqual(self.reference(variants), "b")
        self.assertEqual(self.reference("only = ['a']\n" + variants), "a")
        self.assertEqual(self.reference("reference = 'a'\n" + variants), "a")
        self.assertEqual(self.reference("like = 'like.toml'\n", "reference = 'a'\n" + variants), "a")

    def test_needs_no_baseline(self):
        self.finish("softmax-seed-1-aa", 1.5)
        self.report(("softmax", 1, "bb"), baseline=None, baseline_bits_per_byte=None)
        self.assertNotIn("baseline", self.kept())


STUDY_WITH_PAIRS = """
pairs = [
  {label = "warm − cold", first = ["a", "b"], second = ["c", "d"]}, {first = ["a", "b"], second = ["c"]},
  ["d", "a"], ["a", "unrun"],
]
[variants.a]
label = "A"
[variants.b]
label = "B"
[variants.c]
[variants.d]
label = "D"
[variants.unrun]
label = "not run"
"""
# Validation and test loss by variant and seed. Seed 3 of d and seed 4 of a are missing.
ROWS = {"a": {"1": [1.0, 2.0], "2": [1.5, 2.5], "3": [9.0, 9.0]}, "b": {"1": [2.0, 3.0], "2": [3.5, 4.5], "3": [7.0, 7.0]},
        "c": {"1": [1.0, 1.0], "2": [1.25, 1.25], "3": [6.0, 6.0]}, "d": {"1": [3.0, 1.0], "2": [2.75, 0.75], "4": [5.0, 5.0]}}


class Pairs(unittest.TestCase):
    """A repository of its own, with the script, one study, its rows and one page."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for script in ("update-results", "result_figures.py", "doc_pages.py"):
            self.write(f"scripts/{script}", "")
            shutil.copy(os.path.join(ROOT, "scripts", script), os.path.join(self.folder.name, "scripts", script))
        self.write("docs/results.md", "[page](results/page.md)")
        self.write("recipes/study.toml", STUDY_WITH_PAIRS)
        self.rows(ROWS)

    def write(self, path, text):
        path = os.path.join(self.folder.name, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def rows(self, rows, study="recipes/study.toml"):
        self.write("docs/results/rows.json", json.dumps(
            {"study": study, "reference": "a", "values": ["validation loss", "test loss"], "rows": rows}))

    def update(self, words):
        self.write("docs/results/page.md", f"Before.\n<!-- pairs rows.json {words} -->\nstale\n<!-- pairs end -->\nAfter.\n")
        return subprocess.run([os.path.join(self.folder.name, "scripts/update-results")],
                              capture_output=True, text=True, check=False)

    def lines(self, words):
        """The lines of the table with these words in its mark, without the two of its head."""
        done = self.update(words)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.folder.name, "docs/results/page.md"), encoding="utf-8") as file:
            page = file.read()
        self.assertTrue(page.startswith("Before.\n") and page.endswith("\n<!-- pairs end -->\nAfter.\n"), page)
        self.assertNotIn("stale", page)
        return [line for line in page.splitlines() if line.startswith("|")][2:]

    def refused(self, words, *said):
        done = self.update(words)
        self.assertEqual(done.returncode, 1)
        for one in said:
            self.assertIn(one, done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    # Halves of the 95 % intervals: 12.7062 (Student's t, one degree of freedom) times the two values' distance over 2, and
    # 4.3027 times the standard deviation over the root of 3.
    def test_takes_the_pairs_of_the_study(self):
        self.assertEqual(self.lines("study"), [
            "| warm − cold | 2 | +0.0000 ± 6.3531 | +2.0000 ± 6.3531 |",  # -0.5, 0.5; 1.5, 2.5
            "| A, B minus c | 3 | +1.2500 ± 1.8631 | +1.9167 ± 0.9487 |",  # 0.5, 1.25, 2; 1.5, 2.25, 2
            "| D minus A | 2 | +1.6250 ± 4.7648 | -1.3750 ± 4.7648 |",  # 2, 1.25; -1, -1.75
            "| A minus not run | 0 | – | – |"])

    def test_takes_single_variants_and_the_pairs_of_the_study(self):
        lines = self.lines("b:a study")
        self.assertEqual(len(lines), 5)
        self.assertEqual(lines[0], "| B minus A | 3 | +0.3333 ± 5.1712 | +0.3333 ± 5.1712 |")  # 1, 2, -2
        self.assertTrue(lines[1].startswith("| warm − cold | 2 |"))

    def test_takes_the_pairs_of_the_study_that_the_study_is_like(self):
        self.write("recipes/other.toml", 'like = "study.toml"\n[variants.b]\nlabel = "another B"\n')
        self.rows(ROWS, "recipes/other.toml")
        self.assertTrue(self.lines("study")[1].startswith("| A, another B minus c | 3 |"))
        self.write("recipes/other.toml", 'like = "study.toml"\npairs = [["c", "d"]]\n')
        self.assertEqual([line.split(" | ")[0] for line in self.lines("study")], ["| c minus D"])

    def test_gives_no_interval_for_one_seed(self):
        self.rows({name: {"1": runs["1"]} for name, runs in ROWS.items()})
        self.assertEqual(self.lines("study")[0], "| warm − cold | 1 | -0.5000 | +1.5000 |")

    def test_refuses_what_it_cannot_read(self):
        self.refused("a:none", "rows.json", "'none'")
        self.refused("studies", "rows.json", "'studies'", "FIRST:SECOND")
        self.write("recipes/study.toml", STUDY_WITH_PAIRS[STUDY_WITH_PAIRS.index("[variants.a]"):])
        self.refused("study", "recipes/study.toml", "no pairs")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
