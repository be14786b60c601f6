#!/usr/bin/python3
"""Tests `scripts/update-results --keep`, which writes the rows of a study's runs. Usage: update_results_test.py ROOT

The runs and the study's results.json are made up here.
"""
import json
import os
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

    def keep(self):
        runs = os.path.join(self.folder.name, "runs")
        return subprocess.run([os.path.join(ROOT, "scripts/update-results"), "--keep", STUDY, runs, self.rows],
                              capture_output=True, text=True, check=False)

    def kept(self):
        done = self.keep()
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.rows, encoding="utf-8") as file:
            return json.load(file)

    def refused(self, *words):
        done = self.keep()
        self.assertEqual(done.returncode, 1)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse(os.path.exists(self.rows))

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

    def test_needs_no_baseline(self):
        self.finish("softmax-seed-1-aa", 1.5)
        self.report(("softmax", 1, "bb"), baseline=None, baseline_bits_per_byte=None)
        self.assertNotIn("baseline", self.kept())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
