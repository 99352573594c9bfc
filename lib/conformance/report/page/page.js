"use strict";
(() => {
  const input = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const choice = [...document.querySelectorAll("input[name=verdict]")];
  const claims = [...document.querySelectorAll("details.claim")];
  const groups = [...document.querySelectorAll("details.group")];
  const areas = new Set(claims.map((claim) => claim.dataset.area.toLowerCase()));
  let texts;
  const apply = () => {
    const asked = input.value.trim().toLowerCase();
    const verdict = choice.find((one) => one.checked).value;
    const words = asked.split(/\s+/);
    const filtered = Boolean(asked || verdict);
    texts ??= claims.map((claim) => `${claim.dataset.area} ${claim.textContent}`.toLowerCase());
    let count = 0;
    claims.forEach((claim, index) => {
      const fits = (!verdict || claim.dataset.word === verdict) && words.every((word) => texts[index].includes(word))
        && (!areas.has(asked) || claim.dataset.area.toLowerCase() === asked);
      claim.hidden = !fits;
      count += fits ? 1 : 0;
    });
    groups.forEach((group) => {
      group.hidden = !group.querySelector("details.claim:not([hidden])");
      group.open = filtered;
    });
    document.body.classList.toggle("filtered", filtered);
    shown.textContent = filtered ? `${count} of ${claims.length} claims` : "";
  };
  const all = () => { input.value = ""; choice[0].checked = true; apply(); };
  document.querySelector("form.choose").addEventListener("submit", (event) => event.preventDefault());
  input.addEventListener("input", apply);
  choice.forEach((one) => one.addEventListener("change", apply));
  document.querySelectorAll("[data-filter]").forEach((button) => button.addEventListener("click", () => {
    choice[0].checked = true;
    input.value = button.dataset.filter;
    apply();
    input.focus();
  }));
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  }));
  const follow = () => {
    const place = document.getElementById(location.hash.slice(1));
    if (!place) return;
    if (document.body.classList.contains("filtered") && place.id !== "claims") all();
    for (let one = place; one; one = one.parentElement) {
      if (one.tagName === "DETAILS") one.open = true;
    }
    place.scrollIntoView();
  };
  window.addEventListener("hashchange", follow);
  window.addEventListener("beforeprint", () => {
    groups.forEach((group) => { group.open = true; });
    document.querySelectorAll("#notes details, #difference details, #builds details, #gates details").forEach((several) => { several.open = true; });
  });
  choice[0].checked = true;
  follow();
})();
