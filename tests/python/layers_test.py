#!/usr/bin/env python3
"""Compares the Python package's MoE layers with the results of C++ (numbers.cpp), bit for bit. Parts written in
Python are in parts_test.py.

    layers_test.py BUILD SOURCE [unittest's arguments]

Exits with 77 (skipped) if the package is not built."""
import copy
import io
import os
import subprocess
import tempfile
import unittest

from fixture import BUILD, main, read_tensors
import penstock
import torch

METHODS = [name for name, method in penstock.routers()["methods"].items() if method["selector"]]


def layer_options(method):
    """Returns the options with which numbers.cpp makes layers of the method."""
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

            # Compares each parameter's gradient with a central difference of total() in one random direction.
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

    def test_second_derivatives_are_refused(self):
        for method in ("topk", "remoe", "hyperrouter", "smoe", "thor"):
            for kind in (torch.float64, torch.float32):
                layer = penstock.MoeLayer(d_model=4, d_ffn=5, experts=2, method=method, init_std=0.5,
                                          output_std=0.5).to(kind).eval()
                x = torch.randn(3, 4, dtype=kind, requires_grad=True)
                alone, = torch.autograd.grad(layer(x)[0].sum(), x)
                first, = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
                self.assertTrue(torch.equal(first, alone), method)
                with self.assertRaisesRegex(RuntimeError, "has no second derivative", msg=method):
                    torch.autograd.grad(first.pow(2).sum(), x)

    def test_every_method_survives_saving_copying_and_state_dicts(self):
        x, ids = torch.randn(2, 8, 16), torch.arange(16)
        for method in METHODS:
            torch.manual_seed(3)
            model = torch.nn.ModuleList(penstock.make_moe_layers(layers=2, **layer_options(method)))
            for layer in model:  # moves the balancers' state away from its initial value
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

    def test_options_are_a_copy(self):
        layer = penstock.MoeLayer(d_model=8, experts=4)
        layer.options["router"]["k"] = 2
        self.assertEqual(layer.options["router"]["k"], 1)
        self.assertIn("k=1,", repr(layer))
        self.assertEqual(copy.deepcopy(layer)(torch.randn(3, 8))[1].plan.k, 1)

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

    def test_mistakes(self):
        for options, words in (({"method": "remo"}, "did you mean 'remoe'"),
                               ({"granularty": 2}, "did you mean 'granularity'"),
                               ({"method": "dense"}, "has no experts"),
                               ({"options": {"topk": {"softmaxx": "before"}}}, "softmax"),
                               ({"method": "remoe", "k": 77}, "k = 77 is above MoeLayer.experts = 4"),
                               ({"k": 0}, "k must be above 0"),
                               ({"k": 3, "granularity": 2}, "k = 3 is above MoeLayer.experts / MoeLayer.granularity = 2"),
                               ({"d_ffn": 0}, "d_ffn = 0 is out of range"),
                               ({"dropout": 1.0}, "dropout = 1 is out of range"),
                               ({"experts": 0}, "experts"), ({"experts": "four"}, "experts")):
            with self.assertRaises(penstock.Error, msg=str(options)) as caught:
                penstock.MoeLayer(**{"d_model": 8, "experts": 4, **options})
            self.assertIn(words, str(caught.exception))
        with self.assertRaisesRegex(TypeError, "router is no option"):
            penstock.MoeLayer(16, 4, router={"k": 2, "nonsense": 5})
        self.assertEqual(penstock.MoeLayer(8, 4).options["d_ffn"], 32)
        layer = penstock.MoeLayer(d_model=8, experts=4, method="hash").eval()
        with self.assertRaisesRegex(penstock.Error, "give token_ids"):
            layer(torch.randn(2, 8))
        with self.assertRaisesRegex(penstock.Error, "token_ids must be whole numbers"):
            layer(torch.randn(2, 8), token_ids=torch.ones(2))
        with self.assertRaisesRegex(penstock.Error, r"x \[2, 9\] must be \[..., d_model\], and the layer's d_model is 8$"):
            layer(torch.randn(2, 9), token_ids=torch.tensor([1, 2]))
        x, ids = torch.randn(5, 8), torch.tensor([3, 1, 7, 0, 1])
        self.assertTrue(torch.equal(layer(x, token_ids=ids)[0], layer(x, token_ids=ids.int())[0]))
        for kind in (torch.bfloat16, torch.float16):
            for method in ("topk", "remoe", "hash"):
                half = penstock.MoeLayer(d_model=8, experts=4, method=method).to(kind)
                with self.assertRaisesRegex(penstock.Error, r"^\[MoeLayer\] takes f32 or f64, not"):
                    half(torch.randn(2, 8, dtype=kind), token_ids=torch.arange(2))
        with self.assertRaisesRegex(penstock.Error, r"^\[MoeLayer\] operands differ in type"):
            penstock.MoeLayer(d_model=8, experts=4)(torch.randn(2, 8, dtype=torch.float64))
        with self.assertRaises(ValueError):  # penstock.Error is a ValueError
            penstock.MoeLayer(d_model=8, experts=4)(torch.randn(2, 7))


if __name__ == "__main__":
    main()
