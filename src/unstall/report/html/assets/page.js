"use strict";
(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  const read = (id) => { const found = document.getElementById(id); return found ? JSON.parse(found.textContent) : null; };
  const words = read("words");
  const say = (key, values) => words[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const root = document.documentElement;

  // -- the timeline, and who points into it ---------------------------------------------------------------------------

  let view = null;
  const events = read("timeline-data");

  function mountTimeline() {
    if (!events || !window.UnstallTimeline) return;
    const options = { theme: root.dataset.theme, texts: words.timeline };
    view = window.UnstallTimeline.mount($("#timeline-view"), events, options);
    window.unstallTimeline = view;
  }

  function show(jump) {
    if (!view || !jump) return;
    $("#timeline").scrollIntoView({ behavior: calm() ? "auto" : "smooth", block: "start" });
    view.jump(jump);
  }

  const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  function wireFindings() {
    for (const place of $$("[data-finding]")) {
      const jump = events && events.jumps ? events.jumps[+place.dataset.finding] : null;
      if (!jump || !view) continue;
      place.classList.add("leads");
      place.addEventListener("click", (event) => {
        const at = event.target.closest(".at");
        if (at) {
          const [from, to] = [at.dataset.from, at.dataset.to].map((ns) => Number(BigInt(ns) - BigInt(events.zero_ns)));
          show({ ...jump, start_ns: from, end_ns: to });
        } else if (!event.target.closest("a, code") && !String(getSelection())) show(jump);
      });
    }
  }

  // -- dark and light -------------------------------------------------------------------------------------------------

  function wireTheme() {
    $(".theme").addEventListener("click", () => {
      const theme = root.dataset.theme === "dark" ? "light" : "dark";
      root.dataset.theme = theme;
      try { localStorage.setItem("unstall-theme", theme); } catch (error) { /* kept for this visit only */ }
      if (view) view.setTheme(theme);
    });
  }

  // -- the bar: labels that fit, and the row that belongs to a part ---------------------------------------------------

  function fitLabels() {
    for (const part of $$("svg.bar > svg")) {
      const label = $("text", part);
      label.classList.toggle("unseen", label.getComputedTextLength() + 14 > $("rect", part).getBoundingClientRect().width);
    }
  }

  function wireBars() {
    for (const place of $$(".where, .side-of")) {
      for (const part of $$("[data-cat]", place)) {
        const light = (on) => $$("[data-cat]", place).forEach((other) => {
          other.classList.toggle("dim", on && other.dataset.cat !== part.dataset.cat);
        });
        part.addEventListener("pointerenter", () => light(true));
        part.addEventListener("pointerleave", () => light(false));
      }
    }
    fitLabels();
    addEventListener("resize", fitLabels);
    $$("details").forEach((d) => d.addEventListener("toggle", fitLabels));
  }

  // -- the plot: which step, how long ---------------------------------------------------------------------------------

  const UNITS = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]];

  function duration(ns) {
    const [unit, scale] = UNITS.filter(([, size]) => ns >= 0.9995 * size).pop() || UNITS[0];
    const value = ns / scale;
    return `${value >= 99.95 ? value.toFixed(0) : value.toPrecision(3)} ${unit}`;
  }

  function wirePlots() {
    const samples = read("samples") || {};
    for (const plot of $$("[data-plot]")) {
      const { ns, n } = samples[plot.dataset.plot];
      const out = $(".point", plot);
      const total = n[n.length - 1];
      let at = 0;
      const point = (index) => {
        at = Math.max(0, Math.min(ns.length - 1, index));
        out.textContent = say("plot_step", { number: n[at], time: duration(ns[at]) });
        const x = 100 * (n[at] - 0.5) / total;
        out.style.left = x < 50 ? `${x}%` : "auto";
        out.style.right = x < 50 ? "auto" : `${100 - x}%`;
        out.hidden = false;
      };
      plot.addEventListener("pointermove", (event) => {
        const box = plot.getBoundingClientRect();
        const wanted = (event.clientX - box.left) / box.width * total + 0.5;
        let best = 0;
        n.forEach((number, i) => { if (Math.abs(number - wanted) < Math.abs(n[best] - wanted)) best = i; });
        point(best);
      });
      plot.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1, Home: -ns.length, End: ns.length }[event.key];
        if (step) { event.preventDefault(); point(at + step); }
      });
      ["pointerleave", "blur"].forEach((name) => plot.addEventListener(name, () => { out.hidden = true; }));
    }
  }

  // -- tables: sort, search, more -------------------------------------------------------------------------------------

  const SHOWN = 12;
  const byText = new Intl.Collator(undefined, { numeric: true }).compare;

  class Table {
    constructor(element) {
      this.element = element;
      this.body = $("tbody", element);
      this.rows = $$("tr", this.body);
      this.text = this.rows.map((row) => [row.textContent, row.cells[0].title].join(" ").toLowerCase());
      this.all = false;
      this.query = "";
      this.note = element.closest(".scroll").nextElementSibling;
      this.more = document.createElement("button");
      this.more.type = "button";
      this.more.className = "more";
      this.more.addEventListener("click", () => { this.all = !this.all; this.draw(); });
      this.note.append(this.more);
      $$("thead th", element).forEach((head, i) => {
        $("button", head)?.addEventListener("click", () => this.sort(head, i));
      });
      this.draw();
    }

    sort(head, column) {
      const numeric = this.rows.some((row) => row.cells[column].dataset.v !== undefined);
      const before = head.getAttribute("aria-sort");
      const down = before ? before === "ascending" : numeric;
      $$("thead th", this.element).forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => {
        const cell = row.cells[column];
        return numeric ? (cell.dataset.v === undefined ? null : Number(cell.dataset.v)) : cell.textContent;
      };
      const keyed = this.rows.map((row, i) => [key(row), row, this.text[i]]);
      keyed.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        return (down ? -1 : 1) * (numeric ? a - b : byText(a, b));
      });
      this.rows = keyed.map(([, row]) => row);
      this.text = keyed.map(([, , text]) => text);
      this.body.append(...this.rows);
      this.draw();
    }

    search(query) {
      this.query = query.trim().toLowerCase();
      this.draw();
      return this.hits;
    }

    draw() {
      this.hits = 0;
      this.rows.forEach((row, i) => {
        const hit = this.text[i].includes(this.query);
        this.hits += hit;
        row.hidden = !hit || (!this.all && this.hits > SHOWN);
      });
      this.more.hidden = this.hits <= SHOWN;
      this.more.textContent = this.all ? words.show_less : say("show_all", { count: this.hits.toLocaleString() });
      const hits = $(".hits", this.note);
      hits.textContent = !this.query ? "" : this.hits ? say("matches", { count: this.hits }) : words.no_match;
    }
  }

  function wireTables() {
    const tables = $$("table[data-table]").map((element) => new Table(element));
    const tabs = $$("[role=tab]");
    const choose = (tab, focus) => {
      tabs.forEach((other) => {
        const chosen = other === tab;
        other.setAttribute("aria-selected", chosen);
        other.tabIndex = chosen ? 0 : -1;
        document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
      });
      if (focus) tab.focus();
    };
    tabs.forEach((tab, i) => {
      tab.addEventListener("click", () => choose(tab, false));
      tab.addEventListener("keydown", (event) => {
        const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: tabs.length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        choose(tabs[(to + tabs.length) % tabs.length], true);
      });
    });
    if (tabs.length) choose(tabs[0], false);
    const search = $(".search");
    if (!search) return;
    search.addEventListener("input", () => {
      const hits = tables.map((table) => table.search(search.value));
      tabs.forEach((tab, i) => tab.classList.toggle("none", !hits[i]));
      const current = tabs.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
      if (!hits[current] && hits.some(Boolean)) choose(tabs[hits.findIndex(Boolean)], false);
    });
    addEventListener("keydown", (event) => {
      const typing = event.target.closest && event.target.closest("input, textarea, canvas, .ut");
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) { event.preventDefault(); search.focus(); }
      if (event.key === "Escape" && event.target === search) { search.value = ""; search.dispatchEvent(new Event("input")); }
    });
  }

  function wirePaper() {
    addEventListener("beforeprint", () => { if (view) view.setTheme("light"); });
    addEventListener("afterprint", () => { if (view) view.setTheme(root.dataset.theme); });
  }

  mountTimeline();
  wireFindings();
  wireTheme();
  wireBars();
  wirePlots();
  wireTables();
  wirePaper();
  root.dataset.ready = "true";
})();
