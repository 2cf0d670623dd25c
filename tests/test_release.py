"""What a release says about itself in several places is the same in all of them."""

import re
import tomllib
from ctypes import CDLL
from pathlib import Path
from shutil import which
from subprocess import run
from typing import Any

import pytest
import yaml

import torchsims
from release.dist import PROGRAMS
from release.no_accelerator import NO_DEVICE, add_empty_libraries
from release.versions import MODULES, ROOMS, cases, oldest, paths

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
COMPATIBILITY = (ROOT / "docs" / "compatibility.md").read_text()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def packages(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[><=]", requirement)[0] for requirement in requirements}


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def test_the_citation_names_this_version_and_the_paper_of_the_readme() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (paper,) = citation["references"]
    readme = (ROOT / "README.md").read_text()
    assert citation["version"] == torchsims.__version__
    assert (citation["license"], citation["abstract"]) == (PROJECT["license"], f"{PROJECT['description']}.")
    assert citation["keywords"] == PROJECT["keywords"]
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in PROJECT["authors"]]
    assert f"{', '.join(author['family-names'] for author in paper['authors'])}: *{paper['title']}*" in readme
    assert f"https://doi.org/{paper['doi']}" in readme


def test_the_changelog_begins_with_this_version_or_what_is_unreleased() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[0] == "Unreleased" or headings[0].startswith(torchsims.__version__)


def test_the_table_of_extras_is_that_of_the_project() -> None:
    rows = re.findall(r"^\| `([a-z]+)` \| [^|]+ \| ([^|]+) \|$", COMPATIBILITY, flags=re.MULTILINE)
    assert {name: set(listed.split(", ")) for name, listed in rows} == {
        name: packages(requirements) for name, requirements in EXTRAS.items()
    }


def test_errors_and_pages_name_extras_that_exist() -> None:
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    pages = [path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]]
    needed = {name for text in sources for name in re.findall(r'\bneeds\("([a-z]+)"\)', text)}
    written = ",".join(found for text in pages for found in re.findall(r"torchsims\[([a-z,]+)\]", text)).split(",")
    assert len(needed) >= 3
    assert needed.union(written) <= EXTRAS.keys()


def test_every_extra_has_a_program_that_uses_it() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == {"__init__", "core", *EXTRAS}


def test_every_direct_requirement_has_a_tested_version() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    tested = {line.partition("==")[0] for line in lines if not line.startswith("#")}
    assert packages([*PROJECT["dependencies"], *(name for extra in EXTRAS.values() for name in extra)]) <= tested


def test_make_installs_all_extras() -> None:
    (installed,) = re.findall(r"-e '\.\[(.*)\]'", (ROOT / "Makefile").read_text())
    assert set(installed.split(",")) == EXTRAS.keys()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_step_of_a_workflow_is_a_target_of_make(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands
    assert {command for command in commands if command.removeprefix("make ") not in targets()} == set()
    assert {step["uses"].partition("@")[0] for step in steps if "uses" in step} == {
        "actions/checkout",
        "actions/setup-python",
    }


def test_the_hooks_before_a_commit_are_the_commands_of_make_test() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    makefile = (ROOT / "Makefile").read_text()
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["entry"].replace(".venv/bin", "\t$(BIN)") in makefile


def test_the_page_names_the_versions_that_are_promised_and_tested() -> None:
    floors = dict(requirement.split("==") for requirement in oldest())
    assert PROJECT["requires-python"] == ">=3.11"
    for promised in ("3.11", *(requirement.split(">=")[1] for requirement in PROJECT["dependencies"])):
        assert f"{promised} or newer" in COMPATIBILITY
    assert floors["torch"] in COMPATIBILITY
    assert floors["numpy"] in COMPATIBILITY
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert named == sorted(set(re.findall(r"python-(3\.\d+)", COMPATIBILITY)))


def test_the_page_names_the_format_of_checkpoints() -> None:
    from torchsims.training.checkpoints import FORMAT

    assert f"writes and reads format {FORMAT}." in COMPATIBILITY


def test_the_core_tests_are_there() -> None:
    assert [path for path in paths() if not (ROOT / path).exists()] == []
    assert {case.partition("-")[0] for case in cases()} == {"python"}
    assert len(paths()) == 2 * len(MODULES + ROOMS)


@pytest.mark.skipif(which("cc") is None, reason="compiles libraries, and there is no C compiler")
def test_a_library_loads_with_empty_ones_in_place_of_those_of_an_accelerator(tmp_path: Path) -> None:
    user, needed = tmp_path / "libuser.so", tmp_path / "libcuda_fake.so.1"
    build = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o"]
    source = "int cudaFake(void); int (*pointer)(void) = cudaFake; int ask(void) { return pointer(); }"
    run([*build, needed, f"-Wl,-soname,{needed.name}"], input="int cudaFake(void) { return 0; }", text=True, check=True)
    run([*build, user, "-x", "none", needed, "-Wl,-rpath,$ORIGIN"], input=source, text=True, check=True)
    needed.unlink()
    with pytest.raises(OSError, match=re.escape(needed.name)):
        CDLL(str(user))
    assert add_empty_libraries(tmp_path) == [needed.name]
    assert CDLL(str(user)).ask() == NO_DEVICE
