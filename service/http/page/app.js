// The page: its requests, their answers, and what is shown of them.

import * as api from "./api.js";
import { AnswerView } from "./answer.js";
import { automatonView } from "./automaton.js";
import { costView, ending } from "./cost.js";
import { byId, element } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { answerFields, constraintFields, kind, showKind } from "./request.js";
import { makeTabs } from "./tabs.js";
import { freeView, maskView, tokenView } from "./token.js";
import { treeView } from "./tree.js";

let modelName = "";
let steps = [];
/** The fields of the constraint that the answer was held to. */
let held = {};
let running = null;
let looking = null;
let drawing = null;
const answer = new AnswerView(look);

async function connect() {
  try {
    const told = await api.model();
    modelName = told.id;
    byId("access").hidden = true;
    byId("model").textContent = `${told.id} · ${told.max_model_len.toLocaleString()} tokens`;
    fault(null);
  } catch (error) {
    byId("access").hidden = error.status !== 401;
    byId("model").textContent = error.status === 401 ? "asks for a token" : "not there";
    if (error.status !== 401) fault(error);
  }
}

async function run() {
  running?.abort();
  fault(null);
  let fields;
  try {
    fields = constraintFields();
  } catch (error) {
    return fault(new Error(`the schema is not JSON: ${error.message}`));
  }
  begin(fields);
  const mine = new AbortController();
  running = mine;
  try {
    const body = { model: modelName, ...answerFields(fields) };
    for await (const told of api.answer(body, mine.signal)) {
      if (told.end) end(told.end);
      else grow(told);
    }
  } catch (error) {
    if (error.name === "AbortError") byId("status").textContent = "stopped";
    else fault(error);
  } finally {
    if (running === mine) {
      running = null;
      byId("stop").disabled = true;
      byId("answer").removeAttribute("aria-busy");
    }
  }
}

function begin(fields) {
  answer.clear();
  steps = [];
  held = fields;
  byId("cost").replaceChildren();
  byId("panel-token").replaceChildren(element("p", { class: "quiet" }, "Choose a token of the answer."));
  byId("panel-tree").replaceChildren();
  byId("status").textContent = "the model reads the prompt…";
  byId("answer").setAttribute("aria-busy", "true");
  byId("stop").disabled = false;
  if (!byId("panel-automaton").hidden) drawAutomaton();
}

function grow(told) {
  answer.add(told.tokens);
  steps.push(...told.steps);
  byId("status").textContent = `${answer.tokens.length} tokens, ${steps.length} model calls…`;
}

function end(told) {
  byId("status").textContent = ending(told);
  byId("cost").replaceChildren(...costView(told));
  if (!byId("panel-tree").hidden) showStep(1);
}

function fault(error) {
  const place = byId("fault");
  place.hidden = error === null;
  place.textContent = error?.message ?? "";
  if (error !== null) byId("status").textContent = "";
}

async function look(index) {
  looking?.abort();
  looking = new AbortController();
  const token = answer.tokens[index];
  const view = tokenView(token, index);
  byId("panel-token").replaceChildren(view);
  if (!byId("panel-tree").hidden) showStep(token.step || 1);
  const place = view.querySelector(".mask");
  if (!Object.keys(held).length) return place.replaceChildren(...freeView());
  try {
    const before = answer.tokens.slice(0, index).map((each) => each.id);
    place.replaceChildren(...maskView(await api.mask({ model: modelName, ...held }, before, looking.signal)));
  } catch (error) {
    if (error.name !== "AbortError") place.replaceChildren(element("p", { class: "wrong" }, error.message));
  }
}

function showStep(number) {
  byId("panel-tree").replaceChildren(...treeView(steps, number, showStep));
}

async function drawAutomaton() {
  drawing?.abort();
  drawing = new AbortController();
  const place = byId("panel-automaton");
  if (kind() === "none") return place.replaceChildren(element("p", {}, "Free text has no automaton."));
  place.replaceChildren(element("p", { class: "quiet" }, "drawing…"));
  try {
    const asked = { model: modelName, ...constraintFields() };
    place.replaceChildren(...automatonView(await api.automaton(asked, drawing.signal)));
  } catch (error) {
    if (error.name !== "AbortError") place.replaceChildren(element("p", { class: "wrong" }, error.message));
  }
}

function take(name) {
  const example = EXAMPLES[name];
  byId("prompt").value = example.prompt;
  byId("constraint").value = example.constraint;
  document.querySelector(`input[name=kind][value=${example.kind}]`).checked = true;
  showKind();
}

byId("example").append(...Object.keys(EXAMPLES).map((name) => element("option", {}, name)));
byId("example").addEventListener("change", (event) => take(event.target.value));
for (const each of document.querySelectorAll("input[name=kind]")) each.addEventListener("change", showKind);
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
byId("ask").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("ask").requestSubmit();
});
byId("stop").addEventListener("click", () => running?.abort());
byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  api.useToken(byId("token").value);
  connect();
});
makeTabs(document.querySelector("[role=tablist]"), (panel) => {
  if (panel === "panel-automaton") drawAutomaton();
  if (panel === "panel-tree") showStep(answer.tokens[answer.chosen]?.step || 1);
});
take(Object.keys(EXAMPLES)[0]);
byId("panel-token").append(element("p", { class: "quiet" }, "Choose a token of an answer."));
connect();
