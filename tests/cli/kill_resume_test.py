#!/usr/bin/python3
"""Kills `penstock train` at random moments, resumes it, and compares its end with a run that was not killed: the files
of the last checkpoint by hash, and metrics.jsonl with each step once. Then does the same with SIGINT and SIGTERM,
between steps and within a step. After these signals the program must save a checkpoint and print that it did.

    kill_resume_test.py PENSTOCK [KILLS] [SEED]
"""

import glob
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STEPS, EVAL_EVERY = 40, 8
MODELS = {
    "decoder, remoe": """
kv_heads = 2
[model.router]
method = "remoe"
""",
    # This model has streams with memory, random dropout and a schedule of k. A resumed run must continue all three.
    "transformer-xl, hyperrouter": """
architecture = "transformer-xl"
[model.transformer_xl]
dropout = 0.1
[model.router]
method = "hyperrouter"
k = 4
""",
}
SETTINGS = """
[model]
vocab = 0
d_model = 32
layers = 2
heads = 2
d_ffn = 64
{model}
[model.moe]
experts = 4

[data]
corpus = "{corpus}"

[train]
steps = {steps}
batch_sequences = 4
sequence_length = 32
checkpoint_every = 3
eval_every = {eval_every}
eval_tokens = 256
final_eval_tokens = 1024
seed = 7

[run]
threads = 1
report = false
"""
COMPARED = ("model", "optimizer", "trainer.json", "config.json")  # the beginnings of the names of compared files
# Values that depend on the clock and the machine, not on the training.
TIMED = ("seconds", "tokens_per_second", "share_of_peak", "peak_bytes")


def fail(*message):
    print("FAILED:", *message)
    sys.exit(1)


def write_text(path):
    """Writes about 60 kB of sentences, the same ones at each call."""
    rng = random.Random(1)
    words = "the gate opens water turns a wheel and each expert takes its tokens from river".split()
    with open(path, "w") as out:
        for _ in range(250):
            for _ in range(4):
                out.write(" ".join(rng.choice(words) for _ in range(rng.randint(5, 14))) + ".\n")
            out.write("\n")


