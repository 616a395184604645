"use strict";
(function () {
  const criteria = Array.from(document.querySelectorAll("details.criterion"));
  const groups = Array.from(document.querySelectorAll("section.group"));
  const buttons = Array.from(document.querySelectorAll("button[data-verdict]"));
  const toolbar = document.getElementById("toolbar");
  const box = document.getElementById("text");
  const status = document.getElementById("shown");
  const nothing = document.getElementById("nothing");
  let verdict = "";

  function apply() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const item of criteria) {
      const fits = !verdict || item.dataset.verdicts.split(" ").includes(verdict);
      const text = item.textContent.toLowerCase();
      item.hidden = !(fits && words.every((word) => text.includes(word)));
      shown += item.hidden ? 0 : 1;
    }
    for (const group of groups) {
      group.hidden = !group.querySelector("details.criterion:not([hidden])");
    }
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(button.dataset.verdict === verdict));
    }
    status.textContent = shown + " of " + criteria.length + " criteria shown";
    nothing.hidden = shown > 0;
  }

  function remember() {
    const parts = new URLSearchParams();
    if (verdict) parts.set("filter", verdict);
    if (box.value) parts.set("text", box.value);
    const hash = parts.toString();
    try {
      history.replaceState(null, "", hash ? "#" + hash : "#criteria");
    } catch (refused) {
      return;
    }
  }

  function follow() {
    const hash = decodeURIComponent(location.hash.slice(1));
    if (hash.includes("=")) {
      const asked = new URLSearchParams(location.hash.slice(1));
      const known = buttons.map((button) => button.dataset.verdict);
      verdict = known.includes(asked.get("filter")) ? asked.get("filter") : "";
      box.value = asked.get("text") || "";
      apply();
      return;
    }
    const target = hash && document.getElementById(hash);
    if (!target) return;
    if (target.hidden) {
      verdict = "";
      box.value = "";
      apply();
    }
    if (target.matches("details")) {
      target.open = true;
      target.querySelector("summary").focus({ preventScroll: true });
    }
    target.scrollIntoView();
  }

  for (const button of buttons) {
    button.addEventListener("click", function () {
      verdict = button.dataset.verdict;
      apply();
      remember();
    });
  }
  box.addEventListener("input", function () {
    apply();
    remember();
  });
  document.getElementById("open").addEventListener("click", function () {
    const shown = criteria.filter((item) => !item.hidden);
    const open = shown.some((item) => !item.open);
    for (const item of shown) item.open = open;
  });
  window.addEventListener("hashchange", follow);
  toolbar.hidden = false;
  apply();
  follow();
  window.addEventListener("load", follow); // the browser's own jump to the hash takes the focus away
})();
