"""Settings of one installation, read from the environment (`JUDGE_SERVICE_*`) and nowhere else.

Owns defaults and paths. Knows no room of the service.
"""

import os
import re
import secrets
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import platformdirs
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

_PROVIDERS = """
OPENAI ANTHROPIC AZURE AZURE_OPENAI GEMINI GOOGLE MISTRAL COHERE CO GROQ TOGETHER TOGETHERAI FIREWORKS FIREWORKS_AI
OPENROUTER DEEPSEEK PERPLEXITY PERPLEXITYAI XAI CEREBRAS SAMBANOVA NVIDIA NVIDIA_NIM REPLICATE HUGGINGFACE DEEPINFRA
ANYSCALE VLLM
"""
PROVIDER_KEYS = tuple(f"{provider}_API_KEY" for provider in _PROVIDERS.split())
"""Where the well-known providers of models expect their key."""


def default_threads() -> int:
    """All cores but one, at least one: the engine's threads spin, and one busy neighbour halts them all."""
    return max(1, (os.cpu_count() or 1) - 1)


class Settings(BaseSettings):
    """Everything an operator may set. Each field is the environment variable `JUDGE_SERVICE_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="JUDGE_SERVICE_", frozen=True, extra="ignore")

    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("judge-service")),
        description="Where the database, the embedded model and the installation's secret live.",
    )
    database_url: str | None = Field(
        default=None,
        description="SQLAlchemy URL of the database. Unset: SQLite in the data folder.",
    )
    judges_file: Path | None = Field(
        default=None, description="TOML file with judges of your own. Unset: `judges.toml` in the data folder if there."
    )
    model_path: Path | None = Field(
        default=None, description="GGUF file for the embedded judge. Unset: the model that `models pull` installed."
    )
    threads: int = Field(
        default_factory=default_threads, ge=1, description="Threads of the embedded engine. Default: all cores but one."
    )
    parallel: int = Field(
        default=1,
        ge=1,
        le=16,
        description="Requests the embedded engine works on at once. With more than 1 its verdicts need not repeat.",
    )
    context_tokens: int = Field(default=8192, ge=512, description="Context window of the embedded engine, per slot.")
    fence_key: SecretStr | None = Field(
        default=None,
        description="Secret behind the fence markers around case text. Unset: made once and kept in the data folder.",
    )
    max_body_bytes: int = Field(default=32 * 1024 * 1024, ge=1024, description="Largest request body accepted.")
    max_json_depth: int = Field(default=32, ge=4, description="Deepest nesting accepted in a JSON body.")
    requests_per_minute: int = Field(default=6000, ge=1, description="Requests per minute and API key.")
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Hosts with private addresses that judges set over the API may use, separated by commas.",
    )
    public_url: str | None = Field(
        default=None,
        description="Address of the pages, such as https://judge.example.org. Unset: that of the request.",
    )
    session_idle_hours: float = Field(
        default=12.0, gt=0, le=8760, description="Hours without a request after which a sign-in ends."
    )
    session_hours: float = Field(default=168.0, gt=0, le=8760, description="Hours after which a sign-in ends anyway.")
    key_variables: Annotated[tuple[str, ...], NoDecode] = Field(
        default=PROVIDER_KEYS,
        description="Environment variables that judges set over the API may name as their key, separated by commas; "
        "`*` stands for any letters. Default: those of the well-known providers.",
    )
    processes: int = Field(
        default=1, ge=1, le=64, description="Processes of `serve` on this machine that answer on one port."
    )
    worker_cases: int = Field(
        default=32, ge=2, le=4096, description="Cases that one worker process judges at once. PostgreSQL only."
    )
    serve_works: bool = Field(
        default=True, description="Whether `serve` judges chunks of runs besides the workers. PostgreSQL only."
    )
    keep_days: int | None = Field(
        default=None,
        ge=1,
        description="Days after which `serve` deletes ended runs, lone judgments, kept calls. Unset: never.",
    )
    log_level: str = Field(default="INFO", description="Level of the log on standard error.")

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        parts = value.split(",") if isinstance(value, str) else value
        if isinstance(parts, list | tuple):
            return tuple(part.strip().strip("[]").rstrip(".").casefold() for part in parts if part.strip())
        return value

    @field_validator("public_url")
    @classmethod
    def _an_origin(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not re.fullmatch(r"https?://[A-Za-z0-9.\-\[\]:]+/?", value):
            raise ValueError("must be scheme and host, such as https://judge.example.org")
        return value.rstrip("/")

    @field_validator("key_variables", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(part.strip() for part in parts if part.strip()) if isinstance(parts, list | tuple) else value

    @field_validator("key_variables")
    @classmethod
    def _variables(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not re.fullmatch(r"[A-Za-z_*][A-Za-z0-9_*]{0,127}", name):
                raise ValueError(f"{name[:80]!a} is not the name of a variable, nor one with * for any letters")
        return value

    @property
    def database(self) -> str:
        """The database URL in force."""
        return self.database_url or f"sqlite:///{self.data_dir / 'judge-service.sqlite3'}"

    @property
    def judges_path(self) -> Path | None:
        """The judges file in force, if there is one."""
        if self.judges_file is not None:
            return self.judges_file
        path = self.data_dir / "judges.toml"
        return path if path.exists() else None

    @cached_property
    def fence_secret(self) -> bytes:
        """The fence key; created in the data folder (readable by its owner only) on first use."""
        if self.fence_key is not None:
            return self.fence_key.get_secret_value().encode()
        path = self.data_dir / "fence.key"
        self.data_dir.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return bytes.fromhex(path.read_text().strip())
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32))
        return bytes.fromhex(path.read_text().strip())
