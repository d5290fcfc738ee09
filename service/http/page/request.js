// From the form to the body of a call, as OpenAI's chat completions have it.

import { byId } from "./dom.js";

const HINTS = {
  schema: "A JSON Schema, such as Model.model_json_schema() gives of a Pydantic model.",
  regex: "A regular expression in Python's syntax; all of the answer has to match.",
  lark: "A grammar in Lark's syntax, with a rule named start.",
  none: "Any text.",
};

/** Which kind of constraint is asked for. @returns {keyof HINTS} */
export function kind() {
  return document.querySelector("input[name=kind]:checked").value;
}

/** Show what belongs to a kind. */
export function showKind() {
  const now = kind();
  byId("hint").textContent = HINTS[now];
  byId("constraint").disabled = now === "none";
  byId("show-schema").disabled = now !== "schema";
}

/** The fields that say what the answer is; raises SyntaxError for a schema that is no JSON. */
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

/** All that a call for an answer says. */
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
