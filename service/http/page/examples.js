// The examples to begin with.

const json = (value) => JSON.stringify(value, null, 2);

export const EXAMPLES = {
  "a support ticket": {
    kind: "schema",
    prompt: "Customer: card payments fail since this morning, and the shop in Lyon is closed because of it.",
    constraint: json({
      type: "object",
      properties: {
        title: { type: "string", minLength: 5, maxLength: 60 },
        urgency: { enum: ["low", "normal", "high"] },
        teams: { type: "array", items: { enum: ["payments", "network", "shops"] }, minItems: 1, maxItems: 2 },
        closed_shops: { type: "integer", minimum: 0, maximum: 99 },
      },
      required: ["title", "urgency", "teams", "closed_shops"],
      additionalProperties: false,
    }),
  },
  "one of few colours": {
    kind: "schema",
    prompt: "Which colour has the sky on a clear day?",
    constraint: json({
      type: "object",
      properties: { colour: { enum: ["red", "green", "blue"] }, dark: { type: "boolean" } },
      required: ["colour", "dark"],
      additionalProperties: false,
    }),
  },
  "a date": {
    kind: "regex",
    prompt: "On which day did people first walk on the moon? Write year, month and day.",
    constraint: "(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
  },
  "a shopping list": {
    kind: "lark",
    prompt: "Write a short shopping list for a lentil soup.",
    constraint: [
      'start: item (", " item)~1..4 "."',
      'item: NUMBER " " (VEGETABLE | "cups of " DRY)',
      "NUMBER: /[1-9]/",
      'VEGETABLE: "onions" | "carrots" | "tomatoes"',
      'DRY: "lentils" | "rice" | "stock"',
    ].join("\n"),
  },
  "free text": { kind: "none", prompt: "Tell a story of a lighthouse in three sentences.", constraint: "" },
};
