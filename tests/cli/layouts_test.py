#!/usr/bin/env python3
"""Kills ranks or stops runs at random moments under one layout, and continues the run under another layout. No step may
be lost or doubled, and the run must end with the result of one process.

  layouts_test.py PROGRAM [SOURCE] [KILLS] [SEED]
"""

import array
import json
import os
import random
import signal
import struct
import sys
import time

import kill_resume_test as single
from kill_resume_test import fail, metrics, wait_for
from processes import TREE, alive, finish, ranks_of, start, trial_of

LAYOUTS = [
    (1, ["gradient_sum=tree"]),
    (2, ["data=2"]),
    (2, ["expert=2"]),
    (2, ["tensor=2"]),
    (2, ["pipeline=2"]),
    (2, ["zero=3"]),
    (4, ["zero=1"]),
    (4, ["data=2", "tensor=2"]),
    (4, ["pipeline=2", "expert=2", "zero=1"]),
    (2, ["tensor=2", "sequence=true"]),
    (4, ["tensor=2", "sequence=true", "pipeline=2"]),
    (4, ["tensor=2", "expert=4", "whole_experts=true"]),
]


def settings(layout):
    out = []
    for setting in layout:
        out += ["--set", ("train." if "gradient_sum" in setting else "parallel.") + setting]
    return out


def figures(line):
    """Returns the compared figures of a line of metrics by name. Step 0 has only a validation."""
    step, out = line["step"], {}
    if step > 0:
        out = {key: line[key] for key in ("loss", "lambda")}
    if step % single.EVAL_EVERY == 0:
        out["validation"] = line["validation"]["loss"]
    return out


def same_losses(run, reference):
    """Checks that the losses agree to 1e-5. They are not equal, because tensor parallelism adds in another order."""
    ours, theirs = metrics(run), metrics(reference)
    if [line["step"] for line in ours] != [line["step"] for line in theirs]:
        fail("steps lost or doubled under layouts:", [line["step"] for line in ours])
    for line, other in zip(ours, theirs):
        mine = figures(line)
        for key, expected in figures(other).items():
            if not abs(mine[key] - expected) <= 1e-5 * max(1, abs(expected)):
                fail("under layouts", key, "is", mine[key], "and not", expected, "at", line["step"])


def weights(run):
    """Returns the tensors (f32) of the run's last checkpoint by name, from one file or from several pieces."""
    folder = os.path.join(run, "checkpoints", "step-%d" % single.STEPS)
    out = {}
    for name in sorted(os.listdir(folder)):
        if not name.startswith("model") or not name.endswith(".safetensors"):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
            header, data = json.loads(file.read(length)), file.read()
        for tensor, about in header.items():
            if tensor == "__metadata__":
                continue
            if about["dtype"] != "F32" or tensor in out:
                fail(name, "has", tensor, about)
            begin, end = about["data_offsets"]
            out[tensor] = array.array("f", data[begin:end])
    return out


def same_weights(run, reference):
    """Checks that the weights agree to 1e-5 of each tensor's largest absolute value.

    @return the largest difference, relative to the tensor's largest absolute value"""
    ours, theirs, most = weights(run), weights(reference), 0.0
    if set(ours) != set(theirs) or not ours:
        fail(run, "has other tensors than", reference)
    for name, numbers in theirs.items():
        largest = max(map(abs, numbers))
        apart = max(abs(a - b) for a, b in zip(ours[name], numbers)) / max(largest, 1e-30)
        if len(ours[name]) != len(numbers) or not apart <= 1e-5:
            fail(name, "ends", apart, "apart from that of one process")
        most = max(most, apart)
    return most


