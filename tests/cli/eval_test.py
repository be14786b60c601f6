#!/usr/bin/python3
"""Runs `penstock eval` on a tiny run: its figures on a corpus, on a text and by experts per token, and one clear line
for each mistake.

    eval_test.py PENSTOCK
"""

import json
import math
import os
import shutil
import struct

from shell import main


def check_eval(shell):
    scores = json.loads(shell.ok("eval", "run", "--data", "corpus", "--json"))
    for key in ("loss", "perplexity", "bits_per_byte", "tokens", "by_domain"):
        shell.expect("eval", key in scores, key)
    folded = json.loads(shell.ok("eval", "run", "--data", "corpus", "--json", "--fold"))
    shell.expect("eval --fold", folded["folded"] and folded["loss"] == scores["loss"], folded["loss"])
    ngram = json.loads(shell.ok("eval", "--ngram", "3", "--data", "corpus", "--json"))
    shell.expect("eval --ngram", 0 < ngram["bits_per_byte"] < 8 and ngram["ngram"] == 3, ngram)
    shell.expect("eval --ngram", "3-gram" in shell.ok("eval", "--ngram", "3", "--data", "corpus"))
    shell.mistake(2, ["--ngram"], "eval", "--ngram", "7", "--data", "corpus")
    shell.mistake(2, ["--ngram", "--k"], "eval", "--ngram", "3", "--data", "corpus", "--k", "1")
    shell.mistake(1, ["--memory"], "eval", "run", "--data", "corpus", "--memory", "7")
    shell.mistake(2, ["MODEL"], "eval", "--data", "corpus")
    shell.mistake(2, ["MODEL"], "eval", "run", "--ngram", "3", "--data", "corpus")
    shell.mistake(1, ["missing"], "eval", "missing", "--data", "corpus")
    shell.mistake(2, ["--data"], "eval", "run")
    evaluate = ("eval", "run", "--data", "corpus")
    shell.mistake(2, ["--max-tokens: must be 0 or more, not -1"], *evaluate, "--max-tokens", "-1")
    shell.mistake(2, ["--max-tokens: must be", "or less"], *evaluate, "--max-tokens", "99999999999999999999")
    shell.mistake(2, ["--threads: must be 4096 or less"], *evaluate, "--threads", "100000000000")
    shell.mistake(2, ["--streams: must be -1 or more, not -2"], *evaluate, "--streams", "-2")
    for command in (evaluate, ("analyse", "run", "--data", "corpus")):
        shell.mistake(2, ["--split: ", "validation"], *command, "--split", "tests")
        shell.mistake(2, ["--sequence-length: must be 0 or more, not -1"], *command, "--sequence-length", "-1")
    usual = json.loads(shell.ok(*evaluate, "--streams", "-1", "--memory", "-1", "--sequence-length", "0", "--json"))
    shell.expect("-1 and 0 mean the default", usual == scores, usual)


