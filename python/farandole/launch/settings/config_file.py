"""The file of ``--config-file``: Horovod's sections and keys, in YAML."""

from __future__ import annotations

from farandole.launch.settings.tunables import TUNABLES

BYTES_MAX = 1 << 20
# Besides its own, what PyYAML raises for a tag that does not fit its value.
_CONSTRUCTOR_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError)


def read(path: str) -> tuple[dict[str, object], list[str]]:
    """Values by name among the parsed arguments, and keys that mean nothing here.

    Raises:
        ValueError: with a sentence: it cannot be read, is too long or no YAML, or has not the form of sections with
            keys and values.
    """
    try:
        import yaml
    except ImportError:
        raise ValueError(f"--config-file {path}: reading YAML needs PyYAML (pip install pyyaml)") from None
    try:
        with open(path) as file:
            text = file.read(BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--config-file {path}: {getattr(error, 'strerror', None) or 'is not text'}") from None
    if len(text.encode()) > BYTES_MAX:
        raise ValueError(f"--config-file {path} is longer than {BYTES_MAX} bytes")
    try:
        content = yaml.safe_load(text)
    except RecursionError:
        raise ValueError(f"--config-file {path}: its lists and sections are nested too deeply") from None
    except yaml.YAMLError as error:
        raise ValueError(f"--config-file {path} is not YAML: {' '.join(str(error).split())}") from None
    except ValueError as error:
        raise ValueError(f"--config-file {path} holds a value that cannot be: {error}") from None
    except _CONSTRUCTOR_ERRORS:
        raise ValueError(f"--config-file {path} holds a value that is not what its tag says") from None
    if not isinstance(content, dict):
        raise ValueError(f"--config-file {path}: sections such as 'params:' are expected")
    known = {tunable.key: tunable.dest for tunable in TUNABLES}
    values: dict[str, object] = {}
    unknown = []
    for section, keys in content.items():
        if not isinstance(keys, dict):
            unknown.append(str(section))
            continue
        for key, value in keys.items():
            name = f"{section}.{key}"
            if name not in known:
                unknown.append(name)
            elif isinstance(value, (list, tuple, dict, set)):
                # Its text may be longer without bound than the file: lists may hold others of the file.
                raise ValueError(f"--config-file {path}: {name} is a {type(value).__name__}, not one value")
            elif value is not None:
                values[known[name]] = value
    return values, unknown
