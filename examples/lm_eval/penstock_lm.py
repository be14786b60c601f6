"""Penstock as a model of EleutherAI's lm-evaluation-harness. One process of `penstock eval MODEL --requests -`
computes all log-likelihoods.

    from penstock_lm import Penstock
    lm_eval.simple_evaluate(model=Penstock("runs/mine"), tasks=["arc_easy", "piqa"])

It does not support tasks whose answers are generated. `penstock eval --tasks` supports those of docs/tasks.md.
"""

import json
import subprocess

from lm_eval.api.model import LM


class Penstock(LM):
    """A model of the harness. `options` are further options of `penstock eval`, such as ("--k", "2")."""

    def __init__(self, model, program="penstock", options=()):
        super().__init__()
        self.process = subprocess.Popen([program, "eval", model, "--requests", "-", *options], encoding="utf-8",
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, pairs):
        """Returns the program's answers to (context, continuation) pairs, as dicts."""
        if not pairs:
            return []
        lines = [json.dumps({"context": context, "continuation": continuation}) for context, continuation in pairs]
        try:
            self.process.stdin.write("\n".join(lines) + "\n\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the program has printed the reason on standard error
        answers = [self.process.stdout.readline() for _ in lines]
        if not answers[-1]:
            raise RuntimeError(f"{' '.join(self.process.args)} ended with {self.process.wait()}")
        return [json.loads(answer) for answer in answers]

    def loglikelihood(self, requests, disable_tqdm=False):
        return [(answer["loglikelihood"], answer["greedy"]) for answer in self.ask([r.args for r in requests])]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        """Returns the log-likelihoods of whole texts. The program refuses a text longer than the model's window."""
        return [answer["loglikelihood"] for answer in self.ask([("", *r.args) for r in requests])]

    def generate_until(self, requests, disable_tqdm=False):
        raise NotImplementedError("Penstock answers log-likelihoods here; `penstock eval --tasks` generates answers")

    def close(self):
        """Ends the program."""
        self.process.stdin.close()
        self.process.wait()
