"""What was seen of a wiring in one release, against the entries of rules/serving that hold in it."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from tests.conformance.inside.small_models import DEPTH, KEEP_NUMBERS, MODEL_TYPES

Verdict = tuple[str, str, Any, Any, bool]
"""File, place of the entry, what it claims, what was seen, whether they agree."""


class Judge:
    """Compares what was seen in one release with the entries that hold in it."""

    def __init__(self, engine: str, release: str) -> None:
        from ckptdoctor.serving.contract.contracts import Release, contracts

        self.contract = contracts()[engine]
        self.release = Release(self.contract, release)
        self.verdicts: list[Verdict] = []

    def entry(self, targets: bool, place: str, timeline: Any, seen: Any, compare: Callable[[Any], bool]) -> None:
        reader = self.release.reader()
        reader.value(timeline)
        for entry in reader.evidence.entries:
            name = self.contract.engine + ("-targets" if targets else "")
            self.verdicts.append((name, f"{place}/{entry.since}", entry.value, seen, compare(entry.value)))

    def judge(self, row: dict[str, Any]) -> str | None:
        """Adds verdicts; returns why a probe proves nothing."""
        if "error" in row:
            return str(row["error"])
        seen = row["seen"]
        if row["kind"] == "target":
            return self.target(row["name"], seen)
        if row["kind"] == "draft":
            return self.draft(row["name"], seen)
        if "rows" in seen:
            self.choice(seen["rows"])
        elif "admitted" in seen:
            self.admitted(seen["admitted"])
        elif row["name"] == "use_aux_hidden_state":
            timeline = self.contract.targets["use_aux_hidden_state"]
            self.entry(True, "use_aux_hidden_state", timeline, seen, lambda claimed: bool(claimed == seen))
        else:
            # Block drafters run in the first model runner, and from 0.25.0 in the second one.
            other = {"v1": True, "v2": False}.get(row["name"])
            for name, found in seen.items():
                value = found
                if name.startswith("block") and other is self.release.has_reached("0.25.0"):
                    continue
                timeline = self.contract.targets.get(name)
                if isinstance(value, dict) and "spread" in value:
                    claimed = self.release.peek(timeline)
                    value = claimed if self.spreads(value["spread"]) else value["spread"]
                self.entry(True, name, timeline, value, lambda claimed, value=value: same(claimed, value))
        return None

    def target(self, name: str, seen: dict[str, Any]) -> str | None:
        rows = self.contract.targets["targets"]
        found = next((r for r in rows if name in r["classes"]), None)
        if seen["setter"] is None:
            return str(seen["note"])
        since = found["classes"][name] if found is not None else None
        claimed = since is not None and self.release.has_reached(str(since))
        file = f"{self.contract.engine}-targets"
        if not (claimed or seen["setter"]):
            return None
        # A class may have the setter before the engine admits it as a target.
        if claimed != seen["setter"] and claimed:
            self.verdicts.append((file, f"targets/classes/{name}", f"captures from {since}", "no setter", False))
        if not claimed or found is None or not seen["setter"]:
            return "not in the contract of this release, although it has the setter"
        agreed: dict[str, bool] = {}
        wrong: dict[str, Any] = {}
        for seen_row in seen["rows"]:
            used, fits, expected = self.predicted(found, seen_row)
            for name_ in used:
                agreed[name_] = agreed.get(name_, True) and fits
                if not fits:
                    wrong.setdefault(name_, []).append({**seen_row, "expected": expected})
        for name_, fits in agreed.items():
            place = f"targets/{found['id']}/{name_}"
            seen_value = "as claimed" if fits else wrong[name_][:3]
            self.entry(True, place, found[name_], f"{name}: {seen_value}", lambda _claimed, fits=fits: fits)
        if seen.get("block"):
            timeline = self.contract.targets.get("block_ids_to_boundaries")
            self.entry(True, "block_ids_to_boundaries", timeline, seen["block"], lambda c: bool(c == seen["block"]))
        timeline = self.contract.targets.get("pipeline")
        if self.release.peek(timeline) == "last_rank_counts_from_zero":
            value = seen.get("pipeline")
            wanted = None if name in KEEP_NUMBERS else "last_rank_counts_from_zero"
            self.entry(True, "pipeline", timeline, f"{name}: {value}", lambda _claimed: bool(value == wanted))
        return None

    def spreads(self, seen: dict[str, list[int]]) -> bool:
        from ckptdoctor.serving.contract.settings import Settings
        from ckptdoctor.serving.layers.boundaries import spread

        return all(
            list(spread(Settings({"num_hidden_layers": int(count)}), DEPTH)) == [i + 1 for i in ids]
            for count, ids in seen.items()
        )

    def predicted(self, row: Any, seen: dict[str, Any]) -> tuple[set[str], bool, Any]:
        """The entries that a forecast for this list of ids rests on, whether it came true, and the forecast."""
        from ckptdoctor.serving.layers import boundaries as forecast

        ids, used = seen["ids"], {"reachable"}
        if ids is None:
            wanted = forecast.default_boundaries(self.release.reader(), row, DEPTH)
            used.add("default_boundaries")
        else:
            variant = self.release.peek(row["ids_to_boundaries"], "same")
            wanted = (
                forecast.default_boundaries(self.release.reader(), row, DEPTH)
                if variant == "ignored"
                else forecast.to_boundaries(variant, tuple(ids), DEPTH)
            )
            used.add("ids_to_boundaries")
        reached, refusals, _ = forecast.reach(self.release.reader(), row, wanted, DEPTH)
        low, high = (forecast._number(p, DEPTH) for p in self.release.peek(row["reachable"]))
        for boundary in set(wanted):
            if not low <= boundary <= high:
                side = "above" if boundary > high else "negative" if boundary < 0 and "negative" in row else "below"
                used.add(side)
        if refusals:
            stage = {"start": "start"}.get(refusals[0].stage, refusals[0].stage)
            return used & set(row), seen.get("refused") == stage, stage
        return used & set(row), seen.get("captured") == list(reached), list(reached)

    def draft(self, name: str, seen: dict[str, Any]) -> str | None:
        if seen.get("class") is False:
            return "no such class"
        rows = [r for r in self.contract.raw["architectures"] if r["name"] == name and self.release.holds(r)]
        if not rows:
            return "no such class in the contract"
        label = rows[0]["class"]
        behaviours = self.contract.raw["classes"][label]["behaviours"]
        values = {k: v for k, v in seen.items() if k not in ("shared", "class")}
        shared = seen.get("shared")
        if shared:
            plain, null, narrow = (shared.get(k) for k in ("plain", "null", "narrow"))
            if plain["map"] == "identity" and "map_absent" in behaviours:
                values["map_absent"] = "identity"
            if narrow is None:
                values.update(head=plain["head"], embedding=plain["embedding"])
            else:
                values["head"] = plain["head"]
                if plain["head"] == "own" and null is not None and null["head"] == "target":
                    values["head"] = "own_unless_draft_vocab_size_is_null"
                values["embedding"] = (
                    "target_unless_target_hidden_size_differs" if narrow["embedding"] == "own" else plain["embedding"]
                )
        for key, value in values.items():
            timeline = behaviours.get(key)
            place = f"classes/{label}/behaviours/{key}"
            self.entry(False, place, timeline, value, lambda claimed, value=value: same(claimed, value))
        return None

    def choice(self, rows: list[list[Any]]) -> None:
        from ckptdoctor.serving.layers import capture

        wrong = []
        when = self.release.peek(self.contract.targets.get("runner_v2_when"), {})
        for name, moe, quantised, hybrid, chosen in rows:
            if hybrid and name in when.get("architectures", ()):
                continue  # none of the listed classes is hybrid
            target: Any = types.SimpleNamespace(
                architecture=name, has_experts=moe, is_quantised=quantised, is_hybrid=hybrid
            )
            if capture._runner(self.release, target, None) != chosen:
                wrong.append([name, moe, quantised, hybrid, chosen])
        if not rows and self.release.peek(self.contract.targets["runner"]) != "v1":
            wrong.append("there is no second runner")
        for key in ("runner", "runner_v2_when"):
            seen = f"as claimed for {len(rows)} targets" if not wrong else wrong[:4]
            self.entry(True, key, self.contract.targets.get(key), seen, lambda _claimed: not wrong)

    def admitted(self, kinds: list[str]) -> None:
        timeline = self.contract.targets["target_model_types"]

        def fits(claimed: list[str]) -> bool:
            admits = [k for k in (*MODEL_TYPES, "no_such_type") if "*" in claimed or any(w in k for w in claimed)]
            return admits == kinds

        self.entry(True, "target_model_types", timeline, kinds, fits)


def same(claimed: Any, seen: Any) -> bool:
    """Lists by their members: the order of places is a matter of which stands first, and one draft has one."""
    if isinstance(claimed, list) and isinstance(seen, list):
        return sorted(map(str, claimed)) == sorted(map(str, seen))
    if isinstance(claimed, dict) and isinstance(seen, dict):
        return claimed.keys() == seen.keys() and all(same(claimed[k], seen[k]) for k in claimed)
    return bool(claimed == seen)
