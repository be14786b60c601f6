#!/usr/bin/python3
"""Checks by scripts/check-tutorials that the program accepts the tutorials' commands, and that the script notices wrong
commands.

    tutorials_test.py PENSTOCK SOURCE_DIRECTORY
"""

import os
import subprocess
import sys
import tempfile


def main():
    program, source = sys.argv[1:3]
    check = [sys.executable, os.path.join(source, "scripts/check-tutorials"), "--penstock", program]
    done = subprocess.run(check, capture_output=True, text=True)
    print(done.stdout + done.stderr)
    failures = done.returncode != 0
    wrong = {"penstock trian a.toml": "is no command", "penstock train a.toml --ot b": "no option --ot",
             "penstock train a.toml --set train.setps=3": "no key train.setps", "penstock train recipes/none.toml": "no file",
             "penstock data prepair x": "is no command"}
    for command, complaint in wrong.items():
        with tempfile.NamedTemporaryFile("w", suffix=".md") as page:
            page.write(f"```console\n$ {command}\n```\n")
            page.flush()
            done = subprocess.run([*check, page.name], capture_output=True, text=True)
        if done.returncode != 1 or complaint not in done.stdout:
            failures += 1
            print(f"FAILED: {command}: {done.stdout}{done.stderr}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
