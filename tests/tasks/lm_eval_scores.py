#!/usr/bin/python3
"""Compares Penstock's scores of stories260K with lm-eval's on the same rows. The reference is the harness with its own
model class, tokenizing and metrics, where a plain PyTorch forward pass computes the logits. It is compared with the
harness with Penstock as its model (examples/lm_eval) and with `penstock eval --items`.

    lm_eval_scores.py PENSTOCK CHECKOUT STORIES DATA [LIMIT [float64|float32 [TASK,TASK... [SHOTS]]]]

STORIES is the folder with stories260K.bin and tok512.bin. The other arguments and the needed packages are those of
lm_eval_requests.py; python3-torch is needed, too. LIMIT 0 (the default) takes all items. With float64 (the default) all
sides compute in 64 bits, so that rounding hides no difference. With float32, which both programs use by default, the
results differ by the rounding of both. For each task, the script prints the largest difference of a log-likelihood, and
whether the accuracies are equal. It exits with 1 if an accuracy differs or if a log-likelihood differs by more than
1e-4 (with float32: by more than 1e-4 and by more than a millionth of its value).
"""

import functools
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile

import torch

import lm_eval_requests
from lm_eval_requests import Rows, Stub, import_harness, load_config, rows_of

class Stories:
    """A model in llama2.c's first format: a Llama with grouped heads. The rotary embedding uses adjacent pairs."""

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
        self.at += self.context * self.hd  # skips the tables of the rotary embedding
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
    """The tokenizer tok512.bin: pieces with scores. The pair with the best score is merged first.

    A text gets a space at its beginning, and its ids begin with id 1."""

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
        assert not any(b" " in piece[1:] for piece in self.ids)

    def encode(self, text, add_special_tokens=True, **_):
        """Returns the ids of a text. Pieces have a space only at their beginning, so each word is merged separately."""
        words = re.findall(" ?[^ ]*", " " + text)[:-1] if text else []
        return [1] * add_special_tokens + [token for word in words for token in self.merged(word)]

    @functools.cache
    def merged(self, word):
        pieces = [piece for character in word for piece in (
            [character.encode()] if character.encode() in self.ids else
            [bytes([byte]) for byte in character.encode()])]
        ids = [self.ids[piece] if piece in self.ids else piece[0] + 3 for piece in pieces]
        while True:
            pairs = [(self.scores[self.ids[pair]], -i) for i in range(len(ids) - 1)
                     if (pair := self.piece(ids[i]) + self.piece(ids[i + 1])) in self.ids]
            if not pairs:
                return ids
            i = -max(pairs)[1]
            ids[i:i + 2] = [self.ids[self.piece(ids[i]) + self.piece(ids[i + 1])]]

    def piece(self, token):
        return self.pieces[token] if token >= 259 else b"\0none"

    def decode(self, _):
        return "<s>"


def harness_model(stories, dtype):
    """The harness's own model class, without the parts that would read a checkpoint from a hub."""
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


def penstock_model(path, program, options=()):
    """The adapter of examples/lm_eval. It must be imported after the harness."""
    sys.path.insert(0, os.path.join(lm_eval_requests.HERE, "../../examples/lm_eval"))
    from penstock_lm import Penstock
    return Penstock(path, program, options)


def made_task(task_class, checkout, config, rows, limit, shots=0):
    """Returns the harness's task, its items and the items' requests."""
    settings = {key: value for key, value in load_config(checkout, config).items() if key not in ("tag", "group")}
    lm_eval_requests.holder["rows"] = Rows(rows)
    task = task_class(config=settings)
    task.set_fewshot_seed(1234)
    docs = list(task.eval_docs)[:limit or None]
    made = [task.construct_requests(doc, task.fewshot_context(doc, num_fewshot=shots), doc_id=0,
                                    metadata=(None, 0, 1)) for doc in docs]
    return task, docs, [requests if isinstance(requests, list) else [requests] for requests in made]


def harness_results(task, docs, made, model):
    """Returns the model's log-likelihoods for each item, and the harness's metrics."""
    answers = iter(model.loglikelihood([request for requests in made for request in requests], disable_tqdm=True))
    answers = [[next(answers) for _ in requests] for requests in made]
    metrics = {}
    for doc, answer in zip(docs, answers):
        for name, value in task.process_results(doc, answer).items():
            metrics.setdefault(name, []).append(value)
    return answers, metrics


