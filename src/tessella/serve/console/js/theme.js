// Theme: applies the chosen theme before the first paint; without a choice, the system's. A classic script, so that it runs at once.
(() => {
  const root = document.documentElement;
  const read = () => { try { return localStorage.getItem("tessella-theme"); } catch { return null; } };
  const chosen = read();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
})();
