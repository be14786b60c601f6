#!/usr/bin/python3
"""Compares scores of stories260K that lm-evaluation-harness gets from `penstock serve` with those of `penstock eval
--items` on the same rows. The harness's own class `local-completions` asks the server.

    lm_eval_serve.py PENSTOCK CHECKOUT STORIES DATA [LIMIT [TASK,TASK... [SHOTS]]]

The arguments and the needed packages are those of lm_eval_scores.py; python3-requests and python3-tenacity are needed,
too. For each task, the script prints the largest difference of a log-likelihood, and whether the accuracies are equal.
It exits with 1 if an accuracy or a greedy flag differs, or if a log-likelihood differs by more than 1e-4 and by more than
two millionths of its value: both sides compute in 32 bits.
"""

import importlib.machinery
import os
import subprocess
import sys
import types

import requests

import lm_eval_requests
import lm_eval_scores
from lm_eval_requests import Stub, import_harness

CONTEXT = 512


class Tokenizer(lm_eval_scores.Pieces):
    """The same tokenizer with the functions that the harness's classes for servers call."""

    eos_token, pad_token = "</s>", "</s>"

    def __call__(self, text, add_special_tokens=True, **_):
        ids = [self.encode(one, add_special_tokens) for one in ([text] if isinstance(text, str) else text)]
        return types.SimpleNamespace(input_ids=ids[0] if isinstance(text, str) else ids)


def server_model(stories, url):
    """The harness's model of a server with OpenAI's interface."""
    for name in ("aiohttp", "tqdm.asyncio", "transformers"):
        sys.modules[name] = Stub(name)
    sys.modules["requests"] = requests
    for name in ("aiohttp", "tqdm"):  # the harness looks whether these packages are installed
        sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)
    sys.modules["transformers"].AutoTokenizer = types.SimpleNamespace(
        from_pretrained=lambda folder, **_: Tokenizer(os.path.join(folder, "tok512.bin")))
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    return LocalCompletionsAPI(base_url=url + "v1/completions", model="stories", tokenizer=stories, batch_size=8,
                               tokenizer_backend="huggingface", max_length=CONTEXT, add_bos_token=True)


def compared(program, stories, data, task_class, checkout, model, wanted, limit, shots):
    """Prints a line for each task. Returns whether all scores are the same."""
    same = True
    for task, config, rows, file in lm_eval_scores.files_of(data, wanted):
        if not file:
            continue
        made = lm_eval_scores.made_task(task_class, checkout, config, rows, limit, shots)
        answers, metrics = lm_eval_scores.harness_results(*made, model)
        # The harness leaves one token of the context for the answer, and `eval` adds one to its window.
        alone, told = lm_eval_scores.penstock_results(program, stories, data, task, str(limit), shots, file,
                                                      ("--sequence-length", str(CONTEXT - 2)))
        difference, beyond = lm_eval_scores.largest_difference(answers, alone, 2e-6)
        unequal = lm_eval_scores.unequal_figures(metrics, told)
        print(f"{task}: {len(answers)} items, {sum(map(len, answers))} requests, largest difference {difference:.2e}; "
              f"accuracies {'equal' if not unequal else 'NOT EQUAL: ' + ', '.join(unequal)}", flush=True)
        same = same and beyond <= 0 and not unequal
    return same


def main(program, checkout, stories, data, limit="0", tasks="", shots="0"):
    task_class = import_harness(checkout, lambda *a, **k: {
        split: lm_eval_requests.holder["rows"] for split in ("train", "validation", "test")})
    server = subprocess.Popen([program, "serve", os.path.join(stories, "stories260K.bin"), "--name", "stories", "--port",
                               "0", "--context", str(CONTEXT)], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().split()[-1]  # "stories at http://127.0.0.1:PORT/"
        same = compared(program, stories, data, task_class, checkout, server_model(stories, url),
                        tasks.split(",") if tasks else [], int(limit), int(shots))
    finally:
        server.terminate()
        server.wait()
    sys.exit(not same)


if __name__ == "__main__":
    main(*sys.argv[1:])
