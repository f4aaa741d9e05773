"""The `tidemark` command.

The handlers import Spark and dbt late: `tidemark --help` and `tidemark add` stay quick.
"""

import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from tidemark import feed_settings, paths, targets
from tidemark.errors import ConfigError, TidemarkError, printable, why_storage_failed

if TYPE_CHECKING:
    from tidemark.scaffold.discover.dms_task import Task


# The optional extra that has a module.
_EXTRAS = {
    **dict.fromkeys(("boto3", "botocore"), "aws"),
    **dict.fromkeys(("pyhive", "TCLIService", "thrift"), "thrift"),
}


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
    """Run one command. Raises TidemarkError for every failure, also for Spark's errors."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with _tidemark.make_context("tidemark", given) as context:
            _tidemark.invoke(context)
    except click.exceptions.Exit:
        return  # after --help and --version
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if not extra:
            raise
        raise TidemarkError(
            f"This needs the package {error.name}: pip install 'tidemark[{extra}]'"
        ) from error
    except Exception as error:
        why = why_storage_failed(error)
        if why:
            from tidemark import s3

            remedy = s3.why(str(error))
            why += f" So {remedy}." if remedy else ""
            raise TidemarkError(
                f"{why}\nThe lake is in {paths.lake_dir()}, its tables are in {paths.warehouse()}. "
                "Once this is fixed, run the command again: it continues where this one stopped."
            ) from error
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        from tidemark.spark import session

        raise TidemarkError(session.readable(error)) from error


class _Commands(click.Group):
    """Lists the commands in the order of this file, each with its whole first sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        cmd.short_help = (cmd.help or "").partition("\n\n")[0].rstrip(".")
        super().add_command(cmd, name)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tidemark", message="%(prog)s %(version)s")
def _tidemark() -> None:
    """Change feeds in, trusted lakehouse tables out."""


def _use_target(_: click.Context, __: click.Parameter, target: str | None) -> None:
    if target:
        targets.use(target)


_on_target = click.option(
    "--target",
    expose_value=False,
    callback=_use_target,
    help="A target of profiles.yml (default: the profile's target).",
)


@_tidemark.command("init")
@click.argument("folder", metavar="[DIR]", required=False)
@click.option("--example", metavar="DOMAIN", help="Also copy an example with its sample files.")
@click.option("--into", metavar="DIR", help="The folder of an existing dbt project.")
@click.option("--yes", is_flag=True, help="With --into: write without asking.")
def _init(folder: str | None, example: str | None, into: str | None, yes: bool) -> None:
    """Create a new project in DIR, or add Tidemark to an existing dbt project."""
    from tidemark.scaffold import init

    if bool(folder) == bool(into) or (into and example):
        raise ConfigError(
            "tidemark init DIR writes a new project; tidemark init --into DIR adds Tidemark to a "
            "dbt project that exists."
        )
    if into:
        _init_into(Path(into), asks=not yes)
        return
    written = init.new(Path(str(folder)), example)
    print(f"Wrote {len(written)} files into {folder}.")
    print(f"Next: cd {folder}")
    if example:
        print(f"      tidemark demo {example}")
    else:
        print("      put files below landing/, then: tidemark discover (README.md has an example)")


def _init_into(project: Path, *, asks: bool) -> None:
    from tidemark.scaffold import init

    changes = init.changes_into(project)
    if not changes:
        print(f"{project} is already set up for Tidemark. Nothing to change.")
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


@_tidemark.command("deps")
def _deps() -> None:
    """Install the dbt packages; use it instead of `dbt deps`."""
    from tidemark.dbt_plugin import packages

    packages.install(paths.project_dir())
    print("The dbt packages are installed.")


@_tidemark.command("run")
@click.option("--all", "build_all", is_flag=True, help="Build every model, even without new files.")
@click.option("--verbose", is_flag=True, help="Also print dbt's own output.")
@_on_target
def _run(build_all: bool, verbose: bool) -> None:
    """Land new files and build what depends on them."""
    from tidemark import runs

    runs.run(build_all=build_all, verbose=verbose)


@_tidemark.command("land")
@_on_target
def _land() -> None:
    """Land new files without building anything."""
    from tidemark import runs

    runs.run(build=False)


@_tidemark.command("status")
@click.option("--check", is_flag=True, help="Print only red or green; exit with 1 if red.")
@_on_target
def _status(check: bool) -> None:
    """Show for each table: new files, dead letters, models to build, lag, failures.

    Then what needs attention, such as files that wait for `tidemark confirm`, with the command.
    """
    from tidemark import status

    for line in [status.check()] if check else status.lines():
        print(line)


