// Which action a key press asks for. The table is the help of the page; knows no action.

const FIRST_MS = 250;

export class Keys {
  constructor(table) {
    this.rows = [...table.querySelectorAll("[data-action]")].map((row) => ({
      key: row.dataset.key,
      action: row.dataset.action,
      single: "single" in row.dataset,
    }));
    this.since = performance.now();
  }

  // A new case is on the screen: presses meant for the one before it do nothing.
  restart() {
    this.since = performance.now();
  }

  // {action, digit} or null.
  read(event, singleKeys) {
    if (event.repeat || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return null;
    if (event.key !== "Escape") {
      if (inField(event.target)) return null;
      if (performance.now() - this.since < FIRST_MS) return null;
    }
    const digit = digitOf(event);
    const name = digit === null ? nameOf(event) : "1-9";
    const row = this.rows.find((one) => one.key === name);
    if (!row || (row.single && !singleKeys)) return null;
    if (event.shiftKey && digit === null && row.key !== "?") return null;
    return { action: row.action, digit };
  }
}

export function inField(target) {
  if (!(target instanceof Element)) return false;
  if (target.closest("textarea, select, [contenteditable]")) return true;
  const input = target.closest("input");
  return input !== null && !["radio", "checkbox", "button", "submit"].includes(input.type);
}

// Enter on a link, a button or the like does what that does.
export function ownEnter(target) {
  return target instanceof Element && target.closest("a, button, summary, input[type=checkbox], dialog") !== null;
}

function digitOf(event) {
  if (/^[0-9]$/.test(event.key)) return event.key;
  // By position: on some keyboards the digits of the top row need a shift.
  const place = /^(?:Digit|Numpad)([0-9])$/.exec(event.code);
  return place && !event.shiftKey && event.key.length === 1 ? place[1] : null;
}

function nameOf(event) {
  if (/^[\x21-\x7e]$/.test(event.key) || event.key.length > 1) return event.key.toLowerCase();
  // A keyboard of another script: by the place of the key.
  const place = /^Key([A-Z])$/.exec(event.code);
  return place ? place[1].toLowerCase() : event.key;
}
