"""The identity of a rubric version: a hash of its own files and of what they do with the shared helpers.

Owns canonical JSON for hashing and the lock file of released versions. Independent of the installed Pydantic:
generated schemas are not hashed, the files that define them are.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from rubrics.model import NotApplicable, Rubric
from rubrics.replay import replay

LOCK_FILE = "released.lock.json"
_SOURCES = (".py", ".j2")


def canonical_json(value: Any) -> str:
    """`value` as JSON with sorted keys, no spaces, characters kept. Raises ValueError on NaN or Infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def rubric_hash(rubric: Rubric[Any]) -> str:
    """SHA-256 of name, version, source files (new lines normalised) and behaviour on the version's own examples."""
    return digest(
        {
            "name": rubric.name,
            "version": rubric.version,
            "files": source_digests(rubric),
            "behaviour": list(behaviour(rubric)),
        }
    )


def source_digests(rubric: Rubric[Any]) -> dict[str, str]:
    """SHA-256 of every `.py` and `.j2` file in the version's folder, by relative path.

    A rubric whose module stands alone (no package of its own) is identified by that one file.
    """
    module = sys.modules[type(rubric).__module__]
    package = module.__package__ or ""
    if package in ("", "rubrics.library") or module.__file__ is None:
        source = Path(str(module.__file__))
        return {source.name: _file_digest(source.read_bytes())}
    return {name: _file_digest(entry.read_bytes()) for name, entry in sorted(_walk(files(package), ""))}


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_SOURCES):
            yield prefix + entry.name, entry


def _file_digest(content: bytes) -> str:
    return hashlib.sha256(content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")).hexdigest()


def behaviour(rubric: Rubric[Any]) -> Iterator[dict[str, Any]]:
    """What the version does on each of its examples: rendered prompts, allowed verdicts, and the result."""
    for example in rubric.examples:
        played = replay(rubric, example)
        result = played.result
        yield {
            "asks": [
                {
                    "step": ask.step,
                    "messages": [[message.role, message.content] for message in ask.messages],
                    "verdicts": {
                        key: [list(verdict.path), list(verdict.values)] for key, verdict in ask.verdicts.items()
                    },
                    "items": dict(ask.items),
                    "passages": dict(ask.passages),
                }
                for ask in played.asks
            ],
            "result": {"not_applicable": result.reason.value}
            if isinstance(result, NotApplicable)
            else {"record": result.record.model_dump(mode="json"), "score": result.score, "label": result.label},
        }


def released() -> dict[str, str]:
    """Content hash by `name@version` of all released versions, from the lock file."""
    locked = json.loads(files("rubrics").joinpath(LOCK_FILE).read_text(encoding="utf-8"))
    return {str(key): str(value) for key, value in locked.items()}


def changed_releases(rubrics: Iterable[Rubric[Any]], locked: Mapping[str, str]) -> list[str]:
    """One sentence of instruction per built-in version that is not what was released, or was not released."""
    problems = []
    present = {rubric.id: rubric for rubric in rubrics}
    for reference, rubric in present.items():
        folder = f"rubrics/library/{rubric.name}_v{rubric.version}"
        if reference not in locked:
            problems.append(f"{reference} is new: release it with `python -m rubrics.identity release {reference}`.")
        elif locked[reference] != rubric.content_hash:
            problems.append(
                f"{reference} was released and has changed (a file of {folder}, or a shared helper that alters its "
                f"prompts or records). Undo the change, or copy the folder to {rubric.name}_v{rubric.version + 1}, set "
                f"`version = {rubric.version + 1}` there, make the change in the copy and run "
                f"`python -m rubrics.identity release {rubric.name}@{rubric.version + 1}`."
            )
    problems.extend(
        f"{reference} was released and is missing: judgments made under it could not be read. Restore its folder."
        for reference in locked
        if reference not in present
    )
    return problems


def release(reference: str, lock_path: Path) -> str:
    """Add the hash of an unreleased built-in version to the lock file; the hash. ValueError when already released."""
    from rubrics.registry import get_rubric

    rubric = get_rubric(reference)
    locked = json.loads(lock_path.read_text(encoding="utf-8")) if lock_path.exists() else {}
    if rubric.id in locked:
        raise ValueError(f"{rubric.id} is released already and stays as it is; a change is a new version")
    locked[rubric.id] = rubric.content_hash
    lock_path.write_text(json.dumps(dict(sorted(locked.items())), indent=2) + "\n", encoding="utf-8", newline="\n")
    return rubric.content_hash


def _main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "release":
        sys.stderr.write("usage: python -m rubrics.identity release NAME@VERSION\n")
        return 2
    try:
        written = release(arguments[1], Path(__file__).with_name(LOCK_FILE))
    except (ValueError, KeyError) as error:
        sys.stderr.write(f"{error.args[0]}\n")
        return 1
    sys.stdout.write(f"{arguments[1]} {written}\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