class Trial:
    def __init__(self, program, folder, model):
        self.program, self.folder = program, folder
        self.recipe = os.path.join(folder, "recipe.toml")
        self.runs = 0
        text, corpus = os.path.join(folder, "text.txt"), os.path.join(folder, "corpus")
        write_text(text)
        subprocess.run(
            [program, "data", "prepare", text, "--split", "contiguous:0.8,0.1,0.1", "--out", corpus],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(self.recipe, "w") as out:
            out.write(SETTINGS.format(model=model, corpus=corpus, steps=STEPS, eval_every=EVAL_EVERY))

    def new_run(self):
        self.runs += 1
        return os.path.join(self.folder, "run-%d" % self.runs)

    def start(self, run):
        return subprocess.Popen(
            [self.program, "train", self.recipe, "--out", run, "--resume"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)

    def finish(self, run):
        """Trains the run to its end. Returns the time in seconds."""
        begun = time.monotonic()
        process = self.start(run)
        _, errors = process.communicate(timeout=300)
        if process.returncode != 0:
            fail("exit code", process.returncode, "of", run, errors)
        return time.monotonic() - begun


def metrics(run):
    path = os.path.join(run, "metrics.jsonl")
    if not os.path.exists(path):
        return []
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def hashes(run, steps):
    directory = os.path.join(run, "checkpoints", "step-%d" % steps)
    out = {}
    for name in sorted(os.listdir(directory)):
        if not name.startswith(COMPARED):
            continue
        with open(os.path.join(directory, name), "rb") as file:
            out[name] = hashlib.sha256(file.read()).hexdigest()
    return out


def untimed(value):
    if not isinstance(value, dict):
        return value
    return {k: untimed(v) for k, v in value.items() if not any(word in k for word in TIMED)}


def check_end(run, reference, steps=STEPS):
    if hashes(run, steps) != hashes(reference, steps):
        fail(run, "ends otherwise than", reference, hashes(run, steps), hashes(reference, steps))
    lines, expected = metrics(run), metrics(reference)
    logged = [line["step"] for line in lines]
    if logged != list(range(steps + 1)):
        fail(run, "has these steps in metrics.jsonl:", logged)
    for line, other in zip(lines, expected):
        if untimed(line) != untimed(other):
            fail("metrics differ:", untimed(line), untimed(other))
    with open(os.path.join(run, "finished.json")) as a, open(os.path.join(reference, "finished.json")) as b:
        ours, theirs = json.load(a), json.load(b)
    for key in ("validation", "test"):
        if untimed(ours.get(key)) != untimed(theirs.get(key)):
            fail("finished.json:", key, ours.get(key), theirs.get(key))


def check_checkpoints(run):
    """Checks that every directory with a checkpoint's name is complete, also right after a kill."""
    for directory in glob.glob(os.path.join(run, "checkpoints", "step-*")):
        with open(os.path.join(directory, "manifest.json")) as file:
            manifest = json.load(file)
        for name, digest in manifest["files"].items():
            if os.path.getsize(os.path.join(directory, name)) != digest["bytes"]:
                fail("incomplete:", directory, name)


def wait_for(condition, process, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if condition():
            return True
        time.sleep(0.0005)
    return False


def kill_at_random(process, run, rng, usual_seconds, hunt):
    """Kills the process at a random time or, with `hunt`, while it writes a checkpoint.

    Returns whether the process was still running."""
    if hunt:
        aside = os.path.join(run, "checkpoints", ".step-*")
        wait_for(lambda: glob.glob(aside), process, usual_seconds)
        time.sleep(rng.random() * 0.004)
    else:
        wait_for(lambda: False, process, rng.random() * usual_seconds * 1.4)
    if process.poll() is not None:
        process.communicate()
        if process.returncode != 0:
            fail("exit code", process.returncode)
        return False
    process.kill()
    process.communicate()
    return True


def test_kills(trial, reference, kills, usual_seconds, rng):
    done = hunted = finished = 0
    run = trial.new_run()
    while done < kills:
        hunt = rng.random() < 0.4
        if kill_at_random(trial.start(run), run, rng, usual_seconds, hunt):
            done += 1
            hunted += bool(glob.glob(os.path.join(run, "checkpoints", ".step-*")))
            check_checkpoints(run)
            continue
        check_end(run, reference)
        finished += 1
        run = trial.new_run()
    trial.finish(run)
    check_end(run, reference)
    print("%d kills over %d runs, %d while a checkpoint was half-made" % (done, finished + 1, hunted))


def test_signal(trial, reference, number):
    run = trial.new_run()
    process = trial.start(run)
    if not wait_for(lambda: len(metrics(run)) >= 5, process, 120):
        fail("no progress before signal", number)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    done = metrics(run)[-1]["step"]
    if done < STEPS:
        if process.returncode < 0 or "--resume" not in errors:
            fail("after signal", number, "exit code", process.returncode, "saying", errors)
        if not os.path.isdir(os.path.join(run, "checkpoints", "step-%d" % done)):
            fail("signal", number, "after step", done, "saved nothing of that step")
    trial.finish(run)
    check_end(run, reference)
    print("%s after step %d: saved, resumed, same end" % (signal.Signals(number).name, done))


def test_signal_within_a_step(program, number):
    """A signal within a step of many micro-batches: the program gives the step up, and a resumed run repeats it."""
    folder = tempfile.mkdtemp(prefix="penstock-kill-")
    try:
        trial = Trial(program, folder, MODELS["decoder, remoe"])
        with open(trial.recipe) as file:
            recipe = file.read()
        for key, value in (("steps", 3), ("batch_sequences", 512), ("sequence_length", 64)):
            recipe = re.sub(f"^{key} = .*$", f"{key} = {value}", recipe, flags=re.M)
        with open(trial.recipe, "w") as file:
            file.write(recipe.replace("[train]", "[train]\nmicro_batch = 2"))
        reference, run = trial.new_run(), trial.new_run()
        trial.finish(reference)
        process = trial.start(run)
        if not wait_for(lambda: len(metrics(run)) >= 2, process, 120):  # the lines of steps 0 and 1
            fail("no progress before signal", number)
        time.sleep(0.3 * metrics(run)[-1]["step_seconds"])  # 0.3 of the way into the next step
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
        done = metrics(run)[-1]["step"]
        said = f"stopped by signal {number} after step {done}; checkpoint saved; step {done + 1} was given up"
        order = [errors.find(line) for line in ("stopping after this layer", said, "Continue with")]
        if process.returncode != 130 or -1 in order or order != sorted(order):
            fail("signal", number, "within a step: exit code", process.returncode, "saying", errors)
        trial.finish(run)
        check_end(run, reference, steps=3)
        print("%s within a step: given up, resumed, same end" % signal.Signals(number).name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_model(program, model, kills, rng):
    folder = tempfile.mkdtemp(prefix="penstock-kill-")
    try:
        trial = Trial(program, folder, model)
        reference = trial.new_run()
        usual_seconds = trial.finish(reference)
        again = trial.new_run()
        trial.finish(again)
        check_end(again, reference)
        print("an uninterrupted run takes %.1f s and is the same twice" % usual_seconds)
        for number in (signal.SIGINT, signal.SIGTERM):
            test_signal(trial, reference, number)
        test_kills(trial, reference, kills, usual_seconds, rng)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    program = os.path.abspath(sys.argv[1])
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 30)
    print("seed", seed)
    for number in (signal.SIGINT, signal.SIGTERM):
        test_signal_within_a_step(program, number)
    for name, model in MODELS.items():
        print(name)
        test_model(program, model, kills // len(MODELS), random.Random(seed))


if __name__ == "__main__":
    main()
