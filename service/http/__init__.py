"""OpenAI's API over HTTP, on the engine, tokens, quotas and limits of the gRPC services.

::

    bytes ──▶ connection: bounds of time and size      (connection, web_server)
          ──▶ call: token, body, record, its end       (call, body, errors)
          ──▶ request models: fields that are honoured (fields, chat_request, completion_request)
          ──▶ GenerationRequest, and how its answer is shown
          ──▶ door and engine, as every request
          ──▶ JSON or server-sent events               (chat_answer, completion_answer, events)

docs/openai.md says which fields are honoured, and what differs.
"""
