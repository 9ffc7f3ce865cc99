"""The interpreter's garbage collector, set up for a process that answers quickly or makes very many objects.

With the default settings every few hundred requests a collection walks the whole program: 100 ms in which nobody is
answered.
"""

import gc

_THRESHOLDS = (20_000, 20, 50)


def settle_heap() -> None:
    """Leave what is alive now (modules, classes, compiled schemas) out of collections, and collect less often.

    To be called when the program is loaded and before it works. Cycles made later are still found.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
