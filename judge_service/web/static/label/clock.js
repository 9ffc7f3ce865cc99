// Seconds of work on a case: counted while the page is visible and something was done within a minute.

const IDLE_MS = 60_000;
const SIGNS = ["keydown", "pointerdown", "pointermove", "wheel", "scroll", "touchstart"];

export class Clock {
  constructor() {
    this.done = 0;
    this.last = performance.now();
    this.alive = this.last;
    for (const sign of SIGNS) {
      document.addEventListener(sign, () => this.touch(), { capture: true, passive: true });
    }
    document.addEventListener("visibilitychange", () => this.touch());
    this.seen = document.visibilityState === "visible";
  }

  start(seconds) {
    this.done = seconds * 1000;
    this.last = performance.now();
    this.alive = this.last;
  }

  touch() {
    this.count();
    this.alive = performance.now();
  }

  count() {
    const now = performance.now();
    if (this.seen) this.done += Math.max(0, Math.min(now, this.alive + IDLE_MS) - this.last);
    this.last = now;
    this.seen = document.visibilityState === "visible";
  }

  get seconds() {
    this.count();
    return Math.round(this.done) / 1000;
  }
}
