#!/usr/bin/env python3
"""Opens an exported folder with Hugging Face's transformers and compares its logits.

usage: transformers_logits.py MODEL_DIR EXPECTED.safetensors

EXPECTED holds `tokens` [B, T] and `logits` [B*T, V]. The script computes in float32, on the CPU and, if PyTorch sees
one, on a GPU. It checks:
- The logits agree to 1e-5 of the largest logit.
- No weight is missing, left over or newly drawn.
- Every parameter gets a gradient.
- Greedy `generate` gives the tokens with the largest logits.
- The model that `save_pretrained` wrote has the same logits.
Exit 0: all checks pass; 1: not; 77: transformers is not installed, or has no class of this model type.
"""
import importlib.util
import json
import os
import sys
import tempfile

if importlib.util.find_spec("transformers") is None:
    print("transformers is not installed")
    sys.exit(77)

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402


def opened(directory):
    model, told = transformers.AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True,
                                                                    dtype=torch.float32, output_loading_info=True)
    wrong = {key: names for key, names in told.items() if names}
    return model.eval(), wrong


def largest_difference(model, tokens, wanted):
    with torch.no_grad():
        ours = model(input_ids=tokens.to(model.device)).logits.float().cpu().reshape(wanted.shape)
    return ((ours - wanted).abs().max() / wanted.abs().max()).item()


def without_gradient(model, tokens):
    tokens = tokens.to(model.device)
    model(input_ids=tokens, labels=tokens).loss.backward()
    return [name for name, parameter in model.named_parameters() if parameter.grad is None]


def generates(model, tokens, steps=6):
    """Whether each token that `generate` gives is the one with the largest logit."""
    text = tokens[:1, :8].to(model.device)
    made = model.generate(text, max_new_tokens=steps, do_sample=False, pad_token_id=0)
    with torch.no_grad():
        for _ in range(steps):
            text = torch.cat([text, model(input_ids=text).logits[:, -1:].argmax(-1)], 1)
    return torch.equal(made, text[:, :made.shape[1]])


def check(directory, tokens, wanted):
    model, wrong = opened(directory)
    differences = {}
    for device in ["cpu"] + ["cuda"] * torch.cuda.is_available():
        model.to(device)
        differences[device] = largest_difference(model, tokens, wanted)
    wrong.update({"no gradient": names for names in [without_gradient(model, tokens)] if names})
    if not generates(model, tokens):
        wrong["generate"] = "other tokens than the largest logits"
    with tempfile.TemporaryDirectory() as saved:
        model.cpu().save_pretrained(saved)
        differences["saved"] = largest_difference(opened(saved)[0], tokens, wanted)
    return differences, wrong


def main():
    directory, expected = sys.argv[1:3]
    with open(os.path.join(directory, "config.json")) as file:
        said = json.load(file)
    if "auto_map" not in said and said["model_type"] not in transformers.CONFIG_MAPPING:
        print(f"transformers {transformers.__version__} has no class {said['model_type']}")
        return 77
    expected = load_file(expected)
    differences, wrong = check(directory, expected["tokens"].long(), expected["logits"].float())
    listed = ", ".join(f"{name} {value:.2g}" for name, value in differences.items())
    print(f"{said['model_type']} {said.get('gates') or ''}: differences {listed} of the largest logit; {wrong or 'all loaded'}")
    return 0 if max(differences.values()) <= 1e-5 and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
