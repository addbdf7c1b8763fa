"""`RunningTarget`: a target of this machine, loaded with transformers, that writes tokens and shows its states."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts.target import read_target
from ckptdoctor.facts.target_weights import find_target_weights
from ckptdoctor.probe.samples.recorded_text import UnreadableError
from ckptdoctor.probe.samples.target_states import best_tokens
from ckptdoctor.text import listing, show
from ckptdoctor.unknown import Unknown

__all__ = ["RunningTarget"]

_HEAD_ROWS = 4096


class RunningTarget:
    """The target in the folder `path`, in float32 on the CPU.

    Raises `CannotExamineError` where transformers is not installed, there are no safetensors weights in the folder,
    they are quantised or not whole, or transformers does not know the model (code of the folder is never run).
    """

    def __init__(self, path: str) -> None:
        self._shown = show(path)
        transformers = _transformers()
        target = read_target(path)
        if find_target_weights(path) is None or target.root is None:
            raise CannotExamineError(
                f"--target {self._shown}: to run it on text, its safetensors weights have to be in this folder, beside"
                " its config.json and its tokenizer"
            )
        if target.is_quantised:
            raise CannotExamineError(
                f"--target {self._shown}: is quantised; text can be run on unquantised weights only"
            )
        self._folder = str(Path(target.root).resolve())
        self._transformers = transformers
        self._tokenizer: Any = None
        with _quietly(transformers):
            try:
                loaded, told = transformers.AutoModelForCausalLM.from_pretrained(
                    self._folder, local_files_only=True, trust_remote_code=False, use_safetensors=True,
                    output_loading_info=True,
                )  # fmt: skip
                self._model: Any = loaded.to(torch.float32).eval()
            except Exception as error:  # noqa: BLE001 - what a library of models raises is open
                raise CannotExamineError(
                    f"--target {self._shown}: transformers cannot load it ({_first(error)})"
                ) from None
        missing = sorted(map(str, told.get("missing_keys", ())))
        if missing:
            raise CannotExamineError(
                f"--target {self._shown}: its weights are not whole: {listing(missing)} cannot be found"
            )
        self._layers = self._decoder_layers(target.num_layers)
        self._end = self._end_tokens(target.eos_token_ids)
        self._checked = False

    @property
    def embedding(self) -> Tensor:
        """float32 [V, T]: the matrix of the input embedding."""
        matrix: Tensor = self._model.get_input_embeddings().weight.detach()
        return matrix

    @property
    def vocabulary(self) -> int:
        """V, the rows of the embedding."""
        return int(self.embedding.shape[0])

    def tokenised(self, text: str) -> list[int]:
        """The ids of a plain text, with the special tokens that the tokenizer puts around it."""
        with self._tokenizing() as tokenizer:
            return [int(token) for token in tokenizer(text)["input_ids"]]

    def templated(self, messages: list[dict[str, Any]], to_answer: bool) -> list[int]:
        """The ids of a conversation in the target's chat template, open for an answer or not."""
        with self._tokenizing() as tokenizer:
            ids = tokenizer.apply_chat_template(
                messages, add_generation_prompt=to_answer, tokenize=True, return_dict=False
            )
            return [int(token) for token in ids]

    def continued(self, ids: Tensor, count: int) -> Tensor:
        """`ids` int64 [n] and the up to `count` tokens that the target, greedily, writes after them."""
        config = self._transformers.GenerationConfig(
            do_sample=False, num_beams=1, max_new_tokens=count, eos_token_id=self._end or None,
            pad_token_id=self._end[0] if self._end else 0,
        )  # fmt: skip
        # What the folder says of sampling, penalties and forced tokens is left aside.
        self._model.generation_config = config
        with _quietly(self._transformers), torch.inference_mode():
            try:
                found = self._model.generate(
                    ids[None], attention_mask=torch.ones_like(ids[None]), generation_config=config
                )
            except Exception as error:  # noqa: BLE001 - the same
                raise UnreadableError(f"the target could not go on with it ({_first(error)})") from None
        tokens: Tensor = found[0].clone()
        return tokens

    def states(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """float32 [n, L + 1, T], states at boundaries 0 … L, and int64 [n], the best next token at each position."""
        with _quietly(self._transformers), torch.inference_mode():
            try:
                seen, out = self._run(ids)
            except CannotExamineError:
                raise
            except Exception as error:  # noqa: BLE001 - the same
                raise UnreadableError(f"the target could not be run on it ({_first(error)})") from None
            head = self._model.get_output_embeddings()
            parts = ((i, head.weight[i : i + _HEAD_ROWS]) for i in range(0, head.weight.shape[0], _HEAD_ROWS))
            answers = best_tokens(out.last_hidden_state[0], parts, head.weight.shape[0])
            found = torch.stack(seen, 1)
        # Tensors of inference mode could not take part in a backward pass.
        return found.clone(), answers.clone()

    def _run(self, ids: Tensor) -> tuple[list[Tensor], Any]:
        seen: dict[int, Any] = {}

        def before(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            seen[0] = args[0] if args else kwargs.get("hidden_states")

        def after(boundary: int) -> Any:
            def hook(_module: Any, _args: Any, output: Any) -> None:
                seen[boundary] = output[0] if isinstance(output, (tuple, list)) else output

            return hook

        handles = [self._layers[0].register_forward_pre_hook(before, with_kwargs=True)]
        handles += [layer.register_forward_hook(after(b)) for b, layer in enumerate(self._layers, 1)]
        try:
            body = self._model.base_model
            # Once, what the hooks see is compared with what transformers itself gives out.
            out = body(input_ids=ids[None], use_cache=False, output_hidden_states=not self._checked)
        finally:
            for handle in handles:
                handle.remove()
        states = [seen.get(b) for b in range(len(self._layers) + 1)]
        sound = all(isinstance(s, Tensor) and s.dim() == 3 and s.shape[:2] == (1, len(ids)) for s in states)
        own = getattr(out, "hidden_states", None)
        if sound and not self._checked and own is not None:
            sound = all(torch.allclose(s, o) for s, o in zip(states[:-1], own, strict=False))
        if not sound:
            raise CannotExamineError(
                f"--target {self._shown}: its layers hand on more than one residual stream; record its states with an"
                " engine"
            )
        self._checked = True
        return [s[0] for s in states if isinstance(s, Tensor)], out

    def _decoder_layers(self, count: Any) -> list[Any]:
        """The decoder layers: the outermost list of modules of that length."""
        if self._model.get_output_embeddings() is not None and not isinstance(count, Unknown):
            named = self._model.named_modules()
            lists = [(n.count("."), m) for n, m in named if isinstance(m, torch.nn.ModuleList) and len(m) == count]
            if lists:
                return list(min(lists, key=lambda pair: pair[0])[1])
        raise CannotExamineError(f"--target {self._shown}: no decoder layers are found in {type(self._model).__name__}")

    def _end_tokens(self, fallback: tuple[int, ...]) -> list[int]:
        stated = getattr(self._model.generation_config, "eos_token_id", None)
        values = stated if isinstance(stated, list) else [stated]
        return [v for v in values if type(v) is int] or list(fallback)

    @contextmanager
    def _tokenizing(self) -> Iterator[Any]:
        with _quietly(self._transformers):
            if self._tokenizer is None:
                try:
                    self._tokenizer = self._transformers.AutoTokenizer.from_pretrained(
                        self._folder, local_files_only=True, trust_remote_code=False
                    )
                except Exception as error:  # noqa: BLE001 - the same
                    raise CannotExamineError(
                        f"--target {self._shown}: its tokenizer cannot be loaded ({_first(error)}); token ids need none"
                    ) from None
            try:
                yield self._tokenizer
            except Exception as error:  # noqa: BLE001 - the same
                raise UnreadableError(f"the tokenizer refuses it ({_first(error)})") from None


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise CannotExamineError(
            "running a target on text needs transformers: pip install 'ckptdoctor[transformers]'"
        ) from None
    except Exception as error:  # noqa: BLE001 - a broken installation raises anything
        raise CannotExamineError(f"transformers cannot be imported: {_first(error)}") from None
    return transformers


@contextmanager
def _quietly(transformers: Any) -> Iterator[None]:
    """Without the warnings, log lines and progress bars of transformers; they are as before afterwards."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(log.CRITICAL)
    log.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(level)
        if bars:
            with suppress(Exception):
                log.enable_progress_bar()


def _first(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return show(lines[0] if lines else type(error).__name__, 120)
