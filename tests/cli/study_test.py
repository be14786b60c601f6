#!/usr/bin/python3
"""Runs whole studies as a person would, on a tiny corpus. The studies have fine-tunings, entropies, folded routers,
models initialised from or upcycled from another run's model, settings of another study, tables that need no training,
and runs that diverge. Checks also a terminal that is narrower than the table, and that `eval RUN` repeats the figures
of finished.json.

    study_test.py PENSTOCK SOURCE_DIRECTORY
"""

import fcntl
import glob
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

from shell import Shell, has_terminals
from finetune_test import write_task

RECIPE = """
[model]
architecture = "transformer-xl"
vocab = 0
d_model = 16
layers = 2
heads = 2
d_ffn = 16
[model.moe]
experts = 4
[model.router]
method = "hyperrouter"
k = 4
[data]
corpus = "corpus"
[train]
steps = 4
batch_sequences = 2
sequence_length = 16
eval_sequence_length = 8
eval_memory = 24
eval_streams = 3
[run]
threads = 1
report = false
tensorboard = false
"""

DENSE = """
[model]
vocab = 0
d_model = 16
layers = 2
heads = 4
d_ffn = 32
[model.router]
method = "dense"
[data]
corpus = "corpus"
[train]
steps = 4
batch_sequences = 2
sequence_length = 16
[run]
threads = 1
report = false
tensorboard = false
"""

FIRST = """
name = "first"
base = "recipe.toml"
eval_k = [1, 4]
report = ["entropy", "samples"]
tasks = ["arc_easy"]
task_data = "rows"
[variants.hyper]
fold = true
published = {layer0 = 1.4393, sst2-k4 = 83.33, arc_easy = 48.36}
[variants.remoe]
set = {"model.router.method" = "remoe", "model.router.scorer" = "hypernetwork", "model.router.k" = 2}
[finetune.sst2]
data = "sst2"
task = "sst2"
set = {steps = 2, batch = 4, test_k = [2, 4]}
"""

LIKE = """
like = "first.toml"
only = ["hyper"]
report = ["entropy"]
"""

UPCYCLED = """
name = "upcycled"
published_as = "tasks, %"
[upcycle]
experts = 4
k = 2
calibration_tokens = 512
[variants.parent]
recipe = "dense.toml"
[variants.continued]
recipe = "dense.toml"
from = "parent"
published = {result = 34.76}
[variants.vanilla]
recipe = "dense.toml"
from = "parent"
upcycle = {method = "vanilla"}
[variants.heads]
recipe = "dense.toml"
from = "parent"
upcycle = {method = "router-upcycling"}
[variants.collapsed]
recipe = "dense.toml"
from = "parent"
upcycle = {method = "router-upcycling", collapsed = true, match_lr = true}
[variants.no-z-loss]
recipe = "dense.toml"
from = "parent"
upcycle = {method = "router-upcycling"}
set = {"model.router.z-loss.coefficient" = 0}
"""


DIVERGING = """
name = "diverging"
base = "dense.toml"
[variants.steady]
[variants.steep]
set = {"train.lr" = 1e30}
[variants.after]
from = "steep"
"""


def write(folder, name, text):
    with open(os.path.join(folder, name), "w") as file:
        file.write(text)


def rows_of(shell, study, *more):
    results = json.loads(shell.ok("study", study, "--quiet", "--json", *more))
    return {row["variant"]: row for row in results["rows"]}


