// What differs between two texts, word by word: the shortest edit script (Myers 1986), bounded.

const MOST_WORDS = 20_000;
const MOST_EDITS = 1_200;

function words(text) {
  if (typeof Intl.Segmenter === "function") {
    return [...new Intl.Segmenter(undefined, { granularity: "word" }).segment(text)].map((one) => one.segment);
  }
  return text.match(/\s+|[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu) ?? [];
}

// Ranges in UTF-16 units of what is only in the one and only in the other; null when there is too much of it.
export function differences(first, second) {
  if (first.length + second.length > MOST_WORDS * 10) return null;
  const a = words(first);
  const b = words(second);
  if (a.length > MOST_WORDS || b.length > MOST_WORDS) return null;
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const kept = shortest(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  if (kept === null) return null;
  return [
    ranges(a, (n) => n < head || n >= a.length - tail || kept.a.has(n - head)),
    ranges(b, (n) => n < head || n >= b.length - tail || kept.b.has(n - head)),
  ];
}

function ranges(parts, same) {
  const found = [];
  let at = 0;
  parts.forEach((part, n) => {
    const end = at + part.length;
    if (!same(n) && part.trim() !== "") {
      const last = found.at(-1);
      if (last && last.end === at) last.end = end;
      else found.push({ start: at, end, kind: "differs" });
    }
    at = end;
  });
  return found;
}

function shortest(a, b) {
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const zero = most + 1;
  const reach = new Int32Array(2 * most + 3);
  const trace = [];
  for (let d = 0; d <= most; d += 1) {
    // What was reached before this round, for k from -d-1 to d+1.
    trace.push(reach.slice(zero - d - 1, zero + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && reach[zero + k - 1] < reach[zero + k + 1]);
      let x = down ? reach[zero + k + 1] : reach[zero + k - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      reach[zero + k] = x;
      if (x >= a.length && x - k >= b.length) return walk(a, b, trace, d);
    }
  }
  return null;
}

function walk(a, b, trace, edits) {
  const kept = { a: new Set(), b: new Set() };
  let x = a.length;
  let y = b.length;
  for (let d = edits; d >= 0; d -= 1) {
    const before = (k) => trace[d][k + d + 1];
    const k = x - y;
    const from = k === -d || (k !== d && before(k - 1) < before(k + 1)) ? k + 1 : k - 1;
    const startX = before(from);
    const startY = startX - from;
    while (x > startX && y > startY) {
      x -= 1;
      y -= 1;
      kept.a.add(x);
      kept.b.add(y);
    }
    x = startX;
    y = startY;
  }
  return kept;
}
