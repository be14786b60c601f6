#!/usr/bin/python3
"""Models of other programs on the command line: a Mixtral directory that this test makes, a random Qwen2 that
scripts/make-random-checkpoint makes, and a llama2.c file. Every subcommand that takes a MODEL must accept them, and
`penstock trace` of the Mixtral must obey Mixtral's formulas.

    foreign_models_test.py PENSTOCK SOURCE_DIRECTORY
"""

import array
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys

from shell import finish, tiny
from finetune_test import write_task

VOCAB, WIDTH, INNER, EXPERTS, LAYERS = 256, 16, 12, 4, 2
CONFIG = {"model_type": "mixtral", "vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": INNER,
          "num_hidden_layers": LAYERS, "num_attention_heads": 2, "num_key_value_heads": 1,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
          "num_local_experts": EXPERTS, "num_experts_per_tok": 2}


def mixtral_tensors():
    draw = random.Random(7)
    out = {}

    def add(name, *shape):
        values = [draw.gauss(0, 0.3) for _ in range(math.prod(shape))]
        out[name] = (list(shape), [1.0] * len(values) if "norm" in name else values)

    add("model.embed_tokens.weight", VOCAB, WIDTH)
    add("lm_head.weight", VOCAB, WIDTH)
    add("model.norm.weight", WIDTH)
    for layer in range(LAYERS):
        stem = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            add(stem + norm + ".weight", WIDTH)
        for name, width in (("q", WIDTH), ("k", WIDTH // 2), ("v", WIDTH // 2), ("o", WIDTH)):
            add(stem + f"self_attn.{name}_proj.weight", width, WIDTH)
        add(stem + "block_sparse_moe.gate.weight", EXPERTS, WIDTH)
        for expert in range(EXPERTS):
            for name, shape in (("w1", (INNER, WIDTH)), ("w3", (INNER, WIDTH)), ("w2", (WIDTH, INNER))):
                add(stem + f"block_sparse_moe.experts.{expert}.{name}.weight", *shape)
    return out


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        begin = len(data)
        data += array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            out[name] = (entry["shape"], array.array("q" if entry["dtype"] == "I64" else "f", data[begin:end]))
    return out


def write_model(folder, tensors, config=None):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config or CONFIG, file)
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors)


