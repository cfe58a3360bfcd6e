"""Real sandboxes for the tests of one module."""

import pytest

from rsi.sandbox import make_pool
from tests.unit.boxes import make_task


@pytest.fixture(scope="module")
def pool():
    with make_pool() as pool:
        yield pool


@pytest.fixture
def start(pool, tmp_path):
    """start(test=..., setup=..., start_script=..., task fields): an opened sandbox, closed when the test ends."""
    opened = []

    def start(start_script: str = "", **kwargs):
        sandbox = pool.take()
        opened.append(sandbox)
        task = make_task(tmp_path, **kwargs)
        if start_script:
            (tmp_path / "environment" / "start.sh").write_text(start_script)
        sandbox.open(task)
        return sandbox

    yield start
    for sandbox in opened:
        sandbox.close()
