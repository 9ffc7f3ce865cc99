// The groups of choices of a case: which one is current, which are asked, what is still open.

export class Groups {
  constructor(form, say) {
    this.form = form;
    this.say = say;
    this.all = [...form.querySelectorAll("[data-group]")];
    this.rows = [...form.querySelectorAll(".items > [data-item]")];
    this.noun = form.dataset.noun;
    const open = this.all.findIndex((group) => this.asked(group) && !this.value(group));
    this.at = open === -1 ? Math.max(0, this.all.findIndex((group) => this.asked(group))) : open;
    this.draw();
  }

  get current() {
    return this.all[this.at];
  }

  get item() {
    const id = this.current?.dataset.item;
    return id ? this.rows.find((row) => row.dataset.item === id) : undefined;
  }

  value(group) {
    return group.querySelector("input:checked")?.value ?? "";
  }

  words(group) {
    return group.querySelector("input:checked")?.closest("label").querySelector("span").textContent ?? "";
  }

  asked(group) {
    const { when, values } = group.dataset;
    if (!when) return true;
    const wanted = JSON.parse(values);
    const about = this.all.filter((one) => one.dataset.question === when);
    return about.some((one) => one !== group && wanted.includes(this.value(one)));
  }

  // The first group that needs an answer and has none.
  get gap() {
    return this.all.find((group) => "required" in group.dataset && this.asked(group) && !this.value(group));
  }

  // Chooses by a digit; the group's input that was changed, or null.
  press(digit) {
    const input = [...(this.current?.querySelectorAll("input") ?? [])].find((one) => one.dataset.key === digit);
    if (!input) return null;
    if (input.checked && !("required" in this.current.dataset)) {
      input.checked = false;
      return input;
    }
    input.checked = true;
    return input;
  }

  go(group, focus = false) {
    const at = this.all.indexOf(group);
    if (at === -1) return;
    const inside = this.current?.contains(document.activeElement);
    this.at = at;
    this.draw();
    if (focus || inside) (group.querySelector("input:checked") ?? group.querySelector("input"))?.focus();
    this.item?.scrollIntoView({ block: "nearest" });
  }

  // After a choice: to the next open one, if there is any.
  advance() {
    const open = (group) => this.asked(group) && !this.value(group);
    const next = this.all.slice(this.at + 1).find(open) ?? this.all.find((group) => open(group) && "required" in group.dataset);
    const done = `${this.current.dataset.title ? `${this.current.dataset.title}: ` : ""}${this.words(this.current)}.`;
    if (next) this.go(next);
    else this.draw();
    this.say(next ? `${done} ${this.where(next)}` : `${done} Nothing is open.`);
  }

  where(group) {
    const row = this.rows.findIndex((one) => one.dataset.item === group.dataset.item);
    if (row === -1) return group.querySelector("legend").textContent.trim();
    return `${group.dataset.title} of ${this.rows.length}, ${this.value(group) ? this.words(group) : "open"}.`;
  }

  // Up and down: item by item, question by question where there are no items.
  step(by) {
    const asked = this.all.filter((group) => this.asked(group));
    const heads = asked.filter((group, n) => !group.dataset.item || asked[n - 1]?.dataset.item !== group.dataset.item);
    const same = (group) => group === this.current || (group.dataset.item && group.dataset.item === this.current?.dataset.item);
    const next = heads[heads.findIndex(same) + by];
    if (!next) return false;
    this.go(next);
    this.say(this.where(next));
    return true;
  }

  draw() {
    if (this.current && !this.asked(this.current)) this.at = Math.max(0, this.all.findIndex((group) => this.asked(group)));
    for (const group of this.all) {
      const asked = this.asked(group);
      group.classList.toggle("on", group === this.current);
      group.hidden = !asked;
      group.disabled = !asked;
    }
    let answered = 0;
    for (const row of this.rows) {
      const mine = this.all.filter((group) => group.dataset.item === row.dataset.item);
      const open = mine.some((group) => "required" in group.dataset && !this.value(group));
      const said = mine.map((group) => this.words(group)).filter(Boolean).join(", ");
      answered += open ? 0 : 1;
      const state = row.querySelector("[data-state]");
      state.textContent = open || !said ? "○ Open" : `● ${said}`;
      state.classList.toggle("open", open);
      row.classList.toggle("on", row === this.item);
      if (row === this.item) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
    const count = this.form.querySelector("#items-count");
    if (count) count.textContent = `${answered} of ${this.rows.length} answered`;
  }
}
