"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null; // what the reader chose; null: what the system says

  function setTheme() {
    const dark = chosen === null ? system.matches : chosen === "dark";
    root.dataset.theme = dark ? "dark" : "light";
    button.setAttribute("aria-pressed", String(dark));
  }

  button.addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    setTheme();
  });
  system.addEventListener("change", setTheme);
  // On paper there is nothing to open, and it is white.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((each) => (each.open = true));
    root.dataset.theme = "light";
  });
  addEventListener("afterprint", () => {
    closed.forEach((each) => (each.open = false));
    setTheme();
  });
  setTheme();
})();
