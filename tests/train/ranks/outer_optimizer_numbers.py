#!/usr/bin/python3
"""Prints the numbers of outer_optimizer_test.cpp: SGD with Nesterov momentum in exact fractions.

The formula is from the documentation of torch.optim.SGD(nesterov=True). The buffer b of the first step is the gradient
g. In later steps b = mu * b + g. The weights move by -lr * (g + mu * b).
"""
from fractions import Fraction

LR, MOMENTUM = Fraction(7, 10), Fraction(9, 10)
WEIGHTS = [Fraction(1), Fraction(-2), Fraction(1, 2)]
# For each phase: the shared weights minus the local weights, which is the outer optimizer's gradient.
GRADIENTS = [[Fraction(1, 10), Fraction(-2, 10), Fraction(3, 10)],
             [Fraction(1, 20), Fraction(1, 10), Fraction(-1, 10)],
             [Fraction(-2, 10), Fraction(0), Fraction(1, 10)]]

weights, buffer = WEIGHTS, None
for gradient in GRADIENTS:
    buffer = gradient if buffer is None else [MOMENTUM * b + g for b, g in zip(buffer, gradient)]
    weights = [w - LR * (g + MOMENTUM * b) for w, g, b in zip(weights, gradient, buffer)]
    print("weights", [float(w) for w in weights], "momentum", [float(b) for b in buffer])
