#!/usr/bin/python3
"""Runs `penstock bench` and the chart of its sweep.

    bench_test.py PENSTOCK
"""

import json
import os
import subprocess

from shell import main

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def check_bench(shell):
    quick = ("--set", "model.vocab=256", "--steps", "2", "--warm-up", "1", "--json")
    machine = json.loads(shell.ok("bench", "machine", "--threads", "1", "--json"))
    for key in ("peak_flops", "peak_flops_per_core", "memory_bandwidth", "matmul_flops", "threads"):
        shell.expect("bench machine", machine[key] > 0, key)
    bf16 = machine["peak_flops_bf16"]  # null where the processor has none
    unit = machine["unit_bf16"]
    shell.expect("bench machine", unit in (None, "avx512-bf16", "amx-bf16"), unit)
    shell.expect("bench machine", bf16 is None if unit is None else bf16 > 0, bf16)
    # scripts/setup installs a fast BLAS.
    shell.expect("bench machine", machine["blas"] not in ("", "reference BLAS", "unknown BLAS"), machine)
    step = json.loads(shell.ok("bench", "step", "recipe.toml", "--active-experts", "1", *quick))
    for key in ("tokens_per_second", "flops_per_token", "share_of_peak", "peak_bytes", "outside_share"):
        shell.expect("bench step", step[key] > 0, key)
    rounded = json.loads(shell.ok("bench", "step", "recipe.toml", "--set", "train.precision=bf16", "--set",
                                  f"run.emulate_bf16={str(bf16 is None).lower()}", *quick))
    shell.expect("bench step in bf16", rounded["precision"] == "bf16" and rounded["share_of_peak"] > 0, rounded)
    shell.expect("bench step in bf16", {"linear/bf16", "expert_ffn.backward/bf16"}
                 <= {row["name"] for row in rounded["operators"]}, rounded["operators"])
    for row in step["operators"]:
        shell.expect("bench step", {"name", "seconds", "flops", "bytes", "share"} <= set(row), row)
    shell.expect("bench step", abs(step["active_experts"] - 1) < 0.02 and len(step["load"]) == 2, step)
    sweep = json.loads(shell.ok("bench", "layer", "recipe.toml", "--sweep-experts", "2,4,8", *quick))
    shell.expect("bench layer", [point["experts"] for point in sweep["points"]] == [2, 4, 8], sweep)
    with open(os.path.join(shell.directory, "sweep.json"), "w") as file:
        json.dump(sweep, file)
    shell.mistake(1, ["give model.vocab = 256"], "bench", "step", "recipe.toml")
    shell.mistake(1, ["--active-experts", "ReLU"], "bench", "step", "recipe.toml", "--set", "model.vocab=256",
                  "--set", "model.router.method=topk", "--active-experts", "1")
    shell.mistake(2, ["RECIPE"], "bench", "step")
    for command, option, wrong, why in (
            ("step", "--steps", "0", "must be 1 or more, not 0"), ("step", "--steps", "x", "must be a whole number, not 'x'"),
            ("step", "--warm-up", "-1", "must be 0 or more, not -1"),
            ("step", "--active-experts", "nan", "must be a number above 0, not 'nan'"),
            ("layer", "--tokens", "0", "must be 1 or more, not 0"), ("layer", "--experts", "-3", "must be 1 or more, not -3"),
            ("layer", "--sweep-tokens", "8,0", "must be 1 or more, not 0"),
            ("layer", "--sweep-experts", "2,x", "must be a whole number, not 'x'")):
        shell.mistake(2, [f"{option}: {why}"], "bench", command, "recipe.toml", option, wrong)
    shell.mistake(2, ["excludes", "--sweep-tokens"], "bench", "layer", "recipe.toml", "--tokens", "8", "--sweep-tokens",
                  "8,16")
    shell.mistake(2, ["'foo' is no command"], "bench", "foo")
    shell.mistake(2, ["subcommand is required"], "bench")
    for option in ("--experts", "--sweep-experts"):
        shell.mistake(1, [option + ": recipe.toml has a dense model, whose layers have no experts; leave the option out"],
                      "bench", "layer", "recipe.toml", "--set", "model.router.method=dense", option, "4")
    shell.ok("train", "recipe.toml", "--out", "short", "--quiet")
    shell.mistake(1, ["--prompt 9 and --tokens 8 are together more than the model's context of 16"], "bench", "generate",
                  "short", "--prompt", "9", "--tokens", "8")
    fitted = json.loads(shell.ok("bench", "generate", "short", "--repetitions", "1", "--json"))
    shell.expect("bench generate in a short context", (fitted["prompt"], fitted["tokens"]) == (8, 8), fitted)


def check_reference_blas(shell):
    """compare_torch.py refuses to compare with the reference BLAS, which is plain loops."""
    program = os.path.join(shell.directory, "program")
    with open(program, "w") as file:
        file.write("#!/bin/sh\necho '{\"blas\": \"reference BLAS\", \"blas_library\": \"/lib/libblas.so.3\"}'\n")
    os.chmod(program, 0o755)
    done = subprocess.run(["/usr/bin/python3", os.path.join(SOURCE, "bench/compare_torch.py"), "--penstock", program],
                          capture_output=True, text=True)
    shell.expect("compare_torch.py", done.returncode == 1 and "/lib/libblas.so.3" in done.stderr and
                 "install libopenblas0-openmp" in done.stderr and done.stderr.count("\n") == 1, done.stderr)


def check_plot(shell):
    done = subprocess.run(["/usr/bin/python3", os.path.join(SOURCE, "bench/plot_sweep.py"), "sweep.json", "--out",
                           "sweep.html"], cwd=shell.directory, capture_output=True, text=True)
    shell.expect("plot_sweep", done.returncode == 0, done.stderr)
    page = open(os.path.join(shell.directory, "sweep.html")).read()
    shell.expect("plot_sweep", page.count("<circle") == 9 and "http" not in page, page)


if __name__ == "__main__":
    main([check_bench, check_plot, check_reference_blas], run=False)
