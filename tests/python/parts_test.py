#!/usr/bin/env python3
"""Tests balancers and scorers written in Python, in layers and in runs.

    parts_test.py BUILD SOURCE [unittest's arguments]

Exits with 77 (skipped) if the package is not built."""
import gc
import os
import re
import subprocess
import weakref

from fixture import PROGRAM, SOURCE, Fixture, main, read_tensors, stop_at
import penstock
import torch


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

        with self.assertRaisesRegex(penstock.Error, "^options.a: expected a bool, number, str or list, found nothing$"):
            penstock.register_balancer("test-none", options={"a": None})(Variance)
        with self.assertRaisesRegex(penstock.Error, "state: expected a table, found a string"):
            penstock.register_balancer("test-state", state=["x"])(Variance)

        for name in ("", "A b!", "a.b"):
            with self.assertRaisesRegex(penstock.Error, "no name of a part"):
                penstock.register_balancer(name)(Variance)
        with self.assertRaisesRegex(penstock.Error, "'test-number': expected a class, found 3"):
            penstock.register_balancer("test-number")(3)

        for register, kind in ((penstock.register_scorer, "scorer"), (penstock.register_balancer, "balancer")):
            with self.assertRaisesRegex(TypeError, rf'write @penstock.register_{kind}\("NAME"\) above class Triple$'):
                @register
                class Triple:
                    pass

        class Triple(penstock.Balancer):
            def __init__(self, shape):
                super().__init__()

            def balance(self, scores, plan, context):
                return None, {}, 3

        penstock.register_balancer("test-triple")(Triple)
        with self.assertRaisesRegex(penstock.Error, r"Triple.balance\(\) must return a loss, or a pair .*\(None, {}, 3\)"):
            penstock.MoeLayer(d_model=8, experts=4, balancers=["test-triple"])(torch.randn(3, 8))

        def scored(name, logits):
            class Odd(penstock.Scorer):
                def __init__(self, shape):
                    super().__init__()

                def score(self, hidden, context):
                    return logits

            penstock.register_scorer(name)(Odd)
            return penstock.MoeLayer(d_model=8, experts=4, scorer=name)(torch.randn(3, 8))

        for name, shape in (("test-wide", (3, 8)), ("test-long", (5, 4)), ("test-flat", (4,))):
            with self.assertRaisesRegex(penstock.Error, r"^Odd.score\(\) must return a tensor of \[3, 4\], and returned Float \["
                                        + ", ".join(map(str, shape)) + r"\]$"):
                scored(name, torch.zeros(shape))
        with self.assertRaisesRegex(penstock.Error, r"^Odd.score\(\) must return logits of its rows' type, Float, and returned Double$"):
            scored("test-double", torch.zeros(3, 4).double())

        def biased(name, bias):
            class Odd(penstock.Balancer):
                def __init__(self, shape):
                    super().__init__()

                def balance(self, scores, plan, context):
                    return None

                def choice_bias(self, layer):
                    return bias

            penstock.register_balancer(name, biases_choice=True)(Odd)
            return penstock.MoeLayer(d_model=8, experts=4, balancers=[name])(torch.randn(3, 8))

        biased("test-no-bias", None)
        with self.assertRaisesRegex(penstock.Error, r"^Odd.choice_bias\(\) must return a tensor, and returned: list$"):
            biased("test-list", [0.0] * 4)
        with self.assertRaisesRegex(penstock.Error, r"^Odd.choice_bias\(\) must return a tensor of \[4\], and returned Float \[3\]$"):
            biased("test-short", torch.zeros(3))

        class Plain(penstock.Scorer):
            def __init__(self, shape):
                self.scale = 1.0

        class Inner(penstock.Scorer):
            def __init__(self, shape):
                self.inner = torch.nn.Linear(shape.d_model, shape.experts)

        class Buffer(penstock.Balancer):
            def __init__(self, shape):
                self.register_buffer("pulls", torch.zeros(shape.layers))

        class Other(penstock.Balancer):
            def __init__(self, shape):
                super().__init__()
                self.weight = self.width

        penstock.register_scorer("test-plain")(Plain)
        penstock.register_scorer("test-inner")(Inner)
        penstock.register_balancer("test-buffer")(Buffer)
        penstock.register_balancer("test-other")(Other)
        for parts in ({"scorer": "test-plain"}, {"scorer": "test-inner"}, {"balancers": ["test-buffer"]}):
            name = str(parts).split("test-")[1].split("'")[0].capitalize()
            with self.assertRaisesRegex(penstock.Error, rf"^{name}.__init__ must call super\(\).__init__\(\) before it sets"):
                penstock.MoeLayer(d_model=8, experts=4, **parts)
        with self.assertRaisesRegex(AttributeError, "'Other' object has no attribute 'width'"):
            penstock.MoeLayer(d_model=8, experts=4, balancers=["test-other"])

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


if __name__ == "__main__":
    main()
