// The calls of the page, all to the server that sent it.

/** An error that the server reports, with the field it concerns. */
export class Refusal extends Error {
  constructor(status, told) {
    super(told?.message ?? `the server answered with status ${status}`);
    this.status = status;
    this.field = told?.param ?? null;
  }
}

let token = "";

/** Set the token that calls show from now on; empty for none. @param {string} given */
export function useToken(given) {
  token = given.trim();
}

/** Return the model of the server. @returns {Promise<{id: string, max_model_len: number}>} */
export async function model() {
  const listed = await (await called("../v1/models")).json();
  return listed.data[0];
}

/** Return the mask after some tokens. @param {object} constraint @param {number[]} tokens @param {AbortSignal} signal */
export async function mask(constraint, tokens, signal) {
  return (await called("mask", { ...constraint, tokens }, signal)).json();
}

/** Return the automaton of a constraint. @param {object} constraint @param {AbortSignal} signal */
export async function automaton(constraint, signal) {
  return (await called("automaton", constraint, signal)).json();
}

/** Yield how an answer comes about: an event for each step, then its end. @returns {AsyncGenerator<any>} */
export async function* answer(body, signal) {
  const response = await called("answer", body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  while (true) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (waiting + value).split("\n\n");
    waiting = events.pop();
    for (const event of events) {
      const told = JSON.parse(event.slice("data: ".length));
      if (told.error) throw new Refusal(200, told.error);
      yield told;
    }
  }
}

async function called(path, body, signal) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const options = body
    ? { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body), signal }
    : { headers, signal };
  const response = await fetch(path, options);
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  throw new Refusal(response.status, told?.error);
}
