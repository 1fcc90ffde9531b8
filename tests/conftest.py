"""Settings of all tests."""

from __future__ import annotations

import hypothesis

hypothesis.settings.register_profile("ortconv", deadline=None)  # no test is about time
hypothesis.settings.load_profile("ortconv")
