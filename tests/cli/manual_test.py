#!/usr/bin/python3
"""Checks the manual pages and shell completions that `penstock manual` writes: the pages are complete and give no
warnings, and the completions complete a partly typed line. If man, mandoc, zsh or fish is missing, its check is left
out and the test prints its name.

    manual_test.py PENSTOCK SOURCE_DIRECTORY
"""

import os
import pty
import re
import select
import shutil
import subprocess
import time

from shell import main

BASH = """
source manual/completions/penstock
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _penstock; printf '%s\\n' "${COMPREPLY[@]}"
"""


def commands_of(shell, *above):
    """Returns all subcommands below a command, at all levels, as --help lists them."""
    listed = shell.ok(*above, "--help")
    out = []
    if "\nSubcommands:\n" in listed:
        for line in listed.split("\nSubcommands:\n", 1)[1].split("\n\n", 1)[0].splitlines():
            if found := re.match(r"  ([a-z]+)\s", line):
                out += [(*above, found[1])] + commands_of(shell, *above, found[1])
    return out


def has(program):
    if not shutil.which(program):
        print(f"{program} is not installed: its check is left out")
    return shutil.which(program)


def check_pages(shell):
    shell.ok("manual", "manual")
    folder = os.path.join(shell.directory, "manual")
    commands = commands_of(shell)
    shell.expect("commands", ("train",) in commands and ("data", "prepare") in commands, commands)
    pages = {f"man/man1/{'-'.join(('penstock', *command))}.1" for command in ((), *commands)} | {"man/man5/penstock-recipe.5"}
    found = {os.path.relpath(os.path.join(path, name), folder) for path, _, names in os.walk(folder) for name in names}
    shell.expect("list of pages", {name for name in found if name.startswith("man/")} == pages, found ^ pages)
    for page in sorted(pages):
        path = os.path.join(folder, page)
        for reader in (["mandoc", "-T", "lint", "-W", "warning", path],
                       ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path]):
            if not shutil.which(reader[0]):
                continue
            done = subprocess.run(reader, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
            said = done.stderr + (done.stdout if reader[0] == "mandoc" else "")
            shell.expect(f"{reader[0]} {page}", not said, said)
    keys = [line.split()[0] for line in shell.ok("train", "--keys").splitlines() if "<part>" not in line]
    with open(os.path.join(folder, "man/man5/penstock-recipe.5"), encoding="utf-8") as file:
        shown = re.findall(r"\.TP\n\\fB(\S+)\\fR\n", file.read())
    shell.expect("keys of the page", all(key.rsplit(".", 1)[-1] in shown for key in keys) and len(shown) > len(keys), shown)
    with open(os.path.join(folder, "man/man1/penstock-train.1"), encoding="utf-8") as file:
        shell.expect("an option of the page", "\\fB\\-\\-resume\\fR" in file.read())
    has("man"), has("mandoc")


def check_date(shell):
    """The pages bear the date of SOURCE_DATE_EPOCH, so that builds are reproducible."""
    done = subprocess.run([shell.program, "manual", "dated"], cwd=shell.directory, capture_output=True, text=True,
                          env={**os.environ, "SOURCE_DATE_EPOCH": "86400"})
    with open(os.path.join(shell.directory, "dated/man/man1/penstock.1"), encoding="utf-8") as file:
        shell.expect("date of the page", " 1 1970-01-02 " in file.readline(), done.stderr)


def check_bash(shell):
    def complete(*words):
        return subprocess.run(["bash", "-c", BASH, "bash", *words], cwd=shell.directory, capture_output=True,
                              text=True, check=True).stdout.split()

    shell.expect("bash -n", subprocess.run(["bash", "-n", "manual/completions/penstock"], cwd=shell.directory).returncode == 0)
    for words, expected in ((("penstock", "tra"), ["train", "trace"]), (("penstock", "data", "pre"), ["prepare"]),
                            (("penstock", "train", "--temp"), ["--template"]),
                            (("penstock", "train", "--template", "rem"), ["remoe"]),
                            (("penstock", "upcycle", "--start", "pa"), ["parent"]),
                            (("penstock", "upcycle", "--scorer", "router-upcycling-"), ["router-upcycling-max"]),
                            (("penstock", "upcycle", "--scorer", "hypern"), ["hypernetwork"]),
                            (("penstock", "train", "a.toml", "--set", "model.router.meth"), ["model.router.method="]),
                            (("penstock", "train", "--set", "train.precision", "=", "b"), ["bf16"]),
                            (("penstock", "finetune", "run", "--set", "lr_s"), ["lr_schedule="]),
                            (("penstock", "train", "rec"), [])):
        shell.expect(" ".join(words), complete(*words) == expected, complete(*words))


def check_fish(shell):
    if not has("fish"):
        return

    def complete(line):
        said = subprocess.run(["fish", "-c", f"source manual/completions/penstock.fish; complete -C '{line}'"], text=True,
                              cwd=shell.directory, capture_output=True, check=True, env={**os.environ, "HOME": shell.directory})
        return sorted(row.split("\t")[0] for row in said.stdout.splitlines())

    for line, expected in (("penstock tra", ["trace", "train"]), ("penstock data pre", ["prepare"]),
                           ("penstock train --temp", ["--template"]), ("penstock train --template rem", ["remoe"]),
                           ("penstock train --set train.precision=b", ["train.precision=bf16"])):
        shell.expect("fish: " + line, complete(line) == expected, complete(line))


def check_zsh(shell):
    """Types a line and a tab into zsh on a pseudo-terminal, and reads the completed line."""
    if not has("zsh"):
        return
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(shell.directory)
        os.environ.update(HOME=shell.directory, TERM="dumb", PS1="ready> ")
        os.execvp("zsh", ["zsh", "-f", "-i"])
    seen = ""

    def until(text, seconds=30):
        nonlocal seen
        seen, end = "", time.monotonic() + seconds
        while text not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                seen += re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]|[\x07\r]", "", os.read(terminal, 65536).decode(errors="replace"))
        return text in seen

    until("ready> ")
    os.write(terminal, b"PS1='now> '; fpath=($PWD/manual/completions $fpath); autoload -U compinit; compinit -u; echo lo''aded\n")
    shell.expect("zsh starts", until("loaded"), seen)
    for typed, expected in (("penstock trac", "penstock trace "), ("penstock data pre", "penstock data prepare "),
                            ("penstock train --temp", "--template "), ("penstock train --template remo", "--template remoe "),
                            ("penstock train --set train.precision=bf", "train.precision=bf16")):
        os.write(terminal, b"\x15" + typed.encode() + b"\t")
        shell.expect("zsh: " + typed, until(expected, 10), repr(seen))
    os.close(terminal)
    os.waitpid(process, 0)


def check_mistakes(shell):
    shell.mistake(1, ["text.txt", "is a file, not a folder"], "manual", "text.txt/below")
    shell.mistake(2, ["DIR is required"], "manual")


if __name__ == "__main__":
    main((check_pages, check_date, check_bash, check_fish, check_zsh, check_mistakes), run=False)
