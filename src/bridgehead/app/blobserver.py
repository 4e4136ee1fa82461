"""A directory as a blob store on the network: ``python -m bridgehead.app.blobserver --directory D --port N --port-file F``.

No login and no encryption: loopback, or a private network that is trusted.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from bridgehead.drivers.httpblobs.server import BlobServer
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until killed. ``--port 0`` takes a free port; the port file appears when the server answers."""
    parser = argparse.ArgumentParser(prog="bridgehead.app.blobserver", description=__doc__)
    parser.add_argument("--directory", required=True, help="where the values are stored; must exist")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--port-file", type=Path, required=True, help="gets the port as text")
    asked = parser.parse_args(arguments)
    with BlobServer(LocalBlobs(LocalBlobsOptions(directory=asked.directory)), host=asked.host, port=asked.port) as server:
        temporary = asked.port_file.with_name(asked.port_file.name + ".tmp")
        temporary.write_text(f"{server.server_port}\n")
        os.replace(temporary, asked.port_file)
        server.serve_forever()


if __name__ == "__main__":
    main()
