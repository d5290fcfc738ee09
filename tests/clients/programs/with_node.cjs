// openai for Node: a value by a schema, a call of a function, streams of both faces.
const OpenAI = require("openai").default;
const { zodFunction, zodResponseFormat, zodTextFormat } = require("openai/helpers/zod");
const { z } = require("zod");

const Person = z.object({
  name: z.string().max(12),
  age: z.number().int().min(0).max(150),
  kind: z.enum(["friend", "stranger"]),
});
const Stop = z.object({ why: z.enum(["late", "bored"]) });

async function main(baseURL, model) {
  const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
  const messages = [{ role: "user", content: "Who is it?" }];
  const asked = { model, messages, seed: 1 };

  const format = zodResponseFormat(Person, "person");
  const parsed = await client.chat.completions.parse({ ...asked, response_format: format });
  console.log("schema", JSON.stringify(Person.parse(parsed.choices[0].message.parsed)));

  const stream = client.chat.completions.stream({ ...asked, response_format: format });
  const final = await stream.finalChatCompletion();
  const isSame = final.choices[0].message.content === parsed.choices[0].message.content;
  console.log("stream", isSame ? "True" : "False");

  const tools = [zodFunction({ name: "stop", parameters: Stop })];
  const called = await client.chat.completions.parse({
    ...asked,
    tools,
    tool_choice: "required",
    parallel_tool_calls: false,
  });
  const [call] = called.choices[0].message.tool_calls;
  console.log("tool", call.function.name, Stop.parse(call.function.parsed_arguments).why);

  const text = { format: zodTextFormat(Person, "person") };
  const response = await client.responses.parse({ model, input: "Who is it?", text });
  console.log("response", JSON.stringify(Person.parse(response.output_parsed)));

  const events = client.responses.stream({ model, input: "Who is it?", text });
  console.log("events", Person.parse((await events.finalResponse()).output_parsed).kind);
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
