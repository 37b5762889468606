"""For a fork server to import last: what it has imported by then is cheap to fork."""

from tests import huge_pages

huge_pages.collapse()
