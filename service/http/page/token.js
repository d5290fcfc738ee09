// Shows one token: its origin, the tokens that the model found likely there, and the mask there.

import { count, element, percent } from "./dom.js";

/** Show what the answer's own events say. */
export function tokenView(token, index) {
  const facts = [
    `token ${token.id}`,
    `place ${index + 1}`,
    token.step ? `model call ${token.step}` : "before the first model call",
    token.kind,
  ];
  const view = element("div", {},
    element("h3", {}, element("code", { class: "named" }, token.shown || "(no text)"), ` ${token.source}`),
    element("p", { class: "quiet" }, facts.filter(Boolean).join(" · ")),
    element("div", { class: "mask", "aria-live": "polite" }, element("p", { class: "quiet" }, "reading the mask…")),
  );
  if (token.likeliest.length) view.append(...likeliest(token));
  else view.append(element("p", {}, "The model was not asked here: this token was certain."));
  return view;
}

/** Show the mask, once the server has sent it. */
export function maskView(told) {
  const total = told.allowed + told.forbidden;
  const view = [
    element("p", { class: "counts" },
      element("b", { id: "allowed" }, count(told.allowed)), " allowed ",
      element("b", { id: "forbidden" }, count(told.forbidden)), " forbidden"),
    element("meter", { min: 0, max: total, value: told.allowed, "aria-label": "allowed tokens among all" }),
  ];
  const remarks = [];
  if (told.may_end) remarks.push("The answer may end here.");
  if (told.forced) remarks.push("What follows is certain: ");
  if (remarks.length) view.push(element("p", {}, remarks.join(" "), ...(told.forced ? [element("code", {}, visible(told.forced))] : [])));
  const more = told.allowed - told.first.length;
  view.push(element("details", { open: told.allowed <= 40 },
    element("summary", {}, more ? `The first ${count(told.first.length)} allowed tokens` : "The allowed tokens"),
    element("p", { class: "chips" }, ...told.first.map((each) =>
      element("code", { title: `token ${each.id}` }, visible(each.shown) || "(end)"))),
    ...(more ? [element("p", { class: "quiet" }, `and ${count(more)} more`)] : []),
  ));
  return view;
}

/** Show the mask of an answer without a constraint. */
export function freeView() {
  return [element("p", {}, "There is no constraint: every token is allowed.")];
}

function likeliest(token) {
  const rows = token.likeliest.map((each) => {
    const chosen = each.id === token.id;
    return element("tr", { class: chosen ? "chosen" : null },
      element("td", {}, element("code", { title: `token ${each.id}` }, each.shown || "(end)"), chosen ? " ◂" : ""),
      element("td", {}, element("meter", { min: 0, max: 1, value: each.probability, "aria-hidden": "true" })),
      element("td", { class: "number" }, percent(each.probability)),
      element("td", { class: "number quiet" }, percent(each.unmasked)));
  });
  const share = token.allowed_share;
  return [
    element("table", {},
      element("caption", {}, "The likeliest allowed tokens"),
      element("thead", {}, element("tr", {},
        element("th", { scope: "col" }, "token"), element("th", {}),
        element("th", { scope: "col" }, "with the mask"), element("th", { scope: "col" }, "without"))),
      element("tbody", {}, ...rows)),
    ...(share === null ? [] : [element("p", { class: "quiet" },
      `By itself the model gives the allowed tokens ${percent(Math.min(1, share))} together.`)]),
  ];
}

function visible(text) {
  return text.replaceAll(" ", "␣").replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}
