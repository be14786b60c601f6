#!/usr/bin/python3
"""Runs `penstock tokenize` on runs, corpora and a tokenizer of another program.

    tokenize_test.py PENSTOCK
"""

import json
import os

from shell import main


def tokenize(shell, *arguments):
    return json.loads(shell.ok("tokenize", *arguments, "--json"))


def check_tokenize(shell):
    text = "the gate \u00e9\n"
    with open(os.path.join(shell.directory, "short.txt"), "w", encoding="utf-8") as file:
        file.write(text)
    ids = list(text.encode())
    for tokenizer in ("run", "corpus", "run/checkpoints/step-6", "corpus/tokenizer.json"):
        done = tokenize(shell, tokenizer, "--input", "short.txt")
        shell.expect("tokenize", done["ids"] == ids and done["tokens"] == len(ids), done)
    shell.expect("tokenize", shell.ok("tokenize", "run", "--text", "gate") == "103\n97\n116\n101\n")
    shell.expect("tokenize", tokenize(shell, "run", "--text", "")["ids"] == [])
    shell.expect("--decode", shell.ok("tokenize", "run", "--decode", "--text", "103 97 [116,101]") == "gate")
    with open(os.path.join(shell.directory, "ids.json"), "w") as file:
        json.dump(done, file)
    shell.expect("--decode", shell.ok("tokenize", "run", "--decode", "--input", "ids.json") == text)
    shell.mistake(2, ["--input"], "tokenize", "run")
    shell.mistake(2, ["MODEL_OR_TOKENIZER"], "tokenize")
    shell.mistake(2, ["--text"], "tokenize", "run", "--text", "a", "--input", "short.txt")
    shell.mistake(1, ["no-such"], "tokenize", "no-such", "--text", "a")
    shell.mistake(1, ["short.txt"], "tokenize", "short.txt", "--text", "a")
    shell.mistake(1, ["penstock: --text: token id 256"], "tokenize", "run", "--decode", "--text", "256")
    with open(os.path.join(shell.directory, "nul.txt"), "w") as file:
        file.write("gate\0")
    shell.mistake(1, ["penstock: nul.txt: the text holds a NUL byte at offset 4"], "tokenize", "run", "--input", "nul.txt")
    shell.mistake(1, ["abc"], "tokenize", "run", "--decode", "--text", "103 abc 97")


def check_foreign(shell):
    """A byte-level BPE in the format of other programs. Special tokens are recognised unless --plain is given."""
    vocab = {letter: number for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz</>")}
    vocab.update({"\u0120": 29, "th": 30, "\u0120g": 31})
    root = {"model": {"type": "BPE", "vocab": vocab, "merges": ["t h", ["\u0120", "g"]]},
            "added_tokens": [{"id": 32, "content": "</s>", "special": True}],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"}}
    os.makedirs(os.path.join(shell.directory, "foreign"))
    with open(os.path.join(shell.directory, "foreign/tokenizer.json"), "w") as file:
        json.dump(root, file)
    shell.expect("tokenize", tokenize(shell, "foreign", "--text", "the gate</s>")["ids"] ==
                 [30, 4, 31, 0, 19, 4, 32])
    shell.expect("--plain", tokenize(shell, "foreign", "--plain", "--text", "a</s>")["ids"] == [0, 26, 27, 18, 28])
    with open(os.path.join(shell.directory, "letters.txt"), "w") as file:
        file.write("the gate decides how much water each turbine gets " * 200)
    shell.ok("data", "prepare", "letters.txt", "--tokenizer", "foreign", "--out", "letters")
    shell.expect("prepare", tokenize(shell, "letters", "--text", "th")["ids"] == [30])
    shell.ok("train", "recipe.toml", "--out", "lettered", "--quiet", "--set", "data.corpus=letters")
    shell.expect("train", tokenize(shell, "lettered", "--text", "th")["ids"] == [30])
    shell.mistake(1, ["unknown tokenizer 'nowhere'", "unigram:N", "tokenizer.model", ".gguf", "model"], "data",
                  "prepare", "letters.txt", "--tokenizer", "nowhere", "--out", "other")
    root["pre_tokenizer"] = {"type": "BertPreTokenizer"}
    with open(os.path.join(shell.directory, "foreign/tokenizer.json"), "w") as file:
        json.dump(root, file)
    shell.mistake(1, ["BertPreTokenizer", "not implemented"], "tokenize", "foreign", "--text", "a")


def check_prepare_with_a_models_tokenizer(shell):
    """`data prepare --tokenizer` takes a run, a checkpoint or a GGUF file, and the model can read the corpus."""
    shell.ok("train", "recipe.toml", "--out", "top", "--quiet", "--set", "model.router.method=topk", "--set",
             "model.router.k=2")
    shell.ok("export", "top", "--format", "gguf", "--out", "top.gguf")
    for place in ("top", "top/checkpoints/step-6", "top.gguf"):
        shell.ok("data", "prepare", "text.txt", "--tokenizer", place, "--out", "with-it")
        loss = json.loads(shell.ok("eval", place, "--data", "with-it", "--json"))["loss"]
        shell.expect("prepare --tokenizer " + place, 0 < loss < 6, loss)
    said = shell.ok("data", "prepare", "--help")
    for place in ("tokenizer.json", "tokenizer.model", "merges.txt", "tokenizer.bin", ".gguf", "bpe:N"):
        shell.expect("prepare --help", place in said, said)


if __name__ == "__main__":
    main([check_tokenize, check_foreign, check_prepare_with_a_models_tokenizer])
