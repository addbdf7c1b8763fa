"""Simulate: facts and the contract of one engine release → `LoadPlan`, what the loader will really do. Pure."""

from ckptdoctor.serving.contract.contracts import Contract, contracts
from ckptdoctor.serving.plan import LoadPlan, Parameter, Refusal, Stored
from ckptdoctor.serving.simulate import load_plan

__all__ = ["Contract", "LoadPlan", "Parameter", "Refusal", "Stored", "contracts", "load_plan"]
