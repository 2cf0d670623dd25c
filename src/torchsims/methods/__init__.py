"""Every method by name: what ``torchsims methods`` lists, and what trains when a command names one.

The names come from :mod:`torchsims.scalarizations`, :mod:`torchsims.aggregations` and the steppers. Other packages
register theirs with the entry-point group ``torchsims.methods``; any class can be named as ``package.module:Class``.

Example:
    >>> from torch import nn
    >>> from torchsims.methods import Method
    >>> method = Method("sims:tau=1")
    >>> method.label, method.family
    ('SIMS, tau 1', 'merit function')
"""

from torchsims.methods.registry import METHODS, Method, catalogue

__all__ = ["METHODS", "Method", "catalogue"]
