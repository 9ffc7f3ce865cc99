// Labelling with script: keys, drafts, saving without a new page. The service draws; this sends and swaps.

import { Clock } from "./clock.js";
import { differences } from "./differences.js";
import { Evidence } from "./evidence.js";
import { Groups } from "./groups.js";
import { Keys, inField, ownEnter } from "./keys.js";
import { Local, remember, remembered } from "./local.js";
import { paint } from "./marks.js";
import { send } from "./server.js";

const DRAFT_MS = 700;
const SLOW_MS = 1000;
const KEPT = /^(draft|add|merge|remove)\b/;
const AGAIN_MS = [2000, 5000, 10_000, 30_000];

const part = document.querySelector("#case-part");
const live = document.querySelector("#live");
const help = document.querySelector("#help");
const guidelines = document.querySelector("#guidelines");
const address = location.pathname;
const project = part.dataset.project;
const local = new Local(part.dataset.person);
const keys = new Keys(help);
const clock = new Clock();

const switches = { singleKeys: true, asIChoose: false, differs: false };
let form = null;
let groups = null;
let evidence = null;
let busy = false;
let citing = false;
let draftTimer = 0;
let againTimer = 0;
let tries = 0;
let arrowOnRadio = false;

// What is said to a person who listens; `seen` also stands in the dock.
function say(text, seen = false) {
  live.textContent = "";
  // A live region speaks only what changes.
  requestAnimationFrame(() => {
    live.textContent = text;
  });
  if (seen) show(text);
}

function show(text, link = null) {
  const message = part.querySelector("#message");
  if (!message) return;
  message.textContent = text;
  if (link) message.append(" ", link);
}

function anchor(text, href, act = null) {
  const made = document.createElement("a");
  made.href = href;
  made.textContent = text;
  if (act) made.addEventListener("click", act);
  return made;
}

function bodyOf(what) {
  form.elements.seconds.value = clock.seconds;
  const fields = new URLSearchParams(new FormData(form));
  fields.set("do", what);
  return fields;
}

function field(name) {
  return form?.querySelector(`:scope > input[name=${name}]`);
}

function bind() {
  form = part.querySelector("#label-form");
  keys.restart();
  citing = false;
  clearTimeout(draftTimer);
  if (!form) {
    groups = null;
    evidence = null;
    return;
  }
  clock.start(Number(form.dataset.seconds) || 0);
  groups = new Groups(form, say);
  evidence = new Evidence(form, groups, say);
  evidence.draw();
  const choose = form.querySelector("#as-i-choose");
  if (choose) choose.checked = switches.asIChoose;
  const differ = form.querySelector("#differences");
  if (differ) {
    differ.checked = switches.differs;
    if (switches.differs) markDifferences(true);
  }
  reachable();
}

