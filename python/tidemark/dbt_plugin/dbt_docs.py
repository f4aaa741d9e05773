"""`tidemark docs`: generate and serve dbt's documentation site."""

import functools
import http.server

from tidemark import paths
from tidemark.dbt_plugin import dbt
from tidemark.errors import SetupError

# The page includes all its data, so that the single file works anywhere.
PAGE = "static_index.html"


def generate() -> None:
    """Write target/static_index.html, including the lake's catalog."""
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
        raise SetupError(
            f"Port {port} cannot be used ({error}). Set another with --port."
        ) from None
    print(f"The documentation is at http://127.0.0.1:{port}/{PAGE} (press Ctrl-C to stop)")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    finally:
        server.server_close()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files without logging each request."""

    def log_message(self, format: str, *args: object) -> None:
        """Do nothing."""
