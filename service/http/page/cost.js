// The cost of an answer, compared with decoding without forced runs and drafts.

import { count, element } from "./dom.js";

const ENDINGS = {
  complete: "complete: nothing may follow",
  stop: "the model ended it",
  length_closed: "closed by the shortest way, as the budget of tokens ran out",
  length: "cut off, as the budget of tokens ran out",
};

/** @param {any} end The content of the last event. */
export function costView(end) {
  const { model_calls: calls, plain_model_calls: plain, output_tokens: tokens } = end;
  const most = Math.max(calls, plain, 1);
  const bar = (label, number) => element("tr", {},
    element("th", { scope: "row" }, label),
    element("td", {}, element("meter", { min: 0, max: most, value: number, "aria-hidden": "true" })),
    element("td", { class: "number" }, count(number)));
  return [
    element("table", {},
      element("caption", {}, "Model calls"),
      element("tbody", {}, bar("this answer", calls), bar("plain decoding", plain))),
    element("p", { class: "quiet" }, [
      calls ? `${(tokens / calls).toFixed(1)} tokens a call` : "no model call",
      `${count(end.accepted_tokens)} of ${count(end.drafted_tokens)} drafted tokens taken`,
      `prompt ${count(end.prompt_tokens)} tokens, ${count(end.reused_tokens)} from the cache`,
      `${end.seconds.toFixed(2)} s`,
    ].join(" · ")),
  ];
}

/** Why an answer ended, in words. */
export function ending(end) {
  return `${count(end.output_tokens)} tokens; ${ENDINGS[end.finish_reason] ?? end.finish_reason.replaceAll("_", " ")}`;
}
