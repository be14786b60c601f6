#!/usr/bin/python3
"""Prints the numbers of objective_test.cpp, in plain PyTorch: THOR's disagreement of two tables of logits, and the
divergence KL(p|q) of the second table from the first, which is held constant.

The released code of THOR uses the symmetric KL between softmax outputs, 1/2 (KL(p|q) + KL(q|p)). torch's kl_div
computes each term, summed over the vocabulary and averaged over tokens. autograd computes the gradient.
"""
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
first = torch.tensor([[0.5, -1.0, 2.0], [0.0, 0.3, -0.3]], requires_grad=True)
second = torch.tensor([[1.5, 0.0, -0.5], [0.1, 0.2, -0.4]], requires_grad=True)


def kl(p, q):
    """KL(p|q) of softmax outputs. torch's kl_div takes log q as its first argument."""
    return F.kl_div(F.log_softmax(q, -1), F.softmax(p, -1), reduction='none').sum(-1)


value = (0.5 * (kl(first, second) + kl(second, first))).mean()
value.backward()
torch.set_printoptions(precision=16)
print(value.item(), first.grad, second.grad, sep='\n')
second.grad = None
value = kl(first.detach(), second).mean()
value.backward()
print(value.item(), second.grad, sep='\n')
