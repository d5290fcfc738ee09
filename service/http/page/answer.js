// The answer, token by token, each in the colour of where it came from.

import { byId, count, element } from "./dom.js";

const DRAFTER_COLORS = 5;

/** Shows the tokens that have come, and reports which one is chosen. */
export class AnswerView {
  /** @param {(index: number) => void} choose Called with the index of a token. */
  constructor(choose) {
    this.tokens = [];
    this.chosen = -1;
    this._choose = choose;
    this._place = byId("answer");
    this._legend = byId("legend");
    this._drafters = [];
    this._waiting = [];
    this._place.addEventListener("click", (event) => this._pointed(event));
    this._place.addEventListener("keydown", (event) => this._typed(event));
  }

  /** Begin a new answer. */
  clear() {
    this.tokens = [];
    this.chosen = -1;
    this._drafters = [];
    this._waiting = [];
    this._place.replaceChildren();
    this._legend.replaceChildren();
  }

  /** Add the tokens of a step. */
  add(tokens) {
    for (const token of tokens) {
      this._waiting.push(this.tokens.push(token) - 1);
      // A character may take several tokens: it is shown in the colour of the first.
      if (token.text) this._show(token.text);
    }
    this._tell();
  }

  /** Mark a token as the chosen one. */
  choose(index) {
    const pieces = [...this._place.children];
    const piece = pieces.find((each) => index <= Number(each.dataset.last));
    if (!piece) return;
    for (const each of pieces) {
      each.setAttribute("aria-selected", String(each === piece));
      each.tabIndex = each === piece ? 0 : -1;
    }
    piece.focus({ preventScroll: false });
    this.chosen = index;
    this._choose(index);
  }

  _show(text) {
    const [first] = this._waiting;
    const last = this._waiting.at(-1);
    const token = this.tokens[first];
    const piece = element("span", {
      role: "option",
      class: this._color(token),
      "aria-selected": "false",
      "aria-label": `${token.shown}, ${token.source}`,
      title: `${token.shown}\n${token.source}${token.kind ? ` (${token.kind})` : ""}`,
      tabindex: this._place.children.length ? -1 : 0,
    }, text);
    piece.dataset.first = first;
    piece.dataset.last = last;
    this._place.append(piece);
    this._waiting = [];
  }

  _color(token) {
    if (token.origin !== "drafted") return token.origin;
    if (!this._drafters.includes(token.source)) this._drafters.push(token.source);
    return `drafted${this._drafters.indexOf(token.source) % DRAFTER_COLORS}`;
  }

  _tell() {
    const sources = new Map();
    for (const token of this.tokens) {
      const entry = sources.get(token.source) ?? { color: this._color(token), tokens: 0 };
      entry.tokens += 1;
      sources.set(token.source, entry);
    }
    const order = ["forced", "copied", "drafted", "corrected", "sampled"];
    const place = (source) => order.findIndex((origin) => source.startsWith(origin));
    const entries = [...sources].sort(([one], [other]) => place(one) - place(other));
    this._legend.replaceChildren(
      ...entries.map(([source, { color, tokens }]) =>
        element("li", {}, element("i", { class: color, "aria-hidden": "true" }), `${source} `, element("b", {}, count(tokens)))),
    );
  }

  _pointed(event) {
    const piece = event.target.closest("[role=option]");
    if (piece) this.choose(Number(piece.dataset.first));
  }

  _typed(event) {
    const piece = event.target.closest("[role=option]");
    if (!piece) return;
    const others = {
      ArrowRight: piece.nextElementSibling,
      ArrowLeft: piece.previousElementSibling,
      Home: this._place.firstElementChild,
      End: this._place.lastElementChild,
      Enter: piece,
      " ": piece,
    };
    const other = others[event.key];
    if (!(event.key in others) || event.ctrlKey) return;
    event.preventDefault();
    if (other) this.choose(Number(other.dataset.first));
  }
}