@_tidemark.command("report")
@click.option("--output", metavar="FILE", help="Default: target/report.html.")
@click.option("--docs", metavar="URL", help="The dbt docs (default: target/static_index.html).")
@_on_target
def _report(output: str | None, docs: str | None) -> None:
    """Write the state of the lake as an HTML page.

    It shows what needs attention, freshness, changes, dead letters, sizes, slow models and tests.
    """
    from tidemark import page

    print(f"Wrote {page.write(output, docs)}")


@_tidemark.command("confirm")
@click.argument("file")
@_on_target
def _confirm(file: str) -> None:
    """Accept a file that was set aside until you confirm it.

    FILE is its path below the landing folder, as in the dead letter.
    """
    from tidemark.ingest import ledger

    print(f"{_noted(file, ledger.confirm)} is confirmed and will land with the next run.")


@_tidemark.command("retract")
@click.argument("file")
@_on_target
def _retract(file: str) -> None:
    """Undo a file that has landed, and rebuild its tables without it.

    FILE is its path below the landing folder, or a folder of files. For a file that was only set
    aside, this closes the dead letters.
    """
    from tidemark import retention, runs

    print(f"Retracting {_noted(file, retention.retract)}.")
    runs.run()


def _noted(path: str, note: Callable[[Any, str, str], str]) -> str:
    """Note something about a file in the ledger; gives the file and its tables as words."""
    from tidemark import runs, storage
    from tidemark.spark import lease, session

    spark = session.get()
    file = storage.as_text(path)
    with lease.held(spark):
        tables = note(spark, file, runs.new_run_id())
    return f"{printable(file)} of {tables}"


@_tidemark.command("replay")
@click.argument("names", metavar="[SOURCE.TABLE]...", nargs=-1)
@click.option("--all", "all_files", is_flag=True, help="Read all files, to rebuild a lost log.")
@_on_target
def _replay(names: tuple[str, ...], all_files: bool) -> None:
    """Read files with open dead letters again, after you have fixed the cause.

    Without SOURCE.TABLE: files of all tables.
    """
    from tidemark import runs

    if all_files and not names:
        raise ConfigError("tidemark replay --all needs the tables: SOURCE.TABLE.")
    runs.run(replay=names, replay_all=all_files)


