"""Open: a path becomes a `Checkpoint`, by headers alone. Knows nothing of speculation."""

from ckptdoctor.checkpoint.container import TensorInfo
from ckptdoctor.checkpoint.faults import Fault
from ckptdoctor.checkpoint.jsonreader import JsonDocument, read_json
from ckptdoctor.checkpoint.opened import Checkpoint
from ckptdoctor.checkpoint.opening import open_checkpoint

__all__ = ["Checkpoint", "Fault", "JsonDocument", "TensorInfo", "open_checkpoint", "read_json"]
