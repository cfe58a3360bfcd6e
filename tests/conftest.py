"""Shared fixtures: real tasks, real sandboxes, and one tiny policy that learned a little from executed transcripts."""

import os

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest  # noqa: E402
import torch  # noqa: E402

from rsi.harness.protocol import format_action  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def corpus_of_tasks(tmp_path_factory):
    """60 corpus tasks on disk (they carry reference and flaw), as loaded tasks."""
    from rsi.tasks.load import load_task
    from rsi.tasks.suites import corpus_tasks

    folder = tmp_path_factory.mktemp("corpus")
    return [load_task(files.write(folder)) for files in corpus_tasks(60, seed=99)]


@pytest.fixture(scope="session")
def fmt(corpus_of_tasks):
    """The laptop's tokenizer and chat format, made from these tasks."""
    from rsi.base.corpus import draft_format, make_scripts

    return draft_format(corpus_of_tasks, make_scripts(corpus_of_tasks, 0), 900)


@pytest.fixture
def sandboxes():
    from rsi.sandbox import make_pool

    pool = make_pool("bubblewrap")
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def written():
    """written(task, "solve" or "flaw"): the turns of an author who knows the task, without the final claim."""
    from rsi.base.authors import say, scripted_steps

    def turns(task, which="solve"):
        steps = scripted_steps(task.metadata["steps"])
        return [t for k, s in enumerate(steps, 1) for t in say(k, s, getattr(s, which))]

    return turns


@pytest.fixture(scope="session")
def claim():
    return format_action("all done.\nend of task.", "submit")
