"""Builds the two model stages from the settings: gaps and summaries, both over one layered model."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from backscroll.connectors.llm.cassette import Cassette, Recorder
from backscroll.flows.settings.settings import Settings
from backscroll.flows.settings.time_zones import shown_zone
from backscroll.operators.gaps.gap import GapDetector
from backscroll.operators.gaps.stage import GapStage, ModelGaps, RuleGaps
from backscroll.operators.llm.budget import AnswerStore, CachedAnswers, TokenBudget
from backscroll.operators.llm.protocol import LLM, LLMSetupError, LLMUnavailable
from backscroll.operators.llm.resilience import CircuitBreaker, Limited, Metered, SecondTry
from backscroll.operators.summary.extractive import ExtractiveSummarizer
from backscroll.operators.summary.stage import ExtractiveWriting, ModelWriting, SummaryStage

__all__ = ["Chosen", "make_stages", "model_name", "open_llm", "open_model"]

_LOG = logging.getLogger("backscroll")
_FLAGS = ("--gap-model", "--summary-model")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A language model, the model names to request, and how to close its connections, if it has any."""

    llm: LLM
    gap_model: str
    summary_model: str
    aclose: Callable[[], Awaitable[None]] | None = None


def open_model(settings: Settings, flags: Sequence[str] = _FLAGS) -> Chosen:
    """The model of the settings, for a measurement without a store; one name is enough for both stages.

    Answers already in the cassette at `llm_record` are not requested again, so that you can continue an
    interrupted measurement.

    Args:
        settings: the engine's settings.
        flags: the command-line options that set the models for gaps and for summaries, for errors.

    Raises:
        LLMSetupError: the model cannot be used.
        FormatError: the cassette cannot be read or written.
    """
    gap_model, summary_model = settings.gap_model, settings.summary_model
    names = {"gap_model": gap_model or summary_model, "summary_model": summary_model or gap_model}
    chosen = _choose(settings.model_copy(update=names), flags, measuring=True)
    breaker = CircuitBreaker(
        Metered(chosen.llm), failures=settings.breaker_failures, seconds=settings.breaker_seconds
    )
    return replace(chosen, llm=SecondTry(Limited(breaker, settings.llm_concurrency)))


def make_stages(
    settings: Settings, detector: GapDetector, store: AnswerStore, *, recorded: bool, processes: int = 1
) -> tuple[GapStage, SummaryStage]:
    """The stages for gaps and summaries that the settings ask for.

    Args:
        settings: the engine's settings.
        detector: finds gaps without a model.
        store: keeps paid answers.
        recorded: gaps come from a file, with or without a model.
        processes: how many processes share the day's tokens.

    Raises:
        LLMSetupError: the model cannot be used; raised at the start, not at the first window.
    """
    rules = RuleGaps(detector)
    extractive = ExtractiveWriting(ExtractiveSummarizer(settings.summary_tokens, shown_zone(settings.tz)[0]))
    if settings.llm is None:
        return rules, extractive
    chosen = _choose(settings)
    spending = TokenBudget(
        store.spent,
        per_day=settings.max_tokens_per_day,
        processes=processes,
        per_channel_day=settings.max_tokens_per_channel_day,
    )
    breaker = CircuitBreaker(
        Metered(chosen.llm), failures=settings.breaker_failures, seconds=settings.breaker_seconds
    )
    llm = SecondTry(Limited(CachedAnswers(breaker, store, spending), settings.llm_concurrency))
    fail = settings.on_llm_failure == "dead-letter"
    gaps = rules if recorded else ModelGaps(llm, chosen.gap_model, None if fail else rules)
    return gaps, ModelWriting(
        llm,
        chosen.summary_model,
        extractive,
        max_tokens=settings.summary_tokens,
        temperature=settings.summary_temperature,
        fail=fail,
        replace_unsupported=settings.on_unsupported == "replace",
    )


def open_llm(
    settings: Settings, source: str, *, flags: str, meanwhile: str | None = None
) -> tuple[LLM, list[str]]:
    """The model or server that a source names, and the models it offers, if it lists them.

    Args:
        settings: how to call servers.
        source: URL of a server, vllm:MODEL or cassette:FILE.
        flags: the command-line options that name models, for the error if the server does not answer.
        meanwhile: the consequence while the server does not answer, for a warning. None if the server
            must answer now.

    Raises:
        FormatError: a cassette cannot be read.
        LLMSetupError: the source cannot be used, or a server that must answer does not.
    """
    if source.startswith("cassette:"):
        cassette = Cassette(Path(source.removeprefix("cassette:")))
        return cassette, cassette.models
    if source.startswith("vllm:"):
        from backscroll.connectors.llm.vllm import VLLMInProcess

        engine = VLLMInProcess(source.removeprefix("vllm:"))
        return engine, engine.models
    if not source.startswith(("http://", "https://")):
        raise LLMSetupError(f"llm {source!r}: use the URL of a server, vllm:MODEL or cassette:FILE")
    from backscroll.connectors.llm.openai import OpenAIChat

    server = OpenAIChat(
        source,
        api_key=_api_key(settings, source),
        timeout=settings.llm_timeout,
        deadline=settings.llm_deadline,
        max_retries=settings.llm_retries,
        extra_body=settings.llm_extra_body,
    )
    try:
        return server, server.models()
    except LLMUnavailable as err:
        if meanwhile is None:
            raise LLMSetupError(f"{err}: start the server, or set {flags}") from err
        _LOG.warning("%s: %s until it answers", err, meanwhile)
        return server, []


def model_name(source: str, offered: Sequence[str], asked: str | None, *, flag: str) -> str:
    """The requested model, checked against those offered; by default the only one offered.

    Raises:
        LLMSetupError: it is not offered, or none was requested and there is not exactly one.
    """
    if asked is not None and offered and asked not in offered:
        raise LLMSetupError(f"{source} has no model {asked!r}: it offers {', '.join(sorted(offered))}")
    if asked is None and len(offered) != 1:
        known = ", ".join(sorted(offered)) or "no list of models"
        raise LLMSetupError(f"{source}: set {flag}: the server offers {known}")
    return asked or offered[0]


def _choose(settings: Settings, flags: Sequence[str] = _FLAGS, *, measuring: bool = False) -> Chosen:
    source = settings.llm or ""
    named = settings.gap_model and settings.summary_model
    llm, offered = open_llm(
        settings,
        source,
        flags=" and ".join(dict.fromkeys(flags)),
        meanwhile="summaries are degraded" if named and not measuring else None,
    )
    close = getattr(llm, "aclose", None)
    if settings.llm_record is not None and not isinstance(llm, Cassette):
        llm = Recorder(llm, settings.llm_record, resume=measuring)
    return Chosen(
        llm,
        model_name(source, offered, settings.gap_model, flag=flags[0]),
        model_name(source, offered, settings.summary_model, flag=flags[1]),
        close,
    )


def _api_key(settings: Settings, source: str) -> str | None:
    """The key for a server. If `llm_api_keys` is set, servers that it does not list get none."""
    key = settings.llm_api_keys.get(source) if settings.llm_api_keys else settings.llm_api_key
    return key.get_secret_value() if key else None
