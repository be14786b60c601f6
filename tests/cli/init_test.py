#!/usr/bin/python3
"""Checks that the recipes of `penstock init` train, and runs `penstock` without arguments on a terminal.

    init_test.py PENSTOCK SOURCE_DIRECTORY
"""

import os
import pty
import re
import subprocess
import sys

from shell import has_terminals, tiny

SHORT = ("--set", "train.steps=2", "--set", "train.warmup_steps=1", "--quiet")


def on_terminal(shell, answers, *arguments, folder=None):
    """Runs the program on a pseudo-terminal with `answers` as input. Returns its output and exit code."""
    own, its = pty.openpty()
    process = subprocess.Popen([shell.program, *arguments], cwd=folder or shell.directory, stdin=its, stdout=its,
                               stderr=its)
    os.close(its)
    os.write(own, answers.encode())
    out = b""
    while True:
        try:
            read = os.read(own, 4096)
        except OSError:
            read = b""
        if not read:
            break
        out += read
    os.close(own)
    return out.decode(), process.wait(timeout=60)


def check_training(shell):
    done = shell.run("init", "--data", "corpus", "--time", "2s", "--out", "mine.toml")
    said = done.stdout
    shell.expect("what is measured", done.returncode == 0 and
                 re.match(r"measuring the steps of a model of \d+ layers?, d=\d+\n", done.stderr), done.stderr)
    for part in ("parameters ", "memory ", "measured on this machine just now", "penstock train mine.toml"):
        shell.expect("init says " + part, part in said, said)
    text = open(os.path.join(shell.directory, "mine.toml")).read()
    shell.expect("the recipe is commented", "# peak" in text or text.count("\n#") > 50, text[:200])
    shell.ok("train", "mine.toml", *SHORT)
    shell.expect("the recipe of init trains a model", os.path.exists(os.path.join(shell.directory, "runs/mine/finished.json")))
    shell.mistake(1, ("mine.toml: is there already", "--out"), "init", "--data", "corpus", "--out", "mine.toml")


def check_comparing(shell):
    shell.ok("init", "--for", "compare", "--data", "corpus", "--time", "2s", "--method", "smoe", "--out", "all.toml")
    shell.ok("study", "all.toml", *SHORT)
    study = open(os.path.join(shell.directory, "all.toml")).read()
    shell.expect("three variants", study.count("[variants.") == 3 and "smoe" in study, study)
    quoted = 'two "words".toml'
    shell.ok("init", "--for", "compare", "--data", "corpus", "--time", "2s", "--method", "dense", "--out", quoted)
    shell.ok("study", quoted, *SHORT)


def check_upcycling(shell):
    shell.ok("init", "--method", "dense", "--data", "corpus", "--time", "2s", "--out", "dense.toml")
    shell.ok("train", "dense.toml", *SHORT)
    said = shell.ok("init", "--for", "upcycle", "--model", "runs/dense", "--data", "corpus", "--time", "2s", "--out",
                    "up.toml")
    command = next(line.split()[1:] for line in said.splitlines() if line.startswith("  penstock upcycle"))
    shell.ok(*command)
    shell.ok("train", "up.toml", *SHORT)


def check_upcycling_to_a_method(shell):
    """The command, the recipe and its cost are of the method that was asked for."""
    shell.mistake(1, ("--method dense has no router",), "init", "--for", "upcycle", "--model", "runs/dense", "--method",
                  "dense", "--data", "corpus", "--out", "none.toml")
    said = shell.ok("init", "--for", "upcycle", "--model", "runs/dense", "--method", "switch", "--data", "corpus", "--time",
                    "2s", "--out", "one.toml")
    shell.expect("the method's experts per token", "8 experts in each layer, 1 for a token" in said, said)
    said = shell.ok("init", "--for", "upcycle", "--model", "runs/dense", "--method", "router-upcycling", "--data", "corpus",
                    "--time", "2s", "--out", "heads.toml")
    command = next(line.split()[1:] for line in said.splitlines() if line.startswith("  penstock upcycle"))
    shell.expect("the method and its text", command == ["upcycle", "runs/dense", "--method", "router-upcycling", "--experts", "8",
                                                        "--calibration", "corpus", "--out", "models/heads"], said)
    made = shell.ok(*command)
    count = next(line.split()[1].rstrip(",") for line in said.splitlines() if line.startswith("parameters "))
    shell.expect("the cost is of what the command makes", f"parameters: {count} total" in made, said + made)
    shell.ok("train", "heads.toml", *SHORT)


