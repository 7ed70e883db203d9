"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

  function element(kind, attributes, text) {
    const made = document.createElementNS(SVG, kind);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Opacity stands for magnitude, so that colours suit a light page, a dark page and paper.
  function paint(canvas, width, height, colour) {
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    for (let place = 0; place < width * height; place += 1) image.data.set(colour(place), 4 * place);
    context.putImageData(image, 0, 0);
  }

  const blue = (share) => [33, 120, 220, Math.round(255 * share)];
  const signed = (value) => (value < 0 ? [224, 108, 26, Math.round(-255 * value)] : blue(value));

  function drawStrip(figure) {
    const strip = data.strips[figure.dataset.strip];
    const values = new Int8Array(bytes(strip.levels).buffer);
    const bare = strip.rows.length === 0;
    const rows = bare ? [""] : strip.rows;
    figure.classList.toggle("bare", bare);
    const height = values.length / strip.width / rows.length;
    const place = figure.querySelector(".rows");
    rows.forEach((label, row) => {
      const line = document.createElement("div");
      line.className = "row";
      if (!bare) {
        const name = document.createElement("span");
        name.className = "label";
        name.textContent = label;
        line.append(name);
      }
      const canvas = document.createElement("canvas");
      const start = row * height * strip.width;
      paint(canvas, strip.width, height, (at) => signed(Math.max(-1, values[start + at] / 127)));
      line.append(canvas);
      place.append(line);
    });
  }

  // Return the width of the longest label in pixels.
  function widest(labels) {
    const context = document.createElement("canvas").getContext("2d");
    context.font = "12px system-ui, sans-serif";
    return Math.ceil(Math.max(...labels.map((label) => context.measureText(label).width))) + 10;
  }

  function drawMatrix(svg, rows, columns, share, tell) {
    const size = Math.round(Math.min(34, Math.max(21, 480 / columns.length)));
    const left = widest(rows);
    const top = widest(columns);
    const [width, height] = [left + columns.length * size + 6, top + rows.length * size + 6];
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    columns.forEach((label, column) => {
      const x = left + (column + 0.5) * size + 4;
      svg.append(element("text", { transform: `translate(${x} ${top - 6}) rotate(-90)` }, label));
    });
    rows.forEach((label, row) => {
      const y = top + row * size;
      svg.append(element("text", { x: left - 6, y: y + size / 2 + 4, "text-anchor": "end" }, label));
      columns.forEach((other, column) => {
        const weight = share(row, column);
        const x = left + column * size;
        const cell = element("rect", { x, y, width: size - 1, height: size - 1, "fill-opacity": weight.toFixed(3) });
        if (tell) {
          const note = `${label} takes ${Math.round(100 * weight)}% from ${other}`;
          cell.append(element("title", {}, note));
          cell.addEventListener("pointerenter", () => tell(note));
          cell.addEventListener("click", () => tell(note));
        }
        svg.append(cell);
        if (tell && weight >= 0.1) {
          const text = Math.round(100 * weight);
          const style = weight > 0.6 ? "share strong" : "share";
          svg.append(element("text", { x: x + size / 2 - 0.5, y: y + size / 2 + 3, class: style, "text-anchor": "middle" }, text));
        }
      });
    });
    const frame = { x: left - 1, y: top - 1, width: columns.length * size + 1, height: rows.length * size + 1, class: "frame" };
    svg.append(element("rect", frame));
  }

  function drawAttention(place) {
    const grid = data.grids[place.dataset.grid];
    const levels = bytes(grid.levels);
    const area = grid.rows.length * grid.columns.length;
    const at = (layer, head, cell) => levels[(layer * grid.heads + head) * area + cell] / 255;
    const mean = (layer, cell) => {
      let sum = 0;
      for (let head = 0; head < grid.heads; head += 1) sum += at(layer, head, cell);
      return sum / grid.heads;
    };
    const [layers, heads] = [place.querySelector(".layer"), place.querySelector(".head")];
    const said = place.querySelector(".said");
    const draw = (weight) => drawMatrix(place.querySelector(".map"), grid.rows, grid.columns, weight, (note) => { said.textContent = note; });
    if (!layers) {  // a model with one map has no choice of layers and heads
      draw((row, column) => at(0, 0, row * grid.columns.length + column));
      return;
    }
    for (let layer = 0; layer < grid.layers; layer += 1) layers.add(new Option(`${layer + 1}`, layer));
    heads.add(new Option("mean of all", -1));
    for (let head = 0; head < grid.heads; head += 1) heads.add(new Option(`${head + 1}`, head));
    layers.value = grid.layers - 1;
    const buttons = [];

    function show() {
      const [layer, head] = [Number(layers.value), Number(heads.value)];
      const weight = (row, column) => {
        const cell = row * grid.columns.length + column;
        return head < 0 ? mean(layer, cell) : at(layer, head, cell);
      };
      said.textContent = `Layer ${layer + 1}, ${head < 0 ? "the mean of all heads" : `head ${head + 1}`}.`;
      draw(weight);
      buttons.forEach((button) => button.setAttribute("aria-pressed", button.value === `${layer} ${head}`));
    }

    for (let layer = 0; layer < grid.layers; layer += 1) {
      for (let head = 0; head < grid.heads; head += 1) {
        const button = document.createElement("button");
        button.type = "button";
        button.value = `${layer} ${head}`;
        const canvas = document.createElement("canvas");
        paint(canvas, grid.columns.length, grid.rows.length, (cell) => blue(at(layer, head, cell)));
        button.append(canvas, `layer ${layer + 1}`, document.createElement("br"), `head ${head + 1}`);
        button.addEventListener("click", () => {
          [layers.value, heads.value] = [layer, head];
          show();
        });
        buttons.push(button);
        place.querySelector(".thumbs").append(button);
      }
    }
    layers.addEventListener("change", show);
    heads.addEventListener("change", show);
    show();
  }

  const HIDDEN = -128;  // level of a score that the mask has set to minus infinity
  const grey = [128, 128, 128, 89];

  // Return the address of a picture with a pixel for each cell.
  function picture(width, height, colour) {
    const canvas = document.createElement("canvas");
    paint(canvas, width, height, colour);
    return canvas.toDataURL();
  }

  function drawHeatMap(svg, map, levels, head, tell) {
    const [area, own] = [map.rows.length * map.width, map.heads > 1 ? head : 0];
    const level = (cell) => levels[own * area + cell];
    const size = 15;
    const left = widest(map.rows);
    const top = map.columns ? widest(map.columns) : 2;
    const wide = map.columns ? size * map.width : Math.min(600, Math.max(180, 8 * map.width));
    const high = size * map.rows.length;
    svg.closest("figure").querySelector(".range").textContent = map.spans[own];
    svg.setAttribute("aria-label", `${map.title}, ${map.spans[own]}`);
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${left + wide + 4} ${top + high + 4}`);
    svg.setAttribute("width", left + wide + 4);
    svg.setAttribute("height", top + high + 4);
    map.rows.forEach((label, row) => {
      svg.append(element("text", { x: left - 6, y: top + (row + 0.5) * size + 4, "text-anchor": "end" }, label));
    });
    (map.columns || []).forEach((label, column) => {
      svg.append(element("text", { transform: `translate(${left + (column + 0.5) * size + 4} ${top - 6}) rotate(-90)` }, label));
    });
    const href = picture(map.width, map.rows.length, (cell) => (level(cell) === HIDDEN ? grey : signed(level(cell) / 127)));
    const style = map.width > wide ? "narrowed" : "";
    const image = element("image", { x: left, y: top, width: wide, height: high, preserveAspectRatio: "none", href, class: style });
    const read = (event) => {
      const box = image.getBoundingClientRect();
      const at = (place, start, length, count) => Math.min(count - 1, Math.max(0, Math.floor((place - start) / length * count)));
      const column = at(event.clientX, box.left, box.width, map.width);
      const row = at(event.clientY, box.top, box.height, map.rows.length);
      const found = level(row * map.width + column);
      const value = found === HIDDEN ? "−∞" : `≈ ${(found / 127 * map.greatest[own]).toPrecision(2)}`.replace("-", "−");
      tell(`${map.title}, ${map.rows[row]}, ${map.columns ? map.columns[column] : `component ${column + 1}`}: ${value}`);
    };
    image.addEventListener("pointermove", read);
    image.addEventListener("click", read);
    svg.append(image, element("rect", { x: left - 0.5, y: top - 0.5, width: wide + 1, height: high + 1, class: "frame" }));
  }

  function drawHeatMaps(place) {
    const maps = data.heat_maps[place.dataset.heat];
    const levels = maps.map((map) => new Int8Array(bytes(map.levels).buffer));
    const pictures = place.querySelectorAll("svg.colours");
    const [heads, said] = [place.querySelector(".head"), place.querySelector(".said")];
    for (let head = 0; head < Math.max(...maps.map((map) => map.heads)); head += 1) heads.add(new Option(`${head + 1}`, head));
    const draw = (number) => drawHeatMap(pictures[number], maps[number], levels[number], Number(heads.value), (note) => { said.textContent = note; });
    maps.forEach((map, number) => draw(number));
    heads.addEventListener("change", () => maps.forEach((map, number) => map.heads > 1 && draw(number)));
  }

  document.querySelectorAll("[data-strip]").forEach(drawStrip);
  document.querySelectorAll("[data-heat]").forEach(drawHeatMaps);
  document.querySelectorAll("[data-mask]").forEach((svg) => {
    const mask = data.masks[svg.dataset.mask];
    const levels = bytes(mask.levels);
    drawMatrix(svg, mask.rows, mask.columns, (row, column) => levels[row * mask.columns.length + column] / 255 * 0.75);
  });
  document.querySelectorAll("[data-grid]").forEach(drawAttention);
  document.documentElement.dataset.drawn = "yes";
})();
