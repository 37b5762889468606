"""The origins of a recorded run, as digests: the application's code and the input.

Rule of this file: code is the source of the pipeline's module and of all modules whose objects it holds, except installed
ones. So a change to a helper in another file is noticed, and a change to an unrelated file is not.
"""

import codecs
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import msgspec

from headrace_properties.target import is_program
from headrace_properties.user_frames import NOT_USERS
from headrace_sim import Feed

_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def code_digest(names: Iterable[str]) -> str:
    """Return the digest of the source behind pipelines; ``""`` if there is none.

    Args:
        names: of the pipelines, ``MODULE:PIPELINE``, whose modules are imported; or of a program, which is run.
    """
    sources = {
        module.__name__: _as_committed(path.read_bytes())
        for module in user_modules(
            "__main__" if is_program(name) else name.partition(":")[0] for name in names
        )
        if (path := _source_of(module)) is not None
    }
    if not sources:
        return ""
    digest = hashlib.sha256()
    for name, source in sorted(sources.items()):
        digest.update(f"{name} {len(source)}\n".encode())
        digest.update(source)
    return digest.hexdigest()


def _as_committed(source: bytes) -> bytes:
    """Undo what git or an editor does to a source on its way, of which Python takes no notice either."""
    return source.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")


def input_digest(feed: Feed) -> str:
    """Return the digest of an input."""
    return hashlib.sha256(msgspec.msgpack.encode(feed)).hexdigest()


def user_modules(names: Iterable[str]) -> list[ModuleType]:
    """Return the modules of these names and those that they have objects from, without installed ones and Headrace's own."""
    modules: dict[str, ModuleType] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        if name in modules or not isinstance(module, ModuleType) or not _is_users(module):
            continue
        modules[name] = module
        waiting += _used_by(module)
    return [modules[name] for name in sorted(modules)]


def _used_by(module: ModuleType) -> Iterator[str]:
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            yield value.__name__
        else:
            name = getattr(value, "__module__", None)
            if isinstance(name, str):
                yield name
            yield type(value).__module__


def _is_users(module: ModuleType) -> bool:
    path = _source_of(module)
    ours = module.__name__.partition(".")[0] in NOT_USERS
    return path is not None and not ours and not str(path).startswith(_INSTALLED)


def _source_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    path = Path(file) if file else None
    return path if path is not None and path.suffix in {".py", ".ipynb"} and path.is_file() else None
