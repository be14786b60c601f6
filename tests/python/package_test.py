#!/usr/bin/env python3
"""The Python package against the program and against what C++ computes (numbers.cpp), bit for bit.

    package_test.py BUILD SOURCE [unittest's arguments]

Exits 77 (skipped) where the package is not built."""
import ast
import contextlib
import copy
import gc
import io
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import weakref

# A shell has its background jobs ignore it, and a process inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
BUILD, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path[:0] = [os.path.join(BUILD, "python"), os.path.join(SOURCE, "tests", "cli")]
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
try:
    import torch

    import penstock
    import penstock._core
except ImportError as error:
    print(f"skipped: the Python package is not built ({error})")
    sys.exit(77)
from shell import RECIPE  # noqa: E402

PROGRAM = os.path.join(BUILD, "bin", "penstock")
METHODS = [name for name, method in penstock.routers()["methods"].items() if method["selector"]]
TYPES = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64, "I32": torch.int32}


def read_tensors(path):
    """The tensors of a safetensors file."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            kind = TYPES[entry["dtype"]]
            out[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=kind).reshape(entry["shape"]) \
                if end > begin else torch.zeros(entry["shape"], dtype=kind)
    return out


def run_program(*arguments, **options):
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True, **options).stdout


class Fixture(unittest.TestCase):
    """A folder with a corpus of bytes, a recipe and one finished run."""

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        cls.folder = cls.stack.enter_context(tempfile.TemporaryDirectory())
        before = os.getcwd()
        cls.stack.callback(os.chdir, before)
        os.chdir(cls.folder)
        with open("text.txt", "w", encoding="utf-8") as file:
            file.write("".join(f"line {i} of a small text, squared {i * i}\n" for i in range(900)))
        run_program("data", "prepare", "text.txt", "--out", "corpus")
        with open("recipe.toml", "w", encoding="utf-8") as file:
            file.write(RECIPE)
        penstock.train("recipe.toml", out="run", progress=False)
        penstock.set_threads(1)


def stop_at(step):
    def hear(line):
        if line["step"] == step:
            raise StopIteration
    return hear


def layer_options(method):
    """As numbers.cpp has them."""
    options = {"d_model": 16, "d_ffn": 24, "experts": 4, "method": method, "k": 2}
    selector = penstock.routers()["methods"][method]["selector"]
    if penstock.routers()["methods"][method]["traits"]["merges"]:
        options["options"] = {selector: {"segment_length": 8}}
    return options


class Layers(unittest.TestCase):
    def test_the_bits_are_those_of_cpp(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "layers.safetensors")
            subprocess.run([os.path.join(BUILD, "bin", "python_numbers"), "layers", path], check=True,
                           env={**os.environ, "OMP_NUM_THREADS": "1"})
            wanted = read_tensors(path)
        penstock.set_threads(1)
        seen = set()
        for method in METHODS:
            torch.manual_seed(7)
            layers = penstock.make_moe_layers(layers=2, **layer_options(method))
            x = torch.randn(2, 8, 16, requires_grad=True)
            optimizer = torch.optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.5)
            got = {}
            for step in range(2):
                hidden, loss = x, torch.zeros(())
                for layer in layers:
                    y, routing = layer(hidden, step=step, total_steps=10, token_ids=torch.arange(16))
                    hidden = hidden + y
                    loss = loss if routing.loss is None else loss + routing.loss
                optimizer.zero_grad(set_to_none=True)
                (hidden.square().mean() + loss).backward()
                optimizer.step()
                layers[0].after_step()
                got[f"{method}.y.{step}"] = hidden.detach()
            got[f"{method}.dx"] = x.grad
            for number, layer in enumerate(layers):
                for name, tensor in layer.state_dict().items():
                    got[f"{method}.{number}.{name}"] = tensor
            for name, tensor in got.items():
                self.assertTrue(torch.equal(tensor, wanted[name]), name)
            seen |= set(got)
        self.assertEqual(seen, set(wanted))
        self.assertGreater(len(METHODS), 15)

    def test_gradients_in_f64(self):
        for method in ("topk", "remoe", "loss-free"):
            torch.manual_seed(1)
            layer = penstock.MoeLayer(d_model=6, d_ffn=5, experts=3, method=method, k=2, init_std=0.5,
                                      output_std=0.5).double()
            names = [name for name, _ in layer.named_parameters()]
            values = [p.detach().clone().requires_grad_() for p in layer.parameters()]
            x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)

            # The layer's own leaves against differences of the same function, one direction each.
            def total():
                y, routing = layer(x)
                probe = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
                return (y * probe).sum() + (0 if routing.loss is None else 100 * routing.loss)

            layer.zero_grad()
            total().backward()
            self.assertTrue(torch.autograd.gradcheck(lambda rows: layer(rows)[0], (x,)), method)
            for name, parameter, value in zip(names, layer.parameters(), values):
                direction = torch.randn_like(value)
                with torch.no_grad():
                    parameter.copy_(value + 1e-6 * direction)
                    up = total()
                    parameter.copy_(value - 1e-6 * direction)
                    down = total()
                    parameter.copy_(value)
                measured = ((up - down) / 2e-6).item()
                self.assertAlmostEqual((parameter.grad * direction).sum().item(), measured,
                                       delta=1e-5 * max(1.0, abs(measured)), msg=f"{method} {name}")

    def test_every_method_survives_saving_copying_and_state_dicts(self):
        x, ids = torch.randn(2, 8, 16), torch.arange(16)
        for method in METHODS:
            torch.manual_seed(3)
            model = torch.nn.ModuleList(penstock.make_moe_layers(layers=2, **layer_options(method)))
            for layer in model:  # balancers move away from their beginning
                layer(x, token_ids=ids, total_steps=10)
            model[0].after_step()
            wanted = model.state_dict()
            file = io.BytesIO()
            torch.save(model, file)
            file.seek(0)
            more = {"weights_only": False} if "weights_only" in torch.load.__code__.co_varnames else {}
            torch.manual_seed(4)
            fresh = torch.nn.ModuleList(penstock.make_moe_layers(layers=2, **layer_options(method)))
            fresh.load_state_dict(wanted)
            for other in (torch.load(file, **more), copy.deepcopy(model), fresh):
                state = other.state_dict()
                self.assertEqual(list(state), list(wanted), method)
                for name, tensor in wanted.items():
                    self.assertTrue(torch.equal(state[name], tensor), f"{method} {name}")
                model.eval(), other.eval()
                for mine, theirs in zip(model, other):
                    self.assertTrue(torch.equal(mine(x, token_ids=ids)[0], theirs(x, token_ids=ids)[0]), method)
                model.train()

    def test_a_copy_shares_its_balancers_with_its_own_layers_alone(self):
        model = torch.nn.ModuleList(penstock.make_moe_layers(layers=2, d_model=8, experts=4, method="remoe"))
        other = copy.deepcopy(model)
        other[1](torch.randn(4, 8))
        other[1].after_step()
        self.assertEqual(model[0].state_dict()["balancer_0.lambda"], torch.tensor(1e-8))
        self.assertNotEqual(other[0].state_dict()["balancer_0.lambda"], torch.tensor(1e-8))

    def test_what_was_added_to_a_layer_goes_with_its_copies(self):
        class WithMore(penstock.MoeLayer):
            def __init__(self):
                super().__init__(d_model=8, experts=4)
                self.extra = torch.nn.Linear(2, 2)
                self.scale = torch.nn.Parameter(torch.ones(3))

        layer, calls = WithMore(), []
        layer.register_forward_hook(lambda *_: calls.append(1))
        other = copy.deepcopy(layer)
        self.assertEqual([name for name, _ in other.named_parameters()], [name for name, _ in layer.named_parameters()])
        self.assertTrue(torch.equal(other.extra.weight, layer.extra.weight))
        self.assertIsNot(other.extra.weight, layer.extra.weight)
        self.assertIsNot(other.router.scorer.weight, layer.router.scorer.weight)
        x = torch.randn(3, 8)
        self.assertTrue(torch.equal(other(x)[0], layer.eval()(x)[0]))
        self.assertEqual(len(calls), 2)
        with torch.no_grad():
            other.router.scorer.weight.zero_()
        self.assertEqual(dict(other._core.parameters())["router.scorer.weight"].abs().max(), 0)
        with self.assertRaisesRegex(TypeError, "make_moe_layers"):
            penstock.MoeLayer(d_model=8, experts=4, layers=2)

    def test_conversions_reach_the_layer(self):
        layer = penstock.MoeLayer(d_model=8, experts=4, method="remoe")
        weight = layer.router.scorer.weight
        self.assertIsInstance(weight, torch.nn.Parameter)
        layer.to(torch.float64)
        self.assertIs(layer.router.scorer.weight, weight)
        self.assertEqual(layer(torch.randn(3, 8, dtype=torch.float64))[0].dtype, torch.float64)
        self.assertEqual(layer.balancer_0._buffers["lambda"].dtype, torch.float32)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.zero_()
        self.assertEqual(layer(torch.randn(3, 8, dtype=torch.float64))[0].abs().max(), 0)
        weight.requires_grad_(False)
        self.assertFalse(copy.deepcopy(layer).router.scorer.weight.requires_grad)

    def test_inside_a_stock_model(self):
        torch.manual_seed(0)

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.Linear(2, 16)
                self.moe = penstock.MoeLayer(d_model=16, experts=4, method="remoe", init_std=0.2, output_std=0.2)
                self.outer = torch.nn.Linear(16, 2)

            def forward(self, x):
                hidden = self.inner(x)
                y, self.routing = self.moe(hidden)
                return self.outer(hidden + y)

        net = Net()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        losses = []
        for _ in range(150):
            x = torch.randn(64, 2)
            loss = torch.nn.functional.cross_entropy(net(x), (x[:, 0] * x[:, 1] > 0).long())
            optimizer.zero_grad()
            (loss + net.routing.loss).backward()
            optimizer.step()
            net.moe.after_step()
            losses.append(loss.item())
        self.assertLess(sum(losses[-10:]), 0.5 * sum(losses[:10]))
        self.assertEqual(int(net.routing.plan.expert_counts.sum()), len(net.routing.plan.token))
        self.assertIn("remoe", repr(net))
        net.eval()
        net(torch.randn(4, 2))
        self.assertIsNone(net.routing.loss)

    def test_dropout_is_drawn_in_training_alone(self):
        layer = penstock.MoeLayer(d_model=8, experts=4, method="topk", dropout=0.5, activation="relu", init_std=0.5,
                                  output_std=0.5)
        x = torch.randn(20, 8)
        self.assertFalse(torch.equal(layer(x)[0], layer(x)[0]))
        self.assertTrue(torch.equal(layer(x, dropout_seed=3)[0], layer(x, dropout_seed=3)[0]))
        layer.eval()
        self.assertTrue(torch.equal(layer(x)[0], layer(x, dropout_seed=3)[0]))

    def test_nothing_stays_of_a_layer_that_is_let_go(self):
        layer = penstock.MoeLayer(d_model=8, experts=4, method="remoe", scorer="test-tanh")
        y, routing = layer(torch.randn(3, 8))
        (y.sum() + routing.loss).backward()
        left = [weakref.ref(thing) for thing in (layer, layer.experts.down, layer.router.scorer.inner.weight)]
        del layer, y, routing
        gc.collect()
        self.assertEqual([reference() for reference in left], [None] * 3)

    def test_the_pages_parts_of_python_work(self):
        with open(os.path.join(SOURCE, "docs", "python.md"), encoding="utf-8") as file:
            blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        names = {"penstock": penstock}
        part = next(block for block in blocks if "class Spread" in block)
        exec(part, names)
        x, task_loss = torch.randn(5, 64), 0
        step = next(block for block in blocks if "moe.after_step()" in block)
        names.update(x=x, task_loss=task_loss, optimizer=torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1))
        exec(step.replace('method="remoe"', 'balancers=["spread"]'), names)
        self.assertEqual(list(names["routing"].loss_terms), ["spread"])

    def test_mistakes(self):
        for options, words in (({"method": "remo"}, "did you mean 'remoe'"),
                               ({"granularty": 2}, "did you mean 'granularity'"),
                               ({"method": "dense"}, "has no experts"),
                               ({"options": {"topk": {"softmaxx": "before"}}}, "softmax"),
                               ({"experts": 0}, "experts"), ({"experts": "four"}, "experts")):
            with self.assertRaises(penstock.Error, msg=str(options)) as caught:
                penstock.MoeLayer(**{"d_model": 8, "experts": 4, **options})
            self.assertIn(words, str(caught.exception))
        with self.assertRaisesRegex(penstock.Error, "token"):
            penstock.MoeLayer(d_model=8, experts=4, method="hash")(torch.randn(2, 8))
        with self.assertRaises(ValueError):  # what an Error is, too
            penstock.MoeLayer(d_model=8, experts=4)(torch.randn(2, 7))


class Models(Fixture):
    def test_logits_are_those_of_cpp(self):
        model = penstock.load("run")
        subprocess.run([os.path.join(BUILD, "bin", "python_numbers"), "logits", model.path, "logits.safetensors"],
                       check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        wanted = read_tensors("logits.safetensors")["logits"]
        got = model.logits(torch.arange(24))
        self.assertTrue(torch.equal(got, wanted.reshape(got.shape)))
        self.assertEqual(model.logits([[1, 2, 3], [1, 2, 4]]).shape, (2, 3, 256))
        self.assertFalse(got.requires_grad)

    def test_losses_are_those_of_the_program(self):
        model = penstock.load("run")
        said = json.loads(run_program("eval", "run", "--data", "corpus", "--json", "--threads", "1"))
        got = model.eval("corpus")
        for key in ("loss", "bits_per_byte", "perplexity", "tokens", "by_domain", "load", "sequence_length"):
            self.assertEqual(got[key], said[key], key)
        test = json.loads(run_program("eval", "run", "--data", "corpus", "--split", "test", "--max-tokens", "64",
                                      "--json", "--threads", "1"))
        self.assertEqual(model.eval("corpus", split="test", max_tokens=64)["loss"], test["loss"])
        text = "line 33 of a small text, squared 7 and on to line 34 of it\n"
        with open("little.txt", "w", encoding="utf-8") as file:
            file.write(text)
        said = json.loads(run_program("eval", "run", "--text", "little.txt", "--sequence-length", "16", "--json",
                                      "--threads", "1"))
        got = model.eval(text=text, sequence_length=16)
        for key in ("loss", "bits_per_byte", "perplexity", "tokens", "windows"):
            self.assertEqual(got[key], said[key], key)
        self.assertEqual(got["log_probabilities"].shape, got["ids"].shape)
        # And logits say the same of the first window.
        ids = torch.tensor(model.encode(text))[:17]
        said = torch.log_softmax(model.logits(ids[:-1]).double(), -1).gather(1, ids[1:, None])[:, 0]
        torch.testing.assert_close(got["log_probabilities"][:16], said, atol=1e-5, rtol=0)

    def test_traces_and_texts_are_those_of_the_program(self):
        model = penstock.load("run")
        text = "line 33 of it"
        run_program("trace", "run", "--text", text, "--out", "trace.safetensors", "--threads", "1")
        wanted, got = read_tensors("trace.safetensors"), model.trace(text)
        self.assertEqual(set(got), set(wanted))
        for name, tensor in wanted.items():
            self.assertTrue(torch.equal(got[name], tensor), name)
        said = json.loads(run_program("generate", "run", "--prompt", "line", "--prompt", "square", "--tokens", "12",
                                      "--temperature", "0.9", "--seed", "5", "--json", "--threads", "1"))
        pieces = []
        done = model.generate(["line", "square"], max_tokens=12, temperature=0.9, seed=5,
                              on_text=lambda prompt, sample, piece: pieces.append((prompt, piece)))
        self.assertEqual([text.tokens for text in done], [text["tokens"] for text in said["completions"]])
        self.assertEqual([text.finish for text in done], [text["finish"] for text in said["completions"]])
        self.assertEqual("".join(piece for prompt, piece in pieces if prompt == 1), done[1].text)
        self.assertEqual(model.generate(model.encode("line"), max_tokens=4).tokens,
                         model.generate("line", max_tokens=4).tokens)
        self.assertEqual(model.decode(model.encode("naïve")), "naïve")
        self.assertEqual(len(model.generate("a", max_tokens=1, samples=3, temperature=1.0)), 3)
        self.assertIn("remoe", repr(model))
        self.assertIn("4 tokens", repr(model.generate("line", max_tokens=4)))

    def test_mistakes(self):
        with self.assertRaisesRegex(penstock.Error, "no such folder"):
            penstock.load("nowhere")
        model = penstock.load("run")
        with self.assertRaisesRegex(penstock.Error, "0 to 255"):
            model.logits([256])
        with self.assertRaisesRegex(penstock.Error, "give more text"):
            model.eval(text="a")
        with self.assertRaises(TypeError):
            model.eval()
        with self.assertRaisesRegex(penstock.Error, "temperature"):
            model.generate("a", temperature=-1.0)
        with self.assertRaises(ZeroDivisionError):
            model.generate("a", on_text=lambda *said: 1 / 0)


class Runs(Fixture):
    def test_a_run_is_the_programs(self):
        lines = []
        penstock.set_threads(2)
        run = penstock.train("recipe.toml", out="mine", on_step=lines.append, progress=False)
        self.assertEqual(torch.get_num_threads(), 2)  # though the recipe says 1
        run_program("train", "recipe.toml", "--out", "theirs", "--quiet")
        self.assertEqual([line["step"] for line in lines], list(range(0, 7)))
        self.assertEqual(lines, run.metrics())
        self.assertTrue(run.finished)

        def losses(path):
            return [(line["step"], line.get("loss"), line.get("validation_loss")) for line in penstock.Run(path).metrics()]

        self.assertEqual(losses("mine"), losses("theirs"))
        mine, theirs = (read_tensors(f"{path}/checkpoints/step-6/model.safetensors") for path in ("mine", "theirs"))
        for name, tensor in theirs.items():
            self.assertTrue(torch.equal(mine[name], tensor), name)
        self.assertTrue(os.path.exists("mine/report.html"))
        self.assertIn("finished, step 6", repr(run))

    def test_recipes_of_dicts(self):
        recipe = {"model": {"vocab": 0, "d_model": 16, "layers": 2, "heads": 2, "d_ffn": 24, "moe.experts": 4,
                            "router.method": "remoe"},
                  "data": {"corpus": "corpus"},
                  "train": {"steps": 6, "batch_sequences": 2, "sequence_length": 16, "eval_every": 3},
                  "run.threads": 1}
        run = penstock.train(recipe, out="dicts", progress=False)
        self.assertEqual(run.result["validation"]["loss"], penstock.Run("run").result["validation"]["loss"])
        with self.assertRaises(TypeError):
            penstock.train(recipe)

    def test_a_callback_may_end_the_run(self):
        with self.assertRaises(ZeroDivisionError):
            penstock.train("recipe.toml", out="stopped", progress=False,
                           on_step=lambda line: 1 // (3 - line["step"]))
        with self.assertRaisesRegex(penstock.Error, "resume"):
            penstock.train("recipe.toml", out="stopped", progress=False)
        run = penstock.train("recipe.toml", out="stopped", progress=False, resume=True,
                             on_step=stop_at(5))
        self.assertFalse(run.finished)
        self.assertEqual(run.metrics()[-1]["step"], 5)
        run = penstock.train("recipe.toml", out="stopped", progress=False, resume=True)
        self.assertEqual(run.result["validation"]["loss"], penstock.Run("run").result["validation"]["loss"])

    def test_ctrl_c_saves(self):
        script = """if True:
            import os, signal, sys
            sys.path.insert(0, sys.argv[1])
            import penstock
            try:
                penstock.train("recipe.toml", out="interrupted", progress=False,
                               on_step=lambda line: line["step"] == 4 and os.kill(os.getpid(), signal.SIGINT))
            except KeyboardInterrupt as interrupt:
                print("interrupted:", interrupt)
                signal.raise_signal(signal.SIGINT)  # Python's own handler is back
            """
        done = subprocess.run([sys.executable, "-c", script, os.path.join(BUILD, "python")], capture_output=True,
                              text=True, timeout=120)
        self.assertIn("interrupted: interrupted: interrupted; ", done.stdout, done.stderr)
        self.assertIn("resume=True", done.stdout)
        self.assertEqual(done.returncode, -signal.SIGINT, done.stderr)
        self.assertEqual(os.listdir("interrupted/checkpoints").count("step-4"), 1)
        run = penstock.train("recipe.toml", out="interrupted", progress=False, resume=True)
        self.assertEqual(run.result["validation"]["loss"], penstock.Run("run").result["validation"]["loss"])

    def test_a_signal_from_outside_saves(self):
        script = """if True:
            import sys
            sys.path.insert(0, sys.argv[1])
            import penstock
            try:
                penstock.train("recipe.toml", out="outside", progress=False, set={"train.steps": 100000},
                               on_step=lambda line: print(line["step"], flush=True))
            except KeyboardInterrupt:
                print("interrupted")
            """
        last = before = ""
        with subprocess.Popen([sys.executable, "-c", script, os.path.join(BUILD, "python")], text=True,
                              stdout=subprocess.PIPE) as process:
            for line in process.stdout:
                if line == "3\n":
                    process.send_signal(signal.SIGINT)
                before, last = last, line
        self.assertEqual((last, process.returncode), ("interrupted\n", 0))
        self.assertTrue(os.path.isdir(f"outside/checkpoints/step-{before.strip()}"), before)

    def test_ctrl_c_ends_other_work(self):
        script = """if True:
            import os, signal, sys
            sys.path.insert(0, sys.argv[1])
            import penstock
            try:
                penstock.load("run").generate("line", max_tokens=100000, on_text=lambda *said:
                                              os.kill(os.getpid(), signal.SIGINT))
            except KeyboardInterrupt:
                print("interrupted")
            """
        done = subprocess.run([sys.executable, "-c", script, os.path.join(BUILD, "python")], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual((done.stdout, done.returncode), ("interrupted\n", 0), done.stderr)

    def test_other_threads_go_on_meanwhile(self):
        counted, training = [0], threading.Event()
        done = threading.Event()

        def count():
            training.wait()
            while not done.is_set():
                counted[0] += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        seen = []
        try:
            training.set()
            penstock.train("recipe.toml", out="threads", progress=False, set={"train.steps": 40},
                           on_step=lambda line: seen.append(counted[0]))
        finally:
            done.set()
            thread.join()
        # It counts also from one step to the next, and not only while a callback runs.
        self.assertGreater(len(set(seen)), 10)

    def test_mistakes(self):
        with self.assertRaisesRegex(penstock.Error, "set train.stepz: .*did you mean 'steps'"):
            penstock.train("recipe.toml", out="wrong", set={"train.stepz": 3})
        with self.assertRaisesRegex(penstock.Error, "nothing.toml"):
            penstock.train("nothing.toml", out="wrong")
        with self.assertRaises(penstock.DivergedError):
            penstock.train("recipe.toml", out="diverged", progress=False, set={"train.lr": 1e30, "train.steps": 20,
                                                                              "train.clip": 0.0})

    def test_studies_upcycling_and_exports(self):
        with open("study.toml", "w", encoding="utf-8") as file:
            file.write('name = "small"\nbase = "recipe.toml"\nseeds = [1, 2]\n'
                       '[variants.remoe]\n[variants.topk]\nset = {"model.router.method" = "topk"}\n')
        study = penstock.study("study.toml", out="study", set={"train.steps": 2}, progress=False)
        self.assertEqual(sorted((row["variant"], row["seed"]) for row in study.rows),
                         [("remoe", 1), ("remoe", 2), ("topk", 1), ("topk", 2)])
        self.assertIn("validation loss", repr(study))
        with open("study/results.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file), study.results)
        penstock.train("recipe.toml", out="dense", progress=False, set={"model.router.method": "dense"})
        moe = penstock.upcycle("dense", "moe", method="vanilla", experts=4, k=2)
        run_program("upcycle", "dense", "--method", "vanilla", "--experts", "4", "--k", "2", "--out", "their-moe")
        mine, theirs = (read_tensors(f"{path}/model.safetensors") for path in (moe, "their-moe"))
        self.assertEqual(set(mine), set(theirs))
        for name, tensor in theirs.items():
            self.assertTrue(torch.equal(mine[name], tensor), name)
        certificate = penstock.export(moe, "moe-hf", format="hf")
        self.assertEqual(certificate["verdict"], "exact")
        with self.assertRaises(penstock.NotPortableError):
            penstock.export("run", "run.gguf", format="gguf")
        with self.assertRaisesRegex(penstock.Error, "neither hf nor gguf"):
            penstock.export(moe, "other", format="onnx")
        with self.assertRaisesRegex(penstock.Error, "did you mean 'experts'"):
            penstock.upcycle("dense", "moe-2", expert=4)


@penstock.register_balancer("test-variance", options={"coefficient": 0.1, "power": 2}, needs_logits=True,
                            state=[{"name": "test_pulls", "title": "pulls"}])
class Variance(penstock.Balancer):
    """Pulls the logits of experts together."""

    def __init__(self, shape, coefficient, power):
        super().__init__()
        self.coefficient, self.power = coefficient, power
        self.register_buffer("pulls", torch.zeros(shape.layers))

    def balance(self, scores, plan, context):
        if not context.training:
            return None
        self.pulls[context.layer] += 1
        return self.coefficient * (scores.logits.mean(0) - scores.logits.mean()).abs().pow(self.power).sum()

    def state(self):
        return {"test_pulls": float(self.pulls.sum())}


@penstock.register_scorer("test-tanh")
class Tanh(penstock.Scorer):
    """tanh of a matrix, with an offset."""

    def __init__(self, shape):
        super().__init__()
        self.inner = torch.nn.Linear(shape.d_model, shape.experts)

    def score(self, hidden, context):
        return torch.tanh(self.inner(hidden))


class Parts(Fixture):
    RECIPE = {"model.router.balancers": ["load-balance", "test-variance"], "model.router.method": "topk",
              "model.router.scorer": "test-tanh"}

    def test_parts_of_python_train_resume_and_load(self):
        run = penstock.train("recipe.toml", out="parts", progress=False, set=self.RECIPE)
        lines = [line for line in run.metrics() if line["step"] > 0]
        self.assertEqual([line["test_pulls"] for line in lines], [2.0 * step for step in range(1, 7)])
        again = {"out": "parts-again", "progress": False, "set": self.RECIPE}
        penstock.train("recipe.toml", on_step=stop_at(3), **again)
        penstock.train("recipe.toml", resume=True, **again)
        mine, theirs = (read_tensors(f"{path}/checkpoints/step-6/model.safetensors")
                        for path in ("parts", "parts-again"))
        for part in ("inner.weight", "pulls"):
            self.assertTrue(any(part in name for name in mine), sorted(mine))
        for name, tensor in mine.items():
            self.assertTrue(torch.equal(theirs[name], tensor), name)
        self.assertEqual(run.load().logits([1, 2, 3]).shape, (3, 256))
        elsewhere = subprocess.run([PROGRAM, "eval", "parts", "--data", "corpus"], capture_output=True, text=True)
        self.assertEqual(elsewhere.returncode, 1)
        self.assertRegex(elsewhere.stderr, "unknown (scorer|balancer) 'test-")

    def test_the_formula_of_a_part_of_python(self):
        layer = penstock.MoeLayer(d_model=8, experts=4, scorer="test-tanh", balancers=["test-variance"],
                                  options={"test-variance": {"coefficient": 3}})
        y, routing = layer(torch.randn(10, 8))
        logits = routing.scores.logits
        wanted = 3 * (logits.mean(0) - logits.mean()).square().sum()
        torch.testing.assert_close(routing.loss_terms["test-variance"], wanted)
        routing.loss.backward()
        self.assertGreater(layer.router.scorer.inner.weight.grad.abs().sum(), 0)
        self.assertEqual(penstock.routers()["balancers"]["test-variance"]["summary"],
                         "Pulls the logits of experts together.")

    def test_mistakes(self):
        with self.assertRaisesRegex(penstock.Error, "did you mean 'coefficient'"):
            penstock.MoeLayer(d_model=8, experts=4, balancers=["test-variance"],
                              options={"test-variance": {"coeficient": 3}})
        with self.assertRaisesRegex(penstock.Error, "expected a number"):
            penstock.MoeLayer(d_model=8, experts=4, balancers=["test-variance"],
                              options={"test-variance": {"coefficient": "much"}})
        with self.assertRaisesRegex(penstock.Error, "choose another"):
            penstock.register_balancer("z-loss")(Variance)
        with self.assertRaisesRegex(penstock.Error, "other options"):
            penstock.register_balancer("test-variance", options={"coefficient": 1.0})(Variance)

        class Broken(penstock.Balancer):
            def __init__(self, shape):
                super().__init__()

            def balance(self, scores, plan, context):
                raise KeyError("broken")

        penstock.register_balancer("test-broken")(Broken)
        with self.assertRaisesRegex(KeyError, "broken"):
            penstock.MoeLayer(d_model=8, experts=4, balancers=["test-broken"])(torch.randn(3, 8))
        with self.assertRaisesRegex(KeyError, "broken"):
            penstock.train("recipe.toml", out="broken", progress=False,
                           set={"model.router.method": "topk", "model.router.balancers": ["test-broken"]})


class Examples(Fixture):
    def run_example(self, name, *arguments):
        done = subprocess.run([sys.executable, os.path.join(SOURCE, "examples", "python", name), *arguments],
                              capture_output=True, text=True, timeout=300,
                              env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_an_moe_in_a_gpt(self):
        lines = self.run_example("moe_gpt.py", "text.txt", "--steps", "40").splitlines()
        first, last = (float(re.search(r"loss ([\d.]+)", line)[1]) for line in (lines[0], lines[-1]))
        self.assertLess(last, first - 1)
        for method in ("hash", "smoe-dropout"):
            self.run_example("moe_gpt.py", "text.txt", "--steps", "2", "--method", method)

    def test_a_balancer_of_ones_own(self):
        said = self.run_example("own_balancer.py", "corpus", "own", "--steps", "2")
        self.assertEqual([line.split()[0] for line in said.splitlines()], ["none", "load-balance", "recent-load"])
        self.assertIn("recent_load_worst", penstock.Run("own/recent-load").metrics()[-1])

    def test_the_rows_of_a_study(self):
        with open("study.toml", "w", encoding="utf-8") as file:
            file.write('name = "small"\nbase = "recipe.toml"\nseeds = [1, 2]\n[variants.remoe]\n')
        study = penstock.study("study.toml", out="rows", set={"train.steps": 2}, progress=False)
        said = self.run_example("study_table.py", "rows/results.json")
        mean = sum(row["validation"]["loss"] for row in study.rows) / 2
        self.assertRegex(said, f"remoe +2 +{mean:.4f}" if "validation loss" in said else "remoe")


class Notebook(Fixture):
    def drawing(self):
        """Skips where matplotlib is missing."""
        try:
            import matplotlib
        except ImportError:
            self.skipTest("missing package: python3-matplotlib")
        matplotlib.use("Agg")

    def small_study(self):
        rows = [{"variant": "a<b", "seed": 1, "validation": {"loss": 2.0}}, {"variant": "a<b", "seed": 2, "validation": {"loss": 3.0}},
                {"variant": "diverged", "seed": 1, "validation": None}, {"variant": "c", "seed": 1, "validation": {"loss": 1.0}}]
        return penstock.Study("study", {"rows": rows}, "a<b  2.5")

    def test_html(self):
        run = penstock.Run("run")
        self.assertIn("finished", run._repr_html_())
        self.assertIn(f"{run.result['validation']['loss']:.4f}", run._repr_html_())
        self.assertIn("not begun", penstock.Run("a<b")._repr_html_())
        self.assertIn("penstock.Run a&lt;b", penstock.Run("a<b")._repr_html_())
        shown = run.load()._repr_html_()
        for part in ("remoe", "step-6", "<th style='text-align:left'>experts</th><td style='text-align:left'>4</td>"):
            self.assertIn(part, shown)
        self.assertIn("a&lt;b  2.5", self.small_study()._repr_html_())

    def test_without_matplotlib(self):
        with unittest.mock.patch.dict(sys.modules, {"matplotlib": None}):
            for plot in (penstock.Run("run").plot, self.small_study().plot,
                         lambda: penstock.load("run").plot_routing("line")):
                with self.assertRaisesRegex(ImportError, "python3-matplotlib"):
                    plot()
        with self.assertRaisesRegex(penstock.Error, "no line .* has a number 'nothing'"):
            penstock.Run("run").plot("nothing")
        with self.assertRaisesRegex(penstock.Error, r"layer 7 has no experts; layers that have: \[0, 1\]"):
            penstock.load("run").plot_routing("line", layer=7)

    def test_a_run_is_drawn(self):
        self.drawing()
        run = penstock.Run("run")
        training, validation = run.plot().lines
        lines = run.metrics()
        self.assertEqual(list(training.get_ydata()), [line["loss"] for line in lines if "loss" in line])
        self.assertEqual(list(validation.get_xdata()), [0, 3, 6])
        axes = run.plot("lambda")
        self.assertEqual((len(axes.lines), axes.get_ylabel()), (1, "lambda"))
        self.assertIs(run.plot(ax=axes), axes)
        self.assertEqual(len(axes.lines), 3)

    def test_a_study_is_drawn(self):
        self.drawing()
        axes = self.small_study().plot()
        self.assertEqual([list(line.get_ydata()) for line in axes.lines], [[2.0, 3.0], [2.5, 2.5], [1.0], [1.0, 1.0]])
        self.assertEqual([label.get_text() for label in axes.get_xticklabels()], ["a<b", "c"])

    def test_routing_is_drawn(self):
        self.drawing()
        model = penstock.load("run")
        axes = model.plot_routing("$a$\n", layer=1)
        gates = model.trace("$a$\n")["layers.1.gates"]
        self.assertTrue((torch.as_tensor(axes.images[0].get_array()) == gates.T).all())
        self.assertEqual([label.get_text() for label in axes.get_xticklabels()], ["$", "a", "$", "\\n"])
        axes.figure.savefig("routing.png")
        self.assertEqual(model.plot_routing("a").get_title(), "gates of layer 0")


class Stubs(unittest.TestCase):
    def test_stubs_name_what_there_is(self):
        folder = os.path.dirname(penstock.__file__)
        self.assertTrue(os.path.exists(os.path.join(folder, "py.typed")))
        with open(os.path.join(folder, "_core.pyi"), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        named = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        there = {name for name in dir(penstock._core) if not name.startswith("__")}
        self.assertEqual(set(named), there)
        for name, node in named.items():
            thing = getattr(penstock._core, name)
            if isinstance(node, ast.ClassDef) and not issubclass(thing, BaseException):
                members = {item.name for item in node.body if isinstance(item, ast.FunctionDef)} | {
                    item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
                self.assertEqual(members,
                                 {member for member in vars(thing) if not member.startswith("_")}, name)
            elif isinstance(node, ast.FunctionDef):
                self.assertEqual([argument.arg for argument in node.args.args],
                                 re.findall(r"(\w+): ", thing.__doc__.split(") ->")[0]), name)

    def test_everything_public_says_what_it_is(self):
        for name in penstock.__all__:
            thing = getattr(penstock, name)
            if name.startswith("__"):
                continue
            self.assertTrue((thing.__doc__ or "").strip(), name)
            if callable(thing) and thing.__module__ != "penstock._core" and not isinstance(thing, type):
                self.assertIn("return", thing.__annotations__, name)
            if isinstance(thing, type) and thing.__module__ not in ("penstock", "penstock._core"):
                for member, value in vars(thing).items():
                    if not member.startswith("_") and (callable(value) or isinstance(value, property)) \
                            and member not in ("extra_repr", "training"):
                        self.assertTrue((getattr(value, "__doc__", "") or "").strip(), f"{name}.{member}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
