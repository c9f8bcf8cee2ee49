"""The engines under one contract. The one of Ray has a cluster of one node, for all tests of this folder."""

import pytest
from driving import Driving
from ray_cluster import RayCluster

from sweeps.engines.contract import Slot
from sweeps.engines.local import LocalEngine


@pytest.fixture(scope="session")
def ray_cluster():
    """The address of a cluster with two CPU slots."""
    pytest.importorskip("ray")
    cluster = RayCluster(slots=2)
    yield cluster.address
    cluster.end()


@pytest.fixture(scope="session")
def ray_engine(ray_cluster):
    """The engine of that cluster. A process can have one."""
    from sweeps.engines.ray import RayEngine

    with RayEngine(ray_cluster, "auto", None) as engine:
        yield engine


@pytest.fixture
def local_engine():
    """An engine with two workers on this machine."""
    with LocalEngine([Slot("cpu", 1)] * 2) as engine:
        yield engine


@pytest.fixture(params=["local_engine", "ray_engine"])
def engine(request):
    """Each engine."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def driving(engine, tmp_path):
    """A driver of each engine."""
    return Driving(engine, tmp_path)
