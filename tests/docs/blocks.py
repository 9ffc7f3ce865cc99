"""Code blocks of the documentation, with the file and line they stand on."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(language: str | None = None) -> list[Block]:
    """All blocks, or those of one language."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found += [
            Block(page, text.count("\n", 0, match.start()) + 1, match[1], match[2]) for match in _FENCE.finditer(text)
        ]
    return [block for block in found if language is None or block.language == language]


def commands(block: Block) -> list[str]:
    """The commands of a shell block, continued lines joined."""
    lines: list[str] = []
    open_quote = False
    for line in block.text.replace("\\\n", " ").splitlines():
        if open_quote or (lines and lines[-1].count("'") % 2 == 1):
            lines[-1] += "\n" + line
        else:
            lines.append(line)
        open_quote = lines[-1].replace("'\\''", "").count("'") % 2 == 1
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
