// Makes elements with attributes and contents; text is always text, never markup.

/**
 * @param {string} name
 * @param {Record<string, unknown>} [attributes] Functions listen to the event of their name.
 * @param {...(Node | string)} contents
 * @returns {HTMLElement}
 */
export function element(name, attributes = {}, ...contents) {
  return filled(document.createElement(name), attributes, contents);
}

/** Make an element of SVG. @returns {SVGElement} */
export function drawn(name, attributes = {}, ...contents) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, contents);
}

/** @param {string} id @returns {any} */
export function byId(id) {
  return document.getElementById(id);
}

/** Format a number with the separators of the reader's language. */
export function count(number) {
  return number.toLocaleString();
}

/** Format a probability in percent, with more digits if it is small. */
export function percent(share) {
  if (share > 0 && share < 0.0001) return "< 0.01 %";
  return `${(100 * share).toFixed(share < 0.1 ? 2 : 1)} %`;
}

function filled(made, attributes, contents) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...contents);
  return made;
}