def check_upcycling_in_its_tokens(shell):
    """The commands that `init` prints can be followed also if the model's tokens are no bytes."""
    shell.ok("data", "prepare", "text.txt", "--tokenizer", "words", "--out", "in-words")
    shell.ok("init", "--method", "dense", "--data", "in-words", "--time", "2s", "--out", "words.toml")
    shell.ok("train", "words.toml", *SHORT)
    upcycle = ("init", "--for", "upcycle", "--model", "runs/words", "--time", "2s", "--out", "up-words.toml", "--data")
    shell.mistake(1, ("corpus: was made with another tokenizer",), *upcycle, "corpus")
    said = shell.ok(*upcycle, "text.txt")
    commands = [line.split()[1:] for line in said.splitlines() if line.startswith("  penstock ")]
    shell.expect("the model's tokenizer", commands[0] == ["data", "prepare", "text.txt", "--tokenizer", "runs/words", "--out",
                                                          "corpora/text"], said)
    for command in commands[:2]:
        shell.ok(*command)
    shell.ok("train", "up-words.toml", *SHORT)
    said = shell.ok("init", "--data", "text.txt", "--time", "2s", "--out", "again.toml")
    shell.expect("a corpus of that name is there", "corpora/text is there already" in said and "data prepare" not in said, said)


def check_text(shell):
    """For a text file in place of a corpus, `init` first names the command that makes a corpus from it."""
    said = shell.ok("init", "--data", "text.txt", "--time", "2s", "--out", "of-text.toml")
    shell.expect("data prepare", "  penstock data prepare text.txt --out corpora/text\n" in said, said)
    shell.expect("the recipe names the corpus", 'corpus = "corpora/text"' in
                 open(os.path.join(shell.directory, "of-text.toml")).read())
    os.symlink("text.txt", os.path.join(shell.directory, "-text.txt"))
    said = shell.ok("init", "--data=-text.txt", "--time", "2s", "--out=-x.toml")
    shell.expect("no name is an option", "  penstock data prepare ./-text.txt --out corpora/-text\n"
                 "  penstock train ./-x.toml\n" in said, said)


def check_limits(shell):
    """A plan that exceeds the time says so, and models that write no text are not asked for one."""
    above = lambda said: "above the " in said and " s given: a run has 10 steps or more" in said
    said = shell.ok("init", "--data", "corpus", "--time", "0.001s", "--out", "soon.toml")
    shell.expect("longer than given", above(said) and "above the 0.001 s given" in said, said)
    said = shell.ok("init", "--data", "corpus", "--time", "5m", "--method", "lory", "--out", "lory.toml")
    shell.expect("as long as given", not above(said), said)
    shell.expect("no text", "  penstock eval runs/lory --data corpus\n" in said and "penstock generate" not in said and
                 "penstock serve" not in said, said)


def check_mistakes(shell):
    open(os.path.join(shell.directory, "empty.txt"), "w").close()
    os.makedirs(os.path.join(shell.directory, "hollow"))
    binary = b"\x7fELF\x02\x01\x01\x00\xff\xfe" * 100
    for name, content in (("binary", binary), ("a binary", binary), ("short.txt", b"gate " * 40)):
        with open(os.path.join(shell.directory, name), "wb") as file:
            file.write(content)
    for parts, arguments in ((("--time: 'soon' is no time", "90s"), ("--time", "soon")),
                             (("--for: 'war' is none of train, upcycle, compare",), ("--for", "war")),
                             (("--data: nowhere is not there",), ("--data", "nowhere")),
                             (("--time: '100000d' is above 10000d",), ("--time", "100000d")),
                             (("--model: no model is read to train", "--for upcycle"), ("--model", "corpus")),
                             (("'empty.txt' is empty: it holds no text",), ("--data", "empty.txt")),
                             (("'hollow' is empty: it holds no text",), ("--data", "hollow")),
                             (("'binary' is not UTF-8",), ("--data", "binary")),
                             (("`penstock data prepare 'a binary' --out",), ("--data", "a binary")),
                             (("short.txt: has 180 tokens to train on", "sequences of 256"), ("--data", "short.txt")),
                             (("--model",), ("--for", "upcycle", "--data", "corpus")),
                             (("--model: runs/mine: has experts already",),
                              ("--for", "upcycle", "--model", "runs/mine", "--data", "corpus")),
                             (("--method: unknown method 'nonsense'",), ("--method", "nonsense", "--data", "corpus"))):
        shell.mistake(1, parts, "init", "--out", "x.toml", *arguments)
    for option in ("--for", "--data", "--time", "--method", "--model"):
        shell.mistake(2, (option + ": is empty; give a value, or leave the option out",), "init", "--out", "x.toml", option, "")
    shell.mistake(1, ("no folder",), "init", "--data", "corpus", "--time", "2s", "--out", "no/x.toml")
    shell.expect("nothing was written", not os.path.exists(os.path.join(shell.directory, "x.toml")))