def check_eval_text(shell):
    """The protocol `windows` scores every byte but the first once; llama.cpp's protocol scores half of each window."""
    text = "the gate decides how much water each turbine gets\n" * 3  # 150 bytes
    with open(os.path.join(shell.directory, "three.txt"), "w") as file:
        file.write(text)
    evaluate = ("eval", "run", "--text", "three.txt")
    whole = json.loads(shell.ok(*evaluate, "--json", "--per-token", "scores.jsonl"))
    shell.expect("eval --text", whole["tokens"] == 149 and whole["sequence_length"] == 16, whole)
    shell.expect("eval --text", whole["windows"] == 10 and whole["protocol"] == "windows", whole)
    with open(os.path.join(shell.directory, "scores.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    shell.expect("--per-token", [row["id"] for row in rows] == list(text.encode())[1:], rows[:3])
    shell.expect("--per-token", [row["window"] for row in rows] == [i // 16 for i in range(149)])
    total = sum(row["log_probability"] for row in rows)
    shell.expect("--per-token", abs(total - whole["log_probability_sum"]) < 1e-4, (total, whole))
    shell.expect("eval --text", abs(whole["loss"] * 149 + total) < 1e-4, whole)
    shell.expect("eval --text", abs(whole["bits_per_byte"] - whole["loss"] / math.log(2)) < 1e-9, whole)
    half = json.loads(shell.ok(*evaluate, "--json", "--protocol", "llama-perplexity", "--sequence-length", "10",
                               "--per-token", "half.jsonl"))
    shell.expect("llama-perplexity", half["tokens"] == 15 * 4, half)  # 6 to 9 of each 10
    with open(os.path.join(shell.directory, "half.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    shell.expect("llama-perplexity", [row["position"] for row in rows[:5]] == [6, 7, 8, 9, 6], rows[:5])
    shell.expect("llama-perplexity", abs(half["perplexity"] - math.exp(half["loss"])) < 1e-9, half)
    shell.expect("eval --text", "149 tokens scored" in shell.ok(*evaluate))
    other = json.loads(shell.ok(*evaluate, "--json", "--tokenizer", "corpus"))
    shell.expect("eval --tokenizer", other["loss"] == whole["loss"], other)
    shell.mistake(2, ["--text"], "eval", "run", "--data", "corpus", "--per-token", "x")
    shell.mistake(2, ["--text"], "eval", "run", "--data", "corpus", "--protocol", "windows")
    for option in (("--data", "corpus"), ("--split", "test"), ("--k", "1"), ("--max-tokens", "9"),
                   ("--isolate-documents",), ("--streams", "2")):
        shell.mistake(2, ["--text", option[0]], *evaluate, *option)
    shell.mistake(1, ["--protocol = 'llama'", "windows"], *evaluate, "--protocol", "llama")
    shell.mistake(1, ["no-such.txt"], "eval", "run", "--text", "no-such.txt")
    shutil.copytree(os.path.join(shell.directory, "run/checkpoints/step-6"), os.path.join(shell.directory, "bare"))
    for name in ("tokenizer.json", "manifest.json"):
        os.remove(os.path.join(shell.directory, "bare", name))
    shell.mistake(1, ["tokenizer", "--tokenizer"], "eval", "bare", "--text", "three.txt")
    same = json.loads(shell.ok("eval", "bare", "--text", "three.txt", "--tokenizer", "run", "--json"))
    shell.expect("eval --tokenizer", same["windows"] == 10, same)


def check_causality(shell):
    for name in ("gshard", "lory"):
        shell.expect("routers", "not causal: " in shell.ok("routers", name), name)
    for name in ("hash", "remoe", "relu", "thor"):
        shell.expect("routers", "not causal" not in shell.ok("routers", name), name)
    methods = json.loads(shell.ok("routers", "--json"))["methods"]
    shell.expect("routers", [name for name in methods if not methods[name]["causal"]] ==
                 ["gshard", "lory"], methods)
    shell.expect("routers", "chooses by thresholds outside training" in shell.ok("routers", "expert-threshold"))
    shell.ok("train", "recipe.toml", "--out", "chosen", "--quiet", "--set",
             "model.router.method=expert-choice")
    def scored(*options):
        return json.loads(shell.ok("eval", "chosen", "--data", "corpus", "--json", *options))
    with open(os.path.join(shell.directory, "chosen/finished.json"), encoding="utf-8") as file:
        shell.expect("finished.json", json.load(file)["by_thresholds"] is True)
    by_thresholds, as_trained = scored(), scored("--as-trained")
    shell.expect("eval", by_thresholds["causal"] and by_thresholds["by_thresholds"], by_thresholds)
    shell.expect("eval", not as_trained["causal"] and not as_trained["by_thresholds"], as_trained)
    shell.expect("eval", by_thresholds["loss"] != as_trained["loss"], as_trained)
    shell.expect("eval", scored("--fold")["loss"] == by_thresholds["loss"], by_thresholds)
    shell.expect("eval", "by thresholds: " in shell.ok("eval", "chosen", "--data", "corpus"))
    shell.expect("eval", "not causal: " in shell.ok("eval", "chosen", "--data", "corpus", "--as-trained"))
    shell.mistake(1, ["keeps no thresholds"], "eval", "run", "--data", "corpus", "--as-trained")
    shell.expect("eval", "not causal" not in shell.ok("eval", "run", "--data", "corpus"))


def check_eval_repeats_the_run(shell):
    # Routing with a capacity depends on the batch, random routing on the step, and attention on document borders.
    for name, settings in {"switch": ["train.micro_batch=2", "train.batch_sequences=4"],
                           "thor": ["train.batch_sequences=2"],
                           "topk": ["data.isolate_documents=true"]}.items():
        words = [word for setting in settings for word in ("--set", setting)]
        shell.ok("train", "recipe.toml", "--out", "again-" + name, "--quiet", "--set", "model.router.method=" + name,
                 *words)
        with open(os.path.join(shell.directory, "again-" + name, "finished.json")) as file:
            finished = json.load(file)
        for split in ("validation", "test"):
            told = json.loads(shell.ok("eval", "again-" + name, "--data", "corpus", "--split", split, "--json"))
            shell.expect("eval " + name, abs(told["loss"] - finished[split]["loss"]) < 1e-6,
                         f"{split}: {told['loss']} {finished[split]['loss']}")
    # The final evaluation of a run may measure a part of each split. `eval` then measures the same part.
    shell.ok("train", "recipe.toml", "--out", "part", "--quiet", "--set", "train.final_eval_tokens=64")
    with open(os.path.join(shell.directory, "part", "finished.json")) as file:
        finished = json.load(file)
    last = ("eval", "part/checkpoints/step-6", "--data", "corpus", "--threads", "1", "--json")
    for split in ("validation", "test"):
        told = json.loads(shell.ok(*last, "--split", split))
        for key in ("loss", "bits_per_byte", "tokens", "by_domain", "active_by_layer"):
            shell.expect("eval of a part", told[key] == finished[split][key], f"{key}: {told} {finished[split]}")
        shell.expect("eval of a part", told["tokens"] == told["max_tokens"] == 64, told)
    whole = json.loads(shell.ok(*last, "--max-tokens", "0"))
    shell.expect("eval --max-tokens 0", whole["tokens"] > 64 and whole["max_tokens"] == 0, whole)
    shell.expect("eval of a part", "validation split, at most 64 tokens of it or one window, windows of 16" in shell.ok(*last[:-1]))
    shell.mistake(1, ["--k ','"], "eval", "run", "--data", "corpus", "--k", ",")
    shell.mistake(1, ["validation split", "too few for 700 streams"], "train", "recipe.toml", "--out", "streams", "--set",
                  "model.architecture=transformer-xl", "--set", "model.router.method=smoe", "--set", "model.router.k=2",
                  "--set", "train.eval_streams=700")
    shell.mistake(1, ["train.eval_sequence_length = 12", "segment_length = 8"], "train", "recipe.toml", "--out", "streams",
                  "--set", "model.router.method=lory", "--set", "model.router.lory.segment_length=8",
                  "--set", "train.eval_sequence_length=12", "--set", "train.eval_streams=2")


def check_eval_by_k(shell):
    shell.ok("train", "recipe.toml", "--out", "xl", "--quiet", "--set", "model.router.method=hyperrouter", "--set",
             "model.router.k=4", "--set", "model.architecture=transformer-xl")
    evaluate = ("eval", "xl", "--data", "corpus", "--max-tokens", "300")
    plain = json.loads(shell.ok(*evaluate, "--json"))
    scores = json.loads(shell.ok(*evaluate, "--json", "--k", "1,2,4", "--plot", "by-k.html"))
    points = scores.pop("by_k")
    shell.expect("eval --k", scores == plain, f"{scores} {plain}")
    shell.expect("eval --k", [point["k"] for point in points] == [1, 2, 4], points)
    for point in points:
        shell.expect("eval --k", list(point) == ["k", "loss", "perplexity", "bits_per_byte", "flops_per_token",
                                                 "tokens_per_second", "peak_memory_bytes"], point)
        shell.expect("eval --k", all(value > 0 for value in point.values()), point)
    shell.expect("eval --k", points[2]["loss"] == plain["loss"] and points[0]["loss"] != plain["loss"], points)
    page = open(os.path.join(shell.directory, "by-k.html")).read()
    shell.expect("eval --plot", '"by-k"' in page and '"by-flops"' in page and "src=" not in page)
    # If --k does not include the model's own k, the other figures of the answer are still those of its own k.
    other = json.loads(shell.ok(*evaluate, "--json", "--k", "2"))
    shell.expect("eval --k 2", other["loss"] == plain["loss"] and other["by_k"][0]["k"] == 2, other)
    shell.expect("eval --k", "  4* " in shell.ok(*evaluate, "--k", "1,4"))
    shell.mistake(1, ["--k: 5 is not from 1 to 4"], *evaluate, "--k", "1,5")
    shell.mistake(1, ["2 comes twice"], *evaluate, "--k", "2,2")
    shell.mistake(1, ["--k 'all'"], *evaluate, "--k", "all")
    shell.mistake(1, ["--plot", "--k"], *evaluate, "--plot", "x.html")
    shell.mistake(1, ["--plot", ".html"], *evaluate, "--k", "1", "--plot", "x.png")
    shell.mistake(1, ["--k", "'relu'"], "eval", "run", "--data", "corpus", "--k", "1")


def check_eval_by_active_experts(shell):
    """A ReLU-routed model evaluated at given mean numbers of active experts."""
    evaluate = ("eval", "run", "--data", "corpus")
    own = json.loads(shell.ok(*evaluate, "--json"))
    scores = json.loads(shell.ok(*evaluate, "--json", "--active-experts", "0.5,2,4"))
    points = scores["by_active_experts"]
    shell.expect("--active-experts", scores["loss"] == own["loss"] and scores["shift_tokens"] == own["tokens"] < 16384, scores)
    shell.expect("--active-experts", [point["active_experts"] for point in points] == [0.5, 2, 4], points)
    shell.expect("--active-experts", all(abs(point["reached"] / point["active_experts"] - 1) < 0.02 for point in points),
                 points)
    shell.expect("--active-experts", points[0]["flops_per_token"] < points[1]["flops_per_token"], points)
    table = shell.ok(*evaluate, "--active-experts", "2")
    shell.expect("--active-experts", "reached" in table and "shift" in table, table)
    shell.mistake(1, ["--active-experts: 5 is not above 0 and at most 4"], *evaluate, "--active-experts", "5")
    shell.mistake(1, ["--active-experts 'all'"], *evaluate, "--active-experts", "all")
    shell.ok("train", "recipe.toml", "--out", "run-topk", "--quiet", "--set", "model.router.method=topk")
    shell.mistake(1, ["--active-experts", "'topk'", "sign of their logits"], "eval", "run-topk", "--data", "corpus",
                  "--active-experts", "1")


def check_oracle_routing(shell):
    """The loss with the best experts for each token, as a lower bound."""
    shell.ok("train", "recipe.toml", "--out", "told", "--quiet", "--set", "model.router.method=topk")
    evaluate = ("eval", "told", "--data", "corpus", "--max-tokens", "256")
    own = json.loads(shell.ok(*evaluate, "--json"))
    told = json.loads(shell.ok(*evaluate, "--json", "--oracle-routing"))
    oracle = told.pop("oracle_routing")
    shell.expect("--oracle-routing", told == own, told)
    shell.expect("--oracle-routing", oracle["k"] == 1 and oracle["choices"] == 4, oracle)
    shell.expect("--oracle-routing", abs(oracle["own_loss"] - own["loss"]) < 1e-6, oracle)
    gaps = [layer["gap"] for layer in oracle["layers"]]
    shell.expect("--oracle-routing", gaps == sorted(gaps) and 0 < gaps[-1] == oracle["gap"], oracle)
    shell.expect("--oracle-routing", [layer["exact"] for layer in oracle["layers"]] == [True, False], oracle)
    shell.expect("--oracle-routing", "it knows the next token" in shell.ok(*evaluate, "--oracle-routing"))
    shell.ok("train", "recipe.toml", "--out", "behind", "--quiet", "--set", "model.router.method=topk", "--set",
             "model.layers=3", "--set", "model.moe.dense_layers=1")
    behind = ("eval", "behind", "--data", "corpus", "--max-tokens", "256", "--oracle-routing")
    layers = json.loads(shell.ok(*behind, "--json"))["oracle_routing"]["layers"]
    shell.expect("layers behind a dense one", [(layer["layer"], layer["model_layer"]) for layer in layers] == [(1, 2), (0, 1)], layers)
    table = shell.ok(*behind).partition("changed\n")[2].splitlines()
    shell.expect("layers behind a dense one", [row.split()[0] for row in table[:2]] == ["2", "1"], table)
    shell.mistake(1, ["--oracle-routing", "'relu'"], "eval", "run", "--data", "corpus", "--oracle-routing")


def plant_nan(path, tensor):
    """Writes a NaN into the middle of a float32 tensor of a .safetensors file."""
    with open(path, "r+b") as file:
        size, = struct.unpack("<Q", file.read(8))
        begin, end = json.loads(file.read(size))[tensor]["data_offsets"]
        file.seek(8 + size + begin + (end - begin) // 8 * 4)
        file.write(struct.pack("<f", float("nan")))


def check_nan_weights(shell):
    model = os.path.join(shell.directory, "model")
    shutil.copytree(os.path.join(shell.directory, "run/checkpoints/step-6"), model)
    os.remove(os.path.join(model, "manifest.json"))  # without checksums, the damage is not detected on opening
    shell.ok("eval", "model", "--data", "corpus")
    tensor = "model.layers.1.self_attn.q_proj.weight"
    plant_nan(os.path.join(model, "model.safetensors"), tensor)
    for form in ((), ("--json",)):
        shell.mistake(1, ["model.safetensors", tensor, "NaN"], "eval", "model", "--data", "corpus", *form)


if __name__ == "__main__":
    main([check_eval, check_eval_text, check_causality, check_eval_repeats_the_run, check_eval_by_k,
          check_eval_by_active_experts, check_oracle_routing, check_nan_weights])
