"""The op kinds: schema, rules for shapes and element types of results, and a float64 reference of each.

The references are written from the definitions in the specification, and share no code with the lowerings.
Importing this package defines all kinds.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
