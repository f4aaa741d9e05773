"""The guard of everything that replaces a part of dbt-core, dbt-spark, dbt-glue or PySpark.

The parts are pinned as they were when their replacement was written.
"""

import ast
import hashlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from tests.project import REPO
from tidemark.dbt_plugin import python_models, relations, sessions, thrift
from tidemark.spark import spark_line

FILES = sorted(
    file for folder in ("overrides", "project") for file in (REPO / "macros" / folder).glob("*.sql")
)
HELPERS = [file for file in FILES if file.read_text().startswith("{#\n    Helper of: ")]
OVERRIDES = [file for file in FILES if file not in HELPERS]

# What `make test` installs, and other uses of the project need not have.
HAS_GLUE = bool(find_spec("dbt.adapters.glue"))
PLUGIN: dict[ModuleType, Callable[..., None]] = {
    module: module.install for module in (sessions, thrift, relations, python_models)
}
if HAS_GLUE:
    from tidemark.aws import glue_adapter

    PLUGIN[glue_adapter] = glue_adapter.install

PINNED = {
    "dbt.adapters.glue.gluedbapi.cursor.GlueCursor.execute": (
        "be9aea9b71137a3be4c9afcd4541f0e5362af11f5f516ea8c7d48ed12d163c94"
    ),
    "dbt.adapters.glue.gluedbapi.cursor.GlueCursor.fetchall": (
        "42214e053535f553a8268f8659a9d1bd5f8dbe05a94cbd9f70cfb6d611d30853"
    ),
    "dbt.adapters.glue.impl.GlueAdapter.get_catalog": (
        "eff87c030ef0ce158a8bd1e4e8709f1ccf031a88f1cf16d621376cc7dbbd59cd"
    ),
    "dbt.adapters.glue.impl.GlueAdapter.get_columns_in_relation": (
        "4be6ee5fa572babb82e420203f446a4fa50a323d49768597e2064b41362b44e9"
    ),
    "dbt.adapters.glue.impl.GlueAdapter.get_relation": (
        "5455c6b7bf66d82d9965182550bdf0386578a983adb1c22651863b89c22544b5"
    ),
    "dbt.adapters.spark.connections.PyhiveConnectionWrapper.execute": (
        "e8ccd138d2f7f77fe50eef2bbc18bf189e506c5afb10ad2c4add400b41730dd1"
    ),
    "dbt.adapters.spark.connections.SparkConnectionManager.open": (
        "7a3808805bd586f020e8c79838256514f52538d067b29298626f225d69b0b3c1"
    ),
    "dbt.adapters.spark.impl.SparkAdapter.default_python_submission_method": (
        "354b3ac4b69f2f7496cf6f5cf8abf678f25cffa9985b9177db9028dcd9199f8f"
    ),
    "dbt.adapters.spark.impl.SparkAdapter.get_relation": (
        "15dcc3e8d9382f7d71d2352d2a1d6fcea69d16f2893fafa4f72298bbc5ef174c"
    ),
    "dbt.adapters.spark.impl.SparkAdapter.list_relations_without_caching": (
        "24ff05b98698f3c465d9242bf84ad79a54ed408d2010a030d823a856dc2b89ef"
    ),
    "dbt.adapters.spark.impl.SparkAdapter.python_submission_helpers": (
        "ed36149d843731671615cd68d014ebde14fb0f67e81e97fdc4172a2e497fc4f9"
    ),
    "dbt.adapters.spark.session.Connection.__init__": (
        "57e9c52356c6b1982e7e090d4d82f5286882a385c166a729b38646a04fecae10"
    ),
    "dbt.adapters.spark.session.Connection.cursor": (
        "eb3ba0d62e5e32292cade3966f497aef51ced561cdcaa760d31bde0cca82eb40"
    ),
    "dbt.adapters.spark.session.Cursor.execute": (
        "a9ed901c0957fd930b467bbf05056b85f4d7220b19a7adcb74878331499af98f"
    ),
    "dbt.adapters.spark.session.Cursor.fetchall": (
        "812870adcb97f870addacbe66d779268c77113778e48039befe704a1c0f56246"
    ),
    "dbt.adapters.spark.session.SessionConnectionWrapper._fix_binding": (
        "70733eb6c9a8e3c3922fe7ebbda04402067d4e57d0af9a155231fca65e076bf9"
    ),
    "dbt.adapters.spark.relation.SparkRelation.__post_init__": (
        "a52b2f2b18e0b664617c62fde26e0c425ebc9a99012a8ad49af9ba64697f98d4"
    ),
    "dbt.adapters.spark.relation.SparkRelation.render": (
        "f42c352a838d6dca634cf8cbd5ff49aa6bc24d388f50e38b502d6c2ca0c0b346"
    ),
    "dbt.adapters.spark.impl.SparkAdapter._get_columns_for_catalog": (
        "86cf717414ca34ff2f6b3f9db2c98f834a79c4add3a2211effdee631ae0e09d2"
    ),
    "default__build_snapshot_table": (
        "8ba9147459a89182564b40465037afcccb8043f96c384cd9a7f64d0e65c0b76c"
    ),
    "default__process_schema_changes": (
        "2142d2c74e801b1cca4b1ffecef6ed13619b9719610fe941e489a4b1a607e6e6"
    ),
    "default__snapshot_staging_table": (
        "6fae091f247416335850adacccdfc1097139cb8bfbc613d0e2b0d518e613ce2d"
    ),
    "generate_schema_name": ("979a03c08f2bb346f0528c8a12051b2417ab55d09de2b3c35ff5e1a6138c4762"),
    "pyspark.errors.exceptions.captured.CapturedException.getMessage": (
        "95a17673870919eaf4b3e7fb860f64e171ace49fba14d195ae47e04773bf8624"
    ),
    "spark__alter_relation_add_remove_columns": (
        "624f53a8bdc24f42129b763ef5ccbe26d14c1b08ef3f3af42fd49ffe954418a9"
    ),
    "spark__create_csv_table": ("6defedd052ddc153d771e65438da57b7a856dd9b99d93d2a111dba566cadaf43"),
    "spark__create_temporary_view": (
        "05e70a5fc0c489783d829d32ca55caf2fc0a05484e6caff12eb66a8fed234091"
    ),
    "spark__create_view_as": ("2495e182f0ce6368e6a1763c48fdf6f05c280a309f043f11b6009c94aa248504"),
    "spark__reset_csv_table": ("21519fb3e8e826beaaa8c9af8b72b9534020657dd6bb603f8c1b082feddcbda5"),
    "spark__create_columns": ("46ba7460ff25501076fa0f60a82ca812459da6c9781053b98237f92443eced68"),
    "spark__get_columns_in_relation": (
        "2ac94b02108b6927669e5e5c5ee7c2b31b4d445f497b4082308db3dbcab9d754"
    ),
    "spark__get_merge_sql": ("98f8b457ac11a55e10284234ea28cf06912252d0caaaf669a26021080c67103d"),
    "spark__snapshot_hash_arguments": (
        "3b618e3395aab76622f9f155006f8adde0ca8da315a4d73488b67659190ab4be"
    ),
    "spark__snapshot_merge_sql": (
        "3a0f421e4ef58536de4465d92a1ea331030c63056a93a85eab6cb4de60973f47"
    ),
    "spark__options_clause": ("68000751873c21bb69c66df879b45f886106137a4dec8edb65fa014bc0a1f822"),
    "spark__tblproperties_clause": (
        "e3832c1aca41266e177e6419b09179c8f22a89281ecee7f82929e53bfd4d159c"
    ),
    "spark__create_schema": ("b08f668e33945b32728347af04fde092e4e44b0738f06e7c67336f6d59c2e08d"),
    "spark__generate_database_name": (
        "cd3754958cee419b395ef27590bde90e8628e181e9d3eac67660648162ba4b2d"
    ),
    "default__get_or_create_relation": (
        "bff163a31081995b87fb489b22d209103a7bd5b3a4a8243d60529a5732f0fab5"
    ),
    "default__sync_column_schemas": (
        "dbc76fb2bd7c415de2857d6a759d52e04e9cc4b0d1db1e91bd00af841a2ff6c2"
    ),
}


