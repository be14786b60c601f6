#!/usr/bin/python3
"""Compares scores with lm-eval's: its own model class, tokenizing and metrics, with stories260K computed by a plain
PyTorch forward pass, against `penstock eval --items` on the same rows.

    lm_eval_scores.py PENSTOCK CHECKOUT STORIES DATA [LIMIT [float64|float32 [TASK,TASK... [SHOTS]]]]

STORIES is the folder with stories260K.bin and tok512.bin; the rest as in lm_eval_requests.py, and python3-torch.
With float64 (the default) the harness's side is exact; float32 is what it would use, for its speed. Says for each task the largest difference of a log-likelihood and whether the accuracies are equal, and the
requests per second of both. Exits 1 where a log-likelihood is off by more than 1e-4 or an accuracy differs.
"""

import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import torch

import lm_eval_requests
from lm_eval_requests import Rows, Stub, import_harness, load_config, rows_of

TASKS = ("arc_easy", "arc_challenge", "boolq", "hellaswag", "lambada_openai", "piqa", "race", "openbookqa", "copa",
         "winogrande")


class Stories:
    """llama2.c's first format: a Llama with grouped heads, rotated in adjacent pairs."""

    def __init__(self, path, dtype):
        with open(path, "rb") as file:
            head = struct.unpack("<7i", file.read(28))
            self.data, self.at = torch.frombuffer(bytearray(file.read()), dtype=torch.float32).to(dtype), 0
        self.d, hidden, self.layers, self.heads, self.groups, vocab, self.context = head
        self.hd, layers = self.d // self.heads, self.layers
        self.embed = self.take(abs(vocab), self.d)
        self.norm1 = self.take(layers, self.d)
        self.q = self.take(layers, self.d, self.d)
        self.k, self.v = (self.take(layers, self.groups * self.hd, self.d) for _ in "kv")
        self.o = self.take(layers, self.d, self.d)
        self.norm2 = self.take(layers, self.d)
        self.gate, self.down = self.take(layers, hidden, self.d), self.take(layers, self.d, hidden)
        self.up, self.norm3 = self.take(layers, hidden, self.d), self.take(self.d)
        self.at += self.context * self.hd  # the rotation's tables
        self.head = self.embed if vocab > 0 else self.take(-vocab, self.d)

    def take(self, *shape):
        size = torch.Size(shape).numel()
        self.at += size
        return self.data[self.at - size:self.at].view(shape)

    def rotated(self, x):
        places, pairs = (torch.arange(0, *of, dtype=x.dtype) for of in ((x.shape[1],), (self.hd, 2)))
        angles = places[:, None] * 10000.0 ** (-pairs / self.hd)
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    def logits(self, ids):
        def normed(x, weight):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight

        rows, length = ids.shape
        h, mask = self.embed[ids], torch.full((length, length), float("-inf")).triu(1)
        for layer in range(self.layers):
            x = normed(h, self.norm1[layer])
            q, k, v = ((x @ w[layer].T).view(rows, length, -1, self.hd) for w in (self.q, self.k, self.v))
            q, k = self.rotated(q), self.rotated(k)
            k, v = (t.repeat_interleave(self.heads // self.groups, 2) for t in (k, v))
            scores = torch.einsum("bihd,bjhd->bhij", q, k) / self.hd ** 0.5 + mask
            h = h + torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).reshape(rows, length, -1) @ self.o[layer].T
            x = normed(h, self.norm2[layer])
            h = h + (torch.nn.functional.silu(x @ self.gate[layer].T) * (x @ self.up[layer].T)) @ self.down[layer].T
        return normed(h, self.norm3) @ self.head.T


class Pieces:
    """tok512.bin: pieces with scores, the best pair merged first; a text begins with a space, and with id 1."""

    bos_token_id, eos_token_id, padding_side = 1, 2, "right"

    def __init__(self, path):
        self.ids, self.scores = {}, []
        with open(path, "rb") as file:
            file.read(4)
            while head := file.read(8):
                score, size = struct.unpack("<fi", head)
                self.ids.setdefault(file.read(size), len(self.scores))
                self.scores.append(score)
        self.pieces = {value: key for key, value in self.ids.items()}

    def encode(self, text, add_special_tokens=True, **_):
        pieces = [piece for character in " " + text for piece in (
            [character.encode()] if character.encode() in self.ids else
            [bytes([byte]) for byte in character.encode()])] if text else []
        ids = [self.ids[piece] if piece in self.ids else piece[0] + 3 for piece in pieces]
        while True:
            pairs = [(self.scores[self.ids[pair]], -i) for i in range(len(ids) - 1)
                     if (pair := self.piece(ids[i]) + self.piece(ids[i + 1])) in self.ids]
            if not pairs:
                return [1] * add_special_tokens + ids
            i = -max(pairs)[1]
            ids[i:i + 2] = [self.ids[self.piece(ids[i]) + self.piece(ids[i + 1])]]

    def piece(self, token):
        return self.pieces[token] if token >= 259 else b"\0none"

    def decode(self, _):
        return "<s>"


def harness_model(stories, dtype):
    """The harness's own class, less what would read a checkpoint from a hub."""
    for name in ("transformers", "transformers.models", "transformers.models.auto", "accelerate", "accelerate.utils",
                 "transformers.models.auto.modeling_auto", "huggingface_hub", "peft"):
        sys.modules[name] = Stub(name)
    from lm_eval.models.huggingface import HFLM

    class Model(HFLM):
        def __init__(self):
            self.tokenizer = Pieces(os.path.join(stories, "tok512.bin"))
            self.stories = Stories(os.path.join(stories, "stories260K.bin"), dtype)
            self.backend, self._max_length, self._device = "causal", self.stories.context, "cpu"
            self.batch_size_per_gpu, self.logits_cache, self.softmax_dtype = 8, True, None
            self.enable_thinking, self._rank, self.custom_prefix_token_id, self.add_bos_token = None, 0, None, None
            self.cache_hook = Stub("hook")
            self.cache_hook.add_partial = lambda *_: None

        def _model_call(self, inps, **_):
            with torch.no_grad():
                return self.stories.logits(inps)

    return Model()


def harness_results(task_class, checkout, model, config, rows, limit, shots):
    """Of each item the log-likelihoods, and the metrics."""
    settings = {key: value for key, value in load_config(checkout, config).items() if key not in ("tag", "group")}
    lm_eval_requests.holder["rows"] = Rows(rows)
    task = task_class(config=settings)
    task.set_fewshot_seed(1234)
    docs = list(task.eval_docs)[:limit]
    made = []
    for doc in docs:
        made.append(task.construct_requests(doc, task.fewshot_context(doc, num_fewshot=shots), doc_id=0,
                                            metadata=(None, 0, 1)))
    made = [requests if isinstance(requests, list) else [requests] for requests in made]
    begin = time.monotonic()
    answers = iter(model.loglikelihood([request for requests in made for request in requests], disable_tqdm=True))
    seconds = time.monotonic() - begin
    answers = [[next(answers) for _ in requests] for requests in made]
    metrics = {}
    for doc, answer in zip(docs, answers):
        for name, value in task.process_results(doc, answer).items():
            metrics.setdefault(name, []).append(value)
    return answers, metrics, seconds


def with_examples(folder, data, task, file):
    """A folder with the task's file, which is also the one that its examples come from, as it is for the harness."""
    stem, end = file.split(".", 1)
    for suffix in ("." + end, "-labels.lst"):
        if os.path.exists(os.path.join(data, stem + suffix)):
            for name in (stem, task + "_train"):
                os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
                os.symlink(os.path.join(data, stem + suffix), os.path.join(folder, name + suffix))
    return folder


def penstock_results(program, stories, data, task, limit, shots, file):
    with tempfile.TemporaryDirectory() as folder:
        data = with_examples(folder, os.path.abspath(data), task, file) if shots else data
        begin = time.monotonic()
        done = subprocess.run([program, "eval", os.path.join(stories, "stories260K.bin"), "--tasks", task, "--limit",
                               str(limit), "--fewshot", str(shots), "--task-data", data, "--items", folder + "/items", "--json", "--threads",
                               str(torch.get_num_threads())], capture_output=True, text=True, check=True)
        seconds = time.monotonic() - begin
        with open(folder + "/items", encoding="utf-8") as file:
            items = [json.loads(line) for line in file]
    return items, json.loads(done.stdout)["tasks"][task], seconds


def compare(answers, metrics, items, told):
    """The largest difference of a log-likelihood, and what else is not equal."""
    worst, unequal = 0.0, []
    for answer, item in zip(answers, items):
        for (log, greedy), request in zip(answer, item["requests"]):
            worst = max(worst, abs(log - request["loglikelihood"]))
            if greedy != request["greedy"]:
                unequal.append(request)
    if len(answers) != len(items):
        unequal.append("number of items")
    for name in ("acc", "acc_norm"):
        if name in metrics and abs(statistics.fmean(metrics[name]) - told[name]) > 1e-12:
            unequal.append(name)
        if name in metrics:
            error = statistics.stdev(metrics[name]) / len(items) ** 0.5
            if abs(error - told[name + "_stderr"]) > 1e-12:
                unequal.append(name + "_stderr")
    if "perplexity" in metrics:
        known = torch.tensor(metrics["perplexity"], dtype=torch.float64).mean().neg().exp().item()
        if abs(told["perplexity"] / known - 1) > 1e-4:
            unequal.append("perplexity")
    return worst, unequal


def main(program, checkout, stories, data, limit="200", dtype="float64", tasks=",".join(TASKS), shots="0"):
    task_class = import_harness(checkout, lambda *a, **k: {
        split: lm_eval_requests.holder["rows"] for split in ("train", "validation", "test")})
    model, failed = harness_model(stories, getattr(torch, dtype)), False
    files = {task: (config, file, back) for task, config, file, back in reversed(lm_eval_requests.FILES)}
    for task in tasks.split(","):
        config, file, back = files[task]
        rows = rows_of(os.path.join(data, file), back)
        answers, metrics, theirs = harness_results(task_class, checkout, model, config, rows, int(limit), int(shots))
        items, told, ours = penstock_results(program, stories, data, task, limit, int(shots), file)
        worst, unequal = compare(answers, metrics, items, told)
        requests = sum(len(answer) for answer in answers)
        print(f"{task}: {len(items)} items, {requests} requests, largest difference {worst:.2e}, "
              f"{unequal[:3] or 'all else equal'}; requests/s {requests / theirs:.0f} harness, "
              f"{requests / ours:.0f} penstock", flush=True)
        failed = failed or worst > 1e-4 or bool(unequal)
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
