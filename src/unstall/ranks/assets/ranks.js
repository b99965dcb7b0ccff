(() => {
  const root = document.documentElement;
  document.querySelector(".theme").addEventListener("click", () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("unstall-theme", root.dataset.theme); } catch (error) { /* no storage: for this view only */ }
    draw();
  });
  for (const table of document.querySelectorAll("table.sortable")) {
    table.querySelectorAll("thead th").forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => Number(row.cells[column].dataset.v ?? -1);
      const rows = [...table.tBodies[0].rows].sort((a, b) => (down ? value(b) - value(a) : value(a) - value(b)));
      table.tBodies[0].append(...rows);
    }));
  }

  const canvas = document.getElementById("heat");
  const data = JSON.parse(document.getElementById("data").textContent);
  const rows = data.ranks.length, columns = data.steps.length, margin = 44;
  let at = null, what = "period";

  function bounds(table) {
    const all = table.flat().filter((v) => v >= 0).sort((a, b) => a - b);
    if (!all.length) return [0, 1];
    return [what === "wait" ? 0 : all[0], Math.max(all[Math.floor(0.99 * (all.length - 1))], all[0] + 1)];
  }
  // light to dark in one hue (lightness alone carries it, so it needs no colour vision)
  function colour(part) {
    const dark = root.dataset.theme === "dark";
    const p = Math.min(Math.max(part, 0), 1);
    return `hsl(${38 - 26 * p} ${60 + 25 * p}% ${dark ? 18 + 52 * p : 94 - 56 * p}%)`;
  }
  function figure(micro) { return (micro / 1000).toFixed(micro >= 100000 ? 0 : micro >= 10000 ? 1 : 2); }
  function size() {
    const width = canvas.clientWidth, cell = Math.max(3, Math.min(22, Math.floor(520 / rows)));
    return { width, cell, height: cell * rows + 20, step: (width - margin) / columns };
  }
  function draw() {
    if (!canvas) return;
    const { width, cell, height, step } = size(), ratio = window.devicePixelRatio || 1;
    canvas.height = Math.round(height * ratio);
    canvas.width = Math.round(width * ratio);
    const pen = canvas.getContext("2d"), style = getComputedStyle(root);
    pen.scale(ratio, ratio);
    const table = data[what], [low, high] = bounds(table);
    for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) {
      const value = table[r][c];
      pen.fillStyle = value < 0 ? style.getPropertyValue("--faint") : colour((value - low) / (high - low));
      pen.fillRect(margin + c * step, r * cell, step + 0.5, cell > 6 ? cell - 1 : cell);
    }
    pen.fillStyle = style.getPropertyValue("--muted");
    pen.font = "11px sans-serif";
    pen.textBaseline = "middle";
    const every = Math.ceil(14 / cell);
    for (let r = 0; r < rows; r += every) pen.fillText(data.ranks[r], 2, r * cell + cell / 2);
    const labels = Math.max(1, Math.floor((width - margin) / 70));
    for (let i = 0; i < labels; i++) {
      const c = Math.floor((i * columns) / labels);
      pen.fillText(data.steps[c], margin + c * step, rows * cell + 11);
    }
    if (at) {
      pen.strokeStyle = style.getPropertyValue("--ink");
      pen.lineWidth = 2;
      pen.strokeRect(margin + at.c * step, at.r * cell, Math.max(step, 3), Math.max(cell, 3));
    }
    document.getElementById("low").textContent = `${figure(low)} ms`;
    document.getElementById("high").textContent = `${figure(high)} ms`;
    const ramp = document.getElementById("ramp").getContext("2d");
    for (let x = 0; x < 120; x++) { ramp.fillStyle = colour(x / 119); ramp.fillRect(x, 0, 1, 10); }
  }
  function tell() {
    const period = data.period[at.r][at.c], wait = data.wait[at.r][at.c] ?? -1;
    const text = period < 0 ? data.say.none : wait < 0 ? data.say.plain : data.say.cell;
    const facts = { rank: data.ranks[at.r], step: data.steps[at.c], period: figure(period), wait: figure(wait) };
    document.getElementById("cell").textContent = text.replace(/\[(\w+)\]/g, (_, key) => facts[key]);
    draw();
  }
  if (!canvas) return;
  for (const input of document.querySelectorAll("input[name=what]")) {
    if (input.checked) what = input.value;
    input.addEventListener("change", () => { what = input.value; draw(); });
  }
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect(), { cell, step } = size();
    const c = Math.floor((event.clientX - box.left - margin) / step), r = Math.floor((event.clientY - box.top) / cell);
    if (c >= 0 && c < columns && r >= 0 && r < rows) { at = { r, c }; tell(); }
  });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -columns], End: [0, columns], PageUp: [-rows, 0], PageDown: [rows, 0] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const from = at ?? { r: 0, c: 0 };
    at = { r: Math.min(Math.max(from.r + move[0], 0), rows - 1), c: Math.min(Math.max(from.c + move[1], 0), columns - 1) };
    tell();
  });
  window.addEventListener("resize", draw);
  draw();
})();
