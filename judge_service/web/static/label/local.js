// What waits on this device until the service has it: drafts by case, and labels that could not be sent.
// Kept per person, without the token of the page.

const KEEP_MS = 14 * 24 * 3600 * 1000;

export class Local {
  constructor(person) {
    this.prefix = `judge-label:${person}:`;
    this.tidy();
  }

  read(name) {
    try {
      return JSON.parse(localStorage.getItem(this.prefix + name));
    } catch {
      return null;
    }
  }

  // False when the device keeps nothing (full, or forbidden).
  keep(name, body) {
    const fields = new URLSearchParams(body);
    fields.delete("csrf");
    try {
      localStorage.setItem(this.prefix + name, JSON.stringify({ body: fields.toString(), at: Date.now() }));
      return true;
    } catch {
      return false;
    }
  }

  // Removes what is kept, or only what is still the same as `body`.
  drop(name, body = null) {
    if (body !== null) {
      const fields = new URLSearchParams(body);
      fields.delete("csrf");
      const kept = this.read(name);
      if (kept && withoutVersions(kept.body) !== withoutVersions(fields.toString())) return;
    }
    try {
      localStorage.removeItem(this.prefix + name);
    } catch {
      // Nothing could be kept either.
    }
  }

  // Labels that wait, as [case, body].
  waiting(project) {
    const start = `${this.prefix}save:${project}:`;
    return this.names()
      .filter((name) => name.startsWith(start))
      .map((name) => [name.slice(start.length), this.read(name.slice(this.prefix.length))?.body ?? ""]);
  }

  names() {
    try {
      return Object.keys(localStorage).filter((name) => name.startsWith("judge-label:"));
    } catch {
      return [];
    }
  }

  tidy() {
    for (const name of this.names()) {
      let kept = null;
      try {
        kept = JSON.parse(localStorage.getItem(name));
      } catch {
        kept = null;
      }
      if (!kept || Date.now() - kept.at > KEEP_MS) localStorage.removeItem(name);
    }
  }
}

function withoutVersions(body) {
  const fields = new URLSearchParams(body);
  for (const name of ["draft_version", "seconds", "do"]) fields.delete(name);
  return fields.toString();
}

// A switch that this device remembers.
export function remembered(name, otherwise) {
  try {
    const kept = localStorage.getItem(`judge-switch:${name}`);
    return kept === null ? otherwise : kept === "on";
  } catch {
    return otherwise;
  }
}

export function remember(name, on) {
  try {
    localStorage.setItem(`judge-switch:${name}`, on ? "on" : "off");
  } catch {
    // The switch holds until the page is left.
  }
}