def check_reports(shell):
    rows = rows_of(shell, "first.toml")
    hyper, remoe = rows["hyper"], rows["remoe"]
    quality = [[point["bits_per_byte"] for point in of["by_k"]] for of in (hyper, hyper["folded"])]
    shell.expect("folded routers compute the same", quality[0] == quality[1], quality)
    for row in (hyper, remoe):
        layers = row["routers"]["entropy"]
        shell.expect("entropies", len(layers) == 2 and all(0 < one["mean"] <= 1.3863 for one in layers), layers)
        shell.expect("the entropy at step 0 differs", layers[0]["mean"] != layers[0]["initial_mean"], layers)
    tuned = hyper["finetuned"][0]
    shell.expect("k of the fine-tuned model", [point["k"] for point in tuned["by_k"]] == [2, 4], tuned)
    pages = glob.glob(os.path.join(shell.directory, "studies/first/runs/*/finetune/sst2-*/report.html"))
    shell.expect("a page of each fine-tuning", len(pages) == 2, pages)
    for page in pages:
        with open(page) as file:
            text = file.read()
        shell.expect("a page of each fine-tuning", "majority class" in text and "Selection accuracy" in text, page)
    shell.expect("a fine-tuned model without a k", [point["k"] for point in remoe["finetuned"][0]["by_k"]] == [None], remoe)
    answers = remoe["tasks"]
    shell.expect("tasks", [(one["task"], one["n"], one["version"]) for one in answers] == [("arc_easy", 2, "1.0")], answers)
    text = shell.ok("study", "first.toml", "--quiet")
    for part in ("Zero-shot accuracy", "48.36", "guessing", "hyper, folded", "Accuracy after fine-tuning", "majority class", "83.33", "at step 0", "1.4393",
                 "Distributions at sample tokens"):
        shell.expect("study", part in text, part)
    again = rows_of(shell, "like.toml")
    shell.expect("a study with like takes the other's runs", again["hyper"]["seconds"] == hyper["seconds"], again)
    shell.expect("a study with like has no runs of its own", not os.path.exists(os.path.join(shell.directory, "studies/like/runs")))
    run = glob.glob(os.path.join(shell.directory, "studies/first/runs/hyper-*"))[0]
    finished = json.load(open(os.path.join(run, "finished.json")))
    scores = json.loads(shell.ok("eval", run, "--data", "corpus", "--json"))
    shell.expect("eval repeats finished.json", abs(scores["loss"] - finished["validation"]["loss"]) < 1e-6,
                 f'{scores["loss"]} {finished["validation"]["loss"]}')
    other = json.loads(shell.ok("eval", run, "--data", "corpus", "--memory", "0", "--json"))
    shell.expect("options override the recipe", other["loss"] != scores["loss"])
    for axis in ("data", "tensor", "pipeline", "expert"):
        shell.mistake(1, ("2 processes", "the study has 1", "in 2 processes"), "study", "first.toml", "--out", "new",
                      "--set", f"parallel.{axis}=2")
    shell.mistake(1, ("finetune.sst2.set", "batc"), "study", "first.toml", "--set", "finetune.sst2.set.batc=2")
    for only in ("nobody:1", "hyper:9", "hyper", "hyper:x"):
        shell.mistake(1, ("--only",), "study", "first.toml", "--out", "new", "--only", only)
    for option in ("--only", "--results", "--scale"):
        shell.mistake(2, (option + ": is empty; give a value, or leave the option out",), "study", "first.toml", "--out",
                      "new", option, "")
    with open(os.path.join(shell.directory, "absent.toml"), "w") as file:
        file.write('seeds = [1]\n[variants.one]\nrecipe = "nowhere.toml"\n')
    shell.mistake(1, ("absent.toml:3: variants.one.recipe: ", "nowhere.toml: cannot be opened"), "study", "absent.toml")
    shell.mistake(2, ("--only", "excludes", "--report-only"), "study", "first.toml", "--out", "new", "--only", "hyper:1", "--report-only")
    for port, said in (("65536", "65535 or less"), ("-1", "0 or more"), ("x", "a whole number")):
        shell.mistake(2, ("--serve: must be " + said,), "study", "first.toml", "--out", "new", f"--serve={port}")
    shell.expect("no folder of a refused study", not os.path.exists(os.path.join(shell.directory, "new")))
    shell.mistake(1, ("finetune.sst2.data", "nowhere"), "study", "first.toml", "--out", "new", "--set", "finetune.sst2.data=nowhere")


def check_upcycled(shell):
    shell.mistake(1, ("--only: vanilla, seed 1: needs the run of parent", "train that run first"),
                  "study", "upcycled.toml", "--only", "vanilla:1")
    done = shell.run("study", "upcycled.toml", "--json")
    shell.expect("no new run is resumed", "] heads, seed 1\n" in done.stderr and "(resuming)" not in done.stderr, done.stderr)
    rows = {row["variant"]: row for row in json.loads(done.stdout)["rows"]}
    shell.expect("upcycled", set(rows) == {"parent", "continued", "vanilla", "heads", "collapsed", "no-z-loss"}, rows.keys())
    for name in ("vanilla", "heads", "collapsed"):
        shell.expect("an upcycled model has more parameters", rows[name]["total_parameters"] > 1.5 * rows["parent"]["total_parameters"])
    first = {name: row["curves"]["loss"]["values"][0] for name, row in rows.items()}
    shell.expect("heads and collapsed begin alike", abs(first["heads"] - first["collapsed"]) < 1e-5, first)
    shell.expect("continue-dense starts from the parent", first["continued"] < first["parent"], first)
    shell.expect("collapsed has its learning rate",
                 float(rows["collapsed"]["settings"]["model.router.lr_scale"]) != 1, rows["collapsed"]["settings"])
    shell.expect("a coefficient does not change the first loss", first["no-z-loss"] == first["heads"], first)
    shell.expect("a coefficient changes the last loss", rows["no-z-loss"]["curves"]["loss"]["values"][-1]
                 != rows["heads"]["curves"]["loss"]["values"][-1], rows["no-z-loss"]["curves"])
    coefficients = {name: float(rows[name]["settings"]["model.router.z-loss.coefficient"])
                    for name in ("heads", "no-z-loss")}
    shell.expect("a variant's coefficient", coefficients == {"heads": 0.001, "no-z-loss": 0}, coefficients)
    write(shell.directory, "wrong.toml", UPCYCLED.replace("z-loss.coefficient", "k"))
    shell.mistake(1, ("wrong.toml:", "model.router.k", "only coefficients"), "study", "wrong.toml")
    text = shell.ok("study", "upcycled.toml", "--quiet")
    shell.expect("published results", "34.76" in text and "published: tasks, %" in text, text)
    shell.ok("info", "upcycled.toml")
    write(shell.directory, "wrong.toml", UPCYCLED.replace("calibration_tokens", "calibration_token"))
    shell.mistake(1, ("calibration_token",), "study", "wrong.toml")


