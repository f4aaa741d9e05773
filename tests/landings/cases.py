"""A landing case: a folder beside this file, as README.md explains.

Files that git cannot show (Parquet, Avro, gzip, odd bytes) stand there as YAML or text; `content`
makes the real ones of them.
"""

import gzip
import io
import os
import re
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tests import scenario
from tests.scenario import Scenario

FOLDER = Path(__file__).parent
SOURCE = "landings"

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_TIMESTAMP = re.compile(r"timestamp\[(\w+)(?:, ?([\w/]+))?\]")
_NAMED = ".named"
_STAND_IN = re.compile(r"\.yml$|(?<=\.gz)\.txt$")


@dataclass(frozen=True)
class Case(Scenario):
    """What `landing.yml` says, by the same names; `name` is the folder's."""

    rule: str = ""
    why: str = ""
    nasty: list[str] = field(default_factory=list)
    skipped: int = 0

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def path(self) -> str:
        """Where its files land, below the landing folder."""
        return f"{SOURCE}/{self.name}"

    @property
    def is_built(self) -> bool:
        """Whether its current table is compared, too."""
        return (self.folder / "expected" / "current.csv").is_file()

    def files(self, batch: int) -> dict[str, Path]:
        """As of a scenario; the names are those of the real files."""
        return {_real_name(name): file for name, file in super().files(batch).items()}


def load() -> list[Case]:
    """All cases, by name. Raises ValueError, with the file, when one is not well formed."""
    return scenario.load_all(Case, FOLDER.glob("*/landing.yml"))


def _real_name(name: str) -> str:
    if name.endswith(_NAMED):
        return os.fsdecode(unquote_to_bytes(name.removesuffix(_NAMED)))
    return _STAND_IN.sub("", name)


def content(file: Path) -> bytes:
    """The bytes of the file that lands."""
    if file.name.endswith(".gz.txt"):
        return gzip.compress(file.read_bytes(), mtime=0)
    if file.suffix != ".yml":
        return file.read_bytes()
    made_of: dict[str, Any] = yaml.load(file.read_text(), Loader=_Loader)
    if "columns" in made_of:
        made = _parquet(made_of["columns"], made_of["rows"])
    elif "bytes" in made_of:
        made = made_of["bytes"]
    elif "schema" in made_of:
        made = _avro(made_of["schema"], made_of["rows"])
    else:
        made = _text(**{name: made_of[name] for name in made_of.keys() - {"first_bytes"}})
    return made[: made_of.get("first_bytes")]


class _Loader(yaml.SafeLoader):
    """YAML that also knows `!decimal 1.10`."""


_Loader.add_constructor(
    "!decimal",
    lambda loader, node: Decimal(loader.construct_scalar(node)),  # type: ignore[arg-type]
)


def _text(text: str | list[str], encoding: str = "utf-8", gzipped: bool = False) -> bytes:
    """Several texts are the members of one gzip file."""
    parts = [part.encode(encoding) for part in ([text] if isinstance(text, str) else text)]
    return b"".join(gzip.compress(part, mtime=0) if gzipped else part for part in parts)


def _parquet(columns: dict[str, Any], rows: list[list[Any]]) -> bytes:
    schema = pa.schema([_arrow_field(name, text) for name, text in columns.items()])
    arrays = [pa.array([row[number] for row in rows], of.type) for number, of in enumerate(schema)]
    written = io.BytesIO()
    # As other writers do: no trace of Arrow's own schema.
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=schema),
        written,
        compression="none",
        store_schema=False,
    )
    return written.getvalue()


def _arrow_field(name: str, text: Any) -> pa.Field:
    required = isinstance(text, str) and text.endswith(" not null")
    return pa.field(
        name, _arrow_type(text.removesuffix(" not null") if required else text), not required
    )


def _arrow_type(text: Any) -> pa.DataType:
    """PyArrow's name of a type, `decimal(10, 2)`, `{list: string}` or `{struct: {a: int32}}`."""
    if isinstance(text, dict):
        ((kind, of),) = text.items()
        if kind == "list":
            return pa.list_(_arrow_type(of))
        return pa.struct([_arrow_field(name, inner) for name, inner in of.items()])
    if found := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := _TIMESTAMP.fullmatch(text):
        return pa.timestamp(found[1], found[2])
    return pa.type_for_alias(text)


def _avro(schema: dict[str, Any], rows: list[dict[str, Any]]) -> bytes:
    written = io.BytesIO()
    fastavro.writer(written, fastavro.parse_schema(schema), rows)
    return written.getvalue()
