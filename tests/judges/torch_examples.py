# SPDX-License-Identifier: MIT
"""The losses of examples/gan.c, meta_learner.c, contrastive.c and evaluation.c, computed by PyTorch in single precision.
torch_examples.py NAME prints what the example prints, for tests/judges/curves/NAME.txt."""

import math
import sys

import numpy as np
import torch
from torch.nn import functional

STEPS = 20


def number(i, seed):
    return np.float32(np.float32((i * 37 + seed * 11) % 23) / np.float32(11.0)) - np.float32(1.0)


def numbers(shape, seed, factor=1.0):
    flat = np.array([number(k, seed) for k in range(math.prod(shape))], np.float32) * np.float32(factor)
    return torch.tensor(flat.reshape(shape))


def leaf(shape, seed, factor=1.0):
    return numbers(shape, seed, factor).requires_grad_()


def gan():
    generator = [leaf((2, 8), 4, 0.7), leaf((8, 2), 5, 0.7)]
    discriminator = [leaf((2, 8), 2, 0.7), leaf((8, 1), 3, 0.7)]
    rules = {id(w): torch.optim.Adam(w, lr=0.01) for w in (generator, discriminator)}

    def judge(x, target):
        logits = apply(x, discriminator)
        return functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target))

    def apply(x, w):
        return torch.tanh(x @ w[0]) @ w[1]

    def update(loss, w):
        for v, d in zip(w, torch.autograd.grad(loss, w)):
            v.grad = d
        rules[id(w)].step()
        return loss.item()

    for step in range(STEPS):
        rows = np.array([[number(i + 5 * k, (k + 1) * step) for k in range(3)] for i in range(12)], np.float32)
        noise, x = torch.tensor(rows[:, :2]), torch.tensor(rows[:, 2])
        judged = update(judge(apply(noise, generator).detach(), 0) + judge(torch.stack([x, x * x], 1), 1), discriminator)
        made = update(judge(apply(noise, generator), 1), generator)
        yield [judged, made]


def meta_learner():
    w = [leaf((1, 8), 0), leaf((1, 8), 1), leaf((8, 1), 2)]
    rule = torch.optim.Adam(w, lr=0.01)

    def loss_of(x, y, v):
        return (torch.tanh(x @ v[0] + v[1]) @ v[2] - y).square().mean()

    for step in range(STEPS):
        loss = 0
        for task in range(6):
            x = np.array([[3 * number(i + 3 * task, step)] for i in range(10)], np.float32)
            y = (np.float32(1.5) + number(task, step)) * np.sin(x + number(task, 2 * step))
            x, y = torch.tensor(x), torch.tensor(y)
            slopes = torch.autograd.grad(loss_of(x[:5], y[:5], w), w, create_graph=True)
            loss = loss + loss_of(x[5:], y[5:], [v - 0.1 * d for v, d in zip(w, slopes)]) / 6
        rule.zero_grad()
        loss.backward()
        rule.step()
        yield [loss.item()]


def contrastive():
    w = [leaf((6, 8), 0, 0.5), leaf((8, 4), 1, 0.5)]
    rule = torch.optim.SGD(w, lr=0.1)
    for step in range(STEPS):
        first = numbers((12, 6), step)
        noise = np.array([[number(i + 5 * k, 2 * step + 1) for k in range(6)] for i in range(12)], np.float32)
        second = first + 0.3 * torch.tensor(noise)
        queries, keys = (functional.normalize(torch.tanh(x @ w[0]) @ w[1], dim=1) for x in (first, second))
        loss = functional.cross_entropy(5 * queries @ keys.T, torch.arange(12))
        rule.zero_grad()
        loss.backward()
        rule.step()
        yield [loss.item()]


def evaluation():
    w = leaf((4, 3), 1, 0.3)
    rule = torch.optim.SGD([w], lr=0.3, momentum=0.9)
    for step in range(STEPS):
        x = numbers((24, 4), step)
        y = torch.where(x[:, 0] > x[:, 1], 0, torch.where(x[:, 2] > 0, 1, 2))
        loss = functional.cross_entropy(x @ w, y)
        rule.zero_grad()
        loss.backward()
        rule.step()
        guess = (x @ w).argmax(1)
        yield [loss.item()] + [float(((y == c) & (guess == c)).sum()) for c in range(3)]


if __name__ == "__main__":
    for row in {"gan": gan, "meta_learner": meta_learner, "contrastive": contrastive, "evaluation": evaluation}[sys.argv[1]]():
        print(" ".join([f"{row[0]:.7f}"] + [f"{n:.7f}" if sys.argv[1] == "gan" else f"{n:g}" for n in row[1:]]))
