#!/usr/bin/python3
"""Checks that scripts/check-commands finds wrong commands in pages and comments, names their lines, and accepts right
commands.

    printed_commands_test.py PENSTOCK SOURCE_DIRECTORY
"""

import os
import subprocess
import sys
import tempfile

# Texts with wrong commands: the name of the file, the text, and for each fault its line and the complaint.
WRONG = [
    ("block.md", "# A page\n\n```\npenstock trian a.toml\npenstock data prepair x   # a comment\n```\n",
     [(4, "'penstock trian' does not exist"), (5, "'penstock data prepair' does not exist")]),
    ("console.md", "```console\n$ penstock train a.toml --ot b\nthe output\n```\n", [(2, "'penstock train' has no option --ot")]),
    ("continued.md", "```\npenstock train a.toml \\\n    --processes 2 --setps 3\n```\n",
     [(2, "'penstock train' has no option --setps")]),
    ("joined.md", "```\ncd a && RANK=0 penstock eval run --date b | tee log\n```\n", [(2, "'penstock eval' has no option --date")]),
    ("inline.md", "A line.\n\nCode such as `penstock info a.toml\n--rank 2` and `penstock routers remo` in a line.\n",
     [(3, "'penstock info' has no option --rank"), (4, "'penstock routers remo' does not exist")]),
    ("keys.md", "`penstock train a.toml --set train.setps=3 --set model.router.topk.renormalize=true`\n",
     [(1, "no key train.setps"), (1, "no key model.router.topk.renormalize")]),
    ("set.md", "The option `--set train.step=3` and `--set batch=8`, and `--set model.router.method=NAME`.\n",
     [(1, "no key train.step")]),
    ("finetune.md", "`penstock finetune run --set train.lr=1`\n\n`penstock study a.toml --set finetune.sst2.set.batches=1`\n",
     [(1, "no key train.lr"), (3, "no key finetune.sst2.set.batches")]),
    ("values.md", "`penstock export run --format ggml` `penstock train --set model.router.method=relu`\n",
     [(1, "--format is none of"), (1, "model.router.method is none of")]),
    ("recipe.toml", "# A recipe. Command:\n#   penstock train recipes/none.toml --set data.corpus=c\n",
     [(2, "no file recipes/none.toml")]),
    ("source.cpp", '// A comment.\nf("a message with `penstock info "\n  "--rank 2`");\n', [(2, "'penstock info' has no option --rank")]),
    ("scripts.md", "`scripts/none` `scripts/check-files --test` `bench/memory.py CORPUS --onyl a`\n",
     [(1, "no file scripts/none"), (1, "scripts/check-files has no option --test"),
      (1, "bench/memory.py has no option --onyl")]),
]
RIGHT = """Penstock and `penstock` are no commands, and neither is `penstock COMMAND`, `penstock ...` or `penstock::core`.

```python
import penstock as p
```

```
penstock train RECIPE [--resume] --set train.steps=... --set KEY=VALUE --set 'train.memory_budget="700 MiB"' > log
podman run penstock serve runs/mine --host 0.0.0.0     # --no-option of the program
penstock study recipes/bench/ROW.toml --set finetune.sst2.data=DIR --set finetune.sst2.set.lr=1e-3
penstock export run --format gguf | other --thing
```

`scripts/setup --python && cmake --preset release`, `scripts/make-random-checkpoint OUT --kv-heads 2`,
`penstock bench layer --sweep-…`, `bench/op.cpp`, `penstock --version`
"""


def main():
    program, source = sys.argv[1:3]
    failures = 0

    def check(folder, name, text):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([sys.executable, os.path.join(source, "scripts/check-commands"), "--penstock", program, path],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    with tempfile.TemporaryDirectory() as folder:
        for name, text, faults in WRONG:
            code, said = check(folder, name, text)
            if code != 1 or f", {len(faults)} faults\n" not in said or any(
                    f"{name}:{line}: {complaint}" not in said for line, complaint in faults):
                failures += 1
                print(f"FAILED: {name}, exit status {code}:\n{said}")
        code, said = check(folder, "right.md", RIGHT)
        if code != 0 or said != "8 commands, 0 faults\n":
            failures += 1
            print(f"FAILED: right commands, exit status {code}:\n{said}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