def with_examples(folder, data, task, file):
    """Fills the folder with links to the task's file, also as the file of few-shot examples, as in the harness."""
    stem, end = file.split(".", 1)
    for suffix in ("." + end, "-labels.lst"):
        if os.path.exists(os.path.join(data, stem + suffix)):
            for name in (stem, task + "_train"):
                os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
                os.symlink(os.path.join(data, stem + suffix), os.path.join(folder, name + suffix))
    return folder


def penstock_results(program, stories, data, task, limit, shots, file, options):
    """Returns the log-likelihoods and the figures of the program `penstock eval`, without the harness."""
    with tempfile.TemporaryDirectory() as folder:
        data = with_examples(folder, os.path.abspath(data), task, file) if shots else data
        done = subprocess.run([program, "eval", os.path.join(stories, "stories260K.bin"), "--tasks", task, "--limit",
                               str(limit), "--fewshot", str(shots), "--task-data", data, "--items", folder + "/items",
                               "--json", *options], capture_output=True, text=True, check=True)
        with open(folder + "/items", encoding="utf-8") as file:
            items = [json.loads(line) for line in file]
    answers = [[(request["loglikelihood"], request["greedy"]) for request in item["requests"]] for item in items]
    return answers, json.loads(done.stdout)["tasks"][task]


def largest_difference(known, answers, share):
    """Returns the largest difference between two log-likelihoods of a request, and the largest excess over the limit.

    The limit is the larger of 1e-4 and `share` times the log-likelihood. Both results are infinite if the numbers of
    requests or a greedy flag differ."""
    if [len(answer) for answer in known] != [len(answer) for answer in answers]:
        return float("inf"), float("inf")
    pairs = [pair for one, other in zip(known, answers) for pair in zip(one, other)]
    if any(a[1] != b[1] for a, b in pairs):
        return float("inf"), float("inf")
    return (max(abs(a[0] - b[0]) for a, b in pairs),
            max(abs(a[0] - b[0]) - max(1e-4, share * abs(a[0])) for a, b in pairs))


def unequal_figures(metrics, told):
    """Returns the names of the program's figures that differ from the harness's metrics."""
    known = {}
    for name in {"acc", "acc_norm"} & set(metrics):
        known[name] = statistics.fmean(metrics[name])
        known[name + "_stderr"] = statistics.stdev(metrics[name]) / len(metrics[name]) ** 0.5
    out = [name for name, value in known.items() if abs(value - told[name]) > 1e-12]
    if "perplexity" in metrics:
        value = torch.tensor(metrics["perplexity"], dtype=torch.float64).mean().neg().exp().item()
        out += ["perplexity"] * (abs(told["perplexity"] / value - 1) > 1e-4)
    return out


def files_of(data, wanted):
    """Yields (task, configuration, rows, file) of the wanted tasks. `file` is None if the program cannot read it."""
    for folder, files in ((data, lm_eval_requests.FILES), (lm_eval_requests.HERE, lm_eval_requests.ROWS)):
        for task, config, file, back in files:
            if task in ("nq_open", "triviaqa") or wanted and task not in wanted:
                continue  # the task's answers are generated, or the task is not wanted
            found = folder == data and not file.startswith("requests/")
            yield task, config, rows_of(os.path.join(folder, file), back), file if found else None


def main(program, checkout, stories, data, limit="0", dtype="float64", tasks="", shots="0"):
    task_class = import_harness(checkout, lambda *a, **k: {
        split: lm_eval_requests.holder["rows"] for split in ("train", "validation", "test")})
    model, failed = harness_model(stories, getattr(torch, dtype)), False
    options, share = (("--f64",), 0) if dtype == "float64" else ((), 1e-6)
    ours = penstock_model(os.path.join(stories, "stories260K.bin"), program, options)
    for task, config, rows, file in files_of(data, tasks.split(",") if tasks else []):
        made = made_task(task_class, checkout, config, rows, int(limit), int(shots))
        answers, metrics = harness_results(*made, model)
        driven, same = harness_results(*made, ours)
        differences = [largest_difference(answers, driven, share)]
        unequal = [name for name in metrics if name != "perplexity" and metrics[name] != same[name]]
        if file:
            alone, told = penstock_results(program, stories, data, task, limit, int(shots), file, options)
            differences.append(largest_difference(answers, alone, share))
            unequal += unequal_figures(metrics, told)
        print(f"{task}: {len(answers)} items, {sum(map(len, answers))} requests, largest difference "
              f"{differences[0][0]:.2e} in the harness" + (f", {differences[1][0]:.2e} alone" if file else "") +
              f"; accuracies {'equal' if not unequal else 'NOT EQUAL: ' + ', '.join(unequal)}", flush=True)
        failed = failed or any(beyond > 0 for _, beyond in differences) or bool(unequal)
    ours.close()
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