def check_diverging(shell):
    """A diverged run is kept and is no error. Each call reports it, and only --retry-diverged trains it again."""
    def call(*more):
        done = shell.run("study", "diverging.toml", *more)
        shell.expect("diverging: exit", done.returncode == 0, done.stderr)
        shell.expect("diverging: no -nan", "-nan" not in done.stdout + done.stderr, done.stderr)
        for part in ("1 of 3 runs finished, 1 diverged, 1 left out because it needs one that diverged.",
                     "--retry-diverged", "diverged: steep, seed 1: ", "0 + 1 diverged"):
            shell.expect("diverging", part in done.stdout, f"{part!r} not in {done.stdout}")
        return done

    first = call()
    shell.expect("diverging: trained", "] steep, seed 1" in first.stderr, first.stderr)
    again = call()
    shell.expect("diverging: not again", "] steep" not in again.stderr, again.stderr)
    asked = call("--retry-diverged")
    shell.expect("diverging: again when asked", "] steep, seed 1 (resuming)" in asked.stderr, asked.stderr)
    with open("/dev/full", "w") as full:
        unread = subprocess.run([shell.program, "study", "diverging.toml", "--retry-diverged"], cwd=shell.directory,
                                stdout=subprocess.DEVNULL, stderr=full, timeout=120)
    shell.expect("diverging: with a log that cannot be written", unread.returncode == 0, unread.returncode)
    results = json.loads(shell.ok("study", "diverging.toml", "--json", "--quiet"))
    shell.expect("diverging: results", [run["variant"] for run in results["diverged"]] == ["steep"], results["diverged"])
    with open(os.path.join(shell.directory, "studies/diverging/report.html")) as file:
        page = file.read()
    shell.expect("diverging: page", "diverged: steep, seed 1" in page and "-nan" not in page)
    edited = shell.run("study", "diverging.toml", "--set", "train.steps=3")
    shell.expect("diverging: edited", "] steep, seed 1" in edited.stderr, edited.stderr)


