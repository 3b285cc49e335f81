// Parts of a page that are asked for again and again.
"use strict";

// Text that somebody is selecting in a part, such as a version to copy, stays until the selection is gone.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { target, xhr } = event.detail;
  const selection = getSelection();
  const isSelecting = !selection.isCollapsed && target.contains(selection.anchorNode);
  if (isSelecting && xhr.status === 200) event.detail.shouldSwap = false;
});

// A part has no memory: what a person has unfolded in it stays so.
let unfolded = [];
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  unfolded = [...detail.target.querySelectorAll("details[open]")].map((one) => one.id);
});
document.addEventListener("htmx:afterSwap", ({ detail }) => {
  for (const one of detail.target.querySelectorAll("details")) one.open = unfolded.includes(one.id);
});