def end_early(trial, run, processes, layout, rng):
    """Kills one rank by SIGKILL, or sends it SIGTERM in a quarter of the cases, which stops the run.

    @return whether a rank was killed before the run's end, and the seconds until the other ranks ended"""
    launcher = start(trial, run, processes, *settings(layout))
    what = signal.SIGTERM if rng.random() < 0.25 else signal.SIGKILL
    target = len(metrics(run)) + rng.randint(1 if what == signal.SIGTERM else 0, 8)
    wait_for(lambda: len(metrics(run)) >= target or launcher.poll() is not None, launcher, 60)
    time.sleep(rng.random() * 0.05)
    ranks = ranks_of(launcher) if processes > 1 else {0: launcher.pid}
    if launcher.poll() is None and len(ranks) == processes:
        os.kill(ranks[rng.choice(sorted(ranks))], what)
    begun = time.monotonic()
    _, errors = launcher.communicate(timeout=60)
    if launcher.returncode == 0:
        return False, 0.0
    single.check_checkpoints(run)
    if what == signal.SIGTERM:
        if launcher.returncode != 130 or "stopped by signal 15 after step" not in errors:
            fail(layout, "stopped by SIGTERM, ended with", launcher.returncode, errors)
        return False, 0.0
    said = [line for line in errors.splitlines() if line.startswith("penstock: ")]
    if processes > 1 and (len(said) != 1 or "signal 9" not in said[0]):
        fail(layout, "ended with", errors)
    if alive(ranks.values()):
        fail("ranks outlived the one that was killed under", layout)
    return True, time.monotonic() - begun


def test_kills(trial, reference, kills, rng):
    run, done, runs, longest, left, apart = trial.new_run(), 0, 0, 0.0, [], 0.0
    while done < kills:
        left = left or rng.sample(LAYOUTS, len(LAYOUTS))
        processes, layout = left.pop()
        killed, seconds = end_early(trial, run, processes, layout, rng)
        done += killed
        longest = max(longest, seconds)
        if os.path.exists(os.path.join(run, "finished.json")):
            same_losses(run, reference)
            apart = max(apart, same_weights(run, reference))
            run, runs = trial.new_run(), runs + 1
    finish(trial, run, 1, *TREE)
    same_losses(run, reference)
    apart = max(apart, same_weights(run, reference))
    if longest > 30:
        fail("the others took", longest, "s to end")
    print(f"{done} kills over {len(LAYOUTS)} layouts in {runs + 1} runs; all ended within "
          f"{longest:.1f} s; the losses of one process; its weights but for {apart:.1e}")


def test_same_layout(trial, rng):
    """A run that is killed and resumed under the same layout ends with the same bits as a run that was not killed."""
    for processes, layout in rng.sample(LAYOUTS[1:], 3):
        whole, run = trial.new_run(), trial.new_run()
        finish(trial, whole, processes, *settings(layout))
        while not end_early(trial, run, processes, layout, rng)[0]:
            if os.path.exists(os.path.join(run, "finished.json")):
                run = trial.new_run()
        finish(trial, run, processes, *settings(layout))
        if single.hashes(run, single.STEPS) != single.hashes(whole, single.STEPS):
            fail("killed under", layout, "a run ends with other bits than one that was not")
    print("under one layout a killed run ends with the same bits")


def test_divided_rows(trial, reference):
    """Stopped runs change to layouts that divide rows, and from them to others. The checkpoints are whole models."""
    rows, staged = (2, ["tensor=2", "sequence=true"]), (4, ["tensor=2", "sequence=true", "pipeline=2"])
    for first, then in ((rows, (1, ["gradient_sum=tree"])), ((2, ["zero=3"]), staged), (staged, rows)):
        run = trial.new_run()
        launcher = start(trial, run, first[0], *settings(first[1]))
        wait_for(lambda: len(metrics(run)) >= 5 or launcher.poll() is not None, launcher, 60)
        launcher.send_signal(signal.SIGTERM)
        _, errors = launcher.communicate(timeout=60)
        if launcher.returncode != 130:
            fail(first, "stopped by SIGTERM, ended with", launcher.returncode, errors)
        single.check_checkpoints(run)
        finish(trial, run, then[0], *settings(then[1]))
        same_losses(run, reference)
    print("divided rows resume others' checkpoints, and others theirs")


def main():
    kills = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(1 << 30)
    print("seed", seed)
    with trial_of(sys.argv[1]) as trial:
        reference = trial.new_run()
        finish(trial, reference, 1, *TREE)
        test_divided_rows(trial, reference)
        test_same_layout(trial, random.Random(seed + 1))
        test_kills(trial, reference, kills, random.Random(seed))


if __name__ == "__main__":
    main()
