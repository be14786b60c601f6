#!/usr/bin/env python3
"""Tests the end of a Python program whose daemon threads work.

    end_test.py BUILD SOURCE [unittest's arguments]

Exits with 77 (skipped) if the package is not built."""
import os
import subprocess
import sys

from fixture import BUILD, Fixture, main
import penstock

# Without evaluations: a run that ends in one has saved the step and not yet written its line of metrics.
LONG_RUN = ('progress=False, set={"train.steps": 1000000, "train.checkpoint_every": 1000000, '
            '"train.eval_every": 1000000}')


class End(Fixture):
    def end_with_a_daemon(self, work, before="", then="", said=""):
        """Runs a program that ends while its daemon thread works. `work` is the thread's code, which sets `begun`. The
        main thread does `before` at its start and `then` at its end. `said` stands in what the program writes to
        stderr; without it the program must write nothing."""
        script = f"""if True:
            import os, signal, sys, threading, time
            sys.path.insert(0, sys.argv[1])
            import penstock
            {before}
            begun = threading.Event()
            def work():
                {work}
            threading.Thread(target=work, daemon=True).start()
            begun.wait()
            {then}
            """
        # Python 3.12 and later warn of os.fork() in a process with threads.
        done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", script,
                               os.path.join(BUILD, "python")], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        if said:
            self.assertIn(said, done.stderr)
        else:
            self.assertEqual(done.stderr, "")

    def expect_last_step_saved(self, run):
        last = penstock.Run(run).metrics()[-1]["step"]
        self.assertTrue(os.path.isdir(f"{run}/checkpoints/step-{last}"), os.listdir(f"{run}/checkpoints"))

    def test_saves_a_daemons_run(self):
        self.end_with_a_daemon(f'penstock.train("recipe.toml", out="daemon", {LONG_RUN}, '
                               'on_step=lambda line: line["step"] and begun.set())')
        self.expect_last_step_saved("daemon")

    def test_ends_a_daemons_other_work(self):
        self.end_with_a_daemon('penstock.load("run").generate("line", max_tokens=100000, '
                               'on_text=lambda *said: begun.set())')
        self.end_with_a_daemon('[begun.set() for _ in iter(lambda: penstock.load("run").logits([1, 2, 3]), None)]')

    def test_in_a_fork_waits_for_no_thread_of_the_parent(self):
        self.end_with_a_daemon(f'penstock.train("recipe.toml", out="forked", {LONG_RUN}, '
                               'on_step=lambda line: begun.set())',
                               then="child = os.fork(); child == 0 and sys.exit(0); os.waitpid(child, 0)")

    def test_in_a_fork_saves_a_daemons_run(self):
        # The program forks after the import and before it works, as one that becomes a service does.
        self.end_with_a_daemon(f'penstock.train("recipe.toml", out="service", {LONG_RUN}, '
                               'on_step=lambda line: line["step"] and begun.set())',
                               before="child = os.fork(); child and sys.exit(os.waitpid(child, 0)[1] != 0)")
        self.expect_last_step_saved("service")

    def test_does_not_wait_long_for_a_callback(self):
        wait = "(begun.set(), threading.Event().wait())"
        self.end_with_a_daemon(f'penstock.load("run").generate("line", on_text=lambda *said: {wait})')
        self.end_with_a_daemon('penstock.train("recipe.toml", out="waits", progress=False, '
                               f'on_step=lambda line: {wait})')

    def test_a_callback_may_return_while_python_ends(self):
        # After the wait of two seconds for the callback Python's end takes five more. The callback's sleep ends then.
        nap = "(begun.set(), time.sleep(4))"
        slow_end = "slow = type('Slow', (), {'__del__': lambda self, sleep=time.sleep: sleep(5)})()"
        self.end_with_a_daemon(f'penstock.load("run").generate("line", on_text=lambda *said: {nap})', then=slow_end)
        self.end_with_a_daemon('penstock.train("recipe.toml", out="late", progress=False, '
                               f'on_step=lambda line: {nap})', then=slow_end)

    def test_ctrl_c_ends_the_wait(self):
        press = "(time.sleep(1), os.kill(os.getpid(), signal.SIGINT))"
        self.end_with_a_daemon(
            'penstock.load("run").generate("line", on_text=lambda *said: (begun.set(), threading.Event().wait()))',
            then=f"threading.Thread(target=lambda: {press}, daemon=True).start()", said="KeyboardInterrupt")


if __name__ == "__main__":
    main()
