#!/usr/bin/env python3
"""Times training steps of Penstock and of llm.c's train_gpt2 on the CPU in alternation and prints the ratio.

    bench/compare_llm_c.py LLM_C [--penstock build/release/bin/penstock] [--rounds 5] [--json]

LLM_C is a checkout of github.com/karpathy/llm.c. The script compiles its train_gpt2.c as llm.c's Makefile does (-Ofast,
-march=native, OpenMP). Both programs train a decoder of d=256, 4 layers and 8 heads on 16 x 256 tokens in f32 with
AdamW; the vocabulary has 256 tokens. GPT-2's feed-forward has two matrices of 1024 neurons, and GPT-2 has LayerNorm,
GELU and learned positions. Penstock's feed-forward has three matrices of 683 neurons, and Penstock has RMSNorm, SwiGLU
and rotary positions. The FLOPs of the matrix products therefore agree to a thousandth. llm.c does not clip gradients
and does not compute their norm.
"""
import argparse
import array
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
WIDTH, LAYERS, HEADS, VOCAB, BATCH, LENGTH = 256, 4, 8, 256, 16, 256
RECIPE = ["--set", f"model.vocab={VOCAB}", "--set", "model.d_ffn=683", "--set", "model.kv_heads=0", "--set",
          "model.tie_embeddings=true"]


def write_checkpoint(path):
    """Writes a checkpoint in llm.c's format; GPT-2's parameters are small random numbers."""
    count = (VOCAB + LENGTH) * WIDTH + 2 * WIDTH
    count += LAYERS * (4 * WIDTH + 3 * WIDTH * (WIDTH + 1) + WIDTH * (WIDTH + 1) +
                       4 * WIDTH * (WIDTH + 1) + WIDTH * (4 * WIDTH + 1))
    draw = random.Random(1)
    header = [20240326, 3, LENGTH, VOCAB, LAYERS, HEADS, WIDTH, VOCAB] + 248 * [0]
    with open(path, "wb") as file:
        array.array("i", header).tofile(file)
        array.array("f", (draw.gauss(0, 0.02) for _ in range(count))).tofile(file)


def compile_peer(checkout, directory):
    source = os.path.abspath(os.path.join(checkout, "train_gpt2.c"))
    if not os.path.isfile(source):
        sys.exit(f"compare_llm_c.py: {checkout} has no train_gpt2.c; give a checkout of llm.c")
    program = os.path.join(directory, "llm_c_step")
    subprocess.run(["cc", "-Ofast", "-march=native", "-fopenmp", "-DOMP", "-w", f'-DLLM_C_SOURCE="{source}"',
                    os.path.join(HERE, "llm_c_step.c"), "-lm", "-o", program], check=True)
    return program


def peer_tokens(program, checkpoint, steps):
    said = subprocess.run([program, checkpoint, str(BATCH), str(LENGTH), str(steps)], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    seconds = [float(line.split()[1]) for line in said.splitlines() if line.startswith("seconds ")]
    return BATCH * LENGTH / statistics.median(seconds)


def penstock_step(penstock, steps, precision):
    done = subprocess.run([penstock, "bench", "step", os.path.join(ROOT, "recipes/bench/dense.toml"), *RECIPE, "--set",
                           f"train.precision={precision}", "--steps", str(steps), "--json"],
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def has_bf16(penstock):
    said = subprocess.run([penstock, "bench", "machine", "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(said).get("peak_flops_bf16", 0) > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", help="folder of a checkout of llm.c")
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build/release/bin/penstock"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="timed steps of each program in a round")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    precisions = ["fp32"] + (["bf16"] if has_bf16(arguments.penstock) else [])
    rounds = []
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = os.path.join(directory, "gpt2.bin")
        write_checkpoint(checkpoint)
        program = compile_peer(arguments.checkout, directory)
        for number in range(arguments.rounds):
            one = {"llm.c": peer_tokens(program, checkpoint, arguments.steps)}
            for precision in precisions:
                one[precision] = penstock_step(arguments.penstock, arguments.steps, precision)["tokens_per_second"]
            rounds.append(one)
            print(f"round {number + 1}: " + ", ".join(f"{name} {value:.0f}" for name, value in one.items()), file=sys.stderr)
    result = {"llm_c_tokens_per_second": statistics.median(one["llm.c"] for one in rounds), "rounds": len(rounds)}
    for precision in precisions:
        ratios = sorted(one[precision] / one["llm.c"] for one in rounds)
        result[precision] = {"tokens_per_second": statistics.median(one[precision] for one in rounds),
                             "ratio": statistics.median(ratios), "lowest": ratios[0], "highest": ratios[-1]}
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    print(f"llm.c {result['llm_c_tokens_per_second']:.0f} tokens/s")
    for precision in precisions:
        r = result[precision]
        print(f"{precision} {r['tokens_per_second']:.0f} tokens/s, {r['ratio']:.2f} times ({r['lowest']:.2f} to {r['highest']:.2f})")


if __name__ == "__main__":
    main()
