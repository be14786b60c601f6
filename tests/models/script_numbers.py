"""What decoder_numbers.py and transformer_xl_numbers.py share: the rule that fills parameters, and the two sums that
represent a gradient. Element k of a tensor is
    f = 0.35 * sin(0.37 * s + 1.3 * k + 0.003 * k^2),   s = sum over the name's characters of code * (i + 1) mod 1000
and 1 + 0.2 * f for the gains of norms. i is the character's index, from 0.
"""
import math

import torch


def code(name):
    return sum(ord(c) * (i + 1) for i, c in enumerate(name)) % 1000


def filled(shapes):
    """Returns the tensors by name, in f64 and with gradients."""
    out = {}
    for name, shape in shapes.items():
        k = torch.arange(math.prod(shape), dtype=torch.float64)
        value = 0.35 * torch.sin(0.37 * code(name) + 1.3 * k + 0.003 * k * k)
        if name.endswith("norm.weight"):
            value = 1 + 0.2 * value
        out[name] = value.view(shape).requires_grad_()
    return out


def write_gradients(file, case, tensors):
    """Writes a line for each tensor: case, name, the sum of its gradient weighted with cos(0.7 * k + 0.1 * s), and the
    sum of the gradient's absolute values."""
    for name in sorted(tensors):
        gradient = tensors[name].grad.flatten()
        probe = torch.cos(0.7 * torch.arange(len(gradient), dtype=torch.float64) + 0.1 * code(name))
        file.write("%s %s %.17g %.17g\n" % (case, name, (gradient * probe).sum().item(), gradient.abs().sum().item()))