def write_llama2c(path):
    """Writes a model of width 8 that uses the embeddings as head. Its weights are arbitrary."""
    width, inner, layers, heads, vocab, context = 8, 12, 2, 2, 512, 32
    floats = (vocab * width + layers * (2 * width + 4 * width * width + 3 * width * inner) + width +
              context * width // heads)
    draw = random.Random(3)
    with open(path, "wb") as file:
        file.write(struct.pack("<7i", width, inner, layers, heads, heads, vocab, context))
        file.write(array.array("f", [draw.gauss(0, 0.2) for _ in range(floats)]).tobytes())


def check_commands(shell):
    info = json.loads(shell.ok("info", "mixtral", "--json"))
    shell.expect("info of weights that fit", "notes" not in info, info)
    per_layer = 2 * WIDTH + 3 * WIDTH * WIDTH + EXPERTS * WIDTH + 3 * EXPERTS * WIDTH * INNER
    shell.expect("info", info["total_parameters"] == 2 * VOCAB * WIDTH + WIDTH + LAYERS * per_layer, info)
    done = json.loads(shell.ok("eval", "mixtral", "--data", "corpus", "--split", "train", "--max-tokens", "512", "--json"))
    shell.expect("eval", 3 < done["loss"] < 12 and done["step"] is None, done)
    by_k = json.loads(shell.ok("eval", "mixtral", "--data", "corpus", "--split", "train", "--max-tokens", "128", "--k", "1,4", "--json"))
    shell.expect("eval --k", [point["k"] for point in by_k["by_k"]] == [1, 4], by_k)
    analysis = json.loads(shell.ok("analyse", "mixtral", "--data", "corpus", "--split", "train", "--tokens", "256", "--json"))
    shell.expect("analyse", len(analysis["snapshots"]) == 1, analysis["snapshots"])
    tuned = json.loads(shell.ok("finetune", "mixtral", "--data", "sst2", "--out", "tuned", "--set", "steps=4", "--set",
                                "batch=4", "--quiet", "--json"))
    shell.expect("finetune", tuned["test_texts"] == 30, tuned)


def check_trace(shell, tensors):
    ids = [5, 0, 255, 17, 17, 42]
    with open(os.path.join(shell.directory, "ids.json"), "w") as file:
        json.dump(ids, file)
    with open(os.path.join(shell.directory, "ids.txt"), "w") as file:
        file.write("5 0\n255\t17 17\n\n 42\n")
    shell.ok("trace", "mixtral", "--tokens", "ids.json", "--out", "trace.safetensors")
    shell.ok("trace", "mixtral", "--tokens", "ids.txt", "--out", "again.safetensors")
    shell.mistake(1, ["is a folder"], "trace", "mixtral", "--tokens", "ids.json", "--out", "mixtral")
    shell.mistake(1, ["is a file of a model"], "trace", "mixtral", "--tokens", "ids.json", "--out",
                  "mixtral/model.safetensors")
    trace = read_safetensors(os.path.join(shell.directory, "trace.safetensors"))
    shell.expect("trace", trace == read_safetensors(os.path.join(shell.directory, "again.safetensors")))
    shell.expect("trace", list(trace["tokens"][1]) == ids, trace["tokens"])
    for layer in range(LAYERS):
        gate = tensors[f"model.layers.{layer}.block_sparse_moe.gate.weight"][1]
        rows, logits, gates = (trace[f"layers.{layer}.{name}"] for name in ("router_input", "logits", "gates"))
        shell.expect("trace", rows[0] == [6, WIDTH] and logits[0] == gates[0] == [6, EXPERTS], rows[0])
        for t in range(6):
            row = rows[1][t * WIDTH:(t + 1) * WIDTH]
            expected = [sum(gate[e * WIDTH + i] * row[i] for i in range(WIDTH)) for e in range(EXPERTS)]
            said = logits[1][t * EXPERTS:(t + 1) * EXPERTS]
            shell.expect("trace logits", max(abs(a - b) for a, b in zip(expected, said)) < 1e-4, (expected, said))
            best = sorted(range(EXPERTS), key=lambda e: -expected[e])[:2]
            total = sum(math.exp(expected[e]) for e in best)
            weights = [math.exp(expected[e]) / total if e in best else 0 for e in range(EXPERTS)]
            said = gates[1][t * EXPERTS:(t + 1) * EXPERTS]
            shell.expect("trace gates", max(abs(a - b) for a, b in zip(weights, said)) < 1e-4, (weights, said))
    text = shell.ok("trace", "mixtral", "--text", "water", "--out", "text.safetensors")
    shell.expect("trace --text", "5 tokens" in text, text)
    traced = read_safetensors(os.path.join(shell.directory, "text.safetensors"))
    shell.expect("trace --text", list(traced["tokens"][1]) == list(b"water"), traced["tokens"])

    def mistake(parts, content, *arguments):
        with open(os.path.join(shell.directory, "bad.txt"), "w") as file:
            file.write(content)
        shell.mistake(1, parts, "trace", "mixtral", "--tokens", "bad.txt", "--out", "bad.safetensors", *arguments)

    mistake(["bad.txt", "'x7'"], "5 x7")
    mistake(["bad.txt", "no token ids"], " \n")
    mistake(["bad.txt", "JSON array"], "[1, 2")
    mistake(["bad.txt", "entry 1"], "[1, 2.5]")
    mistake(["token 256", "256"], "256")
    mistake(["token -1"], "-1")
    mistake(["context of 64"], "1 " * 65)
    shell.mistake(1, ["dense", "pcycle"], "trace", "qwen2", "--tokens", "ids.txt", "--out", "bad.safetensors")
    shell.mistake(2, ["--text"], "trace", "mixtral", "--out", "bad.safetensors")
    shell.mistake(2, ["--t"], "trace", "mixtral", "--text", "a", "--tokens", "ids.txt", "--out", "bad.safetensors")
    shell.expect("trace", not os.path.exists(os.path.join(shell.directory, "bad.safetensors")))
    shell.expect("trace --help", "Examples:" in shell.ok("trace", "--help"))


def check_damage(shell, tensors):
    name = "model.layers.1.block_sparse_moe.experts.2.w3.weight"
    without = {key: value for key, value in tensors.items() if key != name}
    write_model(os.path.join(shell.directory, "damaged"), without)
    shell.mistake(1, [name, "missing"], "eval", "damaged", "--data", "corpus")
    notes = json.loads(shell.ok("info", "damaged", "--json"))["notes"]
    shell.expect("info of weights that do not fit", len(notes) == 1 and name in notes[0], notes)
    transposed = {**tensors, name: (tensors[name][0][::-1], tensors[name][1])}
    write_model(os.path.join(shell.directory, "damaged"), transposed)
    shell.mistake(1, [name, "transposed"], "analyse", "damaged", "--data", "corpus")
    write_model(os.path.join(shell.directory, "damaged"), {**tensors, "extra.bias": ([1], [0.0])})
    shell.mistake(1, ["extra.bias", "unknown"], "trace", "damaged", "--text", "a", "--out", "x.safetensors")
    write_model(os.path.join(shell.directory, "damaged"), tensors, {**CONFIG, "sliding_window": 8})
    shell.mistake(1, ["sliding_window"], "info", "damaged")
    write_model(os.path.join(shell.directory, "damaged"), tensors, {"penstock": {"model": {}}})
    said = shell.ok("info", "damaged")
    shell.expect("info of a model without a context", "nan" not in said and "sequence of 256" in said, said)
    broken = {**tensors, name: (tensors[name][0], [float("nan")] + tensors[name][1][1:])}
    write_model(os.path.join(shell.directory, "damaged"), broken)
    shutil.copy(os.path.join(shell.directory, "corpus/tokenizer.json"), os.path.join(shell.directory, "damaged"))
    shell.mistake(1, [f"'{name}'", "NaN"], "eval", "damaged", "--data", "corpus")


def check_random_checkpoint(shell, source):
    script = os.path.join(source, "scripts/make-random-checkpoint")
    sizes = ["--layers", "2", "--width", "32", "--heads", "4", "--ffn", "48", "--vocab", "9000", "--context", "64",
             "--shard-mib", "1"]
    made = subprocess.run([sys.executable, script, os.path.join(shell.directory, "qwen2"), *sizes],
                          capture_output=True, text=True)
    shell.expect("make-random-checkpoint", made.returncode == 0, made.stderr)
    files = sorted(os.listdir(os.path.join(shell.directory, "qwen2")))
    shell.expect("make-random-checkpoint", "model.safetensors.index.json" not in files, files)
    info = json.loads(shell.ok("info", "qwen2", "--json"))
    parameters = 9000 * 32 + 32 + 2 * (2 * 32 + 4 * 32 * 32 + 3 * 32 + 3 * 32 * 48)
    shell.expect("info", info["total_parameters"] == parameters, info)
    shell.expect("make-random-checkpoint", f"{parameters:,} parameters" in made.stdout, made.stdout)
    sizes[sizes.index("--shard-mib") + 1:] = ["1", "--dtype", "f32"]
    subprocess.run([sys.executable, script, os.path.join(shell.directory, "sharded"), *sizes], check=True,
                   capture_output=True)
    files = sorted(os.listdir(os.path.join(shell.directory, "sharded")))
    shell.expect("make-random-checkpoint", files[1:] == ["model-00001-of-00002.safetensors",
                                                         "model-00002-of-00002.safetensors",
                                                         "model.safetensors.index.json"], files)
    shell.expect("info", json.loads(shell.ok("info", "sharded", "--json"))["total_parameters"] == parameters)
    os.remove(os.path.join(shell.directory, "sharded", files[2]))
    shell.mistake(1, [files[2]], "eval", "sharded", "--data", "corpus")
    shell.mistake(1, ["tokenizer"], "eval", "qwen2", "--data", "corpus")


def check_llama2c(shell):
    write_llama2c(os.path.join(shell.directory, "story.bin"))
    info = json.loads(shell.ok("info", "story.bin", "--json"))
    parameters = 512 * 8 + 8 + 2 * (2 * 8 + 4 * 64 + 3 * 8 * 12)
    shell.expect("info of a .bin", info["total_parameters"] == parameters, info)
    shell.mistake(1, ["story.bin", "tokenizer"], "eval", "story.bin", "--data", "corpus")
    with open(os.path.join(shell.directory, "short.bin"), "wb") as file, \
            open(os.path.join(shell.directory, "story.bin"), "rb") as whole:
        file.write(whole.read()[:-4])
    shell.mistake(1, ["short.bin", "cut short"], "info", "short.bin")
    shell.mistake(1, ["nowhere.bin"], "info", "nowhere.bin")


def main():
    source = os.path.abspath(sys.argv[2])
    with tiny(sys.argv[1], run=False) as shell:
        directory = shell.directory
        write_task(os.path.join(directory, "sst2"))
        tensors = mixtral_tensors()
        write_model(os.path.join(directory, "mixtral"), tensors)
        shutil.copy(os.path.join(directory, "corpus/tokenizer.json"), os.path.join(directory, "mixtral"))
        check_random_checkpoint(shell, source)
        check_commands(shell)
        check_trace(shell, tensors)
        check_damage(shell, tensors)
        check_llama2c(shell)
        return finish(shell)


if __name__ == "__main__":
    sys.exit(main())
