// Keys of the final word, from the table of the labelling page, and its draft on this device. The form itself posts.

import { Keys, inField, ownEnter } from "../label/keys.js";
import { remember, remembered } from "../label/local.js";

const form = document.querySelector("#decide");
const groups = [...form.querySelectorAll("[data-group]")];
const reason = form.querySelector("#reason");
const help = document.querySelector("#help");
const single = document.querySelector("#single-keys");
const keys = new Keys(help.querySelector("table"));
const live = document.querySelector("#live");
const DRAFT = `judge-word:${location.pathname}`;
let at = 0;

const chosen = (group) => group.querySelector("input:checked");

function go(place) {
  at = Math.max(0, Math.min(groups.length - 1, place));
  groups.forEach((group, n) => group.classList.toggle("on", n === at));
}

function move(by) {
  go(at + by);
  const inputs = groups[at];
  (chosen(inputs) ?? inputs.querySelector("input")).focus();
}

function choose(digit) {
  const input = [...groups[at].querySelectorAll("input")].find((one) => one.dataset.key === digit);
  if (!input) return;
  input.checked = true;
  keep();
  const next = groups.findIndex((group, n) => n > at && "required" in group.dataset && !chosen(group));
  if (next !== -1) {
    go(next);
    groups[next].querySelector("input").focus();
  } else {
    input.focus();
    live.textContent = `${input.closest("label").querySelector("span").textContent.trim()}. Nothing is open but the reason.`;
  }
}

const actions = {
  save: () => form.requestSubmit(),
  before: () => move(-1),
  after: () => move(1),
  note: () => reason.focus(),
  keys: () => help.showModal(),
};

function pressed(event) {
  if (event.key === "Escape" && inField(event.target)) {
    event.target.blur();
    event.preventDefault();
    return;
  }
  if (help.open) return;
  const found = keys.read(event, single.checked);
  if (!found) return;
  if (found.action === "save" && ownEnter(event.target)) return;
  if (event.key.startsWith("Arrow") && event.target.matches("input[type=radio]")) return;
  if (found.action === "choose") choose(found.digit);
  else if (actions[found.action]) actions[found.action]();
  else return;
  event.preventDefault();
}

function keep() {
  try {
    const said = [...new FormData(form)].filter(([name]) => name !== "csrf");
    sessionStorage.setItem(DRAFT, JSON.stringify(said));
  } catch {
    // Without storage the entries last as long as the page.
  }
}

function restore() {
  try {
    const sent = sessionStorage.getItem("judge-word-sent");
    if (sent && new URLSearchParams(location.search).has("saved")) sessionStorage.removeItem(sent);
    if (document.querySelector("#problems")) return;
    for (const [name, value] of JSON.parse(sessionStorage.getItem(DRAFT) ?? "[]")) {
      const fields = [...form.elements].filter((one) => one.name === name);
      for (const field of fields) {
        if (field.type === "radio") field.checked = field.value === value;
        else field.value = value;
      }
    }
  } catch {
    // Nothing was kept.
  }
}

document.documentElement.classList.add("keyed");
single.checked = remembered("single-keys", true);
single.addEventListener("change", () => remember("single-keys", single.checked));
document.querySelector("#open-keys").addEventListener("click", () => help.showModal());
document.addEventListener("keydown", pressed);
form.addEventListener("input", keep);
form.addEventListener("focusin", (event) => {
  const group = groups.indexOf(event.target.closest("[data-group]"));
  if (group !== -1) go(group);
});
form.addEventListener("submit", () => {
  try {
    sessionStorage.setItem("judge-word-sent", DRAFT);
  } catch {
    // The draft stays then; it is of this case alone.
  }
});
restore();
go(Math.max(0, groups.findIndex((group) => "required" in group.dataset && !chosen(group))));
