#!/usr/bin/env python3
"""Compares models of the Python package with those of the program and of C++ (numbers.cpp), bit for bit.

    models_test.py BUILD SOURCE [unittest's arguments]

Exits with 77 (skipped) if the package is not built."""
import copy
import json
import os
import pickle
import subprocess

from fixture import BUILD, Fixture, main, read_tensors, run_program
import numpy as np
import penstock
import torch


class Models(Fixture):
    def test_logits_are_those_of_cpp(self):
        model = penstock.load("run")
        subprocess.run([os.path.join(BUILD, "bin", "python_numbers"), "logits", model.path, "logits.safetensors"],
                       check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        wanted = read_tensors("logits.safetensors")["logits"]
        got = model.logits(torch.arange(24))
        self.assertTrue(torch.equal(got, wanted.reshape(got.shape)))
        self.assertEqual(model.logits([[1, 2, 3], [1, 2, 4]]).shape, (2, 3, 256))
        self.assertFalse(got.requires_grad)

    def test_losses_are_those_of_the_program(self):
        model = penstock.load("run")
        said = json.loads(run_program("eval", "run", "--data", "corpus", "--json", "--threads", "1"))
        got = model.eval("corpus")
        for key in ("loss", "bits_per_byte", "perplexity", "tokens", "by_domain", "load", "sequence_length"):
            self.assertEqual(got[key], said[key], key)
        test = json.loads(run_program("eval", "run", "--data", "corpus", "--split", "test", "--max-tokens", "64",
                                      "--json", "--threads", "1"))
        self.assertEqual(model.eval("corpus", split="test", max_tokens=64)["loss"], test["loss"])
        text = "line 33 of a small text, squared 7 and on to line 34 of it\n"
        with open("little.txt", "w", encoding="utf-8") as file:
            file.write(text)
        said = json.loads(run_program("eval", "run", "--text", "little.txt", "--sequence-length", "16", "--json",
                                      "--threads", "1"))
        got = model.eval(text=text, sequence_length=16)
        for key in ("loss", "bits_per_byte", "perplexity", "tokens", "windows"):
            self.assertEqual(got[key], said[key], key)
        self.assertEqual(got["log_probabilities"].shape, got["ids"].shape)
        # The model's logits give the same log-probabilities for the first window.
        ids = torch.tensor(model.encode(text))[:17]
        said = torch.log_softmax(model.logits(ids[:-1]).double(), -1).gather(1, ids[1:, None])[:, 0]
        torch.testing.assert_close(got["log_probabilities"][:16], said, atol=1e-5, rtol=0)

    def test_copies_and_pickles_are_the_same_model(self):
        model = penstock.load("run", fold=True)
        self.assertIs(copy.deepcopy(model), model)
        self.assertIs(copy.copy(model), model)
        again = pickle.loads(pickle.dumps(model))
        self.assertIsNot(again, model)
        self.assertTrue(os.path.samefile(again.path, model.path))
        self.assertEqual(again.step, model.step)
        self.assertTrue(torch.equal(again.logits([1, 2, 3]), model.logits([1, 2, 3])))
        self.assertLess(len(pickle.dumps(model)), 2000)  # no weights

    def test_an_error_about_a_damaged_file_keeps_its_text(self):
        os.makedirs("damaged")
        with open("damaged/config.json", "wb") as file:
            file.write(b'{"model_type": "\xff"}')
        with self.assertRaisesRegex(penstock.Error, "damaged/config.json.*\ufffd"):
            penstock.load("damaged")

    def test_a_length_of_0_is_the_context(self):
        penstock.train("recipe.toml", out="short", set={"train.eval_sequence_length": 8}, progress=False)
        model = penstock.load("short")
        self.assertEqual([model.eval("corpus", sequence_length=length)["sequence_length"] for length in (None, 4, 0)],
                         [8, 4, 16])

    def test_traces_and_texts_are_those_of_the_program(self):
        model = penstock.load("run")
        text = "line 33 of it"
        run_program("trace", "run", "--text", text, "--out", "trace.safetensors", "--threads", "1")
        wanted, got = read_tensors("trace.safetensors"), model.trace(text)
        self.assertEqual(set(got), set(wanted))
        for name, tensor in wanted.items():
            self.assertTrue(torch.equal(got[name], tensor), name)
        said = json.loads(run_program("generate", "run", "--prompt", "line", "--prompt", "square", "--tokens", "12",
                                      "--temperature", "0.9", "--seed", "5", "--json", "--threads", "1"))
        pieces = []
        done = model.generate(["line", "square"], max_tokens=12, temperature=0.9, seed=5,
                              on_text=lambda prompt, sample, piece: pieces.append((prompt, piece)))
        self.assertEqual([text.tokens for text in done], [text["tokens"] for text in said["completions"]])
        self.assertEqual([text.finish for text in done], [text["finish"] for text in said["completions"]])
        self.assertEqual("".join(piece for prompt, piece in pieces if prompt == 1), done[1].text)
        self.assertEqual(model.generate(model.encode("line"), max_tokens=4).tokens,
                         model.generate("line", max_tokens=4).tokens)
        self.assertEqual(model.decode(model.encode("naïve")), "naïve")
        self.assertEqual(len(model.generate("a", max_tokens=1, samples=3, temperature=1.0)), 3)
        self.assertEqual(model.generate("line", max_tokens=12, temperature=1.0, min_p=1.0).tokens,
                         model.generate("line", max_tokens=12).tokens)
        for penalty in ("frequency_penalty", "presence_penalty"):
            tokens = model.generate("line", max_tokens=12, **{penalty: 1e6}).tokens
            self.assertEqual(len(set(tokens)), len(tokens))
        self.assertIn("remoe", repr(model))
        self.assertIn("4 tokens", repr(model.generate("line", max_tokens=4)))

    def test_ids_are_whole_numbers_of_any_library(self):
        model, ids = penstock.load("run"), [65, 66]
        wanted = model.generate(ids, max_tokens=4).tokens
        for same in (tuple(ids), np.array(ids), list(np.array(ids)), torch.tensor(ids), list(torch.tensor(ids))):
            self.assertEqual(model.generate(same, max_tokens=4).tokens, wanted)
            self.assertEqual(model.decode(same), "AB")
        self.assertEqual(len(model.generate([np.array(ids), torch.tensor([65])], max_tokens=1)), 2)
        for wrong in ([65.5], torch.tensor([65.0]), [[65]], torch.tensor([[65]]), b"AB", None, 65, {"a": 1}):
            with self.assertRaisesRegex(penstock.Error, "token ids are"):
                model.trace(wrong)
        for call in (model.decode, lambda given: model.generate([[65], given])):
            with self.assertRaisesRegex(penstock.Error, "^token ids are whole numbers"):
                call([65.5])
        with self.assertRaisesRegex(penstock.Error, "token ids are a list or a tensor"):
            model.decode("65")

    def test_mistakes(self):
        with self.assertRaisesRegex(penstock.Error, "no such folder"):
            penstock.load("nowhere")
        model = penstock.load("run")
        with self.assertRaisesRegex(penstock.Error, "0 to 255"):
            model.logits([256])
        with self.assertRaisesRegex(penstock.Error, r"not 'a text'; encode\(\) makes them of a text$"):
            model.logits("a text")
        with self.assertRaisesRegex(penstock.Error, "give more text"):
            model.eval(text="a")
        with self.assertRaises(TypeError):
            model.eval()
        with self.assertRaisesRegex(penstock.Error, "temperature"):
            model.generate("a", temperature=-1.0)
        for options, words in (({"sequence_length": -1}, "^sequence_length = -1 is out of range"),
                               ({"max_tokens": -1}, "^max_tokens = -1 is out of range"),
                               ({"split": "zzz"}, "^split = 'zzz' is not one of: train")):
            with self.assertRaisesRegex(penstock.Error, words):
                model.eval("corpus", **options)
        with self.assertRaisesRegex(penstock.Error, "^sequence_length = -1 is out of range"):
            model.eval(text="a b c", sequence_length=-1)
        for options in ({"split": "test"}, {"max_tokens": 5}):
            with self.assertRaisesRegex(TypeError, "is for a corpus"):
                model.eval(text="a b c", **options)
        with self.assertRaisesRegex(TypeError, "protocol is for a text"):
            model.eval("corpus", protocol="llama-perplexity")
        with self.assertRaisesRegex(penstock.Error, "^threads: must be 0 or more, not -1$"):
            penstock.set_threads(-1)
        for options, words in (({"seed": -1}, "^seed: must be 0 or more, not -1$"),
                               ({"seed": 1.5}, "^seed: must be a whole number, not '1.5'$"),
                               ({"max_tokens": 1.5}, "^max_tokens: must be a whole number"),
                               ({"max_tokens": 0}, "^max_tokens: must be 1 or more, not 0$"),
                               ({"temperature": "warm"}, "^temperature: must be a number"),
                               ({"stop": [1]}, "^stop: must be a str, not 1$")):
            with self.assertRaisesRegex(penstock.Error, words):
                model.generate("a", **options)
        for call in (model.generate, model.encode):
            with self.assertRaisesRegex(penstock.Error, "lone surrogate"):
                call("a\ud800")
        with self.assertRaisesRegex(penstock.Error, "^prompt: must be .* or less, not 1099511627776"):
            model.generate([2 ** 40])
        with self.assertRaises(ZeroDivisionError):
            model.generate("a", on_text=lambda *said: 1 / 0)


if __name__ == "__main__":
    main()
