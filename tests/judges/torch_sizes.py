# SPDX-License-Identifier: MIT
"""Sizes of the terms from which Copse computes a result or a gradient, for bounds: see torch_ops.py. `e` is what PyTorch
computed of the sample in double (torch_opinfo.Expected): arguments, results, slopes; one array for each gradient."""
import math

import torch


def slope(e):
    return e.doubles[0].detach().abs()


def settings(e, names, defaults):
    """The arguments after the first by name."""
    found = dict(zip(names, defaults))
    found.update(zip(names, e.arguments[1]))
    found.update({k: v for k, v in e.arguments[2].items() if k in names})
    return [found[n] for n in names]


def operand_sizes(e):
    return [e.arguments[0].detach().abs()]


def softmax_sizes(e):
    (dim,) = settings(e, ["dim"], [-1])
    p, dy = e.results[0].detach(), slope(e)
    return [p * (dy + (p * dy).sum(dim, keepdim=True))]


def log_softmax_sizes(e):
    (dim,) = settings(e, ["dim"], [-1])
    dy = slope(e)
    return [dy + e.results[0].detach().exp() * dy.sum(dim, keepdim=True)]


def norm_sizes(e, rows_of, names, defaults):
    """(|dy s| + mean |dy s| + |x^| mean |dy s x^|) / deviation, with means over a row of rows_of(x). For the derivatives of
    scale and offset the largest term of their sums."""
    x, dy = e.arguments[0].detach(), slope(e)
    found = dict(zip(names, settings(e, names, defaults)))
    weight, eps = found["weight"], found["eps"]
    if x.numel() == 0:
        return [torch.zeros(()) for _ in e.trained]
    rows, back = rows_of(x)
    scale = 1.0 if weight is None else weight.detach().abs().max()
    deviation = (rows.var(1, unbiased=False, keepdim=True) + eps).sqrt()
    unit = ((rows - rows.mean(1, keepdim=True)) / deviation).abs()
    dy = rows_of(dy)[0] * scale
    size = (dy + dy.mean(1, keepdim=True) + unit * (dy * unit).mean(1, keepdim=True)) / deviation
    if len(e.doubles) == 3:  # mean and 1 / deviation are results, too
        size = size + e.doubles[1].detach().abs().max() + e.doubles[2].detach().abs().max() * (
            rows.abs() + rows.mean(1, keepdim=True).abs()) / deviation ** 3
    other = (dy * (rows.abs() + rows.mean(1, keepdim=True).abs()) / deviation).max()
    return [back(size) if t is e.operands[0][1] else other for t in e.trained]


def layer_norm_result_sizes(e):
    """|scale| (|x| + |mean|) / deviation, with the largest scale."""
    shape, weight, _, eps = settings(e, ["shape", "weight", "bias", "eps"], [None, None, None, 1e-5])
    axes, x = tuple(range(-len(shape), 0)), e.arguments[0].detach()
    scale = 1.0 if weight is None or not weight.numel() else weight.detach().abs().max()
    mean, variance = x.mean(axes, keepdim=True), x.var(axes, unbiased=False, keepdim=True)
    return [scale * (x.abs() + mean.abs()) / (variance + eps).sqrt()] + [torch.zeros(()) for _ in e.results[1:]]


def layer_norm_sizes(e):
    size = math.prod(e.arguments[1][0])
    return norm_sizes(e, lambda x: (x.reshape(-1, size), lambda y: y.reshape(x.shape)),
                      ["shape", "weight", "bias", "eps"], [None, None, None, 1e-5])


def group_norm_sizes(e):
    groups = e.arguments[1][0]
    return norm_sizes(e, lambda x: (x.reshape(x.shape[0] * groups, -1), lambda y: y.reshape(x.shape)),
                      ["groups", "weight", "bias", "eps"], [None, None, None, 1e-5])


def instance_norm_sizes(e):
    return norm_sizes(e, lambda x: (x.reshape(x.shape[0] * x.shape[1], -1), lambda y: y.reshape(x.shape)),
                      ["weight", "eps"], [None, 1e-5])


def batch_norm_sizes(e):
    def channels(x):
        return x.transpose(0, 1).reshape(x.shape[1], -1), lambda y: y.reshape(
            x.transpose(0, 1).shape).transpose(0, 1)
    return norm_sizes(e, channels, ["mean", "variance", "weight", "bias", "training", "momentum", "eps"],
                      [None, None, None, None, False, 0.1, 1e-5])


def length_sizes(e):
    p, dim, eps = settings(e, ["p", "dim", "eps"], [2.0, 1, 1e-12])
    x, dy, y = e.arguments[0].detach(), slope(e), e.results[0].detach().abs()
    length = torch.linalg.vector_norm(x, p, dim, keepdim=True).clamp_min(eps)
    return [(dy + y * (dy * y).sum(dim, keepdim=True)) / length]


def cosine_sizes(e):
    eps = e.arguments[2].get("eps", 1e-8)
    a, b = torch.broadcast_tensors(e.arguments[0].detach(), e.arguments[1][0].detach())
    dim = e.arguments[2].get("dim", 1)
    dy = slope(e).unsqueeze(dim) if a.dim() else slope(e)
    lengths = [torch.linalg.vector_norm(t, 2, dim, keepdim=True).clamp_min(eps) for t in (a, b)]
    u, v = a.abs() / lengths[0], b.abs() / lengths[1]
    dots = (u * v).sum(dim, keepdim=True)
    found = [dy * (v + u * dots) / lengths[0], dy * (u + v * dots) / lengths[1]]
    return [f.sum_to_size(t.shape) for f, t in zip(found, (e.arguments[0], e.arguments[1][0])) if t.requires_grad]


def cross_entropy_sizes(e):
    """(p + 1) |dy| |w| of each logit; the largest weight and slope for all."""
    x = e.arguments[0].detach()
    weight = e.arguments[2].get("weight")
    largest = 1.0 if weight is None else weight.detach().abs().max()
    return [(torch.softmax(x, 1 if x.dim() > 1 else 0) + 1) * slope(e).max() * largest] + [
        torch.zeros(()) for _ in e.trained[1:]]


def attention_sizes(e):
    """Those of softmax in the middle, with the relative error of the scores, through the products around it."""
    q, k, v = (t.detach() for t in (e.arguments[0], *e.arguments[1][:2]))
    dy, scale = slope(e), q.shape[-1] ** -0.5
    p = e.results[1].detach()
    dp = dy @ v.abs().transpose(-1, -2) + (e.doubles[1].detach().abs() if len(e.doubles) > 1 else 0)
    scores = scale * q.abs() @ k.abs().transpose(-1, -2)
    ds = scale * p * (dp + (p * dp).sum(-1, keepdim=True)) * (1 + scores.amax(-1, keepdim=True))
    return [ds @ k.abs(), ds.transpose(-1, -2) @ q.abs(), p.transpose(-1, -2) @ dy * (1 + scores.max())]


def poisson_sizes(e):
    """y log y, from Stirling's formula, which cancels with others."""
    y = e.arguments[1][0].detach().abs() + 1
    size = y * y.log()
    return [size if e.results[0].dim() else size.sum()]


def slope_sizes(e):
    return [slope(e)]


def quarter_sizes(e):
    """Near a zero of the derivative the terms that cancel count: a quarter, as in the library's cases."""
    return [0.25 * slope(e)]
