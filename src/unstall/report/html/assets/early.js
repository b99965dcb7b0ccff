(() => {
  const root = document.documentElement;
  let theme = null;
  try { theme = localStorage.getItem("unstall-theme"); } catch (error) { /* a page from disk may have no storage */ }
  if (theme !== "light" && theme !== "dark") theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = theme;
  root.classList.add("js");
})();
