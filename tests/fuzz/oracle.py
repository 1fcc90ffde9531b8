"""What a target may do with any input: finish, or raise an error that is documented."""

from __future__ import annotations

import logging
import os
import pathlib
import types
import warnings

from ortconv.errors import ConversionErrors, MisfitError, OrtconvError, SemanticsWarning

__all__ = ["TARGETS", "judge"]

TARGETS = ("ir", "onednn", "tensors", "optimize")
"""Modules of this package with a function ``run`` that takes a file's bytes and a folder to work in, a function
``mutate``, and the suffix of their files."""


STRICT = bool(os.environ.get("ORTCONV_FUZZ_STRICT"))
"""Whether an error that no lowering foresees, which is an error of the node all the same, is a finding, too."""


class _NoTracebacks(logging.Handler):
    """Libraries that log the traceback of an error and go on."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            raise record.exc_info[1]


def judge(target: types.ModuleType, data: bytes, folder: pathlib.Path) -> bool:
    """Runs a target on an input; tells whether it was accepted.

    Raises:
        BaseException: It does what it may not: any error but those of `ortconv.errors`, a warning of Python's or of
            numpy's, or a traceback in the log.
    """
    log, handler = logging.getLogger(), _NoTracebacks()
    log.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", SemanticsWarning)
            target.run(data, folder)
    except ConversionErrors as group:
        for error in group.exceptions:
            if STRICT and isinstance(error, MisfitError) and error.__cause__ is not None:
                raise error.__cause__ from None
        str(group).encode()
        return False
    except OrtconvError as error:
        str(error).encode()  # which has to be text that a terminal or a file can take
        return False
    finally:
        log.removeHandler(handler)
    return True
