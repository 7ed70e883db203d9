"use strict";
// A field filters the sentences below it by what a reader types, in any letter case.
for (const field of document.querySelectorAll("input[type=search]")) {
  const whole = field.closest("details");
  const items = [...whole.querySelectorAll(".sentences > li")];
  const count = whole.querySelector("[role=status]");
  field.addEventListener("input", () => {
    const wanted = field.value.toLocaleLowerCase();
    for (const item of items) item.hidden = !item.textContent.toLocaleLowerCase().includes(wanted);
    const shown = items.filter((item) => !item.hidden).length;
    count.textContent = wanted ? `${shown} of ${items.length}` : "";
  });
}
