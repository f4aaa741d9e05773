"""The `tidemark` command."""

import argparse
import sys
from collections.abc import Sequence

from tidemark.errors import TidemarkError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code. An error is one paragraph on standard error."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except TidemarkError as error:
        print(f"tidemark: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidemark", description="Change feeds in, trusted lakehouse tables out."
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    run = commands.add_parser("run", help="land new files and build what depends on them")
    run.add_argument("--all", action="store_true", help="build every model, new files or not")
    run.set_defaults(run=_run)

    confirm = commands.add_parser(
        "confirm", help="take an extract that was set aside because it deletes so much"
    )
    confirm.add_argument(
        "file", help="its path below the landing folder, as the dead letter has it"
    )
    confirm.set_defaults(run=_confirm)

    sql = commands.add_parser("sql", help="run one SQL statement and print its rows")
    sql.add_argument("statement")
    sql.add_argument("--format", choices=("table", "csv", "json"), default="table")
    sql.set_defaults(run=_sql)

    docs = commands.add_parser("docs", help="write the documentation and serve it")
    docs.add_argument("--port", type=int, default=8080)
    docs.add_argument("--no-serve", action="store_true", help="only write target/static_index.html")
    docs.set_defaults(run=_docs)

    add = commands.add_parser("add", help="add a table: its YAML entry and its three models")
    add.add_argument("name", metavar="SOURCE.TABLE")
    add.add_argument("--key", required=True, help="the key's columns, with commas between")
    add.add_argument("--format", choices=("extract", "dms"), default="extract")
    add.add_argument("--path", help="folder below the landing folder (default: SOURCE/TABLE)")
    add.add_argument("--columns", help="such as 'id bigint, name string'; default: from a file")
    add.add_argument("--header", choices=("none", "load", "all"), help="which files have one")
    add.add_argument("--delimiter", default=",")
    add.set_defaults(run=_add)

    demo = commands.add_parser("demo", help="two days of sample changes, step by step")
    demo.set_defaults(run=_demo)
    return parser


# Spark and dbt are imported where they are needed: `tidemark --help` and `add` stay quick.


def _run(options: argparse.Namespace) -> None:
    from tidemark import runs

    runs.run(build_all=options.all)


def _confirm(options: argparse.Namespace) -> None:
    from tidemark import landing, ledger, session

    table = ledger.confirm(session.get(), options.file, landing.new_run_id())
    print(f"{options.file} of {table} is confirmed: the next run takes it.")


def _sql(options: argparse.Namespace) -> None:
    from tidemark import query

    query.print_rows(options.statement, options.format)


def _docs(options: argparse.Namespace) -> None:
    from tidemark import dbt_docs

    dbt_docs.generate()
    if not options.no_serve:
        dbt_docs.serve(options.port)


def _add(options: argparse.Namespace) -> None:
    from tidemark import add, paths
    from tidemark.errors import ConfigError

    source, dot, table = options.name.partition(".")
    if not dot or not source.isidentifier() or not table.isidentifier():
        raise ConfigError(f"'{options.name}' is not SOURCE.TABLE, such as crm.people.")
    path = options.path or f"{source}/{table}"
    if options.columns:
        columns = dict(entry.strip().split(None, 1) for entry in add.split_columns(options.columns))
    else:
        columns = add.inferred_columns(paths.landing_dir(), path, options.delimiter)
    keys = [name.strip() for name in options.key.split(",")]
    feed = {"format": options.format, "path": path, "key": keys[0] if len(keys) == 1 else keys}
    if options.header:
        feed["header"] = options.header
    if options.delimiter != ",":
        feed["delimiter"] = options.delimiter
    project = paths.project_dir()
    for file in add.write(project, add.NewTable(source, table, columns, feed)):
        print(f"Wrote {file.relative_to(project)}")
    print("Check the types and write the descriptions in the YAML, then: tidemark run")


def _demo(options: argparse.Namespace) -> None:
    from tidemark import demo

    demo.run()


if __name__ == "__main__":
    sys.exit(main())
