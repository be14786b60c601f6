#!/usr/bin/python3
"""Measures what fewer bits cost a trained MoE: its loss in each file type, and with one kind of tensor in 4 bits.

    bench/quantised_parts.py MODEL CORPUS [--penstock PROGRAM] [--tokens N] [--json]

MODEL is a model that `penstock export` takes and that GGUF can hold (docs/export.md). CORPUS is tokenized by MODEL's
tokenizer. Losses are those of CORPUS's test split. The shares of equal choices are those of its training split, which
`penstock export --data` reads.

The types are files of `--format gguf --dtype ...`. For a kind of tensor, that kind's values come from the q4_k file and
all other values from the f32 file. No file holds routers in fewer bits, so the script rounds them itself, in blocks of
32 between the block's least and largest number. Files are made in a temporary folder, which is removed at the end.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy

TYPES = ["f32", "bf16", "q8_0", "q6_k", "q4_k"]
KINDS = {"routers": r"\.mlp\.gate\.weight$", "experts": r"\.mlp\.experts\.", "shared experts": r"\.mlp\.shared_expert",
         "attention": r"\.self_attn\.", "embeddings and head": r"embed_tokens|lm_head"}


def read_tensors(path):
    """Returns name -> array of a safetensors file. REQUIRES all tensors to be F32."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        body = file.read()
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32":
            sys.exit(f"{path}: {name} is {entry['dtype']}, not F32")
        begin, end = entry["data_offsets"]
        out[name] = numpy.frombuffer(body[begin:end], numpy.float32).reshape(entry["shape"])
    return out


def write_tensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(numpy.ascontiguousarray(tensor).tobytes())


def rounded(tensor, bits=4, block=32):
    """Rounds a matrix to `bits` bits, in blocks of a row, between the block's least and largest number."""
    if tensor.shape[1] % block:
        sys.exit(f"rows of {tensor.shape[1]} numbers cannot be divided into blocks of {block}")
    blocks = tensor.reshape(-1, block)
    low, high = blocks.min(1, keepdims=True), blocks.max(1, keepdims=True)
    step = numpy.maximum((high - low) / (2**bits - 1), 1e-30)
    return (low + numpy.rint((blocks - low) / step) * step).astype(numpy.float32).reshape(tensor.shape)


class Bench:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder

    def place(self, name):
        return os.path.join(self.folder, name)

    def run(self, *command):
        done = subprocess.run([self.arguments.penstock, *command], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"penstock {' '.join(command)}: {done.stderr or done.stdout}")
        return done.stdout

    def loss(self, model):
        out = json.loads(self.run("eval", model, "--data", self.arguments.corpus, "--split", "test", "--json",
                                  "--max-tokens", str(self.arguments.tokens)))
        return out["loss"], out["bits_per_byte"]

    def types(self):
        for dtype in TYPES:
            path = self.place(f"{dtype}.gguf")
            certificate = json.loads(self.run("export", self.arguments.model, "--format", "gguf", "--dtype", dtype, "--out",
                                              path, "--data", self.arguments.corpus, "--check-tokens", "4096", "--json"))
            loss, bits = self.loss(path)
            yield {"type": dtype, "bytes": os.path.getsize(path), "loss": loss, "bits_per_byte": bits,
                   "same_top_token": certificate["measured"]["same_top_token"], "same_experts": certificate["measured"]["top_k_agreement"]}

    def kinds(self):
        whole, few = ({}, {})
        for name, tensors in (("f32", whole), ("q4_k", few)):
            self.run("export", self.place(name + ".gguf"), "--format", "hf", "--dtype", "f32", "--out", self.place(name))
            tensors.update(read_tensors(os.path.join(self.place(name), "model.safetensors")))
        for kind, pattern in KINDS.items():
            chosen = [name for name in whole if re.search(pattern, name) and whole[name].ndim == 2]
            if not chosen:
                continue
            mixed = dict(whole)
            for name in chosen:
                mixed[name] = rounded(whole[name]) if kind == "routers" else few[name]
            shutil.copytree(self.place("f32"), self.place("mixed"))
            write_tensors(os.path.join(self.place("mixed"), "model.safetensors"), mixed)
            loss, bits = self.loss(self.place("mixed"))
            shutil.rmtree(self.place("mixed"))
            yield {"kind": kind, "numbers": sum(whole[name].size for name in chosen), "loss": loss, "bits_per_byte": bits}


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("corpus")
    parser.add_argument("--penstock", default=os.path.join(root, "build", "release", "bin", "penstock"))
    parser.add_argument("--tokens", type=int, default=0, help="number of tokens of the split that are measured; 0: all")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-quantised-") as folder:
        bench = Bench(arguments, folder)
        types = list(bench.types())
        kinds = list(bench.kinds())
    if arguments.json:
        print(json.dumps({"types": types, "kinds": kinds}, indent=1))
        return
    exact = types[0]["loss"]
    print(f"{'type':20} {'MB':>8} {'loss':>9} {'increase':>9} {'bits/byte':>10} {'same top':>9} {'same experts':>13}")
    for row in types:
        print(f"{row['type']:20} {row['bytes'] / 1e6:8.1f} {row['loss']:9.4f} {row['loss'] - exact:+9.4f} "
              f"{row['bits_per_byte']:10.4f} {row['same_top_token']:9.4f} {row['same_experts']:13.4f}")
    print(f"{'this kind in q4_k':20} {'M':>8} {'loss':>9} {'increase':>9}")
    for row in kinds:
        print(f"{row['kind']:20} {row['numbers'] / 1e6:8.2f} {row['loss']:9.4f} {row['loss'] - exact:+9.4f}")


if __name__ == "__main__":
    main()
