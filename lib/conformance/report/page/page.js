"use strict";
(() => {
  const input = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const claims = [...document.querySelectorAll("details.claim")];
  const texts = claims.map((claim) => claim.textContent.toLowerCase());
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    claims.forEach((claim, index) => {
      const fits = words.every((word) => texts[index].includes(word));
      claim.hidden = !fits;
      count += fits ? 1 : 0;
    });
    shown.textContent = words.length ? `${count} of ${claims.length} claims` : "";
  };
  input.addEventListener("input", apply);
  document.querySelectorAll("[data-filter]").forEach((button) => button.addEventListener("click", () => {
    input.value = button.dataset.filter;
    apply();
    input.scrollIntoView();
  }));
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  }));
  const follow = () => {
    const claim = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (claim && claim.tagName === "DETAILS") {
      claim.hidden = false;
      claim.open = true;
      claim.scrollIntoView();
    }
  };
  window.addEventListener("hashchange", follow);
  window.addEventListener("beforeprint", () => {
    claims.forEach((claim) => { claim.open = claim.open || !claim.hidden; });
    document.querySelectorAll("#notes details, #difference details").forEach((several) => { several.open = true; });
  });
  follow();
})();
