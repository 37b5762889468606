"""Which modules ``headrace replay`` imports for a file: whoever would import one is asked where it is."""

import importlib
import importlib.util
import site
import sys
import zipfile
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headrace_cli.targets.trust import UntrustedModuleError, check_trusted

CODE = "open('imported', 'w').close()\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory, with a project's mark. Beside it, `elsewhere`."""
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project" / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    known = set(sys.modules)
    yield tmp_path / "project"
    assert set(sys.modules) <= known, "the check imports nothing"
    assert not Path("imported").exists()


@pytest.fixture
def elsewhere(project: Path) -> Path:
    return project.parent / "elsewhere"


def written(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CODE)
    return path


def is_trusted(module: str) -> bool:
    importlib.invalidate_caches()
    try:
        check_trusted(Path("failure.json"), [f"{module}:pipeline"], None)
    except UntrustedModuleError:
        return False
    return True


class Editable:
    """As setuptools installs an editable package whose folder has another name: a finder at the end of `sys.meta_path`."""

    def __init__(self, name: str, file: Path) -> None:
        self._name, self._file = name, file

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, self._file) if name == self._name else None


class FromNowhere:
    """Makes a module of no file, such as one from a database."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        loader: Any = self
        return ModuleSpec(name, loader, is_package=True) if name.startswith("conjured") else None

    def create_module(self, spec: ModuleSpec) -> None:
        raise AssertionError(spec)

    def exec_module(self, module: ModuleType) -> None:
        raise AssertionError(module)


def test_what_the_path_finds_in_the_project_is_trusted_and_elsewhere_it_is_not(
    project: Path, elsewhere: Path
) -> None:
    written(project / "job.py")
    written(project / "package" / "__init__.py")
    written(project / "package" / "job.py")
    written(elsewhere / "stranger.py")
    written(elsewhere / "others" / "__init__.py")
    written(elsewhere / "others" / "job.py")
    sys.path.append(str(elsewhere))
    assert is_trusted("job")
    assert is_trusted("package.job")
    assert not is_trusted("stranger")
    assert not is_trusted("others.job")


def test_a_link_of_the_project_to_elsewhere_is_not_trusted(project: Path, elsewhere: Path) -> None:
    written(project / "package" / "__init__.py")
    (project / "package" / "linked.py").symlink_to(written(elsewhere / "stranger.py"))
    assert not is_trusted("package.linked")


@pytest.mark.parametrize("place", ["project", "elsewhere"])
def test_an_editable_package_is_where_its_finder_says(project: Path, place: str) -> None:
    sys.meta_path.append(
        Editable("edited", written(project.parent / place / "lib" / "inner" / "__init__.py"))
    )
    assert is_trusted("edited") is (place == "project")


def test_the_finder_that_comes_first_decides(project: Path, elsewhere: Path) -> None:
    written(project / "job.py")
    sys.meta_path.insert(0, Editable("job", written(elsewhere / "job.py")))
    assert not is_trusted("job")


@pytest.mark.parametrize("place", ["project", "elsewhere"])
def test_a_module_of_a_namespace_is_where_its_portion_is(project: Path, elsewhere: Path, place: str) -> None:
    written(project / "space" / "inner" / "ours.py")
    written(elsewhere / "space" / "inner" / "theirs.py")
    sys.path.append(str(elsewhere))
    assert is_trusted("space.inner.ours")
    assert not is_trusted("space.inner.theirs")
    assert not is_trusted("space.inner")


@pytest.mark.parametrize("place", ["project", "elsewhere"])
def test_a_module_in_an_archive_is_where_the_archive_is(project: Path, place: str) -> None:
    archive = project.parent / place / "modules.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped/__init__.py", CODE)
        file.writestr("zipped/job.py", CODE)
    sys.path.append(str(archive))
    assert is_trusted("zipped.job") is (place == "project")


@pytest.mark.parametrize("place", ["project", "elsewhere"])
def test_a_path_file_leads_to_where_it_says(project: Path, tmp_path: Path, place: str) -> None:
    written(project.parent / place / "src" / "pointed.py")
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "editable.pth").write_text(f"{project.parent / place / 'src'}\n")
    site.addsitedir(str(tmp_path / "packages"))
    assert is_trusted("pointed") is (place == "project")


@pytest.mark.parametrize(
    "name", ["builtins", "marshal", "os", "zipimport", "__phello__", "__main__", "antigravity"]
)
def test_no_module_of_python_is_trusted_wherever_the_project_is(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert not is_trusted(name)
    (project / "frozen").touch()
    assert not is_trusted(name)
    monkeypatch.chdir("/")
    assert not is_trusted(name)


def test_a_module_that_is_already_there_is_judged_by_its_own_place(
    project: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, place in (("loaded", project), ("foreign", elsewhere)):
        spec = importlib.util.spec_from_file_location(name, written(place / f"{name}.py"))
        assert spec is not None
        monkeypatch.setitem(sys.modules, name, importlib.util.module_from_spec(spec))
    written(project / "foreign.py")
    monkeypatch.setitem(sys.modules, "unknown", ModuleType("unknown"))
    assert is_trusted("loaded")
    assert not is_trusted("foreign")
    assert not is_trusted("unknown")
    monkeypatch.undo()


def test_what_no_finder_knows_or_has_no_file_is_not_trusted(project: Path) -> None:
    sys.meta_path.append(FromNowhere())
    written(project / "job.py")
    for name in ("conjured", "conjured.job", "nowhere", "job.inner"):
        assert not is_trusted(name)
    with pytest.raises(UntrustedModuleError, match="there is no module 'nowhere'"):
        check_trusted(Path("failure.json"), ["nowhere:pipeline"], None)
    check_trusted(Path("failure.json"), ["conjured:pipeline"], "conjured:other")


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "conda-meta/history"])
def test_an_environment_in_the_project_is_not_the_project(project: Path, mark: str) -> None:
    written(project / ".env" / mark)
    sys.path.append(str(written(project / ".env" / "src" / "checked_out" / "stranger.py").parent))
    assert not is_trusted("stranger")
