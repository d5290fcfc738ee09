// Shows the draft tree of a model call.

import { element } from "./dom.js";

const MARKS = { certain: "=", taken: "✓", wrong: "✗", untried: "·", refused: "⊘", chosen: "»" };
const MEANINGS = {
  certain: "the trunk: what was certain before the call",
  taken: "drafted, and the model chose it",
  wrong: "drafted, and the model chose something else",
  untried: "drafted, and the model's choices led elsewhere",
  chosen: "chosen by the model after the last token taken",
  refused: "proposed, and not allowed by the grammar",
};

/**
 * Show a step, with buttons for the others.
 * @param {{number: number, about: string, tree: any}[]} steps
 * @param {number} number From 1.
 * @param {(number: number) => void} go
 */
export function treeView(steps, number, go) {
  if (!steps.length) return [element("p", { class: "quiet" }, "No model call has been made.")];
  const step = steps[Math.min(Math.max(number, 1), steps.length) - 1];
  const turn = (to, label, sign) =>
    element("button", { type: "button", click: () => go(to), disabled: to < 1 || to > steps.length, "aria-label": label }, sign);
  return [
    element("p", { class: "steps" },
      turn(step.number - 1, "the call before", "‹"),
      element("b", {}, `model call ${step.number} of ${steps.length}`),
      turn(step.number + 1, "the next call", "›")),
    element("p", { class: "quiet" }, step.about),
    element("ul", { class: "tree" }, item(step.tree)),
    element("details", {}, element("summary", {}, "What the marks mean"),
      element("ul", { class: "marks" }, ...Object.entries(MEANINGS).map(([fate, meaning]) =>
        element("li", { class: fate }, element("code", {}, MARKS[fate]), ` ${meaning}`)))),
  ];
}

function item(branch) {
  const note = [branch.fate, branch.note].filter(Boolean).join("; ");
  return element("li", { class: branch.fate },
    element("code", {}, `${MARKS[branch.fate]} ${branch.text}`),
    ...(branch.run ? [" ", element("code", { class: "run" }, `→ ${branch.run}`)] : []),
    " ", element("small", {}, note),
    ...(branch.branches.length ? [element("ul", {}, ...branch.branches.map(item))] : []));
}
