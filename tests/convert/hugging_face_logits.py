#!/usr/bin/env python3
"""Computes a Hugging Face model directory's logits with plain PyTorch and compares them.

usage: hugging_face_logits.py MODEL_DIR EXPECTED.safetensors [--swap gate-up]

EXPECTED holds `tokens` [B, T] and `logits` [B*T, V]. The decoder below is written from the names and formulas of the
public classes (Llama, Qwen2, Mixtral, Qwen2-MoE, OLMoE and Qwen3-MoE of transformers, and DeepSeekMoE's own class,
`model_type` deepseek). It computes in float64 and shares nothing with the program that wrote the directory.
`--swap gate-up` exchanges the gate and up matrices of every feed-forward; the logits must then differ.
Exit 0: equal to 1e-4 of the largest logit; 1: not equal; 77: PyTorch is not installed.
"""
import json
import os
import struct
import sys

try:
    import torch
except ImportError:
    print("PyTorch is not installed")
    sys.exit(77)

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16,
          "BF16": torch.bfloat16, "I64": torch.int64}


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = bytearray(data[8 + length + begin:8 + length + end])
        out[name] = torch.frombuffer(raw, dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return out


def read_weights(directory):
    index = os.path.join(directory, "model.safetensors.index.json")
    files = ["model.safetensors"]
    if os.path.exists(index):
        with open(index) as file:
            files = sorted(set(json.load(file)["weight_map"].values()))
    weights = {}
    for name in files:
        weights.update(read_safetensors(os.path.join(directory, name)))
    return {name: tensor.double() for name, tensor in weights.items()}


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rotate(x, theta):
    """Rotary embedding of x [B, H, T, hd] with pairs (i, i + hd/2)."""
    length, width = x.shape[-2:]
    frequency = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.outer(torch.arange(length, dtype=torch.float64), frequency)
    cos, sin = angle.cos(), angle.sin()
    first, second = x[..., :width // 2], x[..., width // 2:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class Model:
    def __init__(self, directory, swap):
        with open(os.path.join(directory, "config.json")) as file:
            self.config = json.load(file)
        self.weights = read_weights(directory)
        self.used = set()
        self.swap = swap
        self.type = self.config["model_type"]

    def get(self, name):
        self.used.add(name)
        return self.weights[name]

    def linear(self, x, name):
        y = x @ self.get(name + ".weight").t()
        return y + self.get(name + ".bias") if name + ".bias" in self.weights else y

    def attention(self, x, stem):
        c = self.config
        heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
        width = c.get("head_dim") or c["hidden_size"] // heads
        batch, length, _ = x.shape
        q, k, v = (self.linear(x, stem + part) for part in ("q_proj", "k_proj", "v_proj"))
        if self.type == "olmoe":
            q = rms_norm(q, self.get(stem + "q_norm.weight"), c["rms_norm_eps"])
            k = rms_norm(k, self.get(stem + "k_norm.weight"), c["rms_norm_eps"])
            if c.get("clip_qkv"):
                q, k, v = (t.clamp(-c["clip_qkv"], c["clip_qkv"]) for t in (q, k, v))
        q, k, v = (t.view(batch, length, -1, width) for t in (q, k, v))
        if self.type == "qwen3_moe":  # each head is normed separately; all heads share one gain
            q = rms_norm(q, self.get(stem + "q_norm.weight"), c["rms_norm_eps"])
            k = rms_norm(k, self.get(stem + "k_norm.weight"), c["rms_norm_eps"])
        q = rotate(q.transpose(1, 2), c["rope_theta"])
        k = rotate(k.transpose(1, 2), c["rope_theta"])
        v = v.transpose(1, 2)
        k, v = (t.repeat_interleave(heads // kv, 1) for t in (k, v))
        scores = q @ k.transpose(-1, -2) / width ** 0.5
        hidden = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return self.linear((weights @ v).transpose(1, 2).reshape(batch, length, -1),
                           stem + "o_proj")

    def feed_forward(self, x, gate, up, down):
        if self.swap:
            gate, up = up, gate
        gate, up = self.linear(x, gate), self.linear(x, up)
        return self.linear(gate * torch.sigmoid(gate) * up, down)

    def experts(self, x, layer):
        c = self.config
        mixtral = self.type == "mixtral"
        stem = layer + ("block_sparse_moe." if mixtral else "mlp.")
        names = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
        flat = x.reshape(-1, x.shape[-1])
        probabilities = (flat @ self.get(stem + "gate.weight").t()).softmax(-1)
        kept, chosen = probabilities.topk(c["num_experts_per_tok"], -1)
        one = self.type == "deepseek" and c["num_experts_per_tok"] == 1
        if mixtral or (c["norm_topk_prob"] and not one):
            kept = kept / kept.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        count = {"mixtral": "num_local_experts", "deepseek": "n_routed_experts"}
        for expert in range(c[count.get(self.type, "num_experts")]):
            result = self.feed_forward(flat, *(f"{stem}experts.{expert}.{n}" for n in names))
            out += result * (kept * (chosen == expert)).sum(-1, keepdim=True)
        if self.type == "qwen2_moe":
            shared = self.feed_forward(flat, *(f"{stem}shared_expert.{n}" for n in names))
            out += shared * torch.sigmoid(flat @ self.get(stem + "shared_expert_gate.weight").t())
        if self.type == "deepseek" and c["n_shared_experts"]:
            out += self.feed_forward(flat, *(f"{stem}shared_experts.{n}" for n in names))
        return out.view_as(x)

    def sparse(self, layer):
        c = self.config
        if self.type in ("llama", "qwen2"):
            return False
        if self.type == "deepseek":
            return layer >= c["first_k_dense_replace"] and layer % c["moe_layer_freq"] == 0
        return (layer not in (c.get("mlp_only_layers") or [])
                and (layer + 1) % c.get("decoder_sparse_step", 1) == 0)

    def logits(self, tokens):
        c = self.config
        x = self.get("model.embed_tokens.weight")[tokens]
        for i in range(c["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            normed = rms_norm(x, self.get(layer + "input_layernorm.weight"), c["rms_norm_eps"])
            x = x + self.attention(normed, layer + "self_attn.")
            normed = rms_norm(x, self.get(layer + "post_attention_layernorm.weight"),
                              c["rms_norm_eps"])
            if self.sparse(i):
                x = x + self.experts(normed, layer)
            else:
                names = (layer + "mlp." + n for n in ("gate_proj", "up_proj", "down_proj"))
                x = x + self.feed_forward(normed, *names)
        x = rms_norm(x, self.get("model.norm.weight"), c["rms_norm_eps"])
        head = "model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"
        return (x @ self.get(head).t()).reshape(-1, c["vocab_size"])


def main():
    directory, expected = sys.argv[1:3]
    model = Model(directory, sys.argv[3:] == ["--swap", "gate-up"])
    wanted = read_safetensors(expected)
    logits = model.logits(wanted["tokens"])
    unused = sorted(set(model.weights) - model.used)
    if unused:
        print("tensors that no formula uses:", unused)
        return 1
    largest = logits.abs().max().item()
    difference = (logits - wanted["logits"].double()).abs().max().item()
    print(f"{model.type}: largest difference {difference:.3g} of {largest:.3g}")
    return 0 if difference <= 1e-4 * largest else 1


if __name__ == "__main__":
    sys.exit(main())
