// Runs before the first paint, so that a dark window does not begin light. The rest is lib/ui/theme.svelte.ts.
{
  const choice = localStorage.getItem("helix.theme");
  document.documentElement.dataset.theme = choice === "light" || choice === "dark" ? choice : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}
