"""Property tests run without a deadline: other work on the machine must not fail them."""

from hypothesis import settings

settings.register_profile("without_deadline", deadline=None)
settings.load_profile("without_deadline")