@_tidemark.command("maintain")
@click.argument("tables", metavar="[TABLE]...", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only show what it would do.")
@click.option(
    "--vacuum-after",
    metavar="AGE",
    help="Delete files that no version has needed for this long, such as '14 days' (default: that "
    "of dbt_project.yml, else 7 days, or the table's property).",
)
@click.option("--force", is_flag=True, help="Allow an AGE of less than 7 days.")
@_on_target
def _maintain(
    tables: tuple[str, ...], dry_run: bool, vacuum_after: str | None, force: bool
) -> None:
    """Compact small files and delete files that only old table versions use.

    TABLE is a model, a feed (SOURCE.TABLE), or schema.table. Without it: all tables, and records of
    old runs in tidemark.runs and tidemark.log.
    """
    from tidemark import maintain

    wanted = maintain.policy(vacuum_after, force=force)
    maintain.maintain(tables, wanted, dry_run=dry_run)


@_tidemark.command("restore")
@click.argument("table")
@click.option("--to", "point", metavar="RUN|TIME", help="A run's id, or a time in UTC.")
@_on_target
def _restore(table: str, point: str | None) -> None:
    """Reset a current or history table to its state after a run, or show its versions.

    TABLE is the name of the model. The next run applies all later loads again.
    """
    from tidemark import restore

    if point is None:
        restore.show(table)
    else:
        restore.restore(table, point)


@_tidemark.command("erase")
@click.argument("subject", required=False)
@click.option("--key", "keys", multiple=True, metavar="KEY", help="A key to erase; repeatable.")
@click.option(
    "--keys-from", type=click.File(), metavar="FILE", help="One key per line; - is standard input."
)
@click.option("--dry-run", is_flag=True, help="Only show what would be erased.")
@click.option("--keep-files", is_flag=True, help="Do not delete landed files.")
@_on_target
def _erase(
    subject: str | None,
    keys: tuple[str, ...],
    keys_from: IO[str] | None,
    dry_run: bool,
    keep_files: bool,
) -> None:
    """Erase a person's rows from all tables and landed files, for good.

    SUBJECT is a tag of columns in the YAML, such as customer. Without it: finish an erasure that
    was interrupted or failed.
    """
    from tidemark import erase

    of_file = [line.strip() for line in keys_from or () if line.strip()]
    if bool(subject) != bool(keys or of_file) or not all(key.strip() for key in keys):
        raise ConfigError("A subject and its keys go together: tidemark erase SUBJECT --key KEY")
    erase.erase(subject or "", [*keys, *of_file], dry_run=dry_run, keep_files=keep_files)


@_tidemark.command("register")
@_on_target
def _register() -> None:
    """Register the tables of the warehouse again, after the metastore was lost."""
    from tidemark import restore

    restore.register()


@_tidemark.command("diff")
@click.argument("ref")
@click.option("--keep", is_flag=True, help="Do not drop the schemas with the results.")
@_on_target
def _diff(ref: str, keep: bool) -> None:
    """Show how the changes since a git branch or commit change the tables.

    Builds the changed models, and what depends on them, into separate schemas, and prints a
    comparison as Markdown, for a pull request.
    """
    from tidemark import diff

    diff.diff(ref, keep=keep)


# A statement may begin with a comment, `-- ...`.
@_tidemark.command("sql", context_settings={"ignore_unknown_options": True})
@click.argument("statement")
@click.option("--format", "output", type=click.Choice(("table", "csv", "json")), default="table")
@click.option(
    "--all",
    "shows_all",
    is_flag=True,
    help="Also show columns that begin with _ (table format only).",
)
@_on_target
def _sql(statement: str, output: str, shows_all: bool) -> None:
    """Run one SQL statement and print its rows."""
    from tidemark import query

    query.print_rows(statement, output, shows_all=shows_all)


@_tidemark.command("catalog")
@_on_target
def _catalog() -> None:
    """Register the tables in AWS Glue's Data Catalog, for Athena."""
    from tidemark.aws import catalog
    from tidemark.dbt_plugin import dbt
    from tidemark.spark import session

    nodes = dbt.nodes(dbt.parse())
    catalog.register(session.get(), nodes)


@_tidemark.command("docs")
@click.option("--port", type=int, default=8080, show_default=True)
@click.option("--no-serve", is_flag=True, help="Only generate target/static_index.html.")
@_on_target
def _docs(port: int, no_serve: bool) -> None:
    """Generate the dbt docs and serve them."""
    from tidemark.dbt_plugin import dbt_docs

    dbt_docs.generate()
    if not no_serve:
        dbt_docs.serve(port)


@_tidemark.command("discover")
@click.argument("folder", default="")
@click.option("--dms-task", metavar="TASK", help="Its ARN or identifier; calls AWS.")
@click.option(
    "--table-mappings",
    metavar="FILE",
    help="A JSON file of the task's table mappings, instead of calling AWS.",
)
@click.option(
    "--endpoint-settings",
    metavar="FILE",
    help="With --table-mappings: the JSON of the target endpoint's settings.",
)
def _discover(
    folder: str, dms_task: str | None, table_mappings: str | None, endpoint_settings: str | None
) -> None:
    """Declare every table that has files below the landing folder.

    FOLDER is below the landing folder; the default is all of it. With an AWS DMS task: declare the
    tables of the task, with or without files.
    """
    from tidemark.scaffold import add

    project = paths.project_dir()
    task = _task(folder, dms_task, table_mappings, endpoint_settings)
    if task:
        added = add.discovered_of_task(project, task, paths.landing())
    else:
        added = add.discovered(project, paths.landing_dir(), folder)
    print("\n".join(add.told(project, added)))
    if added.failed:
        raise ConfigError("\n".join(added.failed))


def _task(
    folder: str, named: str | None, mappings: str | None, endpoint: str | None
) -> "Task | None":
    """The AWS DMS task with a name, or from files; None without either."""
    from tidemark.scaffold.discover import dms_task

    if not (named or mappings or endpoint):
        return None
    if folder or (named and (mappings or endpoint)):
        raise ConfigError(
            "Give one of these: a folder, --dms-task, or --table-mappings with --endpoint-settings."
        )
    if named:
        from tidemark.aws import dms

        return dms.task_and_statistics(named)[0]
    if not (mappings and endpoint):
        raise ConfigError("--table-mappings and --endpoint-settings go together: give both.")
    return dms_task.from_files(Path(mappings), Path(endpoint))


@_tidemark.command("verify")
@click.option("--dms-task", metavar="TASK", required=True, help="Its ARN or identifier; calls AWS.")
@_on_target
def _verify(dms_task: str) -> None:
    """Compare the change logs with the row counts that AWS DMS reports."""
    from tidemark.aws import verify

    verify.run(dms_task)


@_tidemark.command("add")
@click.argument("names", metavar="SOURCE[.TABLE]...", nargs=-1, required=True)
@click.option("--key", help="The key columns, separated by commas.")
@click.option(
    "--format",
    type=click.Choice(feed_settings.FORMATS),
    help="Default: inferred from the files; without files, extract.",
)
@click.option("--path", help="The folder below the landing folder (default: SOURCE/TABLE).")
@click.option(
    "--columns", help="Such as 'id bigint, name string'; default: inferred from the files."
)
@click.option(
    "--header", type=click.Choice(feed_settings.HEADERS), help="Which files have a header."
)
@click.option("--delimiter", help="Default: inferred from the files.")
def _add(names: tuple[str, ...], **settings: str | None) -> None:
    """Write the three models of declared tables, or declare a new table with its models.

    SOURCE means all its declared tables. The options are for one SOURCE.TABLE that is not declared
    yet.
    """
    from tidemark.scaffold import add

    project = paths.project_dir()
    given = {name: value for name, value in settings.items() if value is not None}
    parts = [name.partition(".") for name in names]
    for source, dot, table in parts:
        if not source.isidentifier() or (dot and not table.isidentifier()):
            raise ConfigError(
                f"'{source}{dot}{table}' is neither SOURCE.TABLE, such as crm.people, nor SOURCE."
            )
    if given:
        (source, dot, table), *more = parts
        if more or not dot:
            raise ConfigError(f"--{', --'.join(given)}: only for one new table, SOURCE.TABLE.")
        new = add.sampled(paths.landing_dir(), source, table, given)
        written = add.write(project, new)
        for hint in new.hints:
            print(f"{source}.{table}: {printable(hint)}")
    else:
        written = add.write_models(project, names)
    for file in written:
        print(f"Wrote {file.relative_to(project)}")
    if given:
        print("Check the types and write the descriptions in the YAML, then: tidemark run")
    else:
        print("Next: tidemark run" if written else "Every enabled table has models.")


@_tidemark.command("demo")
@click.argument("domains", metavar="[DOMAIN]...", nargs=-1)
@click.option("--all", "all_of_them", is_flag=True, help="Run all domains.")
@_on_target
def _demo(domains: tuple[str, ...], all_of_them: bool) -> None:
    """Load sample changes of two or three days, day by day.

    DOMAIN is a folder of examples/ (default: insurance inventory).
    """
    from tidemark import demo

    demo.run(domains, all_of_them=all_of_them)


@_tidemark.command("bundle")
@click.argument("place")
def _bundle(place: str) -> None:
    """Write the files that a job on Glue or EMR needs.

    PLACE is a folder, or s3://bucket/folder.
    """
    from tidemark.aws import bundle

    for file in bundle.make(place):
        print(f"Wrote {file}")


@_tidemark.command("up")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A Spark setting.")
def _up(conf: tuple[str, ...]) -> None:
    """Start a Spark for this lake that keeps running, so that commands and dbt start faster."""
    from tidemark.spark import warm

    warm.up(more=_settings(conf))


@_tidemark.command("down")
def _down() -> None:
    """Stop the Spark of `tidemark up`, once no command uses it."""
    from tidemark.spark import warm

    warm.down()


@_tidemark.command("watch")
@_on_target
def _watch() -> None:
    """Start a run whenever files arrive in the landing folder, with a Spark that keeps running."""
    from tidemark import watch

    watch.watch()


def _settings(conf: Sequence[str]) -> Sequence[str]:
    wrong = [each for each in conf if "=" not in each]
    if wrong:
        raise ConfigError(f"--conf {wrong[0]}: it must be KEY=VALUE.")
    return conf


@_tidemark.command("thrift")
@click.argument("action", type=click.Choice(("start", "stop", "status")))
@click.option("--port", type=int, default=10000, show_default=True)
@click.option("--connect-port", type=int, default=15002, show_default=True)
@click.option("--metastore-port", type=int, default=9083, show_default=True)
@click.option("--master", default="", help="Spark's master, such as spark://host:7077.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A Spark setting.")
def _thrift(
    action: str,
    port: int,
    connect_port: int,
    metastore_port: int,
    master: str,
    conf: tuple[str, ...],
) -> None:
    """Start, stop or check a Spark Thrift Server with Spark Connect on this lake."""
    from tidemark.spark import server

    if action == "start":
        ports = server.Ports(port, connect_port, metastore_port)
        server.start(ports, master, more=_settings(conf))
    elif action == "stop":
        server.stop()
    elif not server.status():
        sys.exit(3)  # as systemctl does


if __name__ == "__main__":
    sys.exit(main())
