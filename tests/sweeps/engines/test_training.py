"""What a worker tells of an error: whether another attempt could mend it."""

import errno
import os

import pytest

from experiments.files import RecordError
from sweeps.engines.training import failure


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS], ids=os.strerror)
def test_a_disk_to_which_no_run_can_be_written_is_for_the_user(number):
    cause = OSError(number, os.strerror(number))
    error = RecordError(f"runs/a/resume: cannot be written: {cause.strerror}")
    error.__cause__ = cause
    assert failure(error).users and failure(cause).users
    error.__cause__ = OSError(errno.EIO, "of one file")
    assert not failure(error).users
