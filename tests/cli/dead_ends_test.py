#!/usr/bin/python3
"""Problems that a new user meets: recipes to start from, settings that nothing reads, runs to be continued, and output
that cannot be written. The test checks the lines that say how to continue.

    dead_ends_test.py PENSTOCK SOURCE_DIRECTORY
"""

import json
import os
import shlex
import stat
import signal
import subprocess
import sys
import time

from shell import finish, tiny

SMALL = ["--set", "data.corpus=corpus", "--set", "model.d_model=16", "--set", "model.layers=2", "--set",
         "model.heads=2", "--set", "train.batch_sequences=2", "--set", "train.sequence_length=16", "--set",
         "train.steps=1", "--set", "run.threads=1"]


def write(shell, name, text):
    with open(os.path.join(shell.directory, name), "w") as file:
        file.write(text)


def check_recipes_to_begin_from(shell):
    for name in ("dense", "remoe", "linear", "z-loss"):
        write(shell, "pasted.toml", shell.ok("routers", name))
        done = shell.run("train", "pasted.toml", *SMALL, "--out", "pasted-" + name)
        shell.expect("routers " + name, done.returncode == 0 and "note:" not in done.stderr, done.stderr)
    shell.ok("train", "--template", "topk", "--out", "template.toml")
    shell.ok("train", "template.toml", *SMALL, "--out", "from-template", "--quiet")
    shell.expect("template", "#keep_best = true" in shell.ok("train", "--template", "topk"))
    shell.mistake(1, ["penstock: options.set: cannot be opened"], "info", "options.set")
    for command in (("train",), ("info",), ("study",), ("bench", "step")):
        shell.mistake(1, ["recipes/demo/absent.toml: cannot be opened", "Penstock's own recipes are in its sources",
                          "/usr/share/doc/penstock/examples/recipes"], *command, "recipes/demo/absent.toml")
    shell.mistake(1, ["template.toml: is there already"], "train", "--template", "topk", "--out", "template.toml")
    shell.mistake(1, ["'relu' is a selector: write model.router.selector"], "train", "--template", "relu")
    for wrong, right in (("zloss", "z-loss"), ("remo", "remoe"), ("liner", "linear"), ("localty", "locality")):
        shell.mistake(1, [f"'{wrong}' is neither a method nor a part of a router; did you mean '{right}'?"], "routers",
                      wrong)