// A text that does not scroll is no stop for the Tab key.
function reachable() {
  for (const box of part.querySelectorAll(".case-text, .right")) {
    if (box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

function swap(result, focus = true) {
  part.innerHTML = result.html;
  document.title = result.title;
  document.querySelector("#position").textContent = result.position;
  bind();
  if (result.said) say(result.said);
  if (!focus) return;
  const told = part.querySelector("[data-told]");
  (told ?? part.querySelector("h1")).focus({ preventScroll: false });
  if (!told) window.scrollTo(0, 0);
}

// Sends and shows what comes back; false when nothing did.
async function ask(body, { waits = false } = {}) {
  if (busy) return false;
  busy = true;
  clearTimeout(draftTimer);
  clearTimeout(againTimer);
  const kept = body.get("case");
  const slow = setTimeout(() => show("Sending ..."), SLOW_MS);
  part.setAttribute("aria-busy", "true");
  let result;
  try {
    result = await send(address, body);
  } finally {
    clearTimeout(slow);
    part.removeAttribute("aria-busy");
    busy = false;
  }
  if (result.kind === "page") {
    tries = 0;
    if (result.status < 400 && kept && (result.done || KEPT.test(body.get("do")))) {
      local.drop(`draft:${kept}`);
      local.drop(`save:${project}:${kept}`);
    } else if (waits) {
      // It was answered and not taken: a person decides now, and the draft is what was sent.
      local.drop(`save:${project}:${kept}`);
    }
    swap(result);
    return true;
  }
  if (kept) local.keep(`draft:${kept}`, body);
  if (result.kind === "away" && waits) {
    if (local.keep(`save:${project}:${kept}`, body)) {
      const n = local.waiting(project).length;
      say(`${result.detail} ${n} ${n === 1 ? "label waits" : "labels wait"} on this device.`, true);
    } else {
      say(`${result.detail} This device keeps nothing: leave the page open.`, true);
    }
    againTimer = setTimeout(sendWaiting, AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)]);
    tries += 1;
  } else {
    trouble(result, "Nothing was changed.");
  }
  return false;
}

function trouble(result, after) {
  if (result.kind === "signed_out") {
    say("Your sign-in has ended. Your draft is kept on this device.", true);
    show("Your sign-in has ended. Your draft is kept on this device.", anchor("Sign in again", `/sign-in?next=${encodeURIComponent(address)}`));
  } else if (result.kind === "old") {
    say("You signed in again since. Your draft is kept on this device.", true);
    show("You signed in again since. Your draft is kept on this device.", anchor("Load the page again", address));
  } else {
    say(`${result.detail} ${after}`, true);
  }
}

function renewed(body) {
  const fields = new URLSearchParams(body);
  const csrf = part.querySelector("input[name=csrf]");
  fields.set("csrf", csrf ? csrf.value : "");
  return fields;
}

async function sendWaiting() {
  const [first] = local.waiting(project);
  if (!first || busy) return;
  await ask(renewed(first[1]), { waits: true });
}

async function save() {
  if (busy) return;
  const gap = groups.gap;
  if (gap) {
    groups.go(gap, true);
    evidence.draw();
    say(gap.dataset.gap, true);
    return;
  }
  await ask(bodyOf("save"), { waits: true });
}

async function undo() {
  if (form) {
    await ask(bodyOf("undo"));
    return;
  }
  const small = part.querySelector("#undo-form");
  if (!small || !small.querySelector("[value=undo]")) return;
  const fields = new URLSearchParams(new FormData(small));
  fields.set("do", "undo");
  await ask(fields);
}

function changed() {
  const mine = field("case").value;
  local.keep(`draft:${mine}`, bodyOf("draft"));
  // A label that waits is sent as it is now.
  if (local.read(`save:${project}:${mine}`)) local.keep(`save:${project}:${mine}`, bodyOf("save"));
  clearTimeout(draftTimer);
  draftTimer = setTimeout(keepDraft, DRAFT_MS);
}

async function keepDraft(options = {}) {
  clearTimeout(draftTimer);
  draftTimer = 0;
  if (busy || !form) return;
  const body = bodyOf("draft:quiet");
  const mine = field("case").value;
  const result = await send(address, body, options);
  if (!form || field("case").value !== mine || busy) return;
  if (result.kind === "page" && result.status < 400) {
    field("draft_version").value = result.draft_version;
    local.drop(`draft:${mine}`, body);
    if (part.querySelector("#message").dataset.away) {
      delete part.querySelector("#message").dataset.away;
      show("");
    }
  } else if (result.kind === "page" && result.status === 409) {
    swap(result);
  } else if (result.kind === "away") {
    show(`${result.detail} Your draft is kept on this device.`);
    part.querySelector("#message").dataset.away = "true";
    clearTimeout(draftTimer);
    draftTimer = setTimeout(keepDraft, AGAIN_MS[1]);
  } else if (result.kind !== "page") {
    trouble(result, "Your draft is kept on this device.");
  }
}

// What the service does not have yet, from before a reload or a sign-in.
async function recover() {
  if (local.waiting(project).length) {
    await sendWaiting();
    return;
  }
  if (!form) return;
  const kept = local.read(`draft:${field("case").value}`);
  if (!kept) return;
  const body = renewed(kept.body);
  body.set("do", "draft");
  body.set("version", field("version").value);
  if ((await ask(body)) && !part.querySelector("[data-told]")) say("Your draft is back.", true);
}

function markDifferences(on) {
  const boxes = ["first", "second"].map((id) => part.querySelector(`#text-${id}`));
  if (boxes.includes(null)) return;
  const said = part.querySelector("#differences-said");
  said.textContent = "";
  const found = on ? differences(boxes[0].textContent, boxes[1].textContent) : [[], []];
  if (found === null) said.textContent = "They differ too much, or are too long, to mark it.";
  boxes.forEach((box, n) => paint(box, found === null ? [] : found[n]));
  if (on && found !== null && !found[0].length && !found[1].length) said.textContent = "No word differs.";
}

function open(selector) {
  const panel = part.querySelector(selector);
  if (!panel) return;
  panel.open = true;
  panel.querySelector("input, textarea").focus();
}

async function openGuidelines() {
  const body = guidelines.querySelector("#guidelines-body");
  if (!guidelines.open) guidelines.showModal();
  body.textContent = "Loading ...";
  try {
    const response = await fetch(`${address}/guidelines`, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const text = page.querySelector("#guidelines-text");
    if (text) body.replaceChildren(...text.childNodes);
    else body.textContent = "The guidelines could not be loaded. Your draft is kept.";
  } catch {
    body.textContent = "No connection. Your draft is kept.";
  }
}

const actions = {
  save,
  undo,
  before: () => groups.step(-1) && evidence.draw(),
  after: () => groups.step(1) && evidence.draw(),
  skip: () => open("#skip"),
  note: () => open("#note-panel"),
  flag: () => open("#flag-panel"),
  guidelines: openGuidelines,
  keys: () => help.showModal(),
  evidence: () => {
    if (!evidence.takes) return;
    citing = true;
    say("Which context? Press its number.", true);
  },
};

function chosen() {
  groups.draw();
  changed();
  if (switches.asIChoose && "one" in form.dataset && !groups.gap) {
    save();
    return;
  }
  show("");
  groups.advance();
  evidence.draw();
}

function pressed(event) {
  arrowOnRadio = event.key.startsWith("Arrow") && event.target instanceof Element && event.target.matches("input[type=radio]");
  if (event.key === "Escape") {
    citing = false;
    if (inField(event.target)) {
      event.target.closest("details[name=panel]")?.removeAttribute("open");
      part.querySelector("h1").focus({ preventScroll: true });
      event.preventDefault();
    }
    return;
  }
  if (help.open || guidelines.open) return;
  const found = keys.read(event, switches.singleKeys);
  if (!found || arrowOnRadio) return;
  if (found.action === "save" && ownEnter(event.target)) return;
  if (!form && !["undo", "guidelines", "keys"].includes(found.action)) return;
  if (busy && found.action !== "keys") {
    event.preventDefault();
    return;
  }
  if (found.action === "choose") {
    if (citing) {
      citing = false;
      show("");
      if (evidence.cite(found.digit)) changed();
      event.preventDefault();
      return;
    }
    const input = groups.press(found.digit);
    if (input?.checked) {
      chosen();
    } else if (input) {
      groups.draw();
      changed();
    }
    event.preventDefault();
    return;
  }
  citing = false;
  if ((found.action === "before" || found.action === "after") && groups.all.length < 2) return;
  event.preventDefault();
  actions[found.action]?.();
}

function clicked(event) {
  const target = event.target instanceof Element ? event.target : null;
  const acting = target?.closest("[data-do]");
  const what = acting?.dataset.do;
  if (what === "keys") {
    help.showModal();
  } else if (what === "guidelines" && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    openGuidelines();
  } else if (what === "theirs") {
    local.drop(`draft:${field("case").value}`);
  } else if (what === "drop") {
    if (evidence.drop(acting.closest("li"))) changed();
    evidence.draw();
  } else if (form && target?.closest(".item") && !target.closest("details, a, input, .quotes")) {
    const row = target.closest(".item");
    const group = groups.all.find((one) => one.dataset.item === row.dataset.item);
    if (group) {
      groups.go(group);
      evidence.draw();
    }
  } else if (evidence && target?.closest("[data-role=context]") && evidence.pointed(event)) {
    changed();
  }
}

async function submitted(event) {
  const sent = event.target;
  if (sent.method === "dialog" || !part.contains(sent)) return;
  event.preventDefault();
  const what = event.submitter?.value ?? (sent.id === "skip-form" ? "skip" : sent.id === "flag-form" ? "flag" : "save");
  if (what === "save" && !part.querySelector("#both")) {
    await save();
  } else if (what === "undo") {
    await undo();
  } else if (sent === form) {
    await ask(bodyOf(what), { waits: what === "save" });
  } else {
    const fields = bodyOf(what);
    for (const [name, value] of new FormData(sent)) if (!fields.has(name)) fields.append(name, value);
    await ask(fields);
  }
}

document.addEventListener("keydown", pressed);
document.addEventListener("click", clicked);
document.addEventListener("submit", submitted);
part.addEventListener("change", (event) => {
  const input = event.target;
  if (input.id === "as-i-choose") {
    switches.asIChoose = input.checked;
    remember("save-as-i-choose", input.checked);
  } else if (input.id === "differences") {
    switches.differs = input.checked;
    remember("differences", input.checked);
    markDifferences(input.checked);
  } else if (input.type === "radio") {
    const group = input.closest("[data-group]");
    if (group && group !== groups.current) groups.at = groups.all.indexOf(group);
    if (arrowOnRadio) {
      groups.draw();
      changed();
    } else {
      chosen();
    }
  }
});
part.addEventListener("input", (event) => {
  if (form && inField(event.target) && event.target.form === form) changed();
});
document.querySelector("#single-keys").addEventListener("change", (event) => {
  switches.singleKeys = event.target.checked;
  remember("single-keys", event.target.checked);
});
window.addEventListener("online", () => {
  sendWaiting();
  if (draftTimer) keepDraft();
});
window.addEventListener("resize", reachable);
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden" && draftTimer) keepDraft({ keepalive: true });
});

switches.singleKeys = remembered("single-keys", true);
switches.asIChoose = remembered("save-as-i-choose", false);
switches.differs = remembered("differences", false);
document.querySelector("#single-keys").checked = switches.singleKeys;
bind();
recover();
