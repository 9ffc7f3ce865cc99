// Follows a run that goes on: the service says when something changed and draws the part that did; this swaps it in.

const live = document.querySelector("#live");
const part = () => document.querySelector("#run-state");
const address = `/runs/${part().dataset.run}`;
let quarter = Math.floor(Number(part().dataset.percent) / 25);
let asking = false;
let again = null;

document.documentElement.classList.add("followed");

function say(text) {
  live.textContent = text;
}

function inWords(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

async function page(path) {
  const answer = await fetch(path, { headers: { Accept: "text/html" }, credentials: "same-origin" });
  if (!answer.ok) throw new Error(`The service answered ${answer.status}.`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

// Puts the new part in place of the old one; the focus stays on what it was on, or goes to the heading.
function swap(found, name) {
  const before = document.getElementById(name);
  const after = found.getElementById(name);
  if (!before || !after) return;
  const held = before.contains(document.activeElement) ? document.activeElement : null;
  const label = held?.getAttribute("aria-label") ?? held?.textContent;
  before.replaceWith(after);
  if (!held) return;
  const same = [...after.querySelectorAll("a, button, [tabindex]")].find(
    (one) => (one.getAttribute("aria-label") ?? one.textContent) === label,
  );
  (same ?? document.querySelector("h1")).focus();
}

async function draw(event, ended) {
  if (asking) {
    again = [event, ended];
    return;
  }
  asking = true;
  try {
    part().setAttribute("aria-busy", "true");
    const found = await page(ended ? location.pathname + location.search : `${address}/state`);
    swap(found, "run-state");
    if (ended) {
      swap(found, "run-actions");
      swap(found, "run-results");
    }
    const left = part().querySelector("[data-left]");
    if (left && event.eta_s !== null) left.textContent = `about ${inWords(event.eta_s)}`;
    speak(ended);
  } catch (error) {
    part().removeAttribute("aria-busy");
    say(`This page is not up to date: ${error.message} Reload it to look again.`);
  }
  asking = false;
  if (again) {
    const next = again;
    again = null;
    await draw(...next);
  }
}

function speak(ended) {
  const now = Math.floor(Number(part().dataset.percent) / 25);
  if (ended) say(part().querySelector("#state").textContent.trim());
  else if (now > quarter) say(`${now * 25}% done. ${part().querySelector("#state").textContent.trim()}`);
  quarter = now;
}

const events = new EventSource(`/v1${address}/events`);
events.addEventListener("progress", (event) => draw(JSON.parse(event.data), false));
events.addEventListener("end", (event) => {
  // A stream that has ended would be opened again.
  events.close();
  draw(JSON.parse(event.data), true);
});
events.addEventListener("error", () => {
  if (events.readyState === EventSource.CLOSED) say("This page is not up to date any more. Reload it to look again.");
});
