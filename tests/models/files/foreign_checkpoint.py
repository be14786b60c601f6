#!/usr/bin/env python3
"""Writes a small random checkpoint of a Hugging Face class and the checkpoint's logits.

usage: foreign_checkpoint.py qwen3_moe|deepseek DIRECTORY

The tensor names and shapes are written down from the class's code. PyTorch draws the weights, and
tests/convert/hugging_face_logits.py computes the logits. The script shares no code with Penstock. It writes config.json
and model.safetensors into DIRECTORY, and `tokens` [1, T] and `logits` [T, V] into the safetensors file
DIRECTORY.expected. Exit 77: PyTorch is not installed.
"""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "convert"))
from hugging_face_logits import Model, torch  # noqa: E402

D, V, HEADS, GROUPS, WIDTH, DENSE, INNER, EXPERTS, K = 16, 29, 4, 2, 6, 20, 5, 6, 3
COMMON = {"vocab_size": V, "hidden_size": D, "intermediate_size": DENSE, "num_hidden_layers": 3,
          "num_attention_heads": HEADS, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
          "rope_theta": 500.0, "tie_word_embeddings": False, "moe_intermediate_size": INNER,
          "num_experts_per_tok": K, "hidden_act": "silu"}
CONFIGS = {
    "qwen3_moe": {"model_type": "qwen3_moe", "num_key_value_heads": GROUPS, "head_dim": WIDTH,
                  "num_experts": EXPERTS, "norm_topk_prob": True, "decoder_sparse_step": 1,
                  "mlp_only_layers": [0]},
    "deepseek": {"model_type": "deepseek", "num_key_value_heads": HEADS,
                 "n_routed_experts": EXPERTS, "n_shared_experts": 2, "norm_topk_prob": False,
                 "first_k_dense_replace": 1, "moe_layer_freq": 1, "scoring_func": "softmax"}}


def shapes(config):
    qwen = config["model_type"] == "qwen3_moe"
    width = config.get("head_dim", D // HEADS)
    q, kv = HEADS * width, config["num_key_value_heads"] * width
    out = {"model.embed_tokens.weight": (V, D), "lm_head.weight": (V, D), "model.norm.weight": (D,)}
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        out[at + "input_layernorm.weight"] = out[at + "post_attention_layernorm.weight"] = (D,)
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            out[at + f"self_attn.{name}_proj.weight"] = (rows, D)
        out[at + "self_attn.o_proj.weight"] = (D, q)
        if qwen:
            out[at + "self_attn.q_norm.weight"] = out[at + "self_attn.k_norm.weight"] = (width,)
        networks = [(f"experts.{e}.", INNER) for e in range(EXPERTS)]
        if not qwen:
            networks.append(("shared_experts.", config["n_shared_experts"] * INNER))
        if i == 0:
            networks = [("", DENSE)]
        else:
            out[at + "mlp.gate.weight"] = (EXPERTS, D)
        for name, inner in networks:
            for part in ("gate", "up"):
                out[at + f"mlp.{name}{part}_proj.weight"] = (inner, D)
            out[at + f"mlp.{name}down_proj.weight"] = (D, inner)
    return out


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        kind = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}[tensor.dtype]
        header[name] = {"dtype": kind, "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    kind, directory = sys.argv[1:3]
    config = {**COMMON, **CONFIGS[kind]}
    generator = torch.Generator().manual_seed(7)
    weights = {}
    for name, shape in shapes(config).items():
        draw = torch.randn(shape, generator=generator)
        weights[name] = 1 + 0.2 * draw if name.endswith("norm.weight") else 0.4 * draw
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "config.json"), "w") as file:
        json.dump(config, file)
    write_safetensors(os.path.join(directory, "model.safetensors"), weights)
    tokens = torch.randint(V, (1, 24), generator=generator)
    logits = Model(directory, False).logits(tokens)
    write_safetensors(directory + ".expected", {"tokens": tokens, "logits": logits})
    return 0


if __name__ == "__main__":
    sys.exit(main())
