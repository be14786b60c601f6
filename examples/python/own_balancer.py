"""A balancer written in Python that the C++ trainer uses: an experiment in twenty lines. It is slow, because Python
runs for each layer and micro-batch. A balancer that works well can become one .cpp file (CONTRIBUTING.md).

    PYTHONPATH=build/release/python /usr/bin/python3 examples/python/own_balancer.py CORPUS OUT [--steps 60]

The balancer penalises the experts that got more than their share of tokens in the steps before. It keeps a running
mean of the loads in a buffer, which checkpoints save. It needs no gradient through the counts.
"""
import argparse

import torch

import penstock


@penstock.register_balancer("recent-load", options={"coefficient": 0.01, "memory": 0.9}, needs_logits=True,
                            needs_assignments=True, evens_loads=True,
                            state=[{"name": "recent_load_worst", "title": "largest share of an expert, recently"}])
class RecentLoad(penstock.Balancer):
    """Penalises the probability of experts that had more than their share in the steps before."""

    def __init__(self, shape, coefficient, memory):
        super().__init__()
        self.coefficient, self.memory = coefficient, memory
        self.register_buffer("share", torch.full((shape.layers, shape.experts), 1 / shape.experts))

    def balance(self, scores, plan, context):
        if not context.training:
            return None
        probability = scores.logits.softmax(-1).mean(0)  # [E]
        return self.coefficient * plan.experts * (self.share[context.layer] * probability).sum()

    def after_step(self, statistics):
        tokens = torch.tensor(statistics.expert_tokens, dtype=torch.float32)  # [L, E]
        self.share.mul_(self.memory).add_((1 - self.memory) * tokens / tokens.sum(1, keepdim=True))

    def state(self):
        return {"recent_load_worst": self.share.max().item()}


RECIPE = {
    "model": {"vocab": 0, "d_model": 128, "layers": 2, "heads": 4, "d_ffn": 256, "moe": {"experts": 8}},
    "train": {"batch_sequences": 8, "sequence_length": 128, "lr": 1e-3, "eval_every": 30},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("out")
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    for balancers in ([], ["load-balance"], ["recent-load"]):
        name = balancers[0] if balancers else "none"
        run = penstock.train(RECIPE, out=f"{arguments.out}/{name}", progress=False, resume=True, set={
            "data.corpus": arguments.corpus, "train.steps": arguments.steps,
            "model.router": {"method": "topk", "balancers": balancers}})
        loads = run.result["validation"]["load"]  # by layer and expert, assignments per token
        print(f"{name:12s}  validation loss {run.result['validation']['loss']:.4f}  "
              f"largest share of an expert {max(max(layer) / sum(layer) for layer in loads):.3f}")


if __name__ == "__main__":
    main()