def check_terminal(shell):
    if not has_terminals():
        return
    said, code = on_terminal(shell, "war\ntrain\ncorpus\n2s\n", "init", "--out", "asked.toml")
    shell.expect("answers to init's questions", code == 0 and "'war' is none of" in said and "asked.toml is written" in said, said)
    said, code = on_terminal(shell, "")
    for part in ("recipes", "asked.toml", "corpora", "corpus", "runs/mine", "penstock init"):
        shell.expect("an overview with " + part, code == 0 and part in said, said)
    help_text = shell.run().stderr + shell.run().stdout
    shell.expect("penstock without a terminal prints its help", "Usage: penstock" in help_text or "--help" in help_text, help_text[:300])


def check_suggestions(shell):
    """The overview suggests commands that can be typed and run, and prints no control characters."""
    if not has_terminals():
        return
    folder = os.path.join(shell.directory, "suggested")
    os.makedirs(os.path.join(folder, "runs/a"))
    touch = lambda name: open(os.path.join(folder, name), "w").close()

    def suggested():
        said, code = on_terminal(shell, "", folder=folder)
        shell.expect("no control characters", code == 0 and "\x1b" not in said, repr(said))
        return [line.strip().split("  ")[0] for line in said.splitlines() if "penstock train" in line]

    for name in ("-x.toml", "a.toml", "\x1b[31m.toml"):
        with open(os.path.join(folder, name), "w") as file:
            file.write("[train]\n")
    shell.expect("not like an option", suggested() == ["penstock train ./-x.toml"], suggested())
    os.makedirs(os.path.join(folder, "runs/-x"))
    touch("runs/-x/finished.json")
    shell.expect("a run to continue", suggested() == ["penstock train a.toml --resume"], suggested())
    touch("runs/a/finished.json")
    shell.expect("nothing to train", suggested() == [], suggested())
    os.makedirs(os.path.join(folder, "0"))
    for name in ("0/first.toml", "own.toml"):
        with open(os.path.join(folder, name), "w") as file:
            file.write('[data]\ncorpus = "elsewhere"\n[train]\n')
    shell.expect("no corpus to train on", suggested() == [], suggested())
    os.symlink(os.path.join(shell.directory, "corpus"), os.path.join(folder, "text"))
    shell.expect("the folder's own recipe and corpus", suggested() == ["penstock train own.toml --set data.corpus=text"],
                 suggested())


def check_models_without_text(shell):
    """The overview does not suggest to write text with what cannot."""
    if not has_terminals():
        return
    folder = os.path.join(shell.directory, "silent")
    os.makedirs(os.path.join(folder, "runs/begun/checkpoints"))
    os.makedirs(os.path.join(folder, "runs/classes/checkpoints/step-1"))
    with open(os.path.join(folder, "runs/classes/config.toml"), "w") as file:
        file.write("[finetune]\n")
    os.symlink(os.path.join(shell.directory, "corpus"), os.path.join(folder, "text"))
    said, code = on_terminal(shell, "", folder=folder)
    shell.expect("no model yet", code == 0 and "runs/begun" in said and "penstock generate" not in said and
                 "penstock eval" not in said, said)
    shell.expect("a fine-tuned run", "fine-tuned runs   runs/classes" in said, said)
    shell.ok("train", "recipe.toml", "--set", "model.router.method=lory", "--set", "model.router.lory.segment_length=16",
             "--out", "silent/runs/lory", "--quiet")
    said, code = on_terminal(shell, "", folder=folder)
    shell.expect("a model that is not causal", code == 0 and "penstock eval runs/lory --data text" in said and
                 "penstock generate" not in said and "penstock serve" not in said, said)


