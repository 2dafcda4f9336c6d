"""The front door: ``python -m lmzoo.train …`` is ``lmzoo train …``. Where it is imported, it is `lmzoo.api.train`."""

import sys

if __name__ == "__main__":
    from lmzoo.cli.start import start

    start("lmzoo.commands.train")
else:
    from lmzoo.api import train

    sys.modules[__name__] = train  # pyright: ignore[reportArgumentType]
