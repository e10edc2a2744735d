"""Release of the package; the same number stands in proto/version.h, and the library is asked for it when loaded."""

__version__ = "0.1.0"
