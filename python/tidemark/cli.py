"""The `tidemark` command."""

import argparse
import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidemark import feeds, targets
from tidemark.errors import ConfigError, TidemarkError, printable

if TYPE_CHECKING:
    from pathlib import Path

    from tidemark.scaffold.discover.dms_task import Task


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code. An error is one paragraph on standard error."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal may lack characters that names and values have.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        perform(arguments)
    except TidemarkError as error:
        print(f"tidemark: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0
    return 0


def perform(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Raises TidemarkError with what went wrong, also where Spark says it."""
    options = _parser().parse_args(arguments)
    try:
        if getattr(options, "target", None):
            targets.use(options.target)
        options.run(options)
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        from tidemark.spark import session

        raise TidemarkError(session.readable(error)) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidemark", description="Change feeds in, trusted lakehouse tables out."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    on_target = argparse.ArgumentParser(add_help=False)
    on_target.add_argument("--target", help="a target of profiles.yml (default: embedded)")

    init = commands.add_parser("init", help="write a new project, or add Tidemark to a dbt project")
    init.add_argument("folder", metavar="DIR", nargs="?", help="the new project's folder")
    init.add_argument(
        "--example", metavar="DOMAIN", help="copy an example domain with its sample files, too"
    )
    init.add_argument("--into", metavar="DIR", help="the folder of a dbt project that exists")
    init.add_argument("--yes", action="store_true", help="with --into: do not ask, write")
    init.set_defaults(run=_init)

    deps = commands.add_parser("deps", help="install the dbt packages, in place of `dbt deps`")
    deps.set_defaults(run=_deps)

    run = commands.add_parser(
        "run", help="land new files and build what depends on them", parents=[on_target]
    )
    run.add_argument("--all", action="store_true", help="build every model, new files or not")
    run.add_argument("--verbose", action="store_true", help="print dbt's own lines, too")
    run.set_defaults(run=_run)

    land = commands.add_parser(
        "land",
        help="land new files, and leave building to dbt",
        parents=[on_target],
    )
    land.set_defaults(run=_land)

    status = commands.add_parser(
        "status",
        help="show each table: new files, dead letters, models to build, failures",
        parents=[on_target],
    )
    status.set_defaults(run=_status)

    confirm = commands.add_parser(
        "confirm",
        help="accept a file that was set aside for confirmation",
        parents=[on_target],
    )
    confirm.add_argument("file", help="its path below the landing folder, as in the dead letter")
    confirm.set_defaults(run=_confirm)

    retract = commands.add_parser(
        "retract",
        help="undo a file that has landed, and rebuild its tables without it",
        parents=[on_target],
    )
    retract.add_argument("file", help="its path below the landing folder, or a folder of files")
    retract.set_defaults(run=_retract)

    replay = commands.add_parser(
        "replay",
        help="read files with open dead letters again, after a fix",
        parents=[on_target],
    )
    replay.add_argument("names", metavar="SOURCE.TABLE", nargs="*", help="default: all tables")
    replay.set_defaults(run=_replay)

    sql = commands.add_parser(
        "sql", help="run one SQL statement and print its rows", parents=[on_target]
    )
    sql.add_argument("statement")
    sql.add_argument("--format", choices=("table", "csv", "json"), default="table")
    sql.add_argument(
        "--all", action="store_true", help="also show columns that begin with _, in a table"
    )
    sql.set_defaults(run=_sql)

    catalog = commands.add_parser(
        "catalog",
        help="register the tables in AWS Glue's Data Catalog, for Athena",
        parents=[on_target],
    )
    catalog.set_defaults(run=_catalog)

    docs = commands.add_parser(
        "docs", help="generate the documentation and serve it", parents=[on_target]
    )
    docs.add_argument("--port", type=int, default=8080)
    docs.add_argument(
        "--no-serve", action="store_true", help="only generate target/static_index.html"
    )
    docs.set_defaults(run=_docs)

    discover = commands.add_parser(
        "discover", help="declare every table that has files below the landing folder"
    )
    discover.add_argument(
        "folder",
        nargs="?",
        default="",
        help="below the landing folder (default: all of it)",
    )
    of_task = discover.add_argument_group("the tables of an AWS DMS task, with or without files")
    of_task.add_argument("--dms-task", metavar="TASK", help="its ARN or identifier; calls AWS")
    of_task.add_argument(
        "--table-mappings", metavar="FILE", help="without AWS: the JSON of its table mappings"
    )
    of_task.add_argument(
        "--endpoint-settings", metavar="FILE", help="and the JSON of its target endpoint's settings"
    )
    discover.set_defaults(run=_discover)

    verify = commands.add_parser(
        "verify", help="compare the change logs with the statistics of AWS DMS", parents=[on_target]
    )
    verify.add_argument(
        "--dms-task", metavar="TASK", required=True, help="its ARN or identifier: asks AWS"
    )
    verify.set_defaults(run=_verify)

    add = commands.add_parser(
        "add", help="write the three models of declared tables, or declare a new table"
    )
    add.add_argument(
        "names", nargs="+", metavar="SOURCE[.TABLE]", help="SOURCE: all its declared tables"
    )
    new = add.add_argument_group("for a table that is not declared yet")
    new.add_argument("--key", help="the key columns, separated by commas")
    new.add_argument("--format", choices=feeds.FORMATS, help="default: inferred from the files")
    new.add_argument("--path", help="folder below the landing folder (default: SOURCE/TABLE)")
    new.add_argument(
        "--columns", help="such as 'id bigint, name string'; default: inferred from the files"
    )
    new.add_argument("--header", choices=feeds.HEADERS, help="which files have a header")
    new.add_argument("--delimiter", help="default: inferred from the files")
    add.set_defaults(run=_add)

    demo = commands.add_parser(
        "demo", help="load sample changes of two or three days, step by step", parents=[on_target]
    )
    demo.add_argument(
        "domains",
        metavar="DOMAIN",
        nargs="*",
        help="folders of examples/ (default: insurance inventory)",
    )
    demo.add_argument("--all", action="store_true", help="all of them")
    demo.set_defaults(run=_demo)

    bundle = commands.add_parser("bundle", help="write the files that a job on Glue or EMR needs")
    bundle.add_argument("place", help="a folder, or s3://bucket/folder")
    bundle.set_defaults(run=_bundle)

    thrift = commands.add_parser(
        "thrift", help="run a Spark Thrift Server with Spark Connect on this lake"
    )
    thrift.add_argument("action", choices=("start", "stop", "status"))
    thrift.add_argument("--port", type=int, default=10000, help="default: %(default)s")
    thrift.add_argument("--connect-port", type=int, default=15002, help="default: %(default)s")
    thrift.add_argument("--metastore-port", type=int, default=9083, help="default: %(default)s")
    thrift.add_argument("--master", default="", help="Spark's, such as spark://host:7077")
    thrift.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a Spark setting"
    )
    thrift.set_defaults(run=_thrift)
    return parser


# Spark and dbt are imported where they are needed: `tidemark --help` and `add` stay quick.


def _init(options: argparse.Namespace) -> None:
    from pathlib import Path

    from tidemark.scaffold import init

    if bool(options.folder) == bool(options.into) or (options.into and options.example):
        raise ConfigError(
            "tidemark init DIR writes a new project; tidemark init --into DIR adds Tidemark to a "
            "dbt project that exists."
        )
    if options.into:
        _init_into(Path(options.into), asks=not options.yes)
        return
    folder = Path(options.folder)
    written = init.new(folder, options.example)
    print(f"Wrote {len(written)} files into {folder}.")
    print(f"Next: cd {folder}")
    if options.example:
        print(f"      tidemark demo {options.example}")
    else:
        print("      put files below landing/, then: tidemark discover (README.md has an example)")


def _init_into(project: "Path", *, asks: bool) -> None:
    from tidemark.scaffold import init

    changes = init.changes_into(project)
    if not changes:
        print(f"{project} has all that Tidemark needs: nothing to change.")
        return
    print(init.told(project, changes))
    if asks:
        if not sys.stdin.isatty():
            raise ConfigError("Nothing was written. To write these changes, add --yes.")
        if input("Write these changes? [y/N] ").strip().lower() not in ("y", "yes"):
            print("Nothing was written.")
            return
    init.write_into(project, changes)
    for hint in init.hints(project):
        print(hint)
    print("Next: put files below landing/, then: tidemark discover")


def _deps(options: argparse.Namespace) -> None:
    from tidemark import paths
    from tidemark.dbt_plugin import packages

    packages.install(paths.project_dir())
    print("The dbt packages are installed.")


def _run(options: argparse.Namespace) -> None:
    from tidemark import runs

    runs.run(build_all=options.all, verbose=options.verbose)


def _land(options: argparse.Namespace) -> None:
    from tidemark import runs

    runs.run(build=False)


def _status(options: argparse.Namespace) -> None:
    from tidemark import status

    for line in status.lines():
        print(line)


def _replay(options: argparse.Namespace) -> None:
    from tidemark import runs

    runs.run(replay=options.names)


def _confirm(options: argparse.Namespace) -> None:
    from tidemark import runs, storage
    from tidemark.ingest import ledger
    from tidemark.spark import lease, session

    spark = session.get()
    file = storage.as_text(options.file)
    with lease.held(spark):
        table = ledger.confirm(spark, file, runs.new_run_id())
    print(f"{printable(file)} of {table} is confirmed: the next run takes it.")


def _retract(options: argparse.Namespace) -> None:
    from tidemark import runs, storage
    from tidemark.ingest import ledger
    from tidemark.spark import lease, session

    spark = session.get()
    file = storage.as_text(options.file)
    with lease.held(spark):
        table = ledger.retract(spark, file, runs.new_run_id())
    print(f"{printable(file)} of {table} is taken back.")
    runs.run()


def _sql(options: argparse.Namespace) -> None:
    from tidemark import query

    query.print_rows(options.statement, options.format, shows_all=options.all)


def _catalog(options: argparse.Namespace) -> None:
    from tidemark.aws import catalog
    from tidemark.dbt_plugin import dbt
    from tidemark.spark import session

    nodes = dbt.nodes(dbt.parse())
    catalog.register(session.get(), nodes, say=print)


def _docs(options: argparse.Namespace) -> None:
    from tidemark.dbt_plugin import dbt_docs

    dbt_docs.generate()
    if not options.no_serve:
        dbt_docs.serve(options.port)


def _discover(options: argparse.Namespace) -> None:
    from tidemark import paths
    from tidemark.scaffold import add

    project = paths.project_dir()
    task = _task(options)
    if task:
        added = add.discovered_of_task(project, task, paths.landing())
    else:
        added = add.discovered(project, paths.landing_dir(), options.folder)
    print("\n".join(add.told(project, added)))
    if added.failed:
        raise ConfigError("\n".join(added.failed))


def _task(options: argparse.Namespace) -> "Task | None":
    """The AWS DMS task that is named, or lies in files."""
    from pathlib import Path

    from tidemark.scaffold.discover import dms_task

    mappings, endpoint = options.table_mappings, options.endpoint_settings
    if not (options.dms_task or mappings or endpoint):
        return None
    if options.folder or (options.dms_task and (mappings or endpoint)):
        raise ConfigError(
            "Give one of these: a folder, --dms-task, or --table-mappings with --endpoint-settings."
        )
    if options.dms_task:
        from tidemark.aws import dms

        return dms.task(options.dms_task)
    if not (mappings and endpoint):
        raise ConfigError("--table-mappings and --endpoint-settings go together: give both.")
    return dms_task.from_files(Path(mappings), Path(endpoint))


def _verify(options: argparse.Namespace) -> None:
    from tidemark.aws import verify

    verify.run(options.dms_task)


def _add(options: argparse.Namespace) -> None:
    from tidemark import paths
    from tidemark.scaffold import add

    project = paths.project_dir()
    settings = ("key", "format", "path", "columns", "header", "delimiter")
    given = {name: value for name in settings if (value := getattr(options, name)) is not None}
    names = [name.partition(".") for name in options.names]
    for source, dot, table in names:
        if not source.isidentifier() or (dot and not table.isidentifier()):
            raise ConfigError(
                f"'{source}{dot}{table}' is neither SOURCE.TABLE, such as crm.people, nor SOURCE."
            )
    if given:
        (source, dot, table), *more = names
        if more or not dot:
            raise ConfigError(f"--{', --'.join(given)}: only for one new table, SOURCE.TABLE.")
        new = add.sampled(paths.landing_dir(), source, table, given)
        written = add.write(project, new)
        for hint in new.hints:
            print(f"{source}.{table}: {printable(hint)}")
    else:
        written = add.write_models(project, options.names)
    for file in written:
        print(f"Wrote {file.relative_to(project)}")
    if given:
        print("Check the types and write the descriptions in the YAML, then: tidemark run")
    else:
        print(
            "Next: tidemark run" if written else "Every table that is not switched off has models."
        )


def _demo(options: argparse.Namespace) -> None:
    from tidemark import demo

    demo.run(options.domains, all_of_them=options.all)


def _bundle(options: argparse.Namespace) -> None:
    from tidemark.aws import bundle

    for file in bundle.make(options.place):
        print(f"Wrote {file}")


def _thrift(options: argparse.Namespace) -> None:
    from tidemark.spark import server

    if options.action == "start":
        wrong = [each for each in options.conf if "=" not in each]
        if wrong:
            raise ConfigError(f"--conf {wrong[0]}: it must be KEY=VALUE.")
        ports = server.Ports(options.port, options.connect_port, options.metastore_port)
        server.start(ports, options.master, more=options.conf)
    elif options.action == "stop":
        server.stop()
    elif not server.status():
        sys.exit(3)  # as systemctl has it


if __name__ == "__main__":
    sys.exit(main())
