"""Writes docs/reference/cli.md from the verbs of the command line.

With ``--check`` it writes nothing and ends with 1 when the page is not what it would write.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from bridgehead.cli.main import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"

HEAD = """\
# The command line

<!-- Written by `make docs` from the verbs themselves; edit their docstrings. -->

What all verbs share:

- Results go to stdout; progress and errors to stderr. `--json` prints one JSON document on stdout, also after an error, which stands on
  stderr in words all the same: `{"error": {"code", "tried", "subject", "happened", "remedy", "more", "exit_code"}}`. A document
  without `error` is the verb's own, whatever the exit code: a verdict may be negative. When a verb had printed its document before
  the error, there is no second one, so look at the exit code first. A command that is ended by a signal prints none.
- [Exit codes](errors.md#exit-codes): 0 done, 1 the verdict is negative, 2 wrong use or bad input, 4 to 7 and 70 as listed there.
- Verbs that drive a run (`run start`, `resume`, `abort`, `undo`) end with 0 when it ended as asked (for `abort` and `undo`: rolled back),
  1 when it ended otherwise, 5 when it is stuck, 7 when a signal stopped the driver; the run then waits where it is. All print the ledger's
  head.
- `--home DIR` names the folder of journal and keys; else `BRIDGEHEAD_HOME`, else `$XDG_STATE_HOME/bridgehead`, else
  `~/.local/state/bridgehead`.
- `--as NAME` says in whose name something is said. Names are not checked, only kept: see the [threat model](../threat-model.md).
"""


def page() -> str:
    """The whole page."""
    body = app.generate_docs(output_format="markdown")
    # The contents list of the generator stays; its title, usage line and list of commands say the same once more.
    contents = re.search(r"^## Table of Contents\n\n(?P<list>.*?)\n\n\*\*Commands\*\*", body, flags=re.MULTILINE | re.DOTALL)
    verbs = re.search(r"^## bridgehead .*", body, flags=re.MULTILINE | re.DOTALL)
    assert contents is not None
    assert verbs is not None
    text = verbs[0].replace(" *[default: False]*", "")
    text = re.sub(r"`(--[a-z-]+), --(?:no|empty)-[a-z-]+`", r"`\1`", text)
    text = re.sub(r"`(--[a-z-]+ [A-Z.]+), --empty-[a-z-]+`", r"`\1`", text)
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join([HEAD, contents["list"], "", *lines]).rstrip() + "\n"


def main() -> int:
    """Write the page, or compare it."""
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page():
            return 0
        print(f"{PAGE} is not up to date: make docs", file=sys.stderr)
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
