"""How property tests draw their examples: the same ones on each run, or, when asked, new ones.

`make test` repeats itself, so that a red run means a change and not a draw. `make explore` draws anew and more.
"""

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=500, deadline=None, print_blob=True)
settings.load_profile("steady")
