// Places in contexts that are quoted for an item, and what is marked: own evidence and where the item stands.

import { offsetIn, paint, toPoints, toUnits } from "./marks.js";

const LONGEST = 4000;

export class Evidence {
  constructor(form, groups, say) {
    this.form = form;
    this.groups = groups;
    this.say = say;
    this.boxes = [...form.querySelectorAll("[data-text]")];
  }

  get takes() {
    const row = this.groups.item;
    return row !== undefined && "evidence" in row.dataset;
  }

  // The contexts that the current item is held against.
  get contexts() {
    const named = (this.groups.item?.dataset.passages ?? "").split(" ").filter(Boolean);
    return this.boxes.filter((box) => box.dataset.role === "context" && (!named.length || named.includes(box.dataset.text)));
  }

  draw() {
    const row = this.groups.item;
    if (!row) return;
    const shown = new Set(this.contexts);
    const places = [...row.querySelectorAll(".quotes input")].map((input) => input.value);
    const [source, start, end] = row.dataset.source.split(":");
    for (const box of this.boxes) {
      const card = box.closest(".text-card");
      if (box.dataset.role === "context") card.hidden = !shown.has(box);
      const text = box.textContent;
      const ranges = places
        .map((place) => ({ place, parts: place.split(":") }))
        .filter((one) => one.parts[0] === box.dataset.text)
        .map(({ place, parts }) => ({ place, kind: "evidence", start: toUnits(text, +parts[1]), end: toUnits(text, +parts[2]) }));
      if (source === box.dataset.text) ranges.push({ kind: "source", start: toUnits(text, +start), end: toUnits(text, +end) });
      if (ranges.length || box.querySelector("mark")) paint(box, ranges);
      card.classList.toggle("cited", ranges.some((range) => range.kind === "evidence"));
    }
    const hint = this.form.querySelector("#evidence-hint");
    if (hint) hint.hidden = !this.takes;
  }

  // A finished selection, or a click: on an own mark it is taken back, else the sentence is quoted.
  pointed(event) {
    const box = event.target instanceof Element ? event.target.closest("[data-text]") : null;
    if (!box || !this.takes || !this.contexts.includes(box)) return false;
    const selected = this.selected(box);
    if (selected) return this.add(box, selected.start, selected.end);
    const mark = event.target.closest("mark.evidence");
    if (mark) return this.drop(this.rowInput(mark.dataset.place)?.closest("li"));
    const at = pointOf(event, box);
    const sentence = at === null ? null : sentenceAt(box.textContent, at);
    return sentence !== null && this.add(box, sentence.start, sentence.end);
  }

  selected(box) {
    const selection = document.getSelection();
    if (!selection || selection.isCollapsed || !selection.rangeCount) return null;
    const range = selection.getRangeAt(0);
    if (!box.contains(range.startContainer) || !box.contains(range.endContainer)) return null;
    let start = offsetIn(box, range.startContainer, range.startOffset);
    let end = offsetIn(box, range.endContainer, range.endOffset);
    const text = box.textContent;
    while (start < end && /\s/.test(text[start])) start += 1;
    while (end > start && /\s/.test(text[end - 1])) end -= 1;
    return start < end ? { start, end } : null;
  }

  // By key: what is selected, else the whole context of that number.
  cite(number) {
    const box = this.contexts.find((one) => one.dataset.text === `ctx${number}`);
    if (!box) {
      this.say(`There is no context ${number} here.`, true);
      return false;
    }
    const selected = this.selected(box);
    if (selected) return this.add(box, selected.start, selected.end);
    const text = box.textContent;
    const whole = `${box.dataset.text}:0:`;
    const before = [...this.groups.item.querySelectorAll(".quotes input")].find((input) => input.value.startsWith(whole));
    if (before) return this.drop(before.closest("li"));
    return this.add(box, 0, toUnits(text, LONGEST));
  }

  add(box, start, end) {
    const row = this.groups.item;
    const text = box.textContent;
    const from = toPoints(text, start);
    const to = Math.min(toPoints(text, end), from + LONGEST);
    const place = `${box.dataset.text}:${from}:${to}`;
    document.getSelection()?.removeAllRanges();
    if (this.rowInput(place)) return false;
    const title = box.closest(".text-card").querySelector("h2").textContent;
    const line = document.createElement("li");
    const words = document.createElement("span");
    words.dir = "auto";
    const quote = document.createElement("q");
    quote.textContent = text.slice(start, toUnits(text, to));
    words.append(`${title}: “`, quote, "”");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link";
    button.dataset.do = "drop";
    button.textContent = "remove";
    const input = document.createElement("input");
    input.type = "hidden";
    input.name = `e.${row.dataset.item}`;
    input.value = place;
    line.append(words, " ", button, input);
    row.querySelector(".quotes").append(line);
    this.draw();
    this.say(`${title} cited.`);
    return true;
  }

  rowInput(place) {
    return [...this.groups.item.querySelectorAll(".quotes input")].find((input) => input.value === place);
  }

  drop(line) {
    if (!line) return false;
    line.remove();
    this.draw();
    this.say("Evidence removed.");
    return true;
  }
}

function pointOf(event, box) {
  if (document.caretPositionFromPoint) {
    const found = document.caretPositionFromPoint(event.clientX, event.clientY);
    return found && box.contains(found.offsetNode) ? offsetIn(box, found.offsetNode, found.offset) : null;
  }
  const range = document.caretRangeFromPoint?.(event.clientX, event.clientY);
  return range && box.contains(range.startContainer) ? offsetIn(box, range.startContainer, range.startOffset) : null;
}

function sentenceAt(text, at) {
  // Far texts are cut out around the click, so that a very long one costs nothing.
  const from = Math.max(0, at - 10_000);
  const near = text.slice(from, at + 10_000);
  let found = { start: from, end: from + near.length };
  if (typeof Intl.Segmenter === "function") {
    for (const one of new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(near)) {
      const start = from + one.index;
      if (start <= at && at <= start + one.segment.length) found = { start, end: start + one.segment.length };
      if (start > at) break;
    }
  }
  while (found.start < found.end && /\s/.test(text[found.start])) found.start += 1;
  while (found.end > found.start && /\s/.test(text[found.end - 1])) found.end -= 1;
  return found.start < found.end ? found : null;
}