def check_settings_and_names(shell):
    done = shell.run("train", "recipe.toml", *SMALL, "--set", "model.router.method=dense", "--out", "dense")
    shell.expect("unread settings", done.returncode == 0 and
                 "note: recipe.toml:10: model.moe.experts = 4: nothing reads this" in done.stderr, done.stderr)
    info = json.loads(shell.ok("info", "recipe.toml", "--set", "model.router.method=dense", "--json"))
    shell.expect("info", len(info["notes"]) == 1, info)
    shell.mistake(1, ["penstock: --set '--set train.steps=1': write it as key=value"], "train", "recipe.toml", "--set",
                  "--set train.steps=1", "--out", "other")
    shell.mistake(1, ["--set parallel.data=1048577: parallel.data = 1048577 is out of range; it must be 0 to 1048576"], "train",
                  "recipe.toml", "--set", "parallel.data=1048577", "--out", "other")
    done = shell.run("train", "recipe.toml", *SMALL, "--set", "model.router.method=topk", "--set",
                     "model.router.topk.schedule.start=2", "--out", "unread")
    shell.expect("a part's unread option", done.returncode == 0 and "schedule.start = 2: nothing reads this" in
                 done.stderr, done.stderr)
    shell.mistake(1, ["model.router.gshard.capacity = 0 leaves experts no capacity"], "train", "recipe.toml", "--set",
                  "model.router.method=gshard", "--set", "model.router.gshard.capacity=0", "--out", "other")
    shell.mistake(1, ["'relu' is a selector: write model.router.selector = \"relu\""], "train", "recipe.toml",
                  "--set", "model.router.method=relu", "--out", "other")
    shell.mistake(1, ["penstock: --set data.corpus=moved: there is no such folder", "name its place as data.corpus"], "train",
                  "recipe.toml", "--set", "data.corpus=moved", "--out", "other")
    for arguments in (("eval", "run", "--data=~/x"), ("eval", "run", "--text=~/x"), ("eval", "~/x", "--data", "corpus"),
                      ("eval", "run", "--data", "corpus", "--tokenizer=~/x"), ("info", "~/x"), ("report", "~/x"),
                      ("train", "~/x"), ("study", "~/x"), ("doctor", "run", "--text", "~/x"),
                      ("doctor", "run", "--dense", "~/x"), ("export", "dense", "--format", "hf", "--data", "~/x",
                       "--out", "hf"),
                      ("trace", "run", "--tokens", "~/x", "--out", "trace"), ("tokenize", "run", "--input", "~/x"),
                      ("tokenize", "~/x", "--text", "a"), ("generate", "run", "--prompt-file", "~/x"),
                      ("data", "prepare", "text.txt", "--tokenizer", "~/x", "--out", "c"),
                      ("data", "prepare", "--domain", "a=~/x", "--out", "c"),
                      ("finetune", "run", "--data", "~/x", "--out", "other")):
        shell.mistake(1, ["write $HOME/x"], *arguments)
    for arguments in (("train", "recipe.toml", "--set", "data.corpus=~/x", "--out", "x"),
                      ("upcycle", "dense", "--calibration", "~/x", "--out", "moe")):
        done = shell.run(*arguments)
        shell.expect("~ is read as the home directory", done.returncode == 1 and "write $HOME" not in done.stderr and
                     os.path.expanduser("~/x") in done.stderr, done.stderr)
    os.makedirs(os.path.join(shell.directory, "home"))
    os.symlink(os.path.join(shell.directory, "corpus"), os.path.join(shell.directory, "home/corpus"))
    done = subprocess.run([shell.program, "train", "recipe.toml", *SMALL, "--set", "data.corpus=~/corpus", "--out",
                           "at-home", "--quiet"], cwd=shell.directory, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "HOME": os.path.join(shell.directory, "home")})
    shell.expect("~ in --set", done.returncode == 0, done.stderr)


def check_runs_that_go_on(shell):
    begun = shell.run("train", "recipe.toml", "--set", "train.init_from=run", "--out", "child")
    shell.expect("init_from a run", begun.returncode == 0 and "--set train.init_from=run is a run; training begins with "
                 "its best checkpoint, run/checkpoints/step-" in begun.stderr, begun.stderr)
    begin = ("--set", "train.init_from=run", "--set", "train.init_hash=0123456789abcdef")
    for command in (("train", "recipe.toml", "--out", "other"), ("info", "recipe.toml")):
        shell.mistake(1, ["is another model (", ") than train.init_hash = 0123456789abcdef; put that one back"],
                      *command, *begin)
    longer = ("train", "recipe.toml", "--out", "run", "--resume", "--set", "train.steps=7")
    shell.mistake(1, ["train.steps: 6 -> 7", "train.init_from = run"], *longer)
    constant = ["train", "recipe.toml", "--set", "train.lr_schedule=constant", "--out", "constant", "--resume"]
    shell.ok(*constant, "--quiet")
    done = shell.run(*constant, "--set", "train.steps=9")
    shell.expect("a longer run", done.returncode == 0 and "goes on beyond step 6" in done.stderr, done.stderr)
    finished = json.load(open(os.path.join(shell.directory, "constant/finished.json")))
    shell.expect("a longer run", finished["steps"] == 9, finished)
    shell.ok("data", "prepare", "text.txt", "--split", "1,0,0", "--out", "all-train")
    done = shell.run("train", "recipe.toml", *SMALL, "--set", "data.corpus=all-train", "--set", "train.eval_every=0",
                     "--out", "unheld")
    shell.expect("no held-out text", done.returncode == 0 and "no validation: the corpus has no held-out text" in
                 done.stderr, done.stderr)


