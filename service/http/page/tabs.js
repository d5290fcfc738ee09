// Tabs, of which one shows its panel; arrow keys move between them.

/** @param {HTMLElement} list @param {(id: string) => void} opened Called with the id of a panel. */
export function makeTabs(list, opened) {
  const tabs = [...list.querySelectorAll("[role=tab]")];
  const open = (tab) => {
    for (const each of tabs) {
      const isOpen = each === tab;
      each.setAttribute("aria-selected", String(isOpen));
      each.tabIndex = isOpen ? 0 : -1;
      document.getElementById(each.getAttribute("aria-controls")).hidden = !isOpen;
    }
    opened(tab.getAttribute("aria-controls"));
  };
  for (const [at, tab] of tabs.entries()) {
    tab.addEventListener("click", () => open(tab));
    tab.addEventListener("keydown", ({ key }) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
      if (!step) return;
      const next = tabs[(at + step + tabs.length) % tabs.length];
      next.focus();
      open(next);
    });
  }
}
