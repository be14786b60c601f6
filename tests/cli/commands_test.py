#!/usr/bin/python3
"""Runs train, info and routers as a person would, on a tiny corpus. Checks the keys of --json and metrics.jsonl that
scripts rely on. Checks also that each kind of mistake, in any subcommand, gives one clear line and the right exit
code. The other subcommands have their own tests.

    commands_test.py PENSTOCK SOURCE_DIRECTORY
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys

from shell import finish, tiny


def check_outputs(shell, source):
    info = json.loads(shell.ok("info", os.path.join(source, "recipes/remoe/remoe-182m.toml"), "--json"))
    shell.expect("info", info["total_parameters"] == 777087744, info)
    shell.expect("info", abs(info["flops_per_sequence"] / 995.36e9 - 1) < 1e-4, info)
    shell.expect("info", info["active_parameters"] < info["total_parameters"], info)
    asked = ("info", "recipe.toml", "--set", "train.micro_batch=1", "--ranks", "2")
    plan = json.loads(shell.ok(*asked, "--json", "--layouts", "1000"))
    shell.expect("layouts", len(plan["layouts"]) == plan["fitting"] == plan["taken"] > 4, plan)
    seconds = [layout["step_seconds"] for layout in plan["layouts"]]
    shell.expect("layouts", seconds == sorted(seconds), seconds)
    told = shell.ok(*asked, "--memory", "1000")
    shell.expect("layouts", " 0 fit;" in told and "none fits 1.0 KB" in told and " 0.0 " not in told and " KB  " in told, told)
    shell.expect("layouts", len(shell.ok(*asked).splitlines()) == 2 + 5, "two lines above five")
    noted = (*asked, "--set", "data.corpus=lost", "--set", "train.warmup_steps=1000")
    plan = json.loads(shell.ok(*noted, "--json"))
    shell.expect("layouts with notes", plan["assumed_vocabulary"] == 256 and len(plan["notes"]) == 1, plan)
    told = shell.ok(*noted)
    shell.expect("layouts with notes", "note: --set train.warmup_steps=1000: " in told and
                 "note: counted with a vocabulary of 256" in told, told)
    shell.mistake(1, ["no layout of 64 ranks", "train.batch_sequences = 2"], *asked[:-1], "64")
    for option, value in (("--memory", "1e9"), ("--layouts", "3"), ("--layouts", "5")):
        shell.mistake(1, [option + " is for the layouts of --ranks N"], "info", "recipe.toml", option, value)
    shell.expect("FLOPs of a large model", "FLOPs         995.36 GFLOP per sequence of 1024 " in
                 shell.ok("info", os.path.join(source, "recipes/remoe/remoe-182m.toml")))
    for sizes in ((), ("--set", "model.d_model=4", "--set", "model.d_ffn=4", "--set", "train.sequence_length=2")):
        tiny = shell.ok("info", "recipe.toml", *sizes)
        shell.expect("FLOPs of a tiny model", " 0.00 " not in next(line for line in tiny.splitlines() if
                                                                    line.startswith("FLOPs ")), tiny)
    two = ("info", "recipe.toml", "--set", "train.micro_batch=1", "--set", "parallel.data=2", "--set")
    for more, saves, evaluates in (("parallel.zero=0", False, False), ("parallel.zero=2", True, False),
                                   ("parallel.pipeline=2", False, True), ("parallel.tensor=2", True, True)):
        about = shell.ok(*two, more)
        shell.expect("info of processes", (" more to save" in about, " more to evaluate" in about) == (saves, evaluates),
                     about)
    shell.mistake(1, ["/dev/null: sets no key"], "info", "/dev/null")
    shell.ok("info", "/dev/null", "--set", "model.layers=2")
    for wrong in ("0", "-1", "inf", "fast"):
        shell.mistake(2, ["--latency", f"must be a number above 0, not '{wrong}'"], "info", "recipe.toml", f"--latency={wrong}")
    shell.ok("train", "recipe.toml", "--out", "run", "--quiet")
    shell.ok("train", "--set", "train.steps=2", "recipe.toml", "--out", "run_of_2", "--quiet")  # the option takes one word
    for form in ((), ("--json",)):
        shell.expect("info of a run", shell.ok("info", "run", *form) == shell.ok("info", "run/config.toml", *form))
    shell.expect("info in KiB", " KiB to train: weights " in shell.ok("info", "run"))
    keys = shell.ok("study", "--keys")
    for key in ("seeds", "variants.VARIANT.match_compute", "scale.SCALE.variants.VARIANT.set"):
        shell.expect("study --keys", f"\n{key} " in keys, keys)
    shell.mistake(2, ["STUDY"], "study")
    keys = shell.ok("train", "--keys")
    shell.expect("keys", "(0 to 16777216)" in keys and "e+" not in keys, keys)
    lines = [json.loads(line) for line in open(os.path.join(shell.directory, "run/metrics.jsonl"))]
    shell.expect("metrics", [line["step"] for line in lines] == list(range(7)))
    for key in ("loss", "tokens_per_second", "share_of_peak", "sparsity", "active_experts", "lambda"):
        shell.expect("metrics", all(isinstance(line.get(key), float) for line in lines[1:]), key)
    shell.expect("validation", all("validation" in lines[step] for step in (0, 3, 6)))
    with open(os.path.join(shell.directory, "run/report.html")) as page:
        shell.expect("number of marks on the page", page.read().count("<mark>") == 2)
    for name in ("config.toml", "finished.json", "report.html", "samples.json", "checkpoints/step-6/config.json",
                 "checkpoints/step-6/model.safetensors", "checkpoints/step-6/tokenizer.json"):
        shell.expect("run directory", os.path.exists(os.path.join(shell.directory, "run", name)), name)
    routers = json.loads(shell.ok("routers", "--json"))
    one = json.loads(shell.ok("routers", "topk", "--json"))
    shell.expect("routers NAME", one == {kind: {name: entry for name, entry in routers[kind].items() if name == "topk"}
                                         for kind in ("methods", "scorers", "selectors", "balancers")}, one)
    shell.expect("routers NAME", "topk" in one["methods"] and "topk" in one["selectors"], one)
    sets = json.loads(shell.ok("data", "fetch", "--list", "--json"))
    shell.expect("data fetch --list", any(one["name"] == "enwik8" and one["urls"] for one in sets), sets[:1])
    tasks = json.loads(shell.ok("eval", "--list-tasks", "--json"))
    shell.expect("--list-tasks", any(task["name"] == "piqa" for task in tasks["lm-eval"]["tasks"]), list(tasks))
    shell.expect("routers", {"dense", "topk", "remoe", "hash"} <= set(routers["methods"]))
    shell.expect("routers", "[model.router.topk.schedule]" in shell.ok("routers", "hyperrouter"))
    for kind in ("scorers", "selectors", "balancers"):
        meanings = routers["traits"][kind]
        shell.expect("routers --json", all(meanings.values()), meanings)
        for name, part in routers[kind].items():
            shell.expect(f"routers --json: {name}", part["traits"].keys() == meanings.keys(), part)
    thor, even = routers["methods"]["thor"], routers["methods"]["loss-free"]
    shell.expect("routers --json", thor["options"]["thor"]["consistency"] == 5 and
                 thor["traits"]["forward_passes"] == 2 and thor["traits"]["disagreement"] == 5, thor)
    shell.expect("routers --json", even["traits"]["biases_choice"] and
                 "lambda" in [state["name"] for state in routers["balancers"]["adaptive-l1"]["traits"]["state"]], even)
    about = shell.ok("info", "recipe.toml")
    shell.expect("info", "vocabulary of" not in about and "hypernetwork" not in about, about)
    about = shell.ok("info", "recipe.toml", "--set", "data.corpus=nowhere")
    shell.expect("a corpus that is not there", "counted with a vocabulary of 256; the corpus decides" in about, about)
    shell.ok("data", "prepare", "text.txt", "--tokenizer", "bpe:300", "--out", "of-pieces")
    one, shards = (shell.ok("data", "prepare", "text.txt", *more, "--out", "same").split("content ")[-1]
                   for more in ((), ("--shard-tokens", "5000")))
    files = os.listdir(os.path.join(shell.directory, "same"))
    shell.expect("shards are the same corpus", one == shards and
                 any(name.startswith("tokens-00001-of-") for name in files), (one, shards, files))
    about = shell.ok("info", "recipe.toml", "--set", "data.corpus=of-pieces")
    shell.expect("a corpus of pieces", "V=300" in about and "vocabulary of" not in about, about)
    about = shell.ok("info", "recipe.toml", "--set", "model.router.method=hyperrouter")
    shell.expect("info of a hypernetwork", " router embedding, " in about, about)
    about = shell.ok("info", "recipe.toml", "--set", "model.router.method=smoe", "--set", "model.router.k=2")
    shell.expect("info of routers that learn a bias", "note: its routers learn a bias" in about, about)
    about = shell.ok("info", "recipe.toml", "--set", "model.router.method=topk")
    shell.expect("info of routers without a bias", "bias for each expert" not in about, about)
    about = shell.ok("info", "recipe.toml", "--set", "model.moe.dense_layers=1", "--set", "model.moe.dense_width=88")
    shell.expect("info of dense layers", " f=88, " in about, about)
    for command in ("data prepare", "train", "eval", "tokenize", "analyse", "finetune", "info", "study", "report",
                    "routers", "bench machine", "bench step", "bench layer"):
        shell.expect("help", "penstock " + command in shell.ok(*command.split(), "--help"), command)


def check_full_output(shell):
    """Every command fails if it cannot write its output to standard output."""
    for arguments in (("routers",), ("routers", "--json"), ("info", "recipe.toml"), ("train", "--keys"),
                      ("eval", "run", "--data", "corpus"), ("report", "run"), ("--help",), ("--version",)):
        with open("/dev/full", "w") as full:
            done = subprocess.run([shell.program, *arguments], cwd=shell.directory, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=120)
        shell.expect(" ".join(arguments) + " > /dev/full", done.returncode == 1 and
                     re.fullmatch(r"penstock: standard output cannot be written[^\n]*\n", done.stderr),
                     f"exit {done.returncode} {done.stderr!r}")


def check_launcher(shell):
    """The program sets GOMP_SPINCOUNT before it loads OpenMP's library, which prints it; --version loads none.

    It refuses to load its libraries where they would not fit."""
    def spin_count(**variables):
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
        done = subprocess.run([shell.program, "routers"], capture_output=True, text=True, timeout=120,
                              env={**environment, "OMP_DISPLAY_ENV": "verbose", **variables})
        found = re.search(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr)
        return int(found[1]) if found else done.stderr

    shell.expect("spin count", spin_count() == 10000, spin_count())
    shell.expect("spin count of the user's own", spin_count(GOMP_SPINCOUNT="77") == 77)
    shell.expect("spin count of a policy", spin_count(OMP_WAIT_POLICY="passive") == 0)
    def limit_addresses():
        resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))

    done = subprocess.run([shell.program, "routers"], capture_output=True, text=True, timeout=60,
                          preexec_fn=limit_addresses)
    shell.expect("600 MiB of addresses", done.returncode == 1 and re.fullmatch(
        r"penstock: the process may have 600 MiB of addresses, [^\n]*`ulimit -v`\n", done.stderr), done.stderr)
    done = subprocess.run([shell.program, "--version"], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "LD_DEBUG": "files"})
    shell.expect("--version", re.fullmatch(r"\d+\.\d+\.\d+\n", done.stdout) and "libc.so" in done.stderr and
                 "libtorch" not in done.stderr, done.stdout)


def check_mistakes(shell):
    train = ("train", "recipe.toml", "--out", "other", "--set")
    shell.mistake(1, ["train.setps", "'steps'"], *train, "train.setps=3")
    shell.mistake(1, ["model.d_model", "integer"], *train, "model.d_model=wide")
    shell.mistake(1, ["model.d_model", "recipe.toml:4: ", "--set model.heads=5"], *train, "model.heads=5")
    shell.mistake(1, ["--set model.router.k=9: ", "recipe.toml:10"], *train, "model.router.k=9")
    shell.mistake(1, ["--set model.vocab=9: model.vocab = 9 is smaller"], *train, "model.vocab=9")
    shell.mistake(1, ["--set train.sequence_length=99999: the train split"], *train,
                  "train.sequence_length=99999")
    shell.mistake(1, ["--set model.d_model=65536: ", "this machine has"], *train, "model.d_model=65536",
                  "--set", "model.layers=5000")
    shell.mistake(1, ["--set train.sequence_length=9000: ", "takes", "GiB", "this machine has", "free",
                      "lower train.sequence_length to", "--force"],
                  "train", "recipe.toml", "--out", "other", "--set", "train.sequence_length=9000",
                  "--set", "model.moe.experts=65536")
    shell.mistake(1, ["--set model.d_model=1048576: ", "1e15"], *train, "model.d_model=1048576",
                  "--set", "model.layers=5000")
    shell.mistake(1, ["/dev/zero", "longer than"], "info", "/dev/zero")
    shell.mistake(1, ["train.steps", "64 bits"], *train, "train.steps=99999999999999999999")
    shell.mistake(1, ["remo", "remoe"], *train, "model.router.method=remo")
    shell.mistake(1, ["topk", "not in use"], *train, "model.router.topk.softmax=after")
    shell.mistake(1, ["no-such-corpus"], *train, "data.corpus=no-such-corpus")
    shell.mistake(1, ["run", "--resume"], "train", "recipe.toml", "--out", "run", "--quiet")
    shell.mistake(1, ["another recipe", "lr"], "train", "recipe.toml", "--out", "run", "--resume", "--set",
                  "train.lr=0.5")
    shell.mistake(1, ["bad.txt", "UTF-8"], "data", "prepare", "bad.txt", "--out", "bad")
    shell.mistake(1, ["holds more than a corpus"], "data", "prepare", "text.txt", "--out", "mixed")
    for option in ("--seed", "--most-bytes", "--shard-tokens"):
        shell.mistake(2, [option + ": must be 0 or more, not -1"], "data", "prepare", "text.txt", option, "-1", "--out", "no")
    shell.mistake(1, ["penstock: --split 'a,b,c': give the shares of train,"], "data", "prepare", "text.txt", "--split",
                  "a,b,c", "--out", "no")
    shell.mistake(2, ["'foo' is no command"], "data", "foo")
    for words in (("--learning-rate", "3"), ("topk.toml",), ("--quite",)):
        shell.mistake(2, [f"'{' '.join(words)}' is nothing that this command takes"], "train", "recipe.toml", *words)
    shell.mistake(2, ["'info' is no command"], "data", "info", "--help")
    shell.mistake(2, ["'trian' is no command"], "trian", "--help")
    for option, why in (("--ranks", "must be 1 or more, not 0"), ("--node-ranks", "must be 1 or more, not 0"),
                        ("--rank-load", "must be 1 or more, not 0"), ("--layouts", "must be 1 or more, not 0")):
        shell.mistake(2, [f"{option}: {why}"], "info", "recipe.toml", option, "0")
    shell.mistake(2, ["--rank-load: must be a number, not 'nan'"], "info", "recipe.toml", "--rank-load", "nan")
    shell.mistake(2, ["--processes: must be 4096 or less, not 5000"], "train", "recipe.toml", "--processes", "5000")
    shell.mistake(2, ["--jobs: must be a whole number, not 'x'"], "study", "recipe.toml", "--jobs", "x")
    shell.mistake(2, ["--threads: must be 0 or more"], "bench", "machine", "--threads", "-2")
    shell.mistake(1, ["train.steps: 6 -> 7", "it cannot go on to more steps", "train.init_from = run"], "train", "recipe.toml", "--out",
                  "run", "--resume", "--set", "train.steps=7", "--set", "train.warmup_steps=1")
    # The recipe in a run's folder resumes that run. Without --resume it is a recipe like any other.
    said = shell.run("train", "run/config.toml", "--resume").stderr
    shell.expect("a run's config.toml with --resume", "run: already finished" in said and "runs/config" not in said, said)
    # A run, a study and a corpus keep folders of their own.
    with open(os.path.join(shell.directory, "study.toml"), "w") as file:
        file.write('name = "one"\ntitle = "one"\nbase = "recipe.toml"\nseeds = [1]\n[variants.a]\n')
    shell.mistake(1, ["run: holds a run (metrics.jsonl)", "another folder"], "study", "study.toml", "--out", "run")
    for wrong, why in (("b:1", "--only: no variant of this study is called b"), ("a:9", "--only: this study has no seed 9")):
        shell.mistake(1, [why], "study", "study.toml", "--only", wrong, "--out", "of-one")
    shell.mistake(1, ["corpus: holds a corpus (corpus.json)", "another folder"], "train", "recipe.toml", "--out", "corpus")
    # Paths are UTF-8, because recipes and JSON hold them.
    shell.mistake(1, ["'data.corpus=c\\xff' is not UTF-8"], "train", "recipe.toml", "--out", "no", "--set",
                  os.fsdecode(b"data.corpus=c\xff"))
    shell.mistake(1, ["'run\\xff' is not UTF-8"], "eval", os.fsdecode(b"run\xff"), "--data", "corpus", "--json")
    shell.expect("not UTF-8", not os.path.exists(os.path.join(shell.directory, "no")))
    path = os.path.join(shell.directory, "run/checkpoints/step-6/model.safetensors")
    with open(path, "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\x01\x02\x03\x04")
    shell.mistake(1, ["model.safetensors"], "eval", "run/checkpoints/step-6", "--data", "corpus")


def check_interrupted_preparation(shell):
    """A signal interrupts `data prepare` during the long training of a tokenizer, and nothing is written."""
    with open(os.path.join(shell.directory, "long.txt"), "w") as file:
        for number in range(400000):
            file.write(f"{number * 7919 % 104729} turbine {number} gate\n")
    for number in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen([shell.program, "data", "prepare", "long.txt", "--tokenizer", "unigram:8000", "--out",
                                    "interrupted"], cwd=shell.directory, stderr=subprocess.PIPE, text=True)
        process.stderr.readline()  # "reading long.txt": by now the signal handler is installed
        process.send_signal(number)
        rest = process.communicate(timeout=120)[1]
        shell.expect("interrupted preparation", process.returncode == 130 and
                     rest.endswith("\ninterrupted; nothing was written\n"), f"{process.returncode} {rest!r}")
    left = [name for name in os.listdir(shell.directory) if "interrupted" in name]
    shell.expect("interrupted preparation", left == [], left)


def main():
    source = os.path.abspath(sys.argv[2])
    with tiny(sys.argv[1], run=False) as shell:
        with open(os.path.join(shell.directory, "bad.txt"), "wb") as file:
            file.write(b"good\xff\xfebad")
        shell.ok("data", "prepare", "text.txt", "--out", "mixed")
        open(os.path.join(shell.directory, "mixed/notes"), "w").close()
        check_outputs(shell, source)
        check_full_output(shell)
        check_launcher(shell)
        check_interrupted_preparation(shell)
        check_mistakes(shell)
        return finish(shell)


if __name__ == "__main__":
    sys.exit(main())