def check_output_paths(shell):
    write(shell, "file", "")
    for arguments in (("eval", "run", "--data", "corpus", "--k", "1", "--plot", "no/plot.html"),
                      ("eval", "run", "--text", "text.txt", "--per-token", "no/scores"),
                      ("analyse", "run", "--data", "corpus", "--html", "no/page.html"),
                      ("trace", "run", "--text", "gate", "--out", "no/trace.safetensors"),
                      ("train", "--template", "topk", "--out", "no/recipe.toml")):
        done = shell.run(*arguments)
        shell.expect(" ".join(arguments), done.returncode == 1 and "there is no folder no" in done.stderr and
                     done.stdout == "", f"{done.returncode} {done.stderr!r}")
    for arguments in (("train", "recipe.toml", "--out", "file/run"), ("data", "prepare", "text.txt", "--out", "file/c"),
                      ("upcycle", "run", "--out", "file/moe"), ("export", "run", "--format", "hf", "--out", "file/hf"),
                      ("finetune", "run", "--data", "letters", "--out", "file/tuned")):
        done = shell.run(*arguments)
        shell.expect(" ".join(arguments), done.returncode == 1 and "is a file, not a folder" in done.stderr,
                     f"{done.returncode} {done.stderr!r}")
    for arguments in (("data", "prepare", "text.txt", "--out=~/c"), ("train", "recipe.toml", "--out=~/run"),
                      ("eval", "run", "--data", "corpus", "--k", "1", "--plot=~/plot.html")):
        remedy = "write $HOME" + arguments[-1].partition("~")[2]
        shell.mistake(1, ["begins with '~'; write ./~/", remedy], *arguments)
    pipe = os.path.join(shell.directory, "pipe")
    os.mkfifo(pipe)
    for arguments in (["eval", "run", "--text", "corpus/tokenizer.json", "--per-token", "pipe"],
                      ["analyse", "run", "--data", "corpus", "--html", "pipe"]):
        done = shell.run(*arguments)
        shell.expect(" ".join(arguments), done.returncode == 1 and done.stderr == "penstock: pipe: is no regular file, "
                     "and would be replaced by one; name another\n" and stat.S_ISFIFO(os.stat(pipe).st_mode),
                     done.stderr)
    name = "n" * 300
    done = shell.run("data", "prepare", "corpus/tokenizer.json", "--out", name)
    shell.expect("a name that is too long", done.returncode == 1 and "internal error" not in done.stderr and
                 done.stderr.endswith("File name too long\n"), done.stderr)
    done = shell.run("trian", "recipe.toml")
    shell.expect("no such command", done.returncode == 2 and done.stderr == "'trian' is no command; run with --help "
                 "alone for those there are\n", done.stderr)
    shell.expect("no folder ~", not os.path.exists(os.path.join(shell.directory, "~")))
    shell.mistake(1, ["write $HOME/nothere.txt"], "data", "prepare", "~/nothere.txt", "--out", "c")
    shell.expect("no trial file is left", not [name for name in os.listdir(shell.directory) if "trial" in name])
    write(shell, "trace.safetensors", "mine")
    shell.mistake(1, ["is there already"], "trace", "run", "--text", "gate", "--out", "trace.safetensors")
    write(shell, "empty.txt", "")
    write(shell, "letter.txt", "a")
    for command in (("eval", "run"), ("doctor", "run"), ("export", "dense", "--format", "hf", "--out", "hf"),
                    ("upcycle", "dense", "--out", "moe", "--calibration")):
        option = [] if command[-1] == "--calibration" else ["--text"]
        shell.mistake(1, ["empty.txt: "], *command, *option, "empty.txt")
    shell.mistake(1, ["penstock: the model's path is empty; give a model directory"], "doctor", "")
    for command in ("train", "recipe.toml"), ("finetune", "run", "--data", "letters"), ("study", "recipe.toml"):
        shell.mistake(2, ["--out: name what to write"], *command, "--out", "")
    for option, *command in (("--text", "doctor", "run"), ("--html", "analyse", "run", "--data", "corpus"),
                             ("--data", "export", "run", "--format", "hf", "--out", "hf"),
                             ("--plot", "eval", "run", "--data", "corpus", "--k", "1"),
                             ("--per-token", "eval", "run", "--text", "text.txt"), ("--draft", "generate", "run"),
                             ("--scale", "info", "recipe.toml"), ("--set", "train", "recipe.toml")):
        for empty in (option, ""), (option + "=", "--json"):
            shell.mistake(2, [option + ": is empty; give a value, or leave the option out"], *command, *empty)
    write(shell, "nul.txt", "the gate\0decides\n" * 20)
    for command in (("eval", "run"), ("doctor", "run"), ("export", "dense", "--format", "hf", "--out", "hf"),
                    ("handoff", "run", "--out", "handed")):
        option = "--calibration" if command[0] == "handoff" else "--text"
        shell.mistake(1, ["penstock: nul.txt: the text holds a NUL byte at offset 8"], *command, option, "nul.txt")
    write(shell, "ids.json", "[1, 18446744073709551615]")
    shell.mistake(1, ["ids.json: entry 1 of its array is no token id"], "trace", "run", "--tokens", "ids.json", "--out", "t")
    write(shell, "ids.json", "[]")
    shell.mistake(1, ["ids.json: holds no token ids"], "trace", "run", "--tokens", "ids.json", "--out", "t")
    shell.mistake(1, ["letter.txt: has 1 token and a token is scored after another"], "eval", "run", "--text", "letter.txt")
    with open(os.path.join(shell.directory, "latin.txt"), "wb") as text:
        text.write("the gate at the café decides\n".encode("latin-1") * 20)
    done = shell.run("eval", "run", "--text", "latin.txt")
    shell.expect("a text in Latin-1", done.returncode == 0 and
                 "note: latin.txt is not UTF-8 (byte 0xe9 at offset 19); text in another encoding" in done.stderr, done.stderr)
    done = shell.run("eval", "nowhere", "--data", "corpus", "--json")
    shell.expect("an error under --json", done.returncode == 1 and done.stdout == "", done.stdout)
    shell.expect("eval --tokenizer", shell.ok("eval", "run", "--data", "corpus", "--tokenizer", "corpus") ==
                 shell.ok("eval", "run", "--data", "corpus"))


