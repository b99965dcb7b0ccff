/* Timeline viewer: draws what unstall.analyze.timeline encodes (model.Timeline, version 1).
 *
 * In: an element, the parsed record, options. Out: a view that can jump, search and zoom. Plain ES2020, no dependency,
 * no global but UnstallTimeline. Names in the data are anybody's text: they reach the page through fillText and
 * textContent only.
 *
 * Order of this file: texts, decoding, colours, formats, drawing, the view with its controls.
 */
"use strict";
(function () {
  // ---- texts --------------------------------------------------------------------------------------------------------

  const TEXTS = {
    title: "Timeline of the capture",
    search: "Search names",
    next: "Next hit", previous: "Previous hit", hits: "{i} of {n}", found: "{n} found", no_hits: "none found",
    zoom_in: "Zoom in", zoom_out: "Zoom out", home: "Step", whole: "Whole run", help: "Keys",
    home_title: "The typical step", whole_title: "The whole capture",
    overview: "Whole capture; drag to move",
    steps: "Steps", nvtx: "NVTX", nvtx_async: "NVTX start/end", api: "CUDA API", osrt: "OS runtime", library: "Libraries",
    gil: "GIL", cpu: "On CPU", samples: "Samples", overhead: "Profiler", stream: "Stream {n}", graph: "CUDA graph",
    process: "Process {n}", thread: "Thread {n}", gpu: "GPU {n}", others: "Others ({n})", metrics: "GPU {n} metrics",
    warmup: "warm-up", holding: "holding", waiting: "waiting",
    start: "Start", duration: "Duration", since_step: "after step start", events: "{n} events", busy: "busy {p}",
    merged: "{n} short events, busy {p}; zoomed-out detail only",
    launched: "Launched by", launches: "Launches", latency: "Launch to start", none_found: "not in the capture",
    grid: "Grid", block: "Block", registers: "Registers a thread", smem: "Shared memory", bytes: "Size", rate: "Throughput",
    memory: "Memory", domain: "Domain", where: "Where", inside: "Inside", stack: "Call stack", correlation: "Correlation id",
    same: "Same name in view", same_value: "{n}, {t} in all", zoom: "Zoom to it", close: "Close", value: "Value",
    idle: "GPU idle", idle_total: "GPU idle {t} in {n} gaps", measure: "{t} · GPU busy {p} · {k} device operations",
    gpu_busy: "GPU busy [%]", gpu_share: "GPU busy {p} in view", full: "Shown in full: {t}", full_all: "Every event is shown",
    omitted_merged: "{n} short events are drawn in blocks", omitted_tracks: "{n} rows of the least telling threads left out",
    omitted_ranges: "{n} ranges without an end left out", omitted_samples: "{n} samples without a call stack left out",
    omitted_lanes: "{n} events nested too deeply left out", omitted_names: "{n} long names cut",
    fold: "Fold or unfold", compact: "Compact or full height", more: "+{n} more",
    keys: "Drag or A D ← →: move · Ctrl+wheel (wheel once clicked), + − W S: zoom · ↑ ↓: scroll · Shift+drag: measure · " +
      "double click: zoom to an event · , .: event before, after · J: follow the launch · / search, N P hits · F: zoom to selection · " +
      "Home: step · 0: whole run · Esc: clear",
  };

  function say(texts, key, values) {
    const text = texts[key] === undefined ? TEXTS[key] : texts[key];
    return String(text).replace(/\{(\w+)\}/g, (all, name) => (values && name in values ? String(values[name]) : all));
  }

  // ---- decoding -----------------------------------------------------------------------------------------------------

  function running(steps) {
    const out = new Float64Array(steps.length);
    let at = 0;
    for (let i = 0; i < out.length; i++) out[i] = at += steps[i];
    return out;
  }

  /** One track's columns as typed arrays; `cum[i]` is the busy time of all rows before row i of the track. */
  function decodeTrack(raw, index) {
    const start = running(raw.start), n = start.length;
    const track = { raw, index, kind: raw.kind, group: raw.group, process: raw.process, n, start, values: raw.values };
    if (raw.kind === "counter") {
      track.values = Float64Array.from(raw.values);
      track.top = track.values.reduce((a, b) => Math.max(a, b), 0) || 1;
      return Object.assign(track, { lanes: [[0, n]] });
    }
    const end = new Float64Array(n), busy = new Float64Array(n), cum = new Float64Array(n + 1);
    for (let i = 0; i < n; i++) { end[i] = start[i] + raw.dur[i]; busy[i] = raw.dur[i]; }
    let many = null;
    if (raw.merged) {
      many = new Uint32Array(n).fill(1);
      running(raw.merged.at).forEach((row, i) => { many[row] = raw.merged.count[i]; busy[row] = raw.merged.busy[i]; });
    }
    for (let i = 0; i < n; i++) cum[i + 1] = cum[i] + busy[i];
    let from = 0;
    const lanes = raw.lanes.map((size) => [from, from += size]);
    return Object.assign(track, {
      end, busy, cum, many, lanes, label: Uint32Array.from(raw.label), link: raw.link ? running(raw.link) : null,
      fact: raw.fact || null, stack: raw.stack || null, hits: null,
    });
  }

  /** First row in [lo, hi) whose value is above t. */
  function above(values, t, lo, hi) {
    while (lo < hi) { const mid = (lo + hi) >>> 1; if (values[mid] > t) hi = mid; else lo = mid + 1; }
    return lo;
  }

  /** The same, for an answer that is likely near lo. */
  function aboveNear(values, t, lo, hi) {
    let step = 1, at = lo;
    while (at < hi && values[at] <= t) { lo = at + 1; at += step; step *= 2; }
    return above(values, t, lo, Math.min(at, hi));
  }

  /** When a GPU did anything: union of its streams, with prefix sums; merged rows count what they hold. */
  function unionOf(tracks) {
    const rows = [];
    for (const t of tracks) for (let i = 0; i < t.n; i++) if (t.end[i] > t.start[i]) rows.push([t.start[i], t.end[i], t.busy[i]]);
    rows.sort((a, b) => a[0] - b[0]);
    const start = [], end = [], busy = [];
    for (const [s, e, b] of rows) {
      const last = start.length - 1;
      if (last >= 0 && s <= end[last]) {
        if (e > end[last]) { busy[last] += b * Math.min(1, (e - end[last]) / (e - s)); end[last] = e; }
      } else { start.push(s); end.push(e); busy.push(b); }
    }
    const n = start.length, cum = new Float64Array(n + 1);
    for (let i = 0; i < n; i++) cum[i + 1] = cum[i] + busy[i];
    return { start: Float64Array.from(start), end: Float64Array.from(end), busy: Float64Array.from(busy), cum, n };
  }

  function busyIn(u, a, b) {
    const i = above(u.end, a, 0, u.n), j = above(u.start, b, i, u.n);
    if (i >= j) return 0;
    const part = (r, s, e) => (e > s ? u.busy[r] * (e - s) / (u.end[r] - u.start[r]) : 0);
    const first = part(i, u.start[i], Math.min(Math.max(u.start[i], a), u.end[i]));
    const last = part(j - 1, Math.max(Math.min(u.end[j - 1], b), u.start[j - 1]), u.end[j - 1]);
    return Math.max(0, u.cum[j] - u.cum[i] - first - last);
  }

  // ---- names and colours --------------------------------------------------------------------------------------------

  /** A kernel's name as people say it: no return type, templates or arguments, but what it applies. */
  function shortKernel(name) {
    const bare = name.replace(/^void\s+/, "");
    const cut = bare.search(/[<(]/);
    const base = (cut > 0 ? bare.slice(0, cut) : bare).split("::").pop() || bare;
    const inner = /^[Kk]ernel\d*$/.test(base) && /^<\s*([\w:]+)/.exec(bare.slice(cut));  // CUTLASS: Kernel2<what it is>
    if (inner) return inner[1].split("::").pop();
    const applied = cut > 0 && /(?:CUDAFunctor_(\w+)|(?!Binary|Unary)\b(\w+?)(?:Functor|CUDAKernelImpl|_kernel_cuda|_kernel_impl)\b)/.exec(bare.slice(cut));
    return applied ? `${base} · ${applied[1] || applied[2]}` : base;
  }

  function hash(text) {
    let h = 2166136261;
    for (let i = 0; i < text.length; i++) {
      const c = text.charCodeAt(i);
      if (c < 48 || c > 57) h = Math.imul(h ^ c, 16777619);  // step_12 and step_13 look alike
    }
    return h >>> 0;
  }

  const CLASSES = {
    api: [[/Synchronize|EventQuery|^cu(?:da)?Memcpy(?!.*Async)/i, "sync"], [/Alloc|Free/i, "alloc"], [/Memcpy|Memset|Prefetch/i, "copy"],
      [/Launch/i, "launch"]],
    osrt: [[/wait|poll|sleep|select|sem_|futex|lock|join|accept|recv/i, "wait"], [/read|write|open|close|stat|sync|mmap|send|ioctl|seek/i, "io"]],
    stream: [[/^HtoD/, "htod"], [/^DtoH/, "dtoh"], [/^(?:DtoD|PtoP|HtoH|UVM|other)/, "dtod"], [/^memset$/, "memset"],
      [/nccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all/i, "comm"]],
    gil: [[/hold/, "hold"], [/wait/, "gilwait"]],
  };
  const SINGLE = { cpu: "cpu", overhead: "overhead", steps: "step" };
  const HUES = { stream: [185, 100], nvtx: [0, 360], nvtx_async: [0, 360], library: [0, 360], samples: [0, 360], api: [205, 1], osrt: [215, 1] };

  class Palette {
    constructor(root, names) { this.root = root; this.names = names; this.refresh(); }
    refresh() {
      const css = getComputedStyle(this.root);
      this.values = {};
      this.css = (name) => (this.values[name] = this.values[name] || css.getPropertyValue(`--ut-${name}`).trim() || "#888");
      this.cache = new Map();
      this.light = parseFloat(this.css("lightness")) || 45;
      this.soft = parseFloat(this.css("saturation")) || 55;
    }
    of(kind, label) {
      const key = kind + label;
      let colour = this.cache.get(key);
      if (!colour) this.cache.set(key, colour = this.make(kind, this.names[label] || ""));
      return colour;
    }
    make(kind, name) {
      if (SINGLE[kind]) return this.css(SINGLE[kind]);
      for (const [pattern, own] of CLASSES[kind] || []) if (pattern.test(name)) return this.css(own);
      if (kind === "api" || kind === "osrt") return this.css("call");
      const [first, span] = HUES[kind] || [0, 360], h = hash(name);
      const hue = first + (h % 24) * span / 24, light = this.light + ((h >>> 8) % 3 - 1) * 5;
      return `hsl(${hue.toFixed(0)} ${kind === "samples" ? this.soft * 0.6 : this.soft}% ${light}%)`;
    }
  }

  // ---- formats ------------------------------------------------------------------------------------------------------

  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const unitOf = (ns) => UNITS.find(([size]) => Math.abs(ns) >= size) || UNITS[3];
  function time(ns) {
    const [size, unit] = unitOf(ns);
    const value = ns / size;
    return `${size === 1 ? Math.round(value) : Number(value.toPrecision(Math.abs(value) >= 1000 ? 6 : 4))} ${unit}`;
  }
  function bytes(n) {
    for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (n >= size) return `${Number((n / size).toPrecision(3))} ${unit}`;
    return `${n} B`;
  }
  const percent = (x) => `${x > 0 && x < 0.1 ? (100 * x).toFixed(1) : Math.round(100 * x)} %`;
  const count = (n) => n.toLocaleString("en-US");

  function tickSize(ns) {
    const power = 10 ** Math.floor(Math.log10(Math.max(ns, 1)));
    return [1, 2, 5, 10].map((m) => m * power).find((t) => t >= ns) || power * 10;
  }

  // ---- elements -----------------------------------------------------------------------------------------------------

  function make(tag, className, parent, properties) {
    const element = Object.assign(document.createElement(tag), properties || {});
    if (className) element.className = className;
    if (parent) parent.appendChild(element);
    return element;
  }

  const HEIGHT = { steps: 20, nvtx: 20, nvtx_async: 20, library: 18, api: 20, osrt: 16, gil: 14, cpu: 12, samples: 14, overhead: 12, stream: 24, counter: 36 };
  const SMALL = 6, HEAD = 22, GAP = 3, RULER = 30, MAP = 26, WIDE = 8, LEVELS = 6, BOX = 1.5, NEAREST_NS = 20;

  // ---- the view -----------------------------------------------------------------------------------------------------

  class View {
    constructor(element, data, options) {
      this.data = data;
      this.options = options || {};
      this.texts = this.options.texts || {};
      this.tracks = data.tracks.map(decodeTrack);
      this.groups = data.groups.map((g, index) => ({ ...g, index, children: [], own: [] }));
      for (const g of this.groups) if (g.parent !== null && g.parent !== undefined) this.groups[g.parent].children.push(g);
      for (const t of this.tracks) this.groups[t.group].own.push(t);
      this.gpus = this.groups.filter((g) => g.kind === "gpu");
      for (const g of this.gpus) g.union = unionOf(g.own);
      const devices = new Map();
      for (const g of this.gpus) devices.set(g.id, [...(devices.get(g.id) || []), ...g.own]);
      this.devices = [...devices.values()].map(unionOf);
      this.links = new Map();
      this.widths = new Map();
      this.origin = 0;
      this.process = (this.tracks.find((t) => t.kind === "steps") || { process: 0 }).process;
      this.frames = 0;
      this.slowest = 0;
      this.stops = [];
      this.build(element);
      this.bind();
      this.resize();
      this.home(true);
    }

    say(key, values) { return say(this.texts, key, values); }

    // ---- elements ----

    build(element) {
      this.root = make("div", "ut", element);
      this.root.dataset.theme = this.options.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
      this.buildBar();
      this.top = make("canvas", "ut-top", this.root);
      this.top.setAttribute("aria-hidden", "true");
      this.top.title = "";
      this.body = make("div", "ut-body", this.root);
      this.sheet = make("div", "ut-sheet", this.body);
      this.gutter = make("div", "ut-gutter", this.sheet);
      this.canvas = make("canvas", "ut-canvas", this.sheet, { tabIndex: 0 });
      this.canvas.setAttribute("role", "application");
      this.canvas.setAttribute("aria-label", `${this.options.title || this.say("title")}. ${this.say("keys")}`);
      this.tip = make("div", "ut-tip", this.root, { hidden: true });
      this.panel = make("div", "ut-panel", this.root, { hidden: true });
      this.status = make("div", "ut-status", this.root);
      this.live = make("div", "ut-live", this.root);
      this.live.setAttribute("role", "status");
      this.palette = new Palette(this.root, this.data.names);
      this.status.textContent = this.note();
      this.layout();
    }

    buildBar() {
      const bar = make("div", "ut-bar", this.root);
      bar.setAttribute("role", "toolbar");
      this.box = make("input", "ut-search", bar, { type: "search", placeholder: this.say("search"), spellcheck: false });
      this.box.setAttribute("aria-label", this.say("search"));
      this.hitsText = make("span", "ut-hits", bar);
      this.hitsText.setAttribute("role", "status");
      const button = (text, label, act) => {
        const b = make("button", "ut-button", bar, { type: "button", textContent: text, title: label });
        b.setAttribute("aria-label", label);
        b.addEventListener("click", act);
        return b;
      };
      button("‹", this.say("previous"), () => this.previous());
      button("›", this.say("next"), () => this.next());
      make("span", "ut-space", bar);
      button("−", this.say("zoom_out"), () => this.zoomBy(2));
      button("+", this.say("zoom_in"), () => this.zoomBy(0.5));
      button(this.say("home"), this.say("home_title"), () => this.home());
      button(this.say("whole"), this.say("whole_title"), () => this.whole());
      const help = button("?", this.say("help"), () => { this.helpText.hidden = !this.helpText.hidden; help.setAttribute("aria-expanded", String(!this.helpText.hidden)); });
      help.setAttribute("aria-expanded", "false");
      this.share = make("span", "ut-share", bar);
      this.helpText = make("div", "ut-help", this.root, { hidden: true, textContent: this.say("keys") });
    }

    /** What is not shown one by one, in words. */
    note() {
      const d = this.data, shown = d.windows.reduce((sum, [a, b]) => sum + b - a, 0);
      const whole = shown >= d.end_ns - d.begin_ns;
      const parts = whole ? [this.say("full_all")] : shown ? [this.say("full", { t: time(shown) })] : [];
      for (const o of d.omitted) parts.push(this.say(`omitted_${o.what}`, { n: count(o.count) }));
      return parts.join(" · ");
    }

    // ---- rows ----

    /** Which rows there are, from top to bottom; the labels beside them. */
    layout() {
      this.rows = [];
      this.height = 0;
      for (const t of this.tracks) t.row = null;
      const lone = this.groups.filter((g) => g.kind === "process").length < 2;
      for (const g of this.groups) if (g.parent === null || g.parent === undefined) this.layGroup(g, 0, lone && g.kind === "process");
      this.sheet.style.height = `${this.height}px`;
      this.drawLabels();
      this.fitHeight();
      this.dirty();
    }

    layGroup(g, depth, bare) {
      if (!bare) this.addRow({ group: g, depth, h: HEAD });
      if (!bare && !g.open) return;
      const inner = depth + (bare ? 0 : 1);
      for (const t of g.own) {
        const lane = t.compact ? SMALL : HEIGHT[t.kind];
        t.row = this.addRow({ track: t, depth: inner, lane, h: lane * t.lanes.length + GAP });
      }
      for (const child of g.children) this.layGroup(child, inner, false);
    }

    addRow(row) {
      row.y = this.height;
      this.height += row.h;
      this.rows.push(row);
      return row;
    }

    labelOf(g) {
      const own = this.say(g.kind, { n: g.id === null || g.id === undefined ? "" : g.id });
      return g.name ? (g.kind === "thread" ? `${g.name} ${g.id}` : `${own} ${g.name}`) : own;
    }

    trackLabel(t) {
      if (t.kind === "counter") return t.raw.name === TEXTS.gpu_busy ? this.say("gpu_busy") : t.raw.name || this.say("value");
      return this.say(t.kind, { n: t.raw.id === null || t.raw.id === undefined ? "" : t.raw.id });
    }

    drawLabels() {
      const focused = this.gutter.contains(document.activeElement) ? document.activeElement.dataset.key : null;
      this.gutter.textContent = "";
      for (const row of this.rows) {
        const b = make("button", row.group ? "ut-head" : "ut-label", this.gutter, { type: "button" });
        b.style.cssText = `top:${row.y}px;height:${row.h}px;padding-left:${6 + row.depth * 10}px`;
        b.dataset.key = row.group ? `g${row.group.index}` : `t${row.track.index}`;
        const text = row.group ? this.labelOf(row.group) : this.trackLabel(row.track);
        b.title = text;
        if (row.group) { make("span", "ut-mark", b, { textContent: row.group.open ? "▾" : "▸" }); b.setAttribute("aria-expanded", String(row.group.open)); }
        make("span", "", b, { textContent: text });
        if (b.dataset.key === focused) b.focus();
      }
    }

    toggle(key) {
      const item = key[0] === "g" ? this.groups[+key.slice(1)] : this.tracks[+key.slice(1)];
      if (key[0] === "g") item.open = !item.open; else item.compact = !item.compact;
      this.layout();
    }

    /** Unfolds what hides a track, and scrolls to it. */
    reveal(track) {
      let changed = track.compact;
      track.compact = false;
      for (let g = this.groups[track.group]; g; g = this.groups[g.parent]) { changed = changed || !g.open; g.open = true; }
      if (changed || !track.row) this.layout();
      const { y, h } = track.row, view = this.body.clientHeight;
      if (y < this.body.scrollTop || y + Math.min(h, view) > this.body.scrollTop + view) this.body.scrollTop = Math.max(0, y - view / 3);
    }

    // ---- size ----

    fitHeight() {
      const limit = this.options.height || Math.max(240, Math.round(innerHeight * 0.7));
      this.body.style.height = `${this.options.height ? limit : Math.min(this.height + 2, limit)}px`;
    }

    resize() {
      if (this.gone) return;
      this.fitHeight();
      const width = this.root.clientWidth;
      this.left = width < 600 ? 92 : 190;
      this.root.style.setProperty("--ut-left", `${this.left}px`);
      this.w = Math.max(this.body.clientWidth - this.left, 50);
      this.h = this.body.clientHeight;
      if (this.a !== undefined) this.k = this.w / (this.b - this.a);
      this.dpr = Math.min(window.devicePixelRatio || 1, 2);
      this.size(this.canvas, this.w, this.h);
      this.size(this.top, this.left + this.w, RULER + MAP);
      this.dirty();
    }

    size(canvas, w, h) {
      canvas.width = Math.round(w * this.dpr);
      canvas.height = Math.round(h * this.dpr);
      canvas.style.width = `${w}px`;
      canvas.style.height = `${h}px`;
    }

    setTheme(theme) {
      this.root.dataset.theme = theme;
      this.palette.refresh();
      this.dirty();
    }

    // ---- where we look ----

    get extent() {
      const span = this.data.end_ns - this.data.begin_ns;
      return [this.data.begin_ns - span * 0.01, this.data.end_ns + span * 0.01];
    }

    set(a, b) {
      const [low, high] = this.extent;
      const span = Math.min(Math.max(b - a, NEAREST_NS), high - low);
      if (b - a !== span) { const mid = (a + b) / 2; a = mid - span / 2; }
      a = Math.min(Math.max(a, low), high - span);
      this.a = a;
      this.b = a + span;
      this.k = this.w / span;
      this.dirty();
    }

    zoomTo(a, b, now) {
      cancelAnimationFrame(this.moving);
      if (now || this.a === undefined || matchMedia("(prefers-reduced-motion: reduce)").matches) { this.set(a, b); return; }
      const from = [this.a, this.b], began = performance.now();
      const step = (at) => {
        const x = Math.min(Math.max((at - began) / 160, 0), 1), ease = 1 - (1 - x) ** 3;
        this.set(from[0] + (a - from[0]) * ease, from[1] + (b - from[1]) * ease);
        if (x < 1 && !this.gone) this.moving = requestAnimationFrame(step);
      };
      this.moving = requestAnimationFrame(step);
    }

    zoomBy(factor, at, now) {
      const mid = at === undefined ? (this.a + this.b) / 2 : at;
      this.zoomTo(mid - (mid - this.a) * factor, mid + (this.b - mid) * factor, now);
    }

    panBy(share, now) {
      const by = (this.b - this.a) * share;
      this.zoomTo(this.a + by, this.b + by, now);
    }

    /** Times count from the step of a process in which an instant lies. */
    countFrom(process, at) {
      const t = this.tracks.find((s) => s.kind === "steps" && s.process === process);
      if (!t || !t.n) return;
      this.process = process;
      this.origin = t.start[Math.min(above(t.end, at, 0, t.n), t.n - 1)];
    }

    home(now) {
      const [a, b] = this.data.home, margin = (b - a) * 0.04;
      this.countFrom((this.tracks.find((t) => t.kind === "steps") || { process: -1 }).process, a);
      this.zoomTo(a - margin, b + margin, now);
    }

    whole(now) { this.zoomTo(...this.extent, now); }

    // ---- drawing ----

    dirty() {
      if (this.waiting || this.gone) return;
      this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); });
    }

    draw() {
      if (this.a === undefined || this.gone) return;
      const began = performance.now();
      const c = this.canvas.getContext("2d");
      c.setTransform(this.dpr, 0, 0, this.dpr, 0, 0);
      c.fillStyle = this.palette.css("bg");
      c.fillRect(0, 0, this.w, this.h);
      c.font = "11px system-ui, sans-serif";
      c.textBaseline = "middle";
      this.drawGrid(c);
      const top = this.body.scrollTop;
      for (const row of this.rows) if (row.y + row.h > top && row.y < top + this.h) this.drawRow(c, row, row.y - top);
      this.drawOver(c, top);
      this.drawTop();
      this.share.textContent = this.devices.length ? this.say("gpu_share", { p: percent(this.busyShare(this.a, this.b)) }) : "";
      this.frames++;
      this.lastMs = performance.now() - began;
      this.slowest = Math.max(this.slowest, this.lastMs);
    }

    x(t) { return (t - this.a) * this.k; }
    at(x) { return this.a + x / this.k; }

    firstTick(tick) { return this.origin + Math.ceil((this.a - this.origin) / tick) * tick; }

    drawGrid(c) {
      c.fillStyle = this.palette.css("grid");
      const tick = tickSize((this.b - this.a) * 110 / this.w);
      for (let t = this.firstTick(tick); t < this.b; t += tick) c.fillRect(Math.round(this.x(t)), 0, 1, this.h);
      const steps = this.stepTrack();
      if (!steps) return;
      c.fillStyle = this.palette.css("stepline");
      this.eachStep(steps, (i, x) => c.fillRect(Math.round(x), 0, 1, this.h));
    }

    stepTrack() { return this.tracks.find((t) => t.kind === "steps" && t.process === this.process); }

    /** Steps in view that are far enough apart to tell. */
    eachStep(t, act) {
      let i = above(t.end, this.a, 0, t.n);
      const last = above(t.start, this.b, i, t.n);
      if (last - i > this.w / 14) return;
      for (; i < last; i++) act(i, this.x(t.start[i]), this.x(t.end[i]));
    }

    drawRow(c, row, y) {
      if (row.group) { this.drawHead(c, row, y); return; }
      const t = row.track;
      if (t.kind === "counter") { this.drawCounter(c, t, y, row.h - GAP); return; }
      t.lanes.forEach(([from, to], lane) => {
        const top = y + lane * row.lane;
        if (top + row.lane > 0 && top < this.h) this.drawLane(c, t, from, to, top, row.lane - (row.lane > SMALL ? 1 : 0.5));
      });
    }

    /** A heading: when a GPU was busy, or a hint of what is folded under it. */
    drawHead(c, row, y) {
      c.fillStyle = this.palette.css("head");
      c.fillRect(0, y, this.w, HEAD - 1);
      if (row.group.union) { this.drawUnion(c, row.group.union, y + 5, HEAD - 11); return; }
      if (row.group.open || row.group.kind === "others") return;
      const inside = this.under(row.group).filter((t) => t.kind !== "counter" && t.n);
      const shown = inside.slice(0, 6), h = Math.max(2, Math.floor((HEAD - 5) / Math.max(shown.length, 1)));
      c.globalAlpha = 0.6;
      shown.forEach((t, i) => this.drawLane(c, t, ...t.lanes[0], y + 2 + i * h, Math.min(h, 8), true));
      c.globalAlpha = 1;
    }

    under(g) { return [...g.own, ...g.children.flatMap((child) => this.under(child))]; }

    drawUnion(c, u, y, h) {
      c.fillStyle = this.palette.css("busy");
      let i = above(u.end, this.a, 0, u.n), last = -1;
      while (i < u.n && u.start[i] < this.b) {
        const x0 = Math.max(this.x(u.start[i]), 0), x1 = Math.min(this.x(u.end[i]), this.w);
        if (x1 - x0 >= 1) { c.fillRect(x0, y, x1 - x0, h); i++; continue; }
        const px = Math.floor(x0), j = Math.max(aboveNear(u.start, this.at(px + 1), i + 1, u.n), i + 1);
        if (px !== last) { c.globalAlpha = Math.min(1, 0.2 + (u.cum[j] - u.cum[i]) * this.k); c.fillRect(px, y, 1, h); c.globalAlpha = 1; }
        last = px;
        i = j;
      }
    }

    /** One lane. What is narrower than a pixel is drawn once a pixel, as dark as it fills it. */
    drawLane(c, t, from, to, y, h, plain) {
      const { start, end, cum } = t, b = this.b;
      const run = { x: 0, w: 0, level: -1, hit: false };
      let i = above(end, this.a - 1 / this.k, from, to);
      if (i > from && end[i - 1] === start[i - 1] && start[i - 1] >= this.a) i--;
      while (i < to && start[i] < b) {
        const x0 = this.x(start[i]), w = (end[i] - start[i]) * this.k;
        if (w >= BOX) { this.flush(c, t, run, y, h); this.drawBox(c, t, i, x0, w, y, h, plain); i++; continue; }
        const px = Math.floor(x0);
        let j = aboveNear(start, this.at(px + 1), i + 1, to);
        if (j - 1 > i && (end[j - 1] - start[j - 1]) * this.k >= BOX) j--;
        if (j === i + 1 && !(t.many && t.many[i] > 1)) { this.flush(c, t, run, y, h); this.drawTick(c, t, i, x0, w, y, h); } else this.drawDense(c, t, run, i, j, px, y, h, cum[j] - cum[i]);
        i = j;
      }
      this.flush(c, t, run, y, h);
    }

    drawTick(c, t, i, x, w, y, h) {
      c.fillStyle = t.hits ? (t.hits[i + 1] > t.hits[i] ? this.palette.css("hit") : this.palette.css("dim")) : this.palette.of(t.kind, t.label[i]);
      c.fillRect(x, y, Math.max(w, 1), h);
    }

    drawDense(c, t, run, i, j, px, y, h, busy) {
      const level = Math.min(LEVELS, Math.max(1, Math.ceil(busy * this.k * LEVELS)));
      const hit = Boolean(t.hits) && t.hits[j] > t.hits[i];
      if (run.level === level && run.hit === hit && px === run.x + run.w) { run.w++; return; }
      this.flush(c, t, run, y, h);
      Object.assign(run, { x: px, w: 1, level, hit });
    }

    flush(c, t, run, y, h) {
      if (run.level < 0) return;
      const before = c.globalAlpha;
      c.globalAlpha = before * (run.hit ? 1 : 0.25 + 0.75 * run.level / LEVELS);
      c.fillStyle = run.hit ? this.palette.css("hit") : t.hits ? this.palette.css("dim") : this.palette.css(`dense-${t.kind}`);
      c.fillRect(run.x, y, run.w, h);
      c.globalAlpha = before;
      run.level = -1;
    }

    drawBox(c, t, i, x, w, y, h, plain) {
      const left = Math.max(x, -2), width = Math.min(x + w, this.w + 2) - left;
      const many = t.many && t.many[i] > 1, hit = t.hits && t.hits[i + 1] > t.hits[i];
      const alpha = c.globalAlpha;
      if (many) c.globalAlpha = alpha * (0.25 + 0.6 * Math.min(1, t.busy[i] / Math.max(t.end[i] - t.start[i], 1)));
      c.fillStyle = t.hits && !hit ? this.palette.css("dim") : many ? this.palette.css(`dense-${t.kind}`) : this.boxColour(t, i);
      c.fillRect(left, y, width > 3 ? width - 0.75 : width, h);
      c.globalAlpha = alpha;
      if (hit) { c.strokeStyle = this.palette.css("hit"); c.lineWidth = 1.5; c.strokeRect(left + 0.75, y + 0.75, Math.max(width - 2, 0.5), h - 1.5); }
      if (!plain && h > 9 && width > 26) this.drawText(c, this.boxText(t, i, many), left, width, y + h / 2, t.hits && !hit ? "muted" : "ontext");
    }

    boxColour(t, i) {
      if (t.kind === "steps") return this.palette.css(i < (t.raw.step || 0) ? "warm" : i % 2 ? "step" : "step2");
      return this.palette.of(t.kind, t.label[i]);
    }

    boxText(t, i, many) {
      if (many) return this.say("events", { n: count(t.many[i]) });
      const name = this.data.names[t.label[i]];
      if (t.kind === "stream") return shortKernel(name);
      if (t.kind === "gil") return this.say(name);
      if (t.kind === "steps") return `${name} · ${time(t.end[i] - t.start[i])}${i < (t.raw.step || 0) ? ` · ${this.say("warmup")}` : ""}`;
      return name;
    }

    drawText(c, text, x, w, y, colour) {
      const room = w - 7, at = Math.max(x, 0) + 4, space = x < 0 ? room + x : room;
      let width = this.widths.get(text);
      if (width === undefined) this.widths.set(text, width = c.measureText(text).width);
      c.fillStyle = this.palette.css(colour);
      if (width <= space) { c.fillText(text, at, y); return; }
      const keep = Math.floor(text.length * (space - 6) / width);
      if (keep >= 2) c.fillText(`${text.slice(0, keep)}…`, at, y);
    }

    drawCounter(c, t, y, h) {
      let i = Math.max(above(t.start, this.a, 0, t.n) - 1, 0), last = -2, peak = 0;
      c.fillStyle = this.palette.css("counter");
      for (; i < t.n && t.start[i] < this.b; i++) {
        const x0 = Math.max(this.x(t.start[i]), 0), x1 = i + 1 < t.n ? Math.min(this.x(t.start[i + 1]), this.w) : this.w;
        const px = Math.floor(x0);
        peak = px === last ? Math.max(peak, t.values[i]) : t.values[i];
        const tall = h * peak / t.top;
        c.fillRect(px, y + h - tall, Math.max(x1 - px, 1), tall);
        last = px;
      }
    }

    // ---- what lies over the rows ----

    drawOver(c, top) {
      if (this.jumped) this.drawJump(c, top);
      if (this.measured) this.drawMeasure(c);
      if (this.selected) this.drawSelected(c, top);
    }

    drawJump(c, top) {
      const { start_ns, end_ns, idle, marks, track } = this.jumped, t = this.tracks[track];
      const rows = this.rows.filter((r) => (r.track ? r.track.kind === "stream" : r.group.union));
      c.fillStyle = this.palette.css("idle");
      for (const [a, b] of idle || []) {
        if (b <= this.a || a >= this.b) continue;
        const x = this.x(a), w = Math.max((b - a) * this.k, 1);
        if (w >= WIDE) c.fillRect(x, 0, w, this.h);
        for (const r of w < WIDE ? rows : []) c.fillRect(x, r.y - top, w, r.h);
      }
      c.fillStyle = this.palette.css("accent");
      for (const at of [start_ns, end_ns]) c.fillRect(Math.round(this.x(at)) - 0.5, 0, 1, this.h);
      const widest = (idle || []).reduce((best, g) => (g[1] - g[0] > best[1] - best[0] ? g : best), [0, 0]);
      const x = Math.max(this.x(widest[0]), 0), room = Math.min(this.x(widest[1]), this.w) - x;
      if (room > 90) this.tag(c, `${this.say("idle")} ${time(widest[1] - widest[0])}`, x + room / 2, this.idleY(top));
      if (!t || !t.row) return;
      c.strokeStyle = this.palette.css("accent");
      c.lineWidth = 2;
      for (const [a, b] of marks || []) if (b > this.a && a < this.b) c.strokeRect(this.x(a), t.row.y - top, Math.max((b - a) * this.k, 1), t.row.h - GAP);
    }

    /** Beside the streams, where the gap is. */
    idleY(top) {
      const row = this.rows.find((r) => r.track && r.track.kind === "stream" && r.track.process === this.process && r.y - top > 0 && r.y - top < this.h - 20);
      return row ? row.y - top + row.h / 2 : 14;
    }

    tag(c, text, x, y) {
      const w = c.measureText(text).width + 12;
      const left = Math.min(Math.max(x - w / 2, 2), this.w - w - 2);
      c.fillStyle = this.palette.css("panel");
      c.fillRect(left, y - 9, w, 18);
      c.strokeStyle = this.palette.css("accent");
      c.lineWidth = 1;
      c.strokeRect(left + 0.5, y - 8.5, w - 1, 17);
      c.fillStyle = this.palette.css("fg");
      c.fillText(text, left + 6, y);
    }

    drawMeasure(c) {
      const [a, b] = this.measured.slice().sort((p, q) => p - q), x0 = this.x(a), x1 = this.x(b);
      c.fillStyle = this.palette.css("select");
      c.fillRect(x0, 0, x1 - x0, this.h);
      let k = 0;
      for (const t of this.tracks) {
        if (t.kind !== "stream") continue;
        for (const [from, to] of t.lanes) {
          const i = above(t.end, a, from, to), j = above(t.start, b, i, to);
          for (let r = i; t.many && r < j; r++) k += t.many[r];
          if (!t.many) k += j - i;
        }
      }
      const p = percent(b > a ? this.busyShare(a, b) : 0);
      this.tag(c, this.say("measure", { t: time(b - a), p, k: count(k) }), (x0 + x1) / 2, 14);
    }

    /** Middle of an event's row, or of the heading under which it is folded. */
    yOf(t, i, top) {
      if (t.row) return t.row.y - top + (t.lanes.findIndex(([from, to]) => i >= from && i < to) + 0.5) * t.row.lane;
      for (let g = this.groups[t.group]; g; g = this.groups[g.parent]) {
        const row = this.rows.find((r) => r.group === g);
        if (row) return row.y - top + HEAD / 2;
      }
      return 0;
    }

    drawSelected(c, top) {
      const { t, i } = this.selected, x = this.x(t.start[i]), y = this.yOf(t, i, top), h = t.row ? t.row.lane : HEAD;
      c.strokeStyle = this.palette.css("selected");
      c.lineWidth = 2;
      c.strokeRect(x - 0.5, y - h / 2, Math.max((t.end[i] - t.start[i]) * this.k, 2) + 1, h);
      for (const other of this.linked(t, i).slice(0, 200)) this.drawLink(c, this.selected, other, top);
    }

    drawLink(c, one, other, top) {
      const [call, work] = one.t.kind === "api" ? [one, other] : [other, one];
      const x0 = this.x(call.t.start[call.i]), y0 = this.yOf(call.t, call.i, top);
      const x1 = this.x(work.t.start[work.i]), y1 = this.yOf(work.t, work.i, top), bend = Math.max(24, Math.abs(x1 - x0) * 0.4);
      c.strokeStyle = this.palette.css("link");
      c.lineWidth = 1.5;
      c.beginPath();
      c.moveTo(x0, y0);
      c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
      c.stroke();
      c.beginPath();
      c.moveTo(x1, y1);
      c.lineTo(x1 - 6, y1 - 4);
      c.lineTo(x1 - 6, y1 + 4);
      c.fillStyle = this.palette.css("link");
      c.fill();
      const box = work.t.row ? work.t.row.lane : HEAD;
      c.strokeRect(x1 - 0.5, y1 - box / 2, Math.max((work.t.end[work.i] - work.t.start[work.i]) * this.k, 2) + 1, box);
    }

    /** Of a stretch of time, how much the GPUs work, on average over them. */
    busyShare(a, b) { return this.devices.reduce((sum, u) => sum + busyIn(u, a, b), 0) / this.devices.length / (b - a); }

    // ---- ruler and overview ----

    drawTop() {
      const c = this.top.getContext("2d"), w = this.left + this.w;
      c.setTransform(this.dpr, 0, 0, this.dpr, 0, 0);
      c.fillStyle = this.palette.css("panel");
      c.fillRect(0, 0, w, RULER + MAP);
      c.font = "11px system-ui, sans-serif";
      c.textBaseline = "middle";
      this.drawMap(c);
      c.save();
      c.beginPath();
      c.rect(this.left, MAP, this.w, RULER);
      c.clip();
      c.translate(this.left, MAP);
      this.drawRuler(c);
      c.restore();
      c.fillStyle = this.palette.css("line");
      c.fillRect(0, MAP - 1, w, 1);
      c.fillRect(0, MAP + RULER - 1, w, 1);
    }

    drawMap(c) {
      const [low, high] = this.extent, k = this.w / (high - low), mx = (t) => this.left + (t - low) * k;
      c.fillStyle = this.palette.css("busy");
      for (let px = 0; this.devices.length && px < this.w; px++) {
        const share = this.busyShare(low + px / k, low + (px + 1) / k);
        if (share > 0) c.fillRect(this.left + px, MAP - 3 - (MAP - 8) * Math.max(share, 0.08), 1, (MAP - 8) * Math.max(share, 0.08));
      }
      c.fillStyle = this.palette.css("select");
      const x = mx(this.a), w = Math.max((this.b - this.a) * k, 3);
      c.fillRect(x, 1, w, MAP - 3);
      c.strokeStyle = this.palette.css("accent");
      c.lineWidth = 1;
      c.strokeRect(x + 0.5, 1.5, w - 1, MAP - 4);
      c.fillStyle = this.palette.css("muted");
      if (this.left > 100) c.fillText(time(high - low), 8, MAP / 2);
    }

    drawRuler(c) {
      const tick = tickSize((this.b - this.a) * 110 / this.w), big = tick * 1000;
      const zero = this.origin, far = Math.max(Math.abs(this.a - zero), Math.abs(this.b - zero)) / tick > 1e4;
      const base = zero + (far ? Math.floor((this.a - zero) / big) * big : 0);
      const [size, unit] = unitOf(tick), digits = Math.max(0, Math.ceil(-Math.log10(tick / size) - 1e-9));
      c.fillStyle = this.palette.css("muted");
      for (let t = this.firstTick(tick); t < this.b; t += tick) {
        const x = Math.round(this.x(t));
        c.fillRect(x, RULER - 7, 1, 7);
        c.fillText(`${((t - base) / size).toFixed(digits)} ${unit}`, x + 4, RULER - 9);
      }
      if (far) { c.fillStyle = this.palette.css("fg"); this.tag(c, `${time(base - zero)} +`, 0, RULER - 10); }
      const steps = this.stepTrack();
      if (!steps) return;
      c.fillStyle = this.palette.css("fg");
      this.eachStep(steps, (i, x0, x1) => {
        c.fillStyle = this.palette.css("stepline");
        c.fillRect(Math.round(x0), 0, 1, RULER);
        if (x1 - x0 > 30) this.drawText(c, this.data.names[steps.label[i]], x0, x1 - x0, 7, "fg");
      });
    }

    // ---- events ----

    /** The event under a point of the canvas, or the nearest within a few pixels. */
    hit(x, y, slack = 4) {
      const at = y + this.body.scrollTop;
      const row = this.rows.find((r) => at >= r.y && at < r.y + r.h);
      if (!row || !row.track || row.track.kind === "counter") return row && row.track ? this.counterAt(row.track, x) : null;
      const t = row.track, lane = Math.min(Math.floor((at - row.y) / row.lane), t.lanes.length - 1), [from, to] = t.lanes[lane];
      const time_ = this.at(x);
      let i = above(t.end, time_, from, to), best = null, least = slack;
      for (const r of [i - 1, i, i + 1]) {
        if (r < from || r >= to) continue;
        const away = Math.max(this.x(t.start[r]) - x, x - this.x(t.end[r]), 0);
        if (away < least || (away === 0 && least === 0)) { least = away; best = { t, i: r }; }
      }
      return best;
    }

    counterAt(t, x) {
      const i = above(t.start, this.at(x), 0, t.n) - 1;
      return i >= 0 ? { t, i, counter: true } : null;
    }

    /** Calls and device work by correlation id, of one process. */
    linkIndex(kind, process) {
      const key = `${kind}${process}`;
      let index = this.links.get(key);
      if (index) return index;
      this.links.set(key, index = new Map());
      for (const t of this.tracks) {
        if (t.kind !== kind || t.process !== process || !t.link) continue;
        for (let i = 0; i < t.n; i++) {
          if (t.link[i] < 0) continue;
          const known = index.get(t.link[i]);
          if (known) known.push({ t, i }); else index.set(t.link[i], [{ t, i }]);
        }
      }
      return index;
    }

    /** What an event launched, or what launched it. */
    linked(t, i) {
      if (!t.link || t.link[i] < 0) return [];
      return this.linkIndex(t.kind === "api" ? "stream" : "api", t.process).get(t.link[i]) || [];
    }

    /** Events of the lanes above that enclose one, outermost first. */
    enclosing(t, i) {
      const out = [];
      for (const [from, to] of t.lanes) {
        if (from > i) break;
        const r = above(t.end, t.start[i], from, to);
        if (r < to && r !== i && t.start[r] <= t.start[i] && t.end[r] >= t.end[i]) out.push(r);
      }
      return out;
    }

    frames_(node) {
      const out = [], { parent, name } = this.data.stacks;
      for (; node >= 0 && out.length < 100; node = parent[node]) out.push(this.data.names[name[node]]);
      return out;
    }

    rowsOf(t, i) {
      const rows = [], add = (key, value) => rows.push([this.say(key), value]), d = t.end[i] - t.start[i];
      if (t.many && t.many[i] > 1) {
        rows.push(["", this.say("merged", { n: count(t.many[i]), p: percent(t.busy[i] / Math.max(d, 1)) })]);
      }
      add("duration", time(d));
      add("start", `${time(t.start[i] - this.origin)} ${this.say("since_step")}`);
      this.addFacts(t, i, d, add);
      return rows;
    }

    addFacts(t, i, d, add) {
      const fact = t.fact && t.fact[i] >= 0 ? this.data.facts[t.fact[i]] : null;
      if (!fact) return;
      const known = (x) => x !== null && x !== undefined;
      const [kind, ...f] = fact;
      if (kind === "kernel") {
        if (known(f[0])) add("grid", f.slice(0, 3).join(" × "));
        if (known(f[3])) add("block", f.slice(3, 6).join(" × "));
        if (known(f[6])) add("registers", f[6]);
        if (known(f[7]) || known(f[8])) add("smem", bytes((f[7] || 0) + (f[8] || 0)));
      } else if (kind === "copy" || kind === "memset") {
        if (known(f[0])) add("bytes", bytes(f[0]));
        if (known(f[0]) && d > 0) add("rate", `${Number((f[0] / d).toPrecision(3))} GB/s`);
        add("memory", (kind === "copy" ? f.slice(2) : f.slice(1)).filter(known).join(" → "));
      } else if (kind === "domain") add("domain", f[0]);
    }

    placeOf(t) {
      const names = [this.trackLabel(t)];
      for (let g = this.groups[t.group]; g; g = this.groups[g.parent]) names.unshift(this.labelOf(g));
      return names.join(" › ");
    }

    // ---- tooltip and details ----

    showTip(found, x, y) {
      this.tip.hidden = !found;
      if (!found) return;
      this.tip.textContent = "";
      const { t, i } = found;
      if (found.counter) {
        make("b", "", this.tip, { textContent: this.trackLabel(t) });
        make("div", "", this.tip, { textContent: `${t.values[i]} · ${time(t.start[i] - this.origin)}` });
      } else {
        make("b", "", this.tip, { textContent: this.fullName(t, i) });
        for (const [key, value] of this.rowsOf(t, i)) make("div", "", this.tip, { textContent: key ? `${key}: ${value}` : value });
        if (t.stack && t.stack[i] >= 0) for (const f of this.frames_(t.stack[i]).slice(0, 8)) make("div", "ut-frame", this.tip, { textContent: f });
      }
      const box = this.root.getBoundingClientRect(), w = this.tip.offsetWidth, h = this.tip.offsetHeight;
      this.tip.style.left = `${Math.max(0, Math.min(x - box.left + 14, box.width - w - 4))}px`;
      const under = y - box.top + 16;
      this.tip.style.top = `${under + h > box.height ? Math.max(0, y - box.top - h - 10) : under}px`;
    }

    fullName(t, i) {
      const name = this.data.names[t.label[i]] || "";
      return t.kind === "gil" ? `${this.say("gil")}: ${this.say(name)}` : name;
    }

    select(found, quiet) {
      this.selected = found && !found.counter ? found : null;
      this.dirty();
      this.showPanel();
      if (this.options.onselect) this.options.onselect(this.selected ? this.describe(this.selected) : null);
      if (this.selected && !quiet) this.live.textContent = `${this.fullName(found.t, found.i)}, ${time(found.t.end[found.i] - found.t.start[found.i])}`;
    }

    describe({ t, i }) {
      return { track: t.index, row: i, kind: t.kind, name: this.fullName(t, i), start_ns: t.start[i], end_ns: t.end[i],
        link: t.link && t.link[i] >= 0 ? t.link[i] : null };
    }

    showPanel() {
      this.panel.hidden = !this.selected;
      this.panel.textContent = "";
      if (!this.selected) return;
      const { t, i } = this.selected;
      const head = make("div", "ut-panel-head", this.panel);
      make("b", "", head, { textContent: this.fullName(t, i) });
      this.action(head, this.say("zoom"), () => this.zoomToEvent(t, i));
      this.action(head, this.say("close"), () => this.select(null));
      const list = make("dl", "", this.panel);
      for (const [key, value] of this.rowsOf(t, i)) this.entry(list, key, value);
      this.entry(list, this.say("where"), this.placeOf(t));
      const outer = this.enclosing(t, i).map((r) => this.data.names[t.label[r]]);
      if (outer.length) this.entry(list, this.say("inside"), outer.join(" › "));
      this.addSame(list, t, i);
      this.addLinks(list, t, i);
      if (t.stack && t.stack[i] >= 0) this.addStack(this.frames_(t.stack[i]));
    }

    entry(list, key, value) {
      make("dt", "", list, { textContent: key });
      return make("dd", "", list, { textContent: String(value) });
    }

    action(parent, text, act) {
      const b = make("button", "ut-button", parent, { type: "button", textContent: text });
      b.addEventListener("click", act);
      return b;
    }

    addSame(list, t, i) {
      let n = 0, total = 0;
      for (const [from, to] of t.lanes) {
        const first = above(t.end, this.a, from, to), last = above(t.start, this.b, first, to);
        for (let r = first; r < last; r++) if (t.label[r] === t.label[i] && !(t.many && t.many[r] > 1)) { n++; total += t.end[r] - t.start[r]; }
      }
      if (n > 1) this.entry(list, this.say("same"), this.say("same_value", { n: count(n), t: time(total) }));
    }

    addLinks(list, t, i) {
      if (!t.link || t.link[i] < 0) return;
      const others = this.linked(t, i), isCall = t.kind === "api";
      if (!others.length && isCall) return;
      const cell = this.entry(list, this.say(isCall ? "launches" : "launched"), others.length ? "" : this.say("none_found"));
      for (const o of others.slice(0, 8)) {
        const name = isCall ? shortKernel(this.data.names[o.t.label[o.i]]) : this.data.names[o.t.label[o.i]];
        this.action(cell, `${name} ${time(o.t.end[o.i] - o.t.start[o.i])}`, () => this.follow(o)).classList.add("ut-link");
      }
      if (others.length > 8) make("span", "", cell, { textContent: this.say("more", { n: count(others.length - 8) }) });
      if (others.length) {
        const [call, work] = isCall ? [{ t, i }, others[0]] : [others[0], { t, i }];
        this.entry(list, this.say("latency"), time(work.t.start[work.i] - call.t.start[call.i]));
      }
      this.entry(list, this.say("correlation"), t.link[i]);
    }

    addStack(frames) {
      const box = make("details", "", this.panel, { open: true });
      make("summary", "", box, { textContent: this.say("stack") });
      const list = make("ol", "", box);
      for (const f of frames) make("li", "", list, { textContent: f });
    }

    /** Selects an event and brings it into view, nearer only if it could not be seen otherwise. */
    follow({ t, i }) {
      this.reveal(t);
      this.show(t, i);
      this.select({ t, i });
    }

    show(t, i) {
      const d = Math.max(t.end[i] - t.start[i], 1), span = this.b - this.a, mid = (t.start[i] + t.end[i]) / 2;
      const narrow = d / span * this.w < 3, wide = d > span;
      if (narrow || wide) { const want = wide ? d * 1.3 : d * this.w / 24; this.zoomTo(mid - want / 2, mid + want / 2); return; }
      if (t.start[i] < this.a || t.end[i] > this.b) this.zoomTo(mid - span / 2, mid + span / 2);
    }

    zoomToEvent(t, i) {
      const d = Math.max(t.end[i] - t.start[i], 10);
      this.zoomTo(t.start[i] - d * 0.15, t.end[i] + d * 0.15);
    }

    neighbour(by) {
      if (!this.selected) { const t = this.rows.find((r) => r.track && r.track.n && r.track.kind !== "counter"); if (t) this.follow({ t: t.track, i: above(t.track.end, this.a, 0, t.track.n - 1) }); return; }
      const { t, i } = this.selected, [from, to] = t.lanes.find(([f, e]) => i >= f && i < e), next = i + by;
      if (next >= from && next < to) this.follow({ t, i: next });
    }

    // ---- findings ----

    jump(place) {
      this.jumped = place;
      const { start_ns: a, end_ns: b, idle, label } = place, margin = Math.max((b - a) * 0.08, 100);
      const t = this.tracks[place.track];
      if (t) { this.reveal(t); this.countFrom(t.process, (a + b) / 2); }
      this.zoomTo(a - margin, b + margin);
      const given = place.idle_ns !== undefined && place.idle_ns !== null;  // gaps beyond those listed are counted there
      const total = given ? place.idle_ns : (idle || []).reduce((sum, [p, q]) => sum + q - p, 0), n = given ? place.gaps : (idle || []).length;
      const words = n ? this.say("idle_total", { t: time(total), n: count(n) }) : time(b - a);
      this.live.textContent = `${label || ""} ${words}`;
      this.status.textContent = `${label ? `${label}: ` : ""}${words} · ${this.note()}`;
      this.dirty();
    }

    clearJump() {
      this.jumped = null;
      this.status.textContent = this.note();
      this.dirty();
    }

    // ---- search ----

    search(text) {
      if (this.box.value !== text) this.box.value = text;
      const wanted = text.trim().toLowerCase();
      this.found = [];
      this.current = -1;
      const good = new Uint8Array(this.data.names.length);
      if (wanted) this.data.names.forEach((name, i) => { good[i] = name.toLowerCase().includes(wanted) ? 1 : 0; });
      for (const t of this.tracks) t.hits = wanted && t.label ? this.marked(t, good) : null;
      this.found.sort((p, q) => p.t.start[p.i] - q.t.start[q.i]);
      this.showHits(wanted);
      this.dirty();
      return this.found.length;
    }

    /** Prefix sums of hits, so that a pixel knows at once whether it holds one. */
    marked(t, good) {
      const hits = new Uint32Array(t.n + 1);
      for (let i = 0; i < t.n; i++) {
        hits[i + 1] = hits[i] + good[t.label[i]];
        if (good[t.label[i]]) this.found.push({ t, i });
      }
      return hits;
    }

    showHits(wanted) {
      const n = this.found ? this.found.length : 0;
      this.hitsText.textContent = !wanted ? "" : !n ? this.say("no_hits") :
        this.current < 0 ? this.say("found", { n: count(n) }) : this.say("hits", { i: count(this.current + 1), n: count(n) });
    }

    next() { this.step(1); }
    previous() { this.step(-1); }

    step(by) {
      const n = this.found ? this.found.length : 0;
      if (!n) return;
      if (this.current < 0) {
        let lo = 0, hi = n;
        while (lo < hi) { const mid = (lo + hi) >>> 1, f = this.found[mid]; if (f.t.start[f.i] >= this.a) hi = mid; else lo = mid + 1; }
        this.current = by > 0 ? lo % n : (lo - 1 + n) % n;
      } else this.current = (this.current + by + n) % n;
      this.showHits(true);
      this.follow(this.found[this.current]);
    }

    // ---- hands ----

    on(target, type, act, options) {
      target.addEventListener(type, act, options);
      this.stops.push(() => target.removeEventListener(type, act, options));
    }

    bind() {
      const c = this.canvas;
      this.pointers = new Map();
      this.on(c, "pointerdown", (e) => this.down(e));
      this.on(c, "pointermove", (e) => this.move(e));
      for (const type of ["pointerup", "pointercancel"]) this.on(c, type, (e) => this.up(e));
      this.on(c, "pointerleave", () => this.showTip(null));
      this.on(c, "dblclick", (e) => this.double(e));
      this.on(this.body, "wheel", (e) => this.wheel(e), { passive: false });
      this.on(this.body, "scroll", () => { this.showTip(null); this.dirty(); });
      this.on(c, "keydown", (e) => this.key(e));
      this.on(this.gutter, "click", (e) => { const b = e.target.closest("button"); if (b) this.toggle(b.dataset.key); });
      this.on(this.box, "input", () => this.search(this.box.value));
      this.on(this.box, "keydown", (e) => this.searchKey(e));
      this.on(this.top, "pointerdown", (e) => this.mapDown(e));
      this.on(this.top, "pointermove", (e) => { if (e.buttons && this.mapping) this.mapMove(e); });
      this.on(this.top, "pointerup", () => { this.mapping = false; });
      const observer = new ResizeObserver(() => this.resize());
      observer.observe(this.root);
      this.stops.push(() => observer.disconnect());
    }

    point(e) { const box = this.canvas.getBoundingClientRect(); return [e.clientX - box.left, e.clientY - box.top]; }

    down(e) {
      if (e.button > 1) return;
      cancelAnimationFrame(this.moving);
      this.canvas.focus({ preventScroll: true });
      this.canvas.setPointerCapture(e.pointerId);
      const [x, y] = this.point(e);
      this.pointers.set(e.pointerId, [x, y]);
      this.drag = { x, y, a: this.a, b: this.b, scroll: this.body.scrollTop, moved: false, measure: e.shiftKey };
      if (this.pointers.size === 2) this.pinch = { ...this.spread(), a: this.a, b: this.b };
      this.showTip(null);
    }

    spread() {
      const [p, q] = [...this.pointers.values()];
      return { mid: (p[0] + q[0]) / 2, wide: Math.max(Math.abs(p[0] - q[0]), 12) };
    }

    move(e) {
      const [x, y] = this.point(e);
      if (!this.pointers.has(e.pointerId)) { this.hover(e, x, y); return; }
      this.pointers.set(e.pointerId, [x, y]);
      if (this.pinch && this.pointers.size === 2) { this.pinched(); return; }
      if (!this.drag) return;
      if (Math.abs(x - this.drag.x) + Math.abs(y - this.drag.y) > 4) this.drag.moved = true;
      if (!this.drag.moved) return;
      if (this.drag.measure) { this.measured = [this.at(this.drag.x), this.at(x)]; this.dirty(); return; }
      const by = (this.drag.x - x) / this.k;
      this.set(this.drag.a + by, this.drag.b + by);
      if (e.pointerType === "mouse") this.body.scrollTop = this.drag.scroll + this.drag.y - y;
      this.canvas.classList.add("ut-dragging");
    }

    pinched() {
      const { mid, wide } = this.spread(), p = this.pinch, span = (p.b - p.a) * p.wide / wide;
      const held = p.a + (p.b - p.a) * p.mid / this.w;
      this.drag.moved = true;
      this.set(held - span * mid / this.w, held + span * (1 - mid / this.w));
    }

    up(e) {
      const drag = this.drag;
      this.pointers.delete(e.pointerId);
      if (this.pointers.size < 2) this.pinch = null;
      this.canvas.classList.remove("ut-dragging");
      if (this.pointers.size) { const [x, y] = [...this.pointers.values()][0]; this.drag = { ...drag, x, y, a: this.a, b: this.b, moved: true }; return; }
      this.drag = null;
      if (!drag || drag.moved || e.type === "pointercancel") return;
      this.measured = null;
      this.select(this.hit(drag.x, drag.y, e.pointerType === "touch" ? 12 : 4));
    }

    hover(e, x, y) {
      if (e.pointerType === "touch") return;
      const found = this.hit(x, y);
      this.canvas.style.cursor = found && !found.counter ? "pointer" : "";
      this.showTip(found, e.clientX, e.clientY);
    }

    double(e) {
      const [x, y] = this.point(e), found = this.hit(x, y);
      if (found && !found.counter) this.zoomToEvent(found.t, found.i); else this.zoomBy(0.4, this.at(x));
    }

    wheel(e) {
      const zoom = e.ctrlKey || e.metaKey || (document.activeElement === this.canvas && !e.shiftKey && !e.altKey && Math.abs(e.deltaY) > Math.abs(e.deltaX));
      const [x] = this.point(e), unit = e.deltaMode === 1 ? 18 : e.deltaMode === 2 ? 400 : 1;
      if (x < 0 && !e.ctrlKey) return;
      if (zoom) {
        e.preventDefault();
        this.zoomBy(Math.exp(Math.max(-240, Math.min(240, e.deltaY * unit)) * 0.0022), this.at(Math.max(x, 0)), true);
      } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        e.preventDefault();
        this.panBy((e.deltaX || e.deltaY) * unit / this.w, true);
      }
      this.showTip(null);
    }

    key(e) {
      if (e.ctrlKey || e.metaKey || e.altKey) return;
      const acts = {
        ArrowLeft: () => this.panBy(-0.2), ArrowRight: () => this.panBy(0.2), a: () => this.panBy(-0.3), d: () => this.panBy(0.3),
        "+": () => this.zoomBy(0.6), "=": () => this.zoomBy(0.6), "-": () => this.zoomBy(1 / 0.6), w: () => this.zoomBy(0.6), s: () => this.zoomBy(1 / 0.6),
        ArrowUp: () => { this.body.scrollTop -= 40; }, ArrowDown: () => { this.body.scrollTop += 40; },
        Home: () => this.home(), h: () => this.home(), 0: () => this.whole(), End: () => this.whole(), n: () => this.next(), p: () => this.previous(),
        "/": () => this.box.focus(), ",": () => this.neighbour(-1), ".": () => this.neighbour(1),
        j: () => { const o = this.selected && this.linked(this.selected.t, this.selected.i)[0]; if (o) this.follow(o); },
        f: () => { if (this.selected) this.zoomToEvent(this.selected.t, this.selected.i); },
        Enter: () => { if (this.selected) this.zoomToEvent(this.selected.t, this.selected.i); else this.neighbour(0); },
        Escape: () => this.escape(),
      };
      const act = acts[e.key] || acts[e.key.toLowerCase()];
      if (!act) return;
      e.preventDefault();
      act();
    }

    /** Clears one thing at a time: the measure, the selection, the finding, the search. */
    escape() {
      if (this.measured) { this.measured = null; this.dirty(); } else if (this.selected) this.select(null);
      else if (this.jumped) this.clearJump(); else this.search("");
    }

    searchKey(e) {
      if (e.key === "Enter") { e.preventDefault(); if (e.shiftKey) this.previous(); else this.next(); }
      if (e.key === "Escape") { this.search(""); this.canvas.focus(); }
    }

    // ---- ruler and overview by hand ----

    mapDown(e) {
      if (e.offsetX < this.left) return;
      this.top.setPointerCapture(e.pointerId);
      this.mapping = e.offsetY < MAP ? "map" : "ruler";
      this.grip = { x: e.offsetX, a: this.a, b: this.b };
      if (this.mapping === "map") this.mapMove(e);
    }

    mapMove(e) {
      if (this.mapping === "ruler") {
        const by = (this.grip.x - e.offsetX) / this.k;
        this.set(this.grip.a + by, this.grip.b + by);
        return;
      }
      const [low, high] = this.extent, mid = low + (e.offsetX - this.left) * (high - low) / this.w, half = (this.b - this.a) / 2;
      this.set(mid - half, mid + half);
    }

    // ---- out ----

    state() {
      return { a: this.a, b: this.b, tracks: this.tracks.length, events: this.tracks.reduce((n, t) => n + t.n, 0), hits: this.found ? this.found.length : 0,
        selected: this.selected ? this.describe(this.selected) : null, frames: this.frames, last_ms: this.lastMs, slowest_ms: this.slowest,
        jumped: this.jumped || null, rows: this.rows.length, moving: Boolean(this.waiting) };
    }

    destroy() {
      this.gone = true;
      cancelAnimationFrame(this.moving);
      cancelAnimationFrame(this.waiting);
      for (const stop of this.stops) stop();
      this.root.remove();
    }
  }

  /** Public face: only what the page may call. */
  function mount(element, data, options) {
    const view = new View(element, data, options);
    const face = { element: view.root };
    for (const name of ["jump", "clearJump", "search", "next", "previous", "zoomTo", "home", "whole", "setTheme", "resize", "state", "destroy"]) {
      face[name] = (...given) => view[name](...given);
    }
    face.where = (track, row) => {  // of an event on the page, for tests: centre in CSS pixels
      const t = view.tracks[track], box = view.canvas.getBoundingClientRect();
      return [box.left + view.x((t.start[row] + t.end[row]) / 2), box.top + view.yOf(t, row, view.body.scrollTop)];
    };
    return face;
  }

  window.UnstallTimeline = { mount, TEXTS: { ...TEXTS } };
})();
