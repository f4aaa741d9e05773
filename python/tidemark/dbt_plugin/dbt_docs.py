"""`tidemark docs`: dbt's documentation site, written and served."""

import functools
import http.server

from tidemark import paths
from tidemark.dbt_plugin import dbt
from tidemark.errors import SetupError

# dbt writes the page with all its data in it, so that the one file opens anywhere.
PAGE = "static_index.html"


def generate() -> None:
    """Write target/static_index.html, with the lake's catalog in it."""
    result = dbt.invoke(["docs", "generate", "--static"])
    if not result.success:
        raise dbt.BuildError(f"dbt docs generate failed: {result.exception or 'see above'}")


def serve(port: int) -> None:
    """Serve the site on this machine until Ctrl-C."""
    folder = paths.project_dir() / "target"
    handler = functools.partial(Handler, directory=str(folder))
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise SetupError(f"Port {port} cannot be used ({error}): choose one with --port.") from None
    print(f"The documentation is at http://127.0.0.1:{port}/{PAGE} (Ctrl-C ends)")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    finally:
        server.server_close()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line on the console for each of them."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: see the class."""