def check_links(shell):
    """Output to a symbolic link is written to the link's target, and the link stays."""
    at = lambda name: os.path.join(shell.directory, name)
    os.makedirs(at("elsewhere/folder"))
    write(shell, "elsewhere/page.html", "old")
    for link, target in {"page.html": "elsewhere/page.html", "m.gguf": "elsewhere/m.gguf", "folder": "elsewhere/folder",
                         "moved": "elsewhere/moved", "circle": "circle", "lost": "nothing/here"}.items():
        os.symlink(target, at(link))
    shell.ok("analyse", "run", "--data", "corpus", "--html", "page.html")
    shell.expect("a page behind a link", "<html" in open(at("elsewhere/page.html")).read(1000) and os.path.islink(at("page.html")))
    shell.ok("export", "dense", "--format", "gguf", "--out", "m.gguf", "--check-tokens", "0")
    shell.expect("a dangling link", os.path.isfile(at("elsewhere/m.gguf")) and os.path.islink(at("m.gguf")))
    for folder in ("folder", "moved"):
        shell.ok("data", "prepare", "text.txt", "--out", folder)
        shell.expect(folder, os.path.isfile(at(f"elsewhere/{folder}/corpus.json")) and os.path.islink(at(folder)))
    shell.ok("train", "recipe.toml", *SMALL, "--out", "lost", "--quiet")
    shell.expect("a run behind a dangling link", os.path.isfile(at("nothing/here/finished.json")) and os.path.islink(at("lost")))
    for command in (("analyse", "run", "--data", "corpus", "--html"), ("data", "prepare", "text.txt", "--out"),
                    ("export", "dense", "--format", "gguf", "--out"), ("upcycle", "dense", "--out")):
        shell.mistake(1, ["penstock: circle: is a symbolic link that leads back to itself; name another place, or "
                          "remove the link\n"], *command, "circle")
    checkpoint = os.path.join("dense/checkpoints", sorted(os.listdir(at("dense/checkpoints")))[0])
    os.symlink(os.path.join(checkpoint, "config.json"), at("inside.jsonl"))
    before = open(at("run/config.toml")).read()
    shell.mistake(1, ["run/config.toml: is there already, and its name is no page's"], "analyse", "run", "--data", "corpus",
                  "--html", "run/config.toml")
    shell.expect("the run's recipe is left as it was", open(at("run/config.toml")).read() == before)
    shell.mistake(1, ["inside.jsonl: is a file of a model; name another"], "eval", "dense", "--text", "text.txt",
                  "--per-token", "inside.jsonl")
    shell.expect("no temporary file is left", not [name for name in os.listdir(at("elsewhere")) + os.listdir(shell.directory)
                                          if "tmp-" in name])


