// Draws the automaton of a constraint: states in columns by their distance from the start.

import { drawn, element } from "./dom.js";

const ROW = 70;
const RADIUS = 13;
const LETTER = 7.3;
const MOST_LETTERS = 26;
const MOST_LABELS = 3;
const MOST_DRAWN = 90;
const SMALLEST = 0.6; // of its size, so that it can still be read; what does not fit then scrolls

/** @param {{states: number, accepting: number[], open: number[], arrows: any[]}} told */
export function automatonView(told) {
  const shown = told.states > MOST_DRAWN ? first(told, MOST_DRAWN) : told;
  const arrows = joined(shown.arrows);
  const places = layout(shown.states, arrows);
  const width = Math.max(...places.map((place) => place.x)) + 70;
  const height = Math.max(...places.map((place) => place.y)) + 62;
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-labelledby": "automaton-told" },
    drawn("defs", {}, drawn("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      drawn("path", { d: "M0 0 L8 4 L0 8 z" }))),
    ...arrows.map((arrow) => line(arrow, places)),
    ...places.map((place, state) => node(state, place, shown)),
    ...arrows.map((arrow) => label(arrow, places)));
  picture.style.minWidth = `${SMALLEST * width}px`;
  const more = told.states - shown.states;
  const sentences = [
    `${told.states} states, ${told.arrows.length} arrows.`,
    more || told.open.length ? "Only the first are drawn; dashed ones go on." : "",
    "A text is a way from the arrow on the left to a double ring. How long strings may be is left out.",
  ];
  return [
    element("p", { id: "automaton-told", class: "quiet" }, sentences.filter(Boolean).join(" ")),
    element("div", { class: "drawing", tabindex: 0, role: "group", "aria-label": "Drawing of the automaton, which scrolls" }, picture),
  ];
}

/** Only the first states; those with arrows to others are open. */
function first(told, most) {
  const [kept, cut] = [[], new Set(told.open)];
  for (const arrow of told.arrows) {
    if (arrow.source < most && arrow.target < most) kept.push(arrow);
    else cut.add(arrow.source);
  }
  return { states: most, accepting: told.accepting, open: [...cut], arrows: kept };
}

/** Join all arrows from one state to another into one, with all their labels. */
function joined(arrows) {
  const found = new Map();
  for (const { source, target, label: text, is_text: isText } of arrows) {
    const key = `${source} ${target}`;
    const arrow = found.get(key) ?? { source, target, labels: [] };
    arrow.labels.push(isText ? visible(text) : text);
    found.set(key, arrow);
  }
  for (const arrow of found.values()) {
    const some = arrow.labels.slice(0, MOST_LABELS).map(short);
    const more = arrow.labels.length - some.length;
    arrow.whole = arrow.labels.join("   ");
    arrow.lines = more ? [...some, `and ${more} more`] : some;
    arrow.letters = Math.max(...arrow.lines.map((each) => [...each].length));
  }
  return [...found.values()];
}

/** The place of each state: columns breadth first, rows by the mean of its predecessors' rows. */
function layout(count, arrows) {
  const column = Array(count).fill(-1);
  column[0] = 0;
  const order = [0];
  for (const state of order) {
    for (const { source, target } of arrows) {
      if (source === state && column[target] < 0) {
        column[target] = column[state] + 1;
        order.push(target);
      }
    }
  }
  const last = Math.max(...column);
  for (const state of column.keys()) if (column[state] < 0) column[state] = last + 1;
  const columns = Array.from({ length: Math.max(...column) + 1 }, () => []);
  for (const state of order) columns[column[state]].push(state);
  for (const state of column.keys()) if (!order.includes(state)) columns[column[state]].push(state);
  const gaps = columns.map((_, at) => Math.max(5, ...arrows
    .filter(({ source, target }) => column[source] === at && column[target] > at)
    .map((arrow) => arrow.letters)) * LETTER + 4 * RADIUS);
  const rows = Math.max(...columns.map((states) => states.length));
  const places = Array(count);
  let x = 60;
  for (const [at, states] of columns.entries()) {
    const mean = (state) => {
      const from = arrows.filter((arrow) => arrow.target === state && places[arrow.source]).map((arrow) => places[arrow.source].y);
      return from.length ? from.reduce((sum, y) => sum + y, 0) / from.length : 0;
    };
    const sorted = states.map((state) => [mean(state), state]).sort(([one], [other]) => one - other);
    const top = 56 + ((rows - states.length) * ROW) / 2;
    for (const [row, [, state]] of sorted.entries()) places[state] = { x, y: top + row * ROW, column: at };
    x += gaps[at];
  }
  return places;
}

function line({ source, target }, places) {
  return drawn("path", { class: "arrow", d: way(places[source], places[target]).path, "marker-end": "url(#tip)" });
}

function label(arrow, places) {
  const { x, y } = way(places[arrow.source], places[arrow.target]);
  const top = y - 6 - (arrow.lines.length - 1) * 14;
  return drawn("text", { class: "label", "text-anchor": "middle" }, drawn("title", {}, arrow.whole),
    ...arrow.lines.map((each, row) => drawn("tspan", { x, y: top + row * 14 }, each)));
}

/** The path of an arrow, and the place of its label. */
function way(from, to) {
  if (from === to) {
    const { x, y } = from;
    return { path: `M${x - 7} ${y - RADIUS + 1} C${x - 26} ${y - 46} ${x + 26} ${y - 46} ${x + 8} ${y - RADIUS - 1}`, x, y: y - 34 };
  }
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy);
  // A straight line joins neighbours; others get a curve around what is between them.
  const bow = to.column === from.column + 1 ? 0 : to.column > from.column ? -ROW * 0.42 : ROW * 0.5;
  const middle = { x: from.x + dx / 2 - (dy / length) * bow, y: from.y + dy / 2 + (Math.abs(dx) / length) * bow };
  const [begin, end] = [towards(from, middle, RADIUS), towards(to, middle, RADIUS + 4)];
  return {
    path: `M${begin.x} ${begin.y} Q${middle.x} ${middle.y} ${end.x} ${end.y}`,
    x: (from.x + to.x) / 4 + middle.x / 2,
    y: (from.y + to.y) / 4 + middle.y / 2,
  };
}

function towards(from, to, distance) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  return { x: from.x + ((to.x - from.x) * distance) / length, y: from.y + ((to.y - from.y) * distance) / length };
}

function node(state, { x, y }, told) {
  const accepts = told.accepting.includes(state);
  return drawn("g", { class: told.open.includes(state) ? "state open" : "state" },
    ...(state === 0 ? [drawn("path", { class: "arrow", d: `M${x - 48} ${y} L${x - RADIUS - 4} ${y}`, "marker-end": "url(#tip)" })] : []),
    drawn("circle", { cx: x, cy: y, r: RADIUS }),
    ...(accepts ? [drawn("circle", { cx: x, cy: y, r: RADIUS - 3.5 })] : []),
    drawn("text", { x, y: y + 4, "text-anchor": "middle" }, String(state)));
}

function visible(text) {
  return text.replaceAll(" ", "␣");
}

function short(text) {
  const letters = [...text];
  return letters.length > MOST_LETTERS ? `${letters.slice(0, MOST_LETTERS - 1).join("")}…` : text;
}
