"""The public names of `import guided`, and the cost of the import."""

from __future__ import annotations

import subprocess
import sys

import guided


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("torch", "transformers", "grpc", "numba", "numpy", "pydantic", "zmq")
    code = f"import sys, guided; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_and_the_list_is_sorted() -> None:
    assert guided.__all__ == sorted(guided.__all__)
    for name in guided.__all__:
        assert getattr(guided, name).__module__.startswith("guided")
    assert dir(guided) == guided.__all__


def test_the_public_names_are_these() -> None:
    """Adding or removing a name is a change that users see: it needs a line in the changelog."""
    errors = {name for name in guided.__all__ if name.endswith("Error")}
    assert set(guided.__all__) - errors == {
        "Alternative",
        "Answer",
        "AnswerEnded",
        "AnyOf",
        "ArgumentsGrown",
        "AsyncClient",
        "AsyncStream",
        "Beams",
        "CallBegun",
        "CallEnded",
        "Calls",
        "Candidate",
        "CandidateResult",
        "Choice",
        "Client",
        "CompileCost",
        "Completed",
        "DrafterUsage",
        "Ebnf",
        "Enforcement",
        "EngineStats",
        "FinishReason",
        "Forcing",
        "FormatMode",
        "FreeText",
        "GenerationRequest",
        "GenerationResult",
        "GrammarInfo",
        "JsonObject",
        "JsonOptions",
        "JsonSchema",
        "KeyOrder",
        "Lark",
        "LikelyLimit",
        "Message",
        "ModelInfo",
        "OnIncomplete",
        "PromptTokens",
        "Rank",
        "RawPrompt",
        "TokenPrompt",
        "Reasoning",
        "Regex",
        "RegexDialect",
        "Repeat",
        "Request",
        "Sampling",
        "SchemaReport",
        "Score",
        "Sequence",
        "SpecialToken",
        "Spelling",
        "Stored",
        "Timing",
        "Stream",
        "Tag",
        "Tagged",
        "Template",
        "Text",
        "TextFit",
        "TextGrown",
        "TextReport",
        "ThoughtsGrown",
        "Tls",
        "TokenLogprobs",
        "Tool",
        "ToolCall",
        "UnenforcedValidator",
        "UnknownKeywords",
        "Until",
        "Usage",
        "ValueEvent",
        "Verdict",
        "Verification",
        "check",
        "grammar_names",
        "wait_until_serving",
    }
    assert len(errors) == 21


def test_a_server_loads_neither_the_client_nor_what_its_settings_leave_out() -> None:
    """Each of them would make every start slower."""
    others = {"guided.client", "opentelemetry", "prometheus_client", "starlette", "torch"}
    code = f"import sys, guided_service.server; print([m for m in {others} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