def function_in_class(owner: type, name: str) -> str | None:
    """A method's text in the installed file, which the replacement has not touched."""
    text = textwrap.dedent(inspect.getsource(owner))
    (definition,) = ast.parse(text).body
    assert isinstance(definition, ast.ClassDef)
    for item in definition.body:
        if isinstance(item, ast.FunctionDef) and item.name == name:
            return ast.get_source_segment(text, item)
    return None


def replaced_functions() -> Iterator[tuple[str, str]]:
    """Name and original text of what the plugin's modules assign, if it existed."""
    for module, install in PLUGIN.items():
        for statement in ast.walk(ast.parse(inspect.getsource(install))):
            if not isinstance(statement, ast.Assign):
                continue
            (target,) = statement.targets
            if not isinstance(target, ast.Attribute):
                continue
            owner = eval(ast.unparse(target.value), vars(module))
            original = function_in_class(owner, target.attr) if inspect.isclass(owner) else None
            if original is not None:
                yield f"{owner.__module__}.{owner.__qualname__}.{target.attr}", original


def installed_macro(name: str) -> str:
    """A macro's text in the installed dbt-spark or dbt-core."""
    spec = find_spec("dbt")
    assert spec and spec.submodule_search_locations
    pattern = re.compile(rf"{{%-?\s*macro {name}\(.*?endmacro\s*-?%}}", re.DOTALL)
    for package in ("spark", "global_project"):
        for root in spec.submodule_search_locations:
            for file in sorted((Path(root) / "include" / package / "macros").rglob("*.sql")):
                if found := pattern.search(file.read_text()):
                    return found[0]
    raise AssertionError(f"No installed macro is named {name}")


