#!/usr/bin/env python3
"""Compares runs and studies of the Python package, and the models that it upcycles and exports, with those of the
program, bit for bit. Tests also how a run can be interrupted.

    runs_test.py BUILD SOURCE [unittest's arguments]

Exits with 77 (skipped) if the package is not built."""
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib

from fixture import BUILD, Fixture, main, read_tensors, run_program, stop_at
import penstock
import torch


class Runs(Fixture):
    def test_a_run_is_the_programs(self):
        lines = []
        penstock.set_threads(2)
        run = penstock.train("recipe.toml", out="mine", on_step=lines.append, progress=False)
        self.assertEqual(torch.get_num_threads(), 2)  # train() restores this number; the recipe has threads = 1
        run_program("train", "recipe.toml", "--out", "theirs", "--quiet")
        self.assertEqual([line["step"] for line in lines], list(range(0, 7)))
        self.assertEqual(lines, run.metrics())
        self.assertTrue(run.finished)

        def losses(path):
            return [(line["step"], line.get("loss"), line.get("validation", {}).get("loss"))
                    for line in penstock.Run(path).metrics()]

        self.assertEqual(losses("mine"), losses("theirs"))
        self.assertEqual([step for step, _, validation in losses("mine") if validation is not None], [0, 3, 6])
        mine, theirs = (read_tensors(f"{path}/checkpoints/step-6/model.safetensors") for path in ("mine", "theirs"))
        for name, tensor in theirs.items():
            self.assertTrue(torch.equal(mine[name], tensor), name)
        self.assertTrue(os.path.exists("mine/report.html"))
        self.assertIn("finished, step 6", repr(run))

    def test_recipes_of_dicts(self):
        recipe = {"model": {"vocab": 0, "d_model": 16, "layers": 2, "heads": 2, "d_ffn": 24, "moe.experts": 4,
                            "router.method": "remoe"},
                  "data": {"corpus": "corpus"},
                  "train": {"steps": 6, "batch_sequences": 2, "sequence_length": 16, "eval_every": 3},
                  "run.threads": 1}
        run = penstock.train(recipe, out="dicts", progress=False)
        self.assertEqual(run.result["validation"]["loss"], penstock.Run("run").result["validation"]["loss"])
        with self.assertRaises(TypeError):
            penstock.train(recipe)

    def test_recipes_of_numbers_in_tensors(self):
        values = {"train.steps": torch.tensor(2), "train.lr": torch.tensor(0.25, dtype=torch.float64)}
        penstock.train("recipe.toml", out="tensors", progress=False, set=values)
        with open("tensors/config.toml", "rb") as file:
            train = tomllib.load(file)["train"]
        self.assertEqual((train["steps"], train["lr"]), (2, 0.25))

    def test_nested_overrides_leave_other_keys(self):
        penstock.train("recipe.toml", out="nested", progress=False, set={"train": {"steps": 2, "lr": 0.25}})
        with open("recipe.toml", "rb") as file:
            before = tomllib.load(file)["train"]
        with open("nested/config.toml", "rb") as file:
            train = tomllib.load(file)["train"]
        self.assertEqual((train["steps"], train["lr"]), (2, 0.25))
        for key in "batch_sequences", "sequence_length", "eval_every":
            self.assertEqual(train[key], before[key], key)

    def test_recipes_of_values_that_cannot_be(self):
        circle = {}
        circle["model"] = circle
        deep = {}
        for _ in range(5000):
            deep = {"a": deep}
        for recipe, words in (({1: 2}, "^a key: must be a str, not 1$"),
                              ({"train": {2: 3}}, "^train: a key: must be a str, not 2$"),
                              ({"train": {"steps": 2 ** 63}}, "^train.steps: must be .* or less, not 9223372036854775808$"),
                              ({"train": {"lr": 10 ** 400}}, "^train.lr: must be .* or less"),
                              ({"model": 3}, "^model: expected a table, found an integer$"),
                              ({"data": {"corpus": b"corpus"}}, "^data.corpus: expected a bool.*bytes"),
                              ({"train.lr": torch.tensor([0.1, 0.2])}, "^train.lr: must be a number .*, not tensor"),
                              ({"data.corpus": "a\ud800"}, "^data.corpus: has a lone surrogate"),
                              ({"model": 3, "model.layers": 2}, "^'layers' is below a value"),
                              (circle, "^model.model.*nested deeper than 200 levels$"),
                              (deep, "^a.a.*nested deeper than 200 levels$"),
                              ({"a." * 5000 + "a": 1}, "nested deeper than 200 levels$")):
            with self.assertRaisesRegex(penstock.Error, words):
                penstock.train(recipe, out="values")
        with self.assertRaisesRegex(penstock.Error, "^set train.steps: must be .* or less"):
            penstock.train("recipe.toml", out="values", set={"train.steps": 2 ** 63})
        for given in {"train.steps": None}, {"train": {"steps": None}}:
            with self.assertRaisesRegex(penstock.Error, "^set train.steps: expected .*, found None; leave the key out$"):
                penstock.train("recipe.toml", out="values", set=given)
        self.assertFalse(os.path.exists("values"))

    def test_outputs_have_names(self):
        for out in (None, ""):
            with self.assertRaisesRegex(TypeError, "give out"):
                penstock.train({"train.steps": 1}, out=out)
        with self.assertRaisesRegex(penstock.Error, "^out: name what to write$"):
            penstock.train("recipe.toml", out="/")
        self.assertEqual(penstock.train("recipe.toml", out="", progress=False, set={"train.steps": 1}).path,
                         os.path.join("runs", "recipe"))
        with self.assertRaisesRegex(penstock.Error, "^out: has a NUL after 'cut', which no path may have$"):
            penstock.train("recipe.toml", out="cut\0off")
        self.assertFalse(os.path.exists("cut"))
        with self.assertRaisesRegex(penstock.Error, "^out: name what to write$"):
            penstock.upcycle("run", "")
        with self.assertRaisesRegex(penstock.Error, "^out: name what to write$"):
            penstock.export("run", "", format="hf")

    def test_a_callback_may_end_the_run(self):
        with self.assertRaises(ZeroDivisionError):
            penstock.train("recipe.toml", out="stopped", progress=False,
                           on_step=lambda line: 1 // (3 - line["step"]))
        with self.assertRaisesRegex(penstock.Error, "continue it with resume=True, or"):
            penstock.train("recipe.toml", out="stopped", progress=False)
        run = penstock.train("recipe.toml", out="stopped", progress=False, resume=True,
                             on_step=stop_at(5))
        self.assertFalse(run.finished)
        self.assertEqual(run.metrics()[-1]["step"], 5)
        run = penstock.train("recipe.toml", out="stopped", progress=False, resume=True)
        self.assertEqual(run.result["validation"]["loss"], penstock.Run("run").result["validation"]["loss"])

    def test_ctrl_c_saves(self):
        script = """if True:
            import os, signal, sys
            sys.path.insert(0, sys.argv[1])
            import penstock
            try:
                penstock.train("recipe.toml", out="interrupted", progress=False,
                               on_step=lambda line: line["step"] == 4 and os.kill(os.getpid(), signal.SIGINT))
            except KeyboardInterrupt as interrupt:
                print("interrupted:", interrupt)
                signal.raise_signal(signal.SIGINT)  # Python's own handler is back
            """
        done = subprocess.run([sys.executable, "-c", script, os.path.join(BUILD, "python")], capture_output=True,
                              text=True, timeout=120)
        self.assertIn("interrupted: interrupted: interrupted; ", done.stdout, done.stderr)
        self.assertIn("resume=True", done.stdout)
        self.assertEqual(done.returncode, -signal.SIGINT, done.stderr)
        self.assertEqual(os.listdir("interrupted/checkpoints").count("step-4"), 1)
        run = penstock.train("recipe.toml", out="interrupted", progress=False, resume=True)
        self.assertEqual(run.result["validation"]["loss"], penstock.Run("run").result["validation"]["loss"])

    def test_a_signal_from_outside_saves(self):
        script = """if True:
            import sys
            sys.path.insert(0, sys.argv[1])
            import penstock
            try:
                penstock.train("recipe.toml", out="outside", progress=False, set={"train.steps": 100000},
                               on_step=lambda line: print(line["step"], flush=True))
            except KeyboardInterrupt:
                print("interrupted")
            """
        last = before = ""
        with subprocess.Popen([sys.executable, "-c", script, os.path.join(BUILD, "python")], text=True,
                              stdout=subprocess.PIPE) as process:
            for line in process.stdout:
                if line == "3\n":
                    process.send_signal(signal.SIGINT)
                before, last = last, line
        self.assertEqual((last, process.returncode), ("interrupted\n", 0))
        self.assertTrue(os.path.isdir(f"outside/checkpoints/step-{before.strip()}"), before)

    def test_ctrl_c_ends_other_work(self):
        script = """if True:
            import os, signal, sys
            sys.path.insert(0, sys.argv[1])
            import penstock
            try:
                penstock.load("run").generate("line", max_tokens=100000, on_text=lambda *said:
                                              os.kill(os.getpid(), signal.SIGINT))
            except KeyboardInterrupt:
                print("interrupted")
            """
        done = subprocess.run([sys.executable, "-c", script, os.path.join(BUILD, "python")], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual((done.stdout, done.returncode), ("interrupted\n", 0), done.stderr)

    def test_other_threads_go_on_meanwhile(self):
        counted, training = [0], threading.Event()
        done = threading.Event()

        def count():
            training.wait()
            while not done.is_set():
                counted[0] += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        seen = []
        try:
            training.set()
            penstock.train("recipe.toml", out="threads", progress=False, set={"train.steps": 40},
                           on_step=lambda line: seen.append(counted[0]))
        finally:
            done.set()
            thread.join()
        # The thread also counts between the callbacks, while C++ trains.
        self.assertGreater(len(set(seen)), 10)

    def test_mistakes(self):
        with self.assertRaisesRegex(penstock.Error, "set train.stepz: .*did you mean 'steps'"):
            penstock.train("recipe.toml", out="wrong", set={"train.stepz": 3})
        with self.assertRaisesRegex(penstock.Error, "nothing.toml"):
            penstock.train("nothing.toml", out="wrong")
        with self.assertRaises(penstock.DivergedError):
            penstock.train("recipe.toml", out="diverged", progress=False, set={"train.lr": 1e30, "train.steps": 20,
                                                                              "train.clip": 0.0})

    def test_studies_upcycling_and_exports(self):
        with open("study.toml", "w", encoding="utf-8") as file:
            file.write('name = "small"\nbase = "recipe.toml"\nseeds = [1, 2]\n'
                       '[variants.remoe]\n[variants.topk]\nset = {"model.router.method" = "topk"}\n')
        study = penstock.study("study.toml", out="study", set={"train": {"steps": 2}}, progress=False)
        self.assertEqual([row["steps"] for row in study.rows], [2] * 4)
        self.assertEqual(sorted((row["variant"], row["seed"]) for row in study.rows),
                         [("remoe", 1), ("remoe", 2), ("topk", 1), ("topk", 2)])
        self.assertIn("validation loss", repr(study))
        with open("study/results.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file), study.results)
        penstock.train("recipe.toml", out="dense", progress=False, set={"model.router.method": "dense"})
        moe = penstock.upcycle("dense", "moe", method="vanilla", experts=4, k=2, force=True)
        run_program("upcycle", "dense", "--method", "vanilla", "--experts", "4", "--k", "2", "--out", "their-moe")
        mine, theirs = (read_tensors(f"{path}/model.safetensors") for path in (moe, "their-moe"))
        self.assertEqual(set(mine), set(theirs))
        for name, tensor in theirs.items():
            self.assertTrue(torch.equal(mine[name], tensor), name)
        certificate = penstock.export(moe, "moe-hf", format="hf")
        self.assertEqual(certificate["verdict"], "exact")
        with self.assertRaises(penstock.NotPortableError):
            penstock.export("run", "run.gguf", format="gguf")
        with self.assertRaisesRegex(penstock.Error, "is not one of: hf"):
            penstock.export(moe, "other", format="onnx")
        weighed = penstock.export(moe, "weighed.gguf", format="gguf", dtype="q4_k", sample="text.txt", check_tokens=16,
                                  importance_tokens=64)
        self.assertIn("over 64 tokens of text.txt", " ".join(weighed["notes"]))
        with self.assertRaisesRegex(penstock.Error, "importance_tokens: give the text"):
            penstock.export(moe, "other.gguf", format="gguf", dtype="q4_k", importance_tokens=64)
        with self.assertRaisesRegex(penstock.Error, "did you mean 'experts'"):
            penstock.upcycle("dense", "moe-2", expert=4)
        with self.assertRaisesRegex(penstock.Error, "^experts (= )?1"):
            penstock.upcycle("dense", "moe-2", experts=1)


if __name__ == "__main__":
    main()
