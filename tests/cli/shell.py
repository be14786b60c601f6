"""Shared code of the tests of the program: calls of the program, and a folder with a tiny corpus and recipe."""

import contextlib
import os
import pty
import subprocess
import sys
import tempfile

RECIPE = """
[model]
vocab = 0
d_model = 16
layers = 2
heads = 2
d_ffn = 24

[model.moe]
experts = 4

[model.router]
method = "remoe"

[data]
corpus = "corpus"

[train]
steps = 6
batch_sequences = 2
sequence_length = 16
eval_every = 3

[run]
threads = 1
"""


def has_terminals():
    """Whether the system has pseudo-terminals. Prints a line if not, for example without /dev/pts."""
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError as error:
        print("skipped: what is shown on a terminal:", error)
        return False
    return True


class Shell:
    def __init__(self, program, directory):
        self.program, self.directory, self.failures = program, directory, 0

    def run(self, *arguments):
        return subprocess.run([self.program, *arguments], cwd=self.directory, capture_output=True,
                              text=True, timeout=120)

    def expect(self, what, condition, detail=""):
        if not condition:
            self.failures += 1
            print(f"FAILED: {what} {detail}")

    def ok(self, *arguments):
        done = self.run(*arguments)
        self.expect(" ".join(arguments), done.returncode == 0, done.stderr)
        return done.stdout

    def mistake(self, code, parts, *arguments):
        done = self.run(*arguments)
        self.expect(" ".join(arguments), done.returncode == code, f"exit {done.returncode}")
        for part in parts:
            self.expect(" ".join(arguments), part in done.stderr, f"{part!r} not in {done.stderr!r}")
        if code == 1:
            said = [line for line in done.stderr.splitlines() if line.startswith("penstock: ")]
            self.expect(" ".join(arguments) + ": one line, the last", len(said) == 1 and
                        done.stderr.endswith(said[0] + "\n"), done.stderr)


@contextlib.contextmanager
def tiny(program, run=True, kind=Shell):
    """Yields a Shell in a temporary folder with text.txt, recipe.toml, the corpus and, with `run`, a trained run."""
    with tempfile.TemporaryDirectory() as directory:
        shell = kind(os.path.abspath(program), directory)
        with open(os.path.join(directory, "text.txt"), "w") as file:
            file.write("the gate decides how much water each turbine gets\n" * 200)
        with open(os.path.join(directory, "recipe.toml"), "w") as file:
            file.write(RECIPE)
        shell.ok("data", "prepare", "text.txt", "--out", "corpus")
        if run:
            shell.ok("train", "recipe.toml", "--out", "run", "--quiet")
        yield shell


def finish(shell):
    """Prints the test's result. Returns whether a check failed, which is the test's exit code."""
    print("passed" if shell.failures == 0 else f"{shell.failures} failures")
    return shell.failures > 0


def main(checks, run=True):
    """Runs the checks one after another in one folder, with the program named on the command line."""
    with tiny(sys.argv[1], run) as shell:
        for check in checks:
            check(shell)
        sys.exit(finish(shell))