def check_folders_with_names_of_files(shell):
    """A folder may be named as a GGUF file or a llama2.c checkpoint is. It is refused once, with the file in it."""
    for name in ("x.gguf", "x.bin", "download.gguf"):
        os.makedirs(os.path.join(shell.directory, name))
    write(shell, "download.gguf/m.gguf", "")
    for folder, more in (("x.gguf", ""), ("x.bin", ""), ("download.gguf", ", or its file download.gguf/m.gguf")):
        for command in (("generate", folder, "--prompt", "a"), ("eval", folder, "--text", "text.txt"), ("info", folder),
                        ("export", folder, "--format", "hf", "--out", "hf"), ("upcycle", folder, "--out", "moe"),
                        ("generate", "run", "--draft", folder, "--prompt", "a")):
            shell.mistake(1, [f"penstock: {folder}: is a folder that holds neither config.json nor checkpoints; give a "
                              f"model or a run directory{more}\n"], *command)
        shell.mistake(1, [f"train.init_from: {folder}: has no config.json; give a model directory"], "train", "recipe.toml",
                      "--set", f"train.init_from={folder}", "--out", "other")
    for command in (("generate", "corpus", "--prompt", "a"), ("info", "corpus")):
        shell.mistake(1, ["penstock: corpus: is a corpus, not a model; give a model or a run directory\n"], *command)
    shell.mistake(1, ["train.init_from: nowhere: no such folder"], "train", "recipe.toml", "--set",
                  "train.init_from=nowhere", "--out", "other")


def check_recipes_and_studies(shell):
    """A recipe in place of a study and a study in place of a recipe are refused with the command that takes them."""
    write(shell, "a study.toml", 'base = "recipe.toml"\nseeds = [1]\n[variants.one]\n')
    write(shell, "like.toml", 'like = "a study.toml"\n')
    for file, place, key in (("a study.toml", "a study.toml:3", "variants"), ("like.toml", "like.toml:1", "like")):
        quoted = f"'{file}'" if " " in file else file
        for command in (("train", file, "--out", "other"), ("bench", "step", file)):
            shell.mistake(1, [f"penstock: {place}: {key} is a key of studies, not of recipes; run a study with "
                              f"`penstock study {quoted}`\n"], *command)
    shell.mistake(1, ["penstock: recipe.toml: is a recipe, not a study, which has [variants.NAME] tables; train it with "
                      "`penstock train recipe.toml`\n"], "study", "recipe.toml")


def check_interrupted_evaluation(shell):
    write(shell, "long.txt", "the gate decides how much water each turbine gets\n" * 400000)
    process = subprocess.Popen([shell.program, "eval", "run", "--text", "long.txt", "--threads", "1"],
                               cwd=shell.directory, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stderr.readline()  # the first line of progress
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=120)[1]
    shell.expect("Ctrl-C in eval", process.returncode == 130 and rest.endswith("interrupted; nothing was written\n"),
                 f"{process.returncode} {rest[-200:]!r}")


