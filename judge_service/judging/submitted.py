"""Judges that are set over the API: what they may be, unlike those that the operator writes into the judges file.

Owns what such a judge may not do: import code, read files of the server, reach addresses inside the network that the
operator did not allow, carry a secret, or send a variable of the environment that is no key of a provider.
Knows no HTTP and no database.
"""

import re
import unicodedata
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from judge_service.backends.catalog import BACKENDS, BackendPool, backend_names
from judge_service.backends.transport import check_base_url, is_private, literal_address, may_be_private
from judge_service.domain.judge import Judge
from judge_service.errors import ConfigurationError, FieldProblem, InvalidInput, MissingModel
from judge_service.judging.roster import Roster, panel_problems
from judge_service.settings import Settings
from judge_service.telemetry import redact

_OPERATOR_ONLY = {
    ("classifier", "function"): "names code to import",
    ("recorded", "file"): "names a file of the server",
    ("scripted", "file"): "names a file of the server",
}
_LOCAL_PROVIDERS = frozenset(
    {"ollama", "ollama_chat", "lm_studio", "llamafile", "hosted_vllm", "vllm", "xinference", "oobabooga", "petals"}
    | {"triton", "custom", "custom_openai", "litellm_proxy", "docker_model_runner", "lemonade"}
)
"""Providers of LiteLLM that go to an address of their own choice, often this machine, when none is given."""
_SECRET_NAMES = ("apikey", "token", "secret", "password", "authorization", "credential", "cookie")
_KEY_NAME = "api_key_env"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HARMLESS_NAMES = ("maxtokens", "mintokens", "contexttokens", "tokenids", "logittoken", "stoptoken")


def refuse_unsafe(judge: Judge, settings: Settings) -> None:
    """Raise InvalidInput that names every field which only the judges file may set, or that nobody may."""
    problems = [
        FieldProblem(f"options.{option}", f"options.{option} {why}: such a judge belongs into the judges file")
        for (backend, option), why in _OPERATOR_ONLY.items()
        if judge.backend == backend and option in judge.options
    ]
    if not judge.panel and judge.backend in backend_names() and judge.backend not in BACKENDS:
        # What the options of an installed package's backend may do is not known here.
        problems.append(FieldProblem("backend", "a backend of an installed package belongs into the judges file"))
    if judge.backend == "embedded" and (path := judge.options.get("model_path")) is not None:
        problems.extend(_outside(path, settings.data_dir))
    problems.extend(_secrets(judge.options, "options"))
    problems.extend(_addresses(judge, settings))
    key = judge.options.get(_KEY_NAME)
    if isinstance(key, str) and not _VARIABLE.fullmatch(key):
        # Not shown again: it may be the key itself.
        message = "must be the name of an environment variable: letters, digits and underscores"
        problems.append(FieldProblem(f"options.{_KEY_NAME}", message))
    elif isinstance(key, str) and key.upper().startswith("JUDGE_SERVICE_"):
        message = "a secret of this service is not sent to a model"
        problems.append(FieldProblem(f"options.{_KEY_NAME}", message))
    elif isinstance(key, str) and not any(fnmatchcase(key, known) for known in settings.key_variables):
        message = "not a variable that judges set over the API may name: the operator lists them in "
        problems.append(FieldProblem(f"options.{_KEY_NAME}", f"{message}JUDGE_SERVICE_KEY_VARIABLES"))
    if problems:
        raise _refused(judge, problems)


def check_submitted(judge: Judge, roster: Roster, backends: BackendPool, settings: Settings) -> None:
    """Raise InvalidInput unless the judge may be set over the API and can be opened. Blocks; makes no call."""
    refuse_unsafe(judge, settings)
    if judge.panel:
        if problems := panel_problems(judge, roster):
            raise _refused(judge, problems)
        return
    try:
        backends.get(judge)
    except MissingModel as error:
        raise _refused(judge, [FieldProblem("backend", error.message)]) from None
    except ConfigurationError as error:
        raise _refused(judge, list(error.fields) or [FieldProblem("backend", error.message)]) from None


def _refused(judge: Judge, problems: list[FieldProblem]) -> InvalidInput:
    listed = "; ".join(f"{problem.path}: {problem.message}" for problem in problems[:5])
    return InvalidInput(f"Judge {judge.name!r} is refused: {listed}", fields=problems)


def _outside(path: Any, data_dir: Path) -> list[FieldProblem]:
    root = data_dir.resolve()
    if isinstance(path, str) and "\0" not in path and (root / path).resolve().is_relative_to(root):
        return []
    return [FieldProblem("options.model_path", "the model must be a file in the data folder")]


def _secrets(value: Any, path: str) -> list[FieldProblem]:
    found: list[FieldProblem] = []
    if isinstance(value, dict):
        for name, part in value.items():
            plain = "".join(letter for letter in name.casefold() if letter.isalnum())
            named = any(word in plain for word in _SECRET_NAMES) and not any(word in plain for word in _HARMLESS_NAMES)
            if named and isinstance(part, str) and (path, name) != ("options", _KEY_NAME):
                message = "no secret in a judge: name its environment variable in options.api_key_env"
                found.append(FieldProblem(f"{path}.{redact(name)[:80]}", message))
            else:
                found.extend(_secrets(part, f"{path}.{redact(name)[:80]}"))
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            found.extend(_secrets(part, f"{path}[{index}]"))
    elif isinstance(value, str) and redact(value) != value:
        found.append(FieldProblem(path, "this looks like a secret: name its environment variable instead"))
    return found


def _addresses(judge: Judge, settings: Settings) -> list[FieldProblem]:
    url = judge.options.get("base_url")
    if url is None:
        provider = judge.model.partition("/")[0].casefold()
        if judge.backend in ("litellm", "instructor") and provider in _LOCAL_PROVIDERS:
            return [FieldProblem("options.base_url", f"models of {provider} need the address of their server")]
        return []
    if not isinstance(url, str):
        return []  # The backend's own model says what is wrong with it.
    try:
        host = host_of(check_base_url(url))
    except ValueError as error:
        return [FieldProblem("options.base_url", str(error))]
    if host in settings.allowed_hosts:
        return []
    if judge.options.get("allow_private"):
        message = f"private addresses need {host} in JUDGE_SERVICE_ALLOWED_HOSTS"
        return [FieldProblem("options.allow_private", message)]
    address = literal_address(host)
    inside = may_be_private(host) if address is None else is_private(address)
    if inside:
        message = "private and local addresses are refused unless the operator allows the host"
        return [FieldProblem("options.base_url", f"{message} (JUDGE_SERVICE_ALLOWED_HOSTS)")]
    return []


def host_of(url: str) -> str:
    """The host of a checked URL as a client would read it: one spelling of each letter, lower case, no last dot.

    Raises ValueError for characters that no host has: clients decode them in ways of their own.
    """
    host = unicodedata.normalize("NFKC", urlsplit(url).hostname or "").replace("。", ".").rstrip(".").casefold()
    if not all(letter.isalnum() or letter in ".-_:" for letter in host):
        raise ValueError("the host has a character that hosts do not have")
    return host