def in_terminal(shell, columns, *arguments):
    """Returns the program's output on a pseudo-terminal of `columns` columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen([shell.program, *arguments], cwd=shell.directory, stdout=follower)
    os.close(follower)
    said = b""
    try:
        while part := os.read(leader, 65536):
            said += part
    except OSError:  # the program's end closes the terminal
        pass
    os.close(leader)
    shell.expect("the study in a terminal", process.wait(timeout=120) == 0)
    return said.decode().replace("\r\n", "\n")


def check_width(shell):
    whole = shell.ok("study", "first.toml", "--report-only", "--quiet")
    shell.expect("the whole table without a terminal", max(map(len, whole.splitlines())) > 100 and "memory" in whole, whole)
    if not has_terminals():
        return
    fitted = in_terminal(shell, 80, "study", "first.toml", "--report-only", "--quiet")
    too_wide = [line for line in fitted.splitlines() if len(line) > 80]
    shell.expect("80 columns", too_wide == [], too_wide)
    for part in ("validation loss", "not shown in this width: ", "--wide", "sst2 k=4", "83.33", "majority class"):
        shell.expect("80 columns", part in fitted, f"{part!r} not in {fitted}")
    wide = in_terminal(shell, 80, "study", "first.toml", "--report-only", "--quiet", "--wide")
    shell.expect("--wide", wide == whole, wide)


def check_tasks_again(shell):
    """A study asks tasks again if their rows changed or if the number of few-shot examples changed."""
    rows = os.path.join(shell.directory, "rows/arc_easy.jsonl")
    with open(rows) as file:
        lines = file.readlines()
    with open(rows, "a") as file:
        file.write(lines[0])
    shutil.copy(rows, rows.replace(".jsonl", "_train.jsonl"))
    said = shell.run("study", "first.toml").stderr
    shell.expect("changed rows are asked again", said.count("asking arc_easy") == 2, said)
    said = shell.run("study", "first.toml").stderr
    shell.expect("unchanged rows are not asked again", "asking" not in said, said)
    for name, row in rows_of(shell, "first.toml").items():
        task, = row["tasks"]
        shell.expect("changed rows are asked again", task["n"] == 3 and task["acc_low"] < task["acc"] + 1e-9 < 1, f"{name} {task}")
    write(shell.directory, "first.toml", FIRST.replace("task_data", "task_fewshot = 2\ntask_data"))
    answers = [row["tasks"][0] for row in rows_of(shell, "first.toml").values()]
    shell.expect("few-shot", [one["fewshot"] for one in answers] == [2] * len(answers), answers)
    with open(os.path.join(shell.directory, "studies/first/report.html")) as file:
        page = file.read()
    interval = "[{:.2f}, {:.2f}]".format(100 * answers[0]["acc_low"], 100 * answers[0]["acc_high"])
    shell.expect("interval on the page", interval in page, interval)


OWN_TASK = """
name = "words"
metrics = ["acc"]
files = ["words.jsonl"]
[[form]]
has = ["text", "options", "right"]
context = "{{text}}"
choices = ["{{options}}"]
gold = "{{right}}"
"""


def check_own_tasks(shell):
    """task_files: tasks defined by a user, with their rows in the same folder."""
    os.makedirs(os.path.join(shell.directory, "own"))
    write(shell.directory, "own/words.toml", OWN_TASK)
    write(shell.directory, "own/words.jsonl", '{"text": "the gate lets it", "options": ["go", "zq"], "right": 0}\n' * 3)
    study = UPCYCLED.replace("[upcycle]", 'task_files = ["own/words.toml"]\n[upcycle]')
    write(shell.directory, "upcycled.toml", study)
    said = shell.run("study", "upcycled.toml").stderr
    shell.expect("task_files", "asking words" in said, said)
    for name, row in rows_of(shell, "upcycled.toml").items():
        task, = row["tasks"]
        shell.expect("task_files", task["task"] == "words" and task["n"] == 3, f"{name} {task}")
    write(shell.directory, "twice.toml", study.replace('["own/words.toml"]', '["own/words.toml", "own/words.toml"]'))
    shell.mistake(1, ["twice.toml", "two tasks named words"], "study", "twice.toml")
    write(shell.directory, "absent.toml", study.replace("own/words.toml", "own/absent.toml"))
    shell.mistake(1, ["own/absent.toml"], "study", "absent.toml")


def check_recipes(shell, source):
    """Every study in recipes/ can be read at each of its scales. Studies that train nothing are run."""
    for path in sorted(glob.glob(os.path.join(source, "recipes/*/*.toml"))):
        with open(path) as file:
            text = file.read()
        if "[variants." not in text and "\nreport = " not in text:
            continue
        for scale in ("desk", "paper") if "[scale.paper]" in text else (None,):
            shell.ok("info", path, *(("--scale", scale) if scale else ()))
    for name in ("hyperrouter/tableA1", "hyperrouter/tableA2", "hyperrouter/tableA3", "hyperrouter/tableA4", "remoe/table1"):
        text = shell.ok("study", os.path.join(source, f"recipes/{name}.toml"), "--scale", "paper", "--quiet")
        shell.expect(name, "results.json" in text and "runs finished" not in text, text)


def main(program, source):
    with tempfile.TemporaryDirectory() as directory:
        shell = Shell(program, directory)
        write(directory, "text.txt", "the weir holds the water and the gate lets it go. good or bad\n" * 300)
        for name, text in (("recipe.toml", RECIPE), ("dense.toml", DENSE), ("first.toml", FIRST),
                           ("like.toml", LIKE), ("upcycled.toml", UPCYCLED), ("diverging.toml", DIVERGING)):
            write(directory, name, text)
        write_task(os.path.join(directory, "sst2"))
        shutil.copytree(os.path.join(source, "tests/tasks/rows"), os.path.join(directory, "rows"))
        shell.ok("data", "prepare", "text.txt", "--out", "corpus", "--split", "contiguous:0.8,0.1,0.1")
        check_recipes(shell, source)
        check_reports(shell)
        check_upcycled(shell)
        check_diverging(shell)
        check_width(shell)
        check_tasks_again(shell)
        check_own_tasks(shell)
        print(f"{shell.failures} failures")
        return shell.failures > 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])))
