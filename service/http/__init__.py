"""OpenAI's and Anthropic's APIs over HTTP, on what serves gRPC: engine, tokens, quotas, limits.

::

    bytes ──▶ connection: bounds of time and size      (connection, web_server)
          ──▶ call: token, body, record, its end       (call, body, errors)
          ──▶ request models: fields that are honoured (fields, chat_request, anthropic_request, …)
          ──▶ GenerationRequest, and how its answer is shown
          ──▶ door and engine, as every request
          ──▶ JSON or server-sent events               (chat_answer, anthropic_answer, events, …)

docs/openai.md and docs/anthropic.md say which fields are honoured, and what differs.
"""
