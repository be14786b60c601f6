#!/usr/bin/env python3
"""Opens an exported folder with its own class for transformers and compares the logits.

usage: penstock_class.py MODEL_DIR EXPECTED.safetensors [--gates FORM]

EXPECTED holds `tokens` [B, T] and `logits` [B*T, V]. transformers need not be installed. If it is missing, stubs
replace the few of its names that the class uses. This script reads the weights itself. It runs the folder's own class,
which config.json's auto_map names, in float32. `--gates FORM` gives the config other gates; the logits must then
differ. The script also checks that a row padded on the left has the same logits as the row without padding.
Exit 0: equal to 1e-5 of the largest logit; 1: not equal; 77: PyTorch is not installed.
"""
import importlib
import importlib.util
import json
import os
import sys
import types

try:
    import torch
except ImportError:
    print("PyTorch is not installed")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hugging_face_logits import read_safetensors  # noqa: E402


class StubConfig:
    def __init__(self, tie_word_embeddings=False, **others):
        self.tie_word_embeddings = tie_word_embeddings
        for name, value in others.items():
            setattr(self, name, value)


class StubModel(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config

    def post_init(self):
        pass


class StubOutput:
    def __init__(self, loss=None, logits=None):
        self.loss, self.logits = loss, logits


def stand_in():
    """Registers stub modules of transformers with the names that the class uses."""
    for name, content in {"transformers": {"PretrainedConfig": StubConfig, "PreTrainedModel": StubModel},
                          "transformers.generation": {"GenerationMixin": type("GenerationMixin", (), {})},
                          "transformers.modeling_outputs": {"CausalLMOutput": StubOutput}}.items():
        module = types.ModuleType(name)
        module.__dict__.update(content)
        sys.modules[name] = module


def class_of(directory, reference):
    """Returns the class "module.Class" from the folder's own files. They import each other as a package."""
    package = types.ModuleType("exported")
    package.__path__ = [directory]
    sys.modules["exported"] = package
    module, name = reference.split(".")
    return getattr(importlib.import_module("exported." + module), name)


def read_weights(directory):
    names = [name for name in os.listdir(directory) if name.endswith(".safetensors")]
    return {key: tensor for name in names for key, tensor in read_safetensors(os.path.join(directory, name)).items()}


def largest_difference(model, expected):
    tokens = expected["tokens"]
    ours = model(input_ids=tokens).logits.reshape(-1, expected["logits"].shape[-1])
    # The same rows after three padding tokens.
    padded = torch.cat([tokens.new_zeros(tokens.shape[0], 3), tokens], 1)
    mask = torch.ones_like(padded)
    mask[:, :3] = 0
    behind = model(input_ids=padded, attention_mask=mask).logits[:, 3:].reshape(ours.shape)
    largest = expected["logits"].abs().max().item()
    return max((ours - expected["logits"]).abs().max().item(), (behind - ours).abs().max().item()) / largest


def main():
    directory, expected = sys.argv[1:3]
    if importlib.util.find_spec("transformers") is None:
        stand_in()
    with open(os.path.join(directory, "config.json")) as file:
        said = json.load(file)
    if sys.argv[3:4] == ["--gates"]:
        said["gates"] = sys.argv[4]
    config = class_of(directory, said["auto_map"]["AutoConfig"])(**said)
    model = class_of(directory, said["auto_map"]["AutoModelForCausalLM"])(config)
    model.load_state_dict(read_weights(directory))  # raises if a name is missing or unknown
    model.eval()
    with torch.no_grad():
        difference = largest_difference(model, read_safetensors(expected))
    print(f"{said['gates'] if 'gates' in said else 'dense'}: largest difference {difference:.3g} of the largest logit")
    return 0 if difference <= 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