def check_interrupted_pages(shell):
    """Ctrl-C while a finished run writes its samples, or while a study measures one, says how to go on."""
    deep = ["--set", "model.layers=200", "--set", "train.steps=1", "--set", "train.eval_every=0",
            "--set", "train.micro_batch=1"]  # slow, with few weights

    def interrupted(beginning, *command):
        process = subprocess.Popen([shell.program, *command], cwd=shell.directory, stderr=subprocess.PIPE, text=True,
                                   stdout=subprocess.DEVNULL)
        while beginning not in (line := process.stderr.readline()):
            shell.expect(f"{command} says {beginning}", line)
            if not line:
                break
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=120)[1]
        shell.expect(f"Ctrl-C in {command}", process.returncode == 130, f"{process.returncode} {rest!r}")
        return rest

    train = ["train", "recipe.toml", *deep, "--out", "deep"]
    shell.ok(*train, "--set", "run.report=false", "--quiet")
    for more in ([], ["--processes", "2"]):
        rest = interrupted("already finished", *train, *more, "--resume")
        said, command = rest.split("penstock ", 1)
        shell.expect("samples to be written", said == "\ninterrupted; the run is finished and saved, without its "
                     "samples.json and report.html. Write them with: " and command.count("\n") == 1, rest)
    shell.ok(*shlex.split(command))
    shell.expect("samples and page", {"samples.json", "report.html"} <= set(os.listdir(os.path.join(shell.directory, "deep"))))

    write(shell, "deep.toml", 'base = "recipe.toml"\nseeds = [1]\neval_k = [1, 4]\n[variants.one]\n'
          'set = {"model.router.method" = "topk"}\n')
    rest = interrupted("seed 1: measuring", "study", "deep.toml", *deep, "--out", "deep-study")
    said, command = rest.split("penstock ", 1)
    shell.expect("a run to be measured", said.endswith("\ninterrupted; the state is saved. Continue with: "), rest)
    shell.ok(*shlex.split(command))
    with open(os.path.join(shell.directory, "deep-study/results.json")) as file:
        shell.expect("the run is measured", len(json.load(file)["rows"][0]["by_k"]) == 2)


def check_finetuned_run(shell):
    os.makedirs(os.path.join(shell.directory, "letters"))
    rows = "".join(f"{'ab'[i % 2]} gate {i * 7919 % 97}\t{(i * 31 % 7) % 2}\n" for i in range(60))
    write(shell, "letters/train.tsv", "sentence\tlabel\n" + rows)
    write(shell, "letters/dev.tsv", "sentence\tlabel\n" + rows[:400].rsplit("\n", 1)[0] + "\n")
    said = shell.ok("finetune", "run", "--data", "letters", "--set", "epochs=1", "--set", "lr=0", "--out", "tuned",
                    "--quiet")
    shell.expect("a note says that nothing was learnt", "note: nothing that shows was learnt" in said, said)
    page = open(os.path.join(shell.directory, "tuned/report.html")).read()
    shell.expect("the page says that nothing was learnt", "majority class" in page and "nothing that shows was learnt" in page)
    shell.expect("file of events", len(os.listdir(os.path.join(shell.directory, "tuned/events"))) == 1)
    os.remove(os.path.join(shell.directory, "tuned/report.html"))
    shell.expect("report", shell.ok("report", "tuned").strip() == "tuned/report.html")
    about = json.loads(shell.ok("info", "tuned", "--json"))["finetuning"]
    shell.expect("info --json", about["task"] == "sst2" and "majority_accuracy" in about, about)
    shell.expect("info", "fine-tuned    sst2 on letters" in shell.ok("info", "tuned"))


def main():
    with tiny(sys.argv[1]) as shell:
        check_recipes_to_begin_from(shell)
        check_settings_and_names(shell)
        check_runs_that_go_on(shell)
        check_output_paths(shell)
        check_links(shell)
        check_folders_with_names_of_files(shell)
        check_recipes_and_studies(shell)
        check_interrupted_evaluation(shell)
        check_interrupted_pages(shell)
        check_finetuned_run(shell)
        return finish(shell)


if __name__ == "__main__":
    sys.exit(main())