def header(override: Path) -> str:
    """The comment that an override starts with."""
    text, _, _ = override.read_text().partition("#}")
    return text


def replaced_macros() -> Iterator[tuple[str, str]]:
    """Name and original text of what macros/overrides replace.

    Not those of dbt_expectations: tests/functional/expectations/cases.yml says what they must do.
    """
    for override in OVERRIDES:
        if not override.name.startswith("dbt_expectations__"):
            match = re.search(r"Replaces:[^`]*`(\w+)`", header(override))
            assert match, override
            yield match[1], installed_macro(match[1])


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


FUNCTIONS = dict(replaced_functions())
MACROS = dict(replaced_macros())


@pytest.mark.parametrize("part", [*FUNCTIONS, *MACROS])
def test_a_replaced_part_is_as_it_was_when_it_was_replaced(part: str) -> None:
    original = FUNCTIONS.get(part) or MACROS[part]
    file = part.replace("default__", "spark__")
    plugin = "aws/glue_adapter.py" if ".glue." in part else "dbt_plugin/"
    ours = f"macros/overrides/{file}.sql" if part in MACROS else f"python/tidemark/{plugin}"
    if digest(original) != PINNED.get(part):
        pytest.fail(
            f"{part} is not what it was when {ours} replaced it. Compare the two: what is new "
            "there may be missing in ours, or ours may not be needed any more. When ours is right, "
            f"pin the new digest in {Path(__file__).name}: {digest(original)}\n"
            f"The part is now:\n{original}",
            pytrace=False,
        )


@pytest.mark.parametrize("helper", HELPERS, ids=lambda file: file.stem)
def test_a_helper_names_the_overrides_that_call_it(helper: Path) -> None:
    callers = {
        file.stem for file in OVERRIDES if f"{helper.stem}(" in file.read_text().partition("#}")[2]
    }
    named = re.search(r"Helper of: (.*)\.", header(helper))
    assert named
    assert set(re.findall(r"`(\w+)`", named[1])) == callers


def test_every_pin_is_of_a_part_that_is_replaced() -> None:
    lacking = set()
    if spark_line.name() == "3.5":
        lacking.add("pyspark.errors.exceptions.captured.CapturedException.getMessage")
    if not HAS_GLUE:
        lacking.update(name for name in PINNED if ".glue." in name)
    assert set(PINNED) - lacking == {*FUNCTIONS, *MACROS}


@pytest.mark.parametrize("override", OVERRIDES, ids=lambda file: file.stem)
def test_an_override_says_what_it_replaces_why_and_until_when(override: Path) -> None:
    assert override.read_text().startswith("{#\n    Replaces: ")
    assert re.search(r"Replaces: .*Why: .*Delete when: ", header(override), re.DOTALL)
