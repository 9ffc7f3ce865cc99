// Marks in a text: ranges are in UTF-16 units here and in code points for the server.

export function toPoints(text, unit) {
  return [...text.slice(0, unit)].length;
}

export function toUnits(text, point) {
  let unit = 0;
  for (let n = 0; n < point && unit < text.length; n += 1) {
    unit += text.codePointAt(unit) > 0xffff ? 2 : 1;
  }
  return unit;
}

// Characters that mislead, by their place: the service put each into an element that shows how it is written.
function oddOf(box) {
  const found = new Map();
  for (const odd of box.querySelectorAll(".odd")) found.set(offsetIn(box, odd, 0), odd.dataset.code);
  return found;
}

// Draws the text of `box` anew with the ranges marked. Later ranges win where two overlap.
export function paint(box, ranges) {
  const text = box.textContent;
  const odd = oddOf(box);
  const edges = new Set([0, text.length]);
  for (const range of ranges) edges.add(range.start).add(range.end);
  const places = [...edges].filter((edge) => edge >= 0 && edge <= text.length).sort((a, b) => a - b);
  const parts = [];
  for (let n = 0; n + 1 < places.length; n += 1) {
    const inside = written(text, places[n], places[n + 1], odd);
    const range = ranges.findLast((one) => one.start <= places[n] && one.end >= places[n + 1]);
    if (!range) {
      parts.push(...inside);
      continue;
    }
    const mark = document.createElement("mark");
    mark.className = range.kind;
    if (range.place) mark.dataset.place = range.place;
    mark.append(...inside);
    parts.push(mark);
  }
  box.replaceChildren(...parts);
}

function written(text, start, end, odd) {
  const parts = [];
  let at = start;
  for (const [place, code] of odd) {
    if (place < start || place >= end) continue;
    if (place > at) parts.push(text.slice(at, place));
    const made = document.createElement("bdi");
    made.className = "odd";
    made.dataset.code = code;
    at = place + (text.codePointAt(place) > 0xffff ? 2 : 1);
    made.textContent = text.slice(place, at);
    parts.push(made);
  }
  if (at < end) parts.push(text.slice(at, end));
  return parts;
}

// Where a point of the document lies in the text of `box`, in UTF-16 units.
export function offsetIn(box, node, offset) {
  const range = document.createRange();
  range.selectNodeContents(box);
  range.setEnd(node, offset);
  return range.toString().length;
}
