"""An audit on a Ray cluster of two machines, one of which is lost in the middle."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from audit_trees import HEALTHY, SICK, Silent, audited, draft

from ckptdoctor.audit.auditing import Options, audit
from ckptdoctor.audit.roots import roots_of
from ckptdoctor.audit.setup import setup_for
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.policy import NO_POLICY

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).parents[2]
DRAFTS = 12


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without cores and two machines of one core each, all on this one."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    sizes = {"object_store_memory": 100 * 1024 * 1024, "include_dashboard": False}
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **sizes})
    try:
        yield found
    finally:
        ray.shutdown()
        found.shutdown()


class Killer(Silent):
    """Removes a machine once some drafts are done."""

    def __init__(self, cluster: Any, node: Any) -> None:
        super().__init__()
        self.cluster, self.node, self.done = cluster, node, 0

    def ended(self, key: str) -> None:  # noqa: ARG002  # as a watch is told
        """Count, and pull the plug at the third."""
        self.done += 1
        if self.done == DRAFTS + 3 and self.node is not None:  # the listing counts each of them too
            self.cluster.remove_node(self.node, allow_graceful=False)
            self.node = None


def test_a_machine_that_is_lost_loses_no_draft(cluster: Any, tmp_path: Path) -> None:
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=100 * 1024 * 1024) for _ in range(2)]
    cluster.wait_for_nodes()
    root = tmp_path / "r"
    for number in range(DRAFTS):
        draft(root / f"{number:02d}", SICK if number % 3 == 0 else HEALTHY)
    watch = Killer(cluster, nodes[1])
    lines: list[bytes] = []
    options = Options(jobs=1, out=tmp_path / "out", limit=120.0, ray=cluster.address)
    summary = audit(roots_of([str(root)]), setup_for(NO_POLICY), options, watch, lines.append)
    assert watch.node is None
    assert (summary.counts["drafts"], summary.counts["scanned"], summary.counts["error"]) == (DRAFTS, DRAFTS, 4)
    _, here = audited(root)
    assert [json.loads(line)["report"] for line in lines] == [json.loads(line)["report"] for line in here]
    # What the cluster did counts here, too.
    again = Silent()
    audited(root, tmp_path / "out", again)
    assert again.begun == []


def test_no_cluster_at_the_address_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "1")
    draft(tmp_path / "r" / "a")
    options = Options(jobs=1, ray="ray://127.0.0.1:9")
    with pytest.raises(CannotExamineError, match="no Ray cluster answers there"):
        audit(roots_of([str(tmp_path / "r")]), setup_for(NO_POLICY), options, Silent())
