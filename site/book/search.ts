/** The reference's search: names that hold what is typed stay, the others go. Everything searched is in the page. */

const input = document.querySelector<HTMLInputElement>("#search")!;
const count = document.querySelector<HTMLElement>("#found")!;
const items = [...document.querySelectorAll<HTMLElement>("[data-name]")];
/** What is for who does not search. */
const begin = document.querySelector<HTMLElement>("#begin")!;
const groups = [...document.querySelectorAll<HTMLDetailsElement>("details[data-group]")];

/** Rank of a match, 5 to 1: the name, the name in another case, its beginning, a part of it, the text; 0: no match. */
function score(item: HTMLElement, typed: string): number {
  const wanted = typed.toLowerCase();
  const name = item.dataset["name"]!.toLowerCase();
  if (item.dataset["name"] === typed) return 5;
  if (name === wanted) return 4;
  if (name.startsWith(wanted)) return 3;
  if (name.includes(wanted)) return 2;
  return item.textContent.toLowerCase().includes(wanted) ? 1 : 0;
}

function search(): void {
  const wanted = input.value.trim();
  let found = 0;
  for (const item of items) {
    const own = wanted === "" ? 1 : score(item, wanted);
    item.hidden = own === 0;
    item.style.order = String(-own);
    if (own > 0) found++;
  }
  for (const group of groups) {
    group.hidden = group.querySelector("[data-name]:not([hidden])") === null;
    group.open = wanted !== "";
  }
  begin.hidden = wanted !== "";
  count.textContent = wanted === "" ? "" : `${found} of ${items.length} names`;
}

input.addEventListener("input", search);
// Enter goes to the best match.
input.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || input.value.trim() === "") return;
  const wanted = input.value.trim();
  const best = items.toSorted((a, b) => score(b, wanted) - score(a, wanted))[0]!;
  if (score(best, wanted) > 0) best.querySelector("a")!.click();
});
search();
