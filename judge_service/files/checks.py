"""What refuses a file as a whole: ids that are there twice, and problems of rows, collected up to a limit."""

import hashlib

from judge_service.errors import FieldProblem, InvalidInput

MAX_PROBLEMS = 20
"""How many problems are collected before a file is refused."""


class Ids:
    """Which ids a file has had, and where: eight bytes of hash an id, so that a million take little memory."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def seen(self, name: str, number: int) -> int | None:
        """The row that had this before; None when this one is the first."""
        key = int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        earlier = self._seen.get(key)
        if earlier is None:
            self._seen[key] = number
        return earlier


class Problems:
    """Problems of the rows of one file. `unit` is what a row is called, `file` what the file is."""

    def __init__(self, file: str, unit: str) -> None:
        self._file = file
        self._unit = unit
        self.found: list[FieldProblem] = []

    def add(self, number: int, error: InvalidInput) -> bool:
        """Note a row's problems, each with the row in its path; False when there were enough."""
        self.found.extend(on_row(self._unit, number, error))
        return len(self.found) < MAX_PROBLEMS

    def refuse(self, consequence: str) -> None:
        """Raise InvalidInput naming the rows if there was any problem; `consequence` is a sentence."""
        if self.found:
            where = ", ".join(dict.fromkeys(problem.path.split(":")[0] for problem in self.found))
            raise InvalidInput(f"{self._file} is not usable: see {where}. {consequence}", fields=self.found)


def on_row(unit: str, number: int, error: InvalidInput) -> list[FieldProblem]:
    """The problems of one row, each with the row's number in its path."""
    place = f"{unit} {number}"
    problems = []
    for problem in error.fields:
        path = "" if problem.path == "case" else problem.path.removeprefix("case.")
        problems.append(FieldProblem(f"{place}: {path}" if path else place, problem.message))
    return problems or [FieldProblem(place, error.message)]
