"""Tantalum: drives, stores that write once, and tests of what survives power loss."""

from .crash import CrashFinding as CrashFinding
from .crash import CrashOutcome as CrashOutcome
from .crash import crash_run as crash_run
from .tantalum import *
from .tantalum import __version__ as __version__
