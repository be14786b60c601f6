#!/usr/bin/python3
"""Checks the program's messages about files that were damaged after it wrote them, and about a run directory's
config.toml that is given back to it as a recipe. Checks also where its messages go if the standard streams are closed.

    damage_test.py PENSTOCK
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

from shell import RECIPE, Shell, finish, tiny


def change(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset, os.SEEK_END if offset < 0 else os.SEEK_SET)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


DAMAGES = {
    "cut": lambda folder: os.truncate(os.path.join(folder, "model.safetensors"), 100),
    "a flipped byte": lambda folder: change(os.path.join(folder, "model.safetensors"), -2),
    "no manifest": lambda folder: os.remove(os.path.join(folder, "manifest.json")),
    "a foreign manifest": lambda folder: write(os.path.join(folder, "manifest.json"), "{}"),
    "no config": lambda folder: os.remove(os.path.join(folder, "config.json")),
    "no trainer": lambda folder: os.remove(os.path.join(folder, "trainer.json")),
    "emptied": lambda folder: [os.remove(os.path.join(folder, name)) for name in os.listdir(folder)],
}


class Damage(Shell):
    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def copy(self, name):
        shutil.rmtree(self.path(name), ignore_errors=True)
        shutil.copytree(self.path("run"), self.path(name))
        return self.path(name)


def check_eval_names_what_it_measured(shell):
    scores = json.loads(shell.ok("eval", "run", "--data", "corpus", "--json"))
    shell.expect("eval --json", scores.get("step") == 6 and scores["model"].endswith("run/checkpoints/step-6") and
                 scores["split"] == "validation" and scores["sequence_length"] == 16, scores)
    table = shell.ok("eval", "run", "--data", "corpus", "--split", "train", "--sequence-length", "8")
    for part in ("run/checkpoints/step-6", "step 6", "train split", "windows of 8 tokens"):
        shell.expect("eval", part in table.splitlines()[0], table)
    model = json.loads(shell.ok("eval", "run/checkpoints/step-4", "--data", "corpus", "--json"))
    shell.expect("eval of a checkpoint", model.get("step") == 4, model)


def check_damaged_checkpoints(shell):
    for name, damage in DAMAGES.items():
        damage(os.path.join(shell.copy("damaged"), "checkpoints/step-6"))
        for command in (("eval", "damaged", "--data", "corpus", "--json"), ("info", "damaged", "--json")):
            done = shell.run(*command)
            said = done.stderr.splitlines()
            shell.expect(name, done.returncode == 0 and len(said) == 1 and
                         said[0].startswith("passed over: ") and "step-6" in said[0],
                         f"{command} {done.returncode} {done.stderr!r}")
            if command[0] == "eval":
                shell.expect(name, json.loads(done.stdout).get("step") == 4, done.stdout)
    shell.copy("damaged")
    for step in (4, 6):
        DAMAGES["cut"](shell.path("damaged", f"checkpoints/step-{step}"))
    shell.mistake(1, ["no checkpoint is whole"], "eval", "damaged", "--data", "corpus")


def check_damaged_corpus(shell):
    shutil.copytree(shell.path("corpus"), shell.path("flipped"))
    change(shell.path("flipped/tokens.bin"), 400)
    shell.mistake(1, ["tokens.bin", "its tokens are damaged (checksum)"], "eval", "run", "--data", "flipped")


def check_damaged_log(shell):
    def resumed(name):
        os.remove(shell.path(name, "finished.json"))
        done = shell.run("train", "recipe.toml", "--out", name, "--resume")
        shell.expect(name, done.returncode == 0, done.stderr)
        return [line for line in done.stderr.splitlines() if "missing" in line]

    log = os.path.join(shell.copy("relogged"), "metrics.jsonl")
    shell.expect("an intact log", resumed("relogged") == [])
    with open(log) as file:
        lines = file.readlines()
    lines[2] = "garbage\n"
    write(log, "".join(lines))
    said = resumed("relogged")
    shell.expect("a damaged line", len(said) == 1 and "metrics.jsonl: steps 3 are missing" in said[0], said)
    os.remove(log)
    shell.mistake(1, ["penstock: relogged/metrics.jsonl: cannot be opened", "resume the run without its finished.json"], "report",
                  "relogged")
    said = resumed("relogged")
    shell.expect("a missing log", len(said) == 1 and "metrics.jsonl: steps 1-6 are missing" in said[0], said)
    shell.ok("report", "relogged")


def check_config_of_a_run(shell):
    default = ("--set", "model.router.adaptive-l1.factor=1.2")
    shell.ok("train", "recipe.toml", "--out", "run", "--resume", *default)
    shell.mistake(1, ["another recipe (model.router.adaptive-l1.factor: 1.2 -> 1.3)"], "train", "recipe.toml",
                  "--out", "run", "--resume", "--set", "model.router.adaptive-l1.factor=1.3")
    shell.ok("train", "run/config.toml", "--out", "run", "--resume")
    shell.mistake(1, ["--set model.router.method=hash: ", "would change nothing"], "train", "run/config.toml",
                  "--out", "again", "--set", "model.router.method=hash")


def check_damaged_records(shell):
    run = shell.copy("records")
    write(os.path.join(run, "finished.json"), "{")
    shell.mistake(1, ["finished.json", "delete it and resume the run"], "report", "records")
    os.remove(os.path.join(run, "finished.json"))
    shell.ok("train", "recipe.toml", "--out", "records", "--resume", "--quiet")
    shell.ok("report", "records")
    with open(os.path.join(run, "config.toml"), "wb") as file:
        file.write(b"\x93\xff\x00\xfe")
    shell.mistake(1, ["config.toml", "put it back, or choose another folder"], "train", "recipe.toml", "--out",
                  "records", "--resume")


def check_closed_streams(shell):
    """Messages must not get into the run's files, which could be opened under the closed streams' descriptors."""
    command = f"'{shell.program}' train recipe.toml --out closed <&- >&- 2>&-"
    done = subprocess.run(["/bin/sh", "-c", command], cwd=shell.directory, timeout=120)
    shell.expect("closed streams", done.returncode == 0, done.returncode)
    for root, _, names in os.walk(shell.path("closed")):
        for name in names:
            with open(os.path.join(root, name), "rb") as file:
                text = file.read()
            shell.expect("closed streams: " + name, b"bits per byte, " not in text and b"bits/byte  " not in text)
    command = f"'{shell.program}' routers >&-"
    done = subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, timeout=120)
    shell.expect("output that cannot be written", done.returncode == 1 and "cannot be written" in done.stderr, done)
    script = f"exec '{shell.program}' train recipe.toml --out stopped --set train.steps=1000000 <&- >&- 2>&-"
    process = subprocess.Popen(["/bin/sh", "-c", script], cwd=shell.directory)
    log = shell.path("stopped/metrics.jsonl")
    while process.poll() is None and not (os.path.exists(log) and os.path.getsize(log)):
        time.sleep(0.01)
    process.terminate()
    shell.expect("interrupted with closed streams", process.wait(timeout=120) == 130, process.returncode)


def start_endless(shell, name, corpus="corpus", **options):
    """Starts a run without an end, and waits until it has logged a step."""
    command = [shell.program, "train", "recipe.toml", "--out", name, "--set", "train.steps=1000000", "--set",
               "train.checkpoint_every=1000000", "--set", "train.eval_every=0", "--set", "data.corpus=" + corpus]
    process = subprocess.Popen(command, cwd=shell.directory, stdout=subprocess.DEVNULL, **options)
    wait_for_steps(shell, process, name, 1)
    return process


def wait_for_steps(shell, process, name, steps):
    """Waits until the run has logged that many lines, or has ended."""
    def logged():
        if not os.path.exists(shell.path(name, "metrics.jsonl")):
            return 0
        with open(shell.path(name, "metrics.jsonl"), "rb") as file:
            return file.read().count(b"\n")

    while process.poll() is None and logged() < steps:
        time.sleep(0.01)
    return logged()


def check_lost_readers(shell):
    """A run goes on without the reader of its messages, and under nohup without its terminal."""
    ends, writes = os.pipe()
    process = start_endless(shell, "unread", stderr=writes)
    os.close(writes)
    os.close(ends)
    # Messages come once a second or so, and each is written to the closed pipe.
    shell.expect("no reader", wait_for_steps(shell, process, "unread", 400) >= 400, process.returncode)
    process.terminate()
    shell.expect("no reader", process.wait(timeout=120) == 130 and os.listdir(shell.path("unread/checkpoints")),
                 process.returncode)
    process = start_endless(shell, "hung-up", stderr=subprocess.DEVNULL,
                            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    seen = wait_for_steps(shell, process, "hung-up", 1)
    shell.expect("nohup", wait_for_steps(shell, process, "hung-up", seen + 100) >= seen + 100, process.returncode)
    process.terminate()
    shell.expect("nohup", process.wait(timeout=120) == 130, process.returncode)


def check_corpus_that_changes(shell):
    """A corpus that is overwritten while a run reads it ends the run; put back, the run continues."""
    shutil.copytree(shell.path("corpus"), shell.path("changing"))
    tokens = shell.path("changing/tokens.bin")
    with open(tokens, "rb") as file:
        content = file.read()
    for name, left in (("emptied", b""), ("overwritten", content[:200] + bytes(1000) + content[1200:])):
        process = start_endless(shell, name, corpus="changing", stderr=subprocess.PIPE, text=True)
        write_bytes(tokens, left)
        try:
            said = process.communicate(timeout=120)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            said = process.communicate()[1]
        last = (said.splitlines() or [""])[-1]
        # A page that is gone may be touched between the check of the file and the reading.
        shell.expect(name, process.returncode == 1 and "tokens.bin" in last and
                     ("changed while it was in use" in last or "it was cut short while it was in use" in last),
                     f"exit {process.returncode} {last!r}")
        write_bytes(tokens, content)
        shell.ok("train", "recipe.toml", "--out", name + "-after", "--set", "data.corpus=changing", "--quiet")


def write_bytes(path, content):
    """Writes into the file that is there, as other programs may do."""
    with open(path, "r+b") as file:
        file.write(content)
        file.truncate()


def main():
    with tiny(sys.argv[1], run=False, kind=Damage) as shell:
        write(shell.path("recipe.toml"), RECIPE.replace("eval_every = 3", "checkpoint_every = 2"))
        shell.ok("train", "recipe.toml", "--out", "run", "--quiet")
        check_eval_names_what_it_measured(shell)
        check_damaged_checkpoints(shell)
        check_damaged_corpus(shell)
        check_damaged_log(shell)
        check_config_of_a_run(shell)
        check_damaged_records(shell)
        check_closed_streams(shell)
        check_lost_readers(shell)
        check_corpus_that_changes(shell)
        return finish(shell)


if __name__ == "__main__":
    sys.exit(main())
