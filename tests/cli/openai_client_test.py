#!/usr/bin/python3
"""Runs OpenAI's client for Node against `penstock serve` (openai_client.mjs).

    openai_client_test.py PENSTOCK SOURCE_DIRECTORY

Skips (77) if node or npm's module `openai` is missing. The module is looked for in NODE_PATH and in build/node_modules
(scripts/page-modules).
"""

import os
import subprocess
import sys

import shell as shared
from page_test import node_environment
from serve_test import serving


def main():
    source = os.path.abspath(sys.argv[2])
    environment = node_environment(source, "openai")
    with shared.tiny(sys.argv[1], run=False) as shell:
        shell.ok("train", "recipe.toml", "--out", "run", "--quiet", "--set", "train.sequence_length=1024",
                 "--set", "train.batch_sequences=1")
        with serving(shell, "--chat-template", "plain", model="run") as server:
            done = subprocess.run(["node", os.path.join(source, "tests/cli/openai_client.mjs"),
                                   f"http://127.0.0.1:{server.port}/v1"], env=environment, capture_output=True, text=True,
                                  timeout=120)
            shell.expect("OpenAI's client", done.returncode == 0, done.stdout + done.stderr)
            shell.expect("a stream that was left is no longer written", server.waits_for(0), server.state())
        return shared.finish(shell)


if __name__ == "__main__":
    sys.exit(main())
