// Turns the form into the body of a call, as for OpenAI's chat completions.

import { byId } from "./dom.js";

const HINTS = {
  schema: "A JSON Schema, such as Model.model_json_schema() gives of a Pydantic model.",
  regex: "A regular expression in Python's syntax; all of the answer has to match.",
  lark: "A grammar in Lark's syntax, with a rule named start.",
  none: "Any text.",
};

/** Return the chosen kind of constraint. @returns {keyof HINTS} */
export function kind() {
  return document.querySelector("input[name=kind]:checked").value;
}

/** Show the fields of the chosen kind. */
export function showKind() {
  const now = kind();
  byId("hint").textContent = HINTS[now];
  byId("constraint").disabled = now === "none";
  byId("show-schema").disabled = now !== "schema";
}

/** Return the fields of the constraint; throws SyntaxError for a schema that is not JSON. */
export function constraintFields() {
  const text = byId("constraint").value;
  switch (kind()) {
    case "schema": {
      const schema = JSON.parse(text);
      return { response_format: { type: "json_schema", json_schema: { name: "answer", schema } } };
    }
    case "regex":
      return { structured_outputs: { regex: text } };
    case "lark":
      return { structured_outputs: { grammar: text } };
    default:
      return {};
  }
}

/** Return all fields of a call for an answer. */
export function answerFields(constraint) {
  const system = byId("system").value.trim();
  const seed = byId("seed").value;
  return {
    ...constraint,
    messages: [...(system ? [{ role: "system", content: system }] : []), { role: "user", content: byId("prompt").value }],
    temperature: Number(byId("temperature").value),
    max_tokens: Number(byId("max-tokens").value),
    ...(seed === "" ? {} : { seed: Number(seed) }),
    ...(kind() === "schema" && byId("show-schema").checked ? { show_schema: true } : {}),
  };
}