def check_inside(shell):
    """In the folder of a run the overview says what the folder is, with commands that work there."""
    if not has_terminals():
        return
    shell.ok("train", "recipe.toml", "--out", "runs/inside", "--quiet")
    run = os.path.join(shell.directory, "runs/inside")

    def suggested(folder=run):
        said, code = on_terminal(shell, "", folder=folder)
        what = next(line for line in said.splitlines() if line.startswith("This folder is a "))
        return what, [re.split("  +", line.strip())[0] for line in said.splitlines() if line.startswith("  ")]

    def works(command):
        done = subprocess.run(["sh", "-c", command], cwd=run, capture_output=True, text=True, timeout=120, env={
            **os.environ, "PATH": os.path.dirname(shell.program) + os.pathsep + os.environ["PATH"]})
        shell.expect(command, done.returncode == 0, done.stderr)

    what, commands = suggested()
    shell.expect("a run", (what, commands) == ("This folder is a run.", [
        "penstock generate . --prompt 'The '", "penstock serve .", "penstock eval . --data ../../corpus", "penstock view .",
        "penstock --help"]), (what, commands))
    works(commands[0])
    works(commands[2])
    os.remove(os.path.join(run, "finished.json"))
    shell.expect("an unfinished run", suggested()[1][-2] == "cd ../.. && penstock train runs/inside/config.toml --resume",
                 suggested())
    link = os.path.join(shell.directory, "link")
    os.symlink(run, link)
    earlier = os.environ.get("PWD")
    os.environ["PWD"] = link  # as a shell sets it that came there by the link
    shell.expect("a run behind a link", suggested(link)[1][-2] ==
                 "cd -P ../.. && penstock train runs/inside/config.toml --resume", suggested(link))
    os.environ.pop("PWD") if earlier is None else os.environ.update(PWD=earlier)
    works(suggested()[1][-2])
    shell.expect("the run is finished", os.path.exists(os.path.join(run, "finished.json")))
    os.rename(os.path.join(run, "checkpoints"), os.path.join(run, "kept"))
    shell.expect("a run without a checkpoint", suggested()[1] == ["penstock view .", "penstock --help"], suggested())
    model = os.path.join(run, "kept", os.listdir(os.path.join(run, "kept"))[0])
    shell.expect("a model", suggested(model)[0] == "This folder is a model.", suggested(model))
    corpus = os.path.join(shell.directory, "corpus")
    shell.expect("a corpus", suggested(corpus) == ("This folder is a corpus.", ["penstock --help"]), suggested(corpus))


def check_unreadable(shell):
    """The overview passes over what it cannot read."""
    if not has_terminals():
        return
    at = lambda name: os.path.join(shell.directory, name)
    os.makedirs(at("circle"))
    os.symlink("corpus.json", at("circle/corpus.json"))
    os.makedirs(at("closed"), mode=0)
    os.mkfifo(at("pipe.toml"))
    said, code = on_terminal(shell, "")
    shell.expect("what can be read", code == 0 and "runs/mine" in said and "pipe" not in said, said)
    os.chmod(at("closed"), 0o700)
    os.remove(at("pipe.toml"))


def main(program):
    with tiny(program, run=False) as shell:
        with open(os.path.join(shell.directory, "text.txt"), "w") as file:
            file.write("one two three\n" * 2000)
        for check in (check_training, check_comparing, check_upcycling, check_upcycling_to_a_method, check_text,
                      check_upcycling_in_its_tokens, check_limits, check_mistakes,
                      check_terminal, check_suggestions, check_models_without_text,
                      check_inside, check_unreadable):
            check(shell)
        sys.exit(1 if shell.failures else 0)


if __name__ == "__main__":
    main(sys.argv[1])
