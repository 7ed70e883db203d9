"use strict";
(() => {
  const all = document.getElementById("all");
  const show = () => document.body.classList.toggle("short", !all.checked);
  all.addEventListener("change", show);
  show();
})();
