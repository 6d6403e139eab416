// Before the first paint: the theme that this browser chose earlier. Not a module, so that nothing flashes.
(() => {
  try {
    const chosen = localStorage.getItem("strandline-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Storage may be switched off; the system's theme then holds.
  }
})();
