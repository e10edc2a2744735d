"""The file of ``--config-file``: Horovod's sections and keys, in YAML."""

from __future__ import annotations

from farandole.launch.settings.tunables import TUNABLES

BYTES_MAX = 1 << 20


def read(path: str) -> tuple[dict[str, object], list[str]]:
    """Values by name among the parsed arguments, and keys that mean nothing here.

    Raises:
        ValueError: with a sentence: it cannot be read, is no YAML, or has not the form of sections with keys.
    """
    try:
        import yaml
    except ImportError:
        raise ValueError(f"--config-file {path}: reading YAML needs PyYAML (pip install pyyaml)") from None
    try:
        with open(path) as file:
            content = yaml.safe_load(file.read(BYTES_MAX))
    except RecursionError:
        raise ValueError(f"--config-file {path}: its lists and sections are nested too deeply") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--config-file {path}: {getattr(error, 'strerror', None) or 'is not text'}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"--config-file {path} is not YAML: {' '.join(str(error).split())}") from None
    except ValueError as error:
        raise ValueError(f"--config-file {path} holds a value that cannot be: {error}") from None
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
            elif value is not None:
                values[known[name]] = value
    return values, unknown
