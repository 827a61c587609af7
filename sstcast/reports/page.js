// The script of a forecast page, after parts.js: unpacks the fields, draws the map and the time series of a point, and
// keeps the view in the address.
const NORMAL = { 50: 0.674490, 80: 1.281552, 95: 1.959964 }; // quantiles of the normal distribution
const DEEPEST = 5; // zoom steps; each halves the width of the map's range
const PACE = 350; // milliseconds per day of the animation
const BESIDE_MAP = 78; // pixels for the degree labels beside the map
const NARROWEST = 300; // pixels of the map's width, if the screen has them
const TWO_COLUMNS = matchMedia("(min-width: 62rem)"), DARK = matchMedia("(prefers-color-scheme: dark)");

async function main() {
  const facts = JSON.parse(byId("facts").textContent);
  const { lat, lon, leads, box } = facts, past = facts.past, init = Date.parse(facts.init);
  const ocean = await unpack(facts.ocean), data = {};
  for (const [name, packed] of Object.entries(facts.arrays)) data[name] = await unpack(packed);
  const cells = []; // positions of the ocean cells in the grid
  ocean.forEach((sea, i) => sea && cells.push(i));
  const cellAt = new Int32Array(ocean.length).fill(-1);
  cells.forEach((position, cell) => (cellAt[position] = cell));
  const latOf = (cell) => lat[Math.floor(cells[cell] / lon.length)], lonOf = (cell) => lon[cells[cell] % lon.length];
  const at = (name, row, cell) => (data[name] ? data[name][row * cells.length + cell] : NaN);
  const quantile = (row, cell, sigmas) => {
    // The freezing point is NaN where there is none.
    const degrees = at("sst", row, cell) + sigmas * at("spread", row, cell), lowest = at("freezing_point", 0, cell);
    return degrees < lowest ? lowest : degrees;
  };
  const value = (name, row, cell) =>
    name === "anomaly" ? at("sst", row, cell) - at("climatology", row, cell) : at(name, row, cell);

  byId("app").hidden = false;
  await Bokeh.embed.embed_item(facts.map, "map");
  await Bokeh.embed.embed_item(facts.series, "series");
  ["map", "series"].forEach((id) => removeTabStops(byId(id)));
  const model = (name) => Bokeh.documents.map((doc) => doc.get_model_by_name(name)).find((found) => found);
  const map = model("map"), series = model("series"), field = model("field"), bar = model("bar");
  const shape = (box.north - box.south) / (box.east - box.west) / Math.cos(((box.north + box.south) / 2) * Math.PI / 180);

  // The view: the layer, the day (a row of `leads`), the ocean cell and the zoom. `drawn` is the one that is shown.
  const view = { layer: facts.layers[0].name, row: 0, cell: start(), zoom: 0 };
  let drawn = {};

  function start() {
    // The cell of the first place, or that with the highest heatwave probability over all days, or that in the middle.
    if (facts.place.length) return nearest(...facts.place);
    const name = "heatwave_probability";
    const sum = (cell) => leads.reduce((total, _, row) => total + (at(name, row, cell) || 0), 0);
    let best = nearest((lat[0] + lat.at(-1)) / 2, (lon[0] + lon.at(-1)) / 2);
    if (data[name]) cells.forEach((_, cell) => { if (sum(cell) > sum(best)) best = cell; });
    return best;
  }

  function nearest(y, x) {
    let best = 0, least = Infinity;
    cells.forEach((_, cell) => {
      const east = ((x - lonOf(cell) + 540) % 360 + 360) % 360 - 180;
      const apart = (y - latOf(cell)) ** 2 + (east * Math.cos(y * Math.PI / 180)) ** 2;
      if (apart < least) [best, least] = [cell, apart];
    });
    return best;
  }

  const layerOf = (name) => facts.layers.find((layer) => layer.name === name);

  // Text
  const dateOf = (lead) => new Date(init + lead * DAY);
  const iso = (lead) => dateOf(lead).toISOString().slice(0, 10);
  const format = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", day: "numeric", month: "short", year: "numeric" });
  const spoken = (lead) => format.format(dateOf(lead));

  function showMap() {
    const image = field.data.image ?? field.get_column("image"), grid = image[0].fill(NaN);
    facts.rows.forEach((row, y) => lon.forEach((_, column) => {
      const cell = cellAt[row * lon.length + column];
      if (cell >= 0) grid[y * lon.length + column] = value(view.layer, view.row, cell);
    }));
    field.change.emit();
  }

  function showColours() {
    const layer = layerOf(view.layer);
    model("colours").setv({ palette: layer.palette.map((colour) => parseInt(colour.slice(1) + "ff", 16)), low: layer.low, high: layer.high });
    bar.ticker.ticks = Object.keys(layer.ticks).map(Number);
    bar.major_label_overrides = new Map(Object.entries(layer.ticks).map(([tick, text]) => [Number(tick), text]));
    bar.title = layer.label;
  }

  function showRange() {
    const part = 2 ** -view.zoom, size = [(box.east - box.west) * part, (box.north - box.south) * part];
    const begin = (middle, extent, low, high) => Math.min(Math.max(middle - extent / 2, low), high - extent);
    const west = begin(lonOf(view.cell), size[0], box.west, box.east), south = begin(latOf(view.cell), size[1], box.south, box.north);
    map.x_range.setv({ start: west, end: west + size[0] });
    map.y_range.setv({ start: south, end: south + size[1] });
    const wide = map.frame_width ?? 400, tall = map.frame_height ?? 400;
    ticks(map.below.find((one) => one.ticker && one !== bar), west, west + size[0], wide / 62, (x) => compass(east(x), ["E", "W"]).replace(/^(0|180)° .$/, "$1°"));
    ticks(map.left[0], south, south + size[1], tall / 40, (y) => compass(y, ["N", "S"]).replace(/^0° .$/, "0°"));
    byId("further").disabled = byId("whole").disabled = view.zoom === 0;
    byId("closer").disabled = view.zoom === DEEPEST;
  }

  function curvesOf(cell) {
    // The columns of the sources of the time series, and its ranges.
    const rows = leads.map((_, row) => row), last = past.length ? at("sst_past", past.length - 1, cell) : NaN;
    const joined = Number.isFinite(last), begun = (numbers) => (joined ? [last, ...numbers] : numbers);
    const sst = rows.map((row) => at("sst", row, cell));
    const fan = { x: [...(joined ? [init] : []), ...leads.map((lead) => init + lead * DAY)], sst: begun(sst) };
    for (const interval of facts.fan) {
      fan["low" + interval] = begun(rows.map((row) => quantile(row, cell, -NORMAL[interval])));
      fan["high" + interval] = begun(rows.map((row) => quantile(row, cell, NORMAL[interval])));
    }
    const before = past.map((_, row) => at("sst_past", row, cell));
    const both = (name) => [...past.map((_, row) => at(name + "_past", row, cell)), ...rows.map((row) => at(name, row, cell))];
    const threshold = both("heatwave_threshold");
    const days = { x: [...past, ...leads].map((lead) => init + lead * DAY), climatology: both("climatology"), threshold };
    const limits = threshold.slice(0, past.length), heat = before.map((number, i) => Math.max(number, limits[i]));
    const observed = { x: days.x.slice(0, past.length), sst: before, threshold: limits, heat };
    const seen = [...before, ...sst, ...days.climatology, ...threshold, ...fan.low95, ...fan.high95].filter(Number.isFinite);
    const low = Math.min(...seen), high = Math.max(...seen), margin = Math.max((high - low) * 0.05, 0.1);
    const x = { start: days.x[0] - DAY / 2, end: days.x.at(-1) + DAY / 2 }, y = { start: low - margin, end: high + margin };
    return { data: { fan, past: observed, days, point: { x: [lonOf(cell)], y: [latOf(cell)] } }, x, y };
  }

  function showCurves({ data: columns, x, y }) {
    for (const [name, column] of Object.entries(columns)) model(name).data = column;
    series.y_range.setv(y);
    series.x_range.setv(x);
    model("before").setv({ right: init });
  }

  function showPlace() {
    const y = latOf(view.cell), x = east(lonOf(view.cell));
    byId("place").textContent = `${compass(y, ["N", "S"])}, ${compass(x, ["E", "W"])}`;
    byId("lat").value = +y.toFixed(3);
    byId("lon").value = +x.toFixed(3);
  }

  // Lines of the list that are made of several fields. Each belongs to one, and there is none where that is missing.
  const WORDS = {
    spread: (row, cell) => `${round(quantile(row, cell, -NORMAL[80]), 2)} to ${round(quantile(row, cell, NORMAL[80]), 2)} °C`,
    heatwave_event_probability: (_, cell) => {
      const any = at("heatwave_event_probability", 0, cell), chances = leads.map((_, day) => at("heatwave_probability", day, cell));
      const most = Math.max(...chances.filter(Number.isFinite)); // on some days, no event is defined
      if (any < 0.5) return `less likely than not (${share(any)})`;
      return share(any) + (Number.isFinite(most) ? `; most likely day ${spoken(leads[chances.indexOf(most)])} (${share(most)})` : "");
    },
    running_days: (_, cell) => {
      const count = at("running_days", 0, cell), still = facts.running.map((lead, row) => [lead, at("heatwave_running_probability", row, cell)])
        .filter(([, number]) => Number.isFinite(number)).map(([lead, number]) => `${share(number)} on ${spoken(lead)}`);
      const so_far = `day ${count}${count > -facts.earliest ? " or later" : ""}, ${facts.categories[at("running_category", 0, cell)]} so far`;
      return so_far + (still.length ? `; still running ${still.join(", ")}` : "");
    },
    heatwave_start: (_, cell) => {
      const first = at("heatwave_start", 0, cell), end = at("heatwave_end", 0, cell);
      const begin = `${spoken(first)}${facts.earliest !== null && first <= facts.earliest ? " or before" : ""}`;
      return `${begin} to ${Number.isFinite(end) ? spoken(end) + (end >= leads.at(-1) ? " or later" : "") : "later"}`;
    },
  };

  function told({ unit, signed }, number) {
    if (unit === "%") return share(number);
    if (unit === "category") return facts.categories[number];
    return `${signed && number >= 0.005 ? "+" : ""}${round(number, 2)} ${unit}`;
  }

  function linesOf({ row, cell }) {
    const lines = [];
    for (const field of facts.fields.filter(({ label }) => label)) {
      const ofDay = data[field.name]?.length === cells.length ? 0 : row, number = value(field.name, ofDay, cell);
      const text = Number.isFinite(number) ? (WORDS[field.name]?.(row, cell) ?? told(field, number)) : field.missing;
      if (text) lines.push([field.label, text]);
      if (field.name === "heatwave_threshold" && facts.thresholds) lines.push(["Base period of the thresholds", facts.thresholds]);
    }
    return lines;
  }

  function showLines(lines) {
    const whole = (text) => text.replace(/ (?=°C|%)|(?<=[<>]) /g, "\u00a0"); // no line ends within 0.5 °C or > 99 %
    byId("values").replaceChildren(...lines.flatMap(([name, text]) =>
      [["dt", name], ["dd", whole(text)]].map(([tag, content]) => Object.assign(document.createElement(tag), { textContent: content }))));
  }

  function showDay() {
    const lead = leads[view.row];
    byId("day").value = lead;
    byId("day").setAttribute("aria-valuetext", byId("date").textContent = `${lead}: ${spoken(lead)}`);
    model("chosen").location = init + lead * DAY;
  }

  function fit() {
    // The frame has the shape of the box. It fills its column unless it would be taller than the screen, but a map of a
    // tall box is never narrower than NARROWEST. With two columns, the left one becomes as wide as the map.
    const panes = byId("map").closest(".panes"), beside = panes.matches(".tall") && TWO_COLUMNS.matches;
    const room = beside ? panes.clientWidth * 0.55 : byId("map").parentElement.clientWidth;
    const high = (innerHeight * (beside ? 0.7 : 0.85)) / shape;
    const width = Math.round(Math.max(150, Math.min(room - BESIDE_MAP, Math.max(NARROWEST, high))));
    panes.style.setProperty("--map", `${width + BESIDE_MAP}px`);
    map.setv({ frame_width: width, frame_height: Math.round(width * shape), width: width + BESIDE_MAP });
    showRange();
  }

  function paint() {
    // Bokeh draws on a canvas, to which the colours of the style sheet do not apply.
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const ink = colour("ink"), soft = colour("soft"), ground = colour("ground");
    for (const [plot, fill] of [[map, colour("empty")], [series, ground]]) {
      plot.setv({ background_fill_color: fill, border_fill_color: ground, outline_line_color: null });
      for (const axis of [...plot.below, ...plot.left].filter((one) => one !== bar))
        axis.setv({ axis_line_color: soft, major_tick_line_color: soft, minor_tick_line_color: soft, major_label_text_color: ink, axis_label_text_color: ink });
      for (const grid of plot.center.filter((one) => "grid_line_color" in one)) grid.grid_line_color = colour("line");
    }
    bar.setv({ background_fill_color: ground, major_label_text_color: ink, title_text_color: ink });
    model("before").fill_color = colour("box");
    model("chosen").line_color = soft;
    for (const [name, line] of [["observed", ink], ["forecast", colour("forecast")], ["climatology", soft]])
      model(name).glyph.line_color = line;
  }

  // The view in the address
  const hash = () => "#" + new URLSearchParams({ layer: view.layer, day: leads[view.row], lat: +latOf(view.cell).toFixed(4), lon: +lonOf(view.cell).toFixed(4), zoom: view.zoom });

  function inAddress() {
    const wanted = new URLSearchParams(location.hash.slice(1)), number = (name) => Number.parseFloat(wanted.get(name)), found = {};
    if (layerOf(wanted.get("layer"))) found.layer = wanted.get("layer");
    if (leads.includes(number("day"))) found.row = leads.indexOf(number("day"));
    if (Number.isFinite(number("lat")) && Number.isFinite(number("lon"))) found.cell = nearest(number("lat"), number("lon"));
    if (number("zoom") >= 0 && number("zoom") <= DEEPEST) found.zoom = Math.floor(number("zoom"));
    return found;
  }

  function change(what) {
    // What is said of a point is computed before anything is drawn, so that all that is shown is of one cell.
    const lines = linesOf({ ...view, ...what }), curves = curvesOf(what.cell ?? view.cell);
    Object.assign(view, what);
    const changed = (...names) => names.some((name) => view[name] !== drawn[name]);
    if (changed("layer")) showColours();
    if (changed("layer", "row")) showMap();
    if (changed("cell")) showCurves(curves);
    if (changed("cell")) showPlace();
    if (changed("zoom") || (view.zoom && changed("cell"))) showRange();
    showLines(lines);
    showDay();
    byId("layer").value = view.layer;
    byId("link").hidden = true;
    byId("said").textContent = "";
    if (location.hash !== hash()) history.replaceState(null, "", hash());
    drawn = { ...view };
  }

  const day = (row) => change({ row: (row + leads.length) % leads.length });

  // The time series of the point as CSV
  function csv() {
    const { cell } = view, columns = [];
    for (const { name, column, past: before } of facts.fields) {
      const ahead = (row) => at(name, row, cell), behind = (row) => at(name + "_past", row, cell);
      if (before && before !== column && data[name + "_past"]) columns.push({ header: before, behind });
      if (column) columns.push({ header: column, ahead, behind: before === column ? behind : undefined });
    }
    if (data.spread) for (const interval of facts.fan) for (const [side, sign] of [["low", -1], ["high", 1]])
      columns.push({ header: `${side}${interval}_degC`, ahead: (row) => quantile(row, cell, sign * NORMAL[interval]) });
    const text = (number, digits) => (Number.isFinite(number) ? String(+number.toFixed(digits)) : "");
    const line = (lead, row, when) =>
      [iso(lead), lead, text(latOf(cell), 4), text(lonOf(cell), 4), ...columns.map((column) => text(column[when]?.(row), 3))].join(",");
    const header = ["date", "lead", "lat", "lon", ...columns.map((column) => column.header)].join(",");
    return [header, ...past.map((lead, row) => line(lead, row, "behind")), ...leads.map((lead, row) => line(lead, row, "ahead")), ""].join("\n");
  }

  // Events
  byId("layer").addEventListener("change", (event) => change({ layer: event.target.value }));
  Object.assign(byId("day"), { min: leads[0], max: leads.at(-1) });
  byId("day").addEventListener("input", (event) => change({ row: Math.max(0, leads.findLastIndex((lead) => lead <= event.target.value)) }));
  let playing = null;
  byId("play").addEventListener("click", () => {
    playing = playing ? clearInterval(playing) : setInterval(() => day(view.row + 1), PACE);
    byId("play").textContent = playing ? "❚❚ Pause" : "▶ Play";
  });
  const zoom = (steps) => change({ zoom: Math.min(DEEPEST, Math.max(0, view.zoom + steps)) });
  for (const [id, steps] of Object.entries({ closer: 1, further: -1, whole: -DEEPEST }))
    byId(id).addEventListener("click", () => zoom(steps));
  map.on_event("tap", ({ x, y }) => {
    if (x >= box.west && x <= box.east && y >= box.south && y <= box.north) change({ cell: nearest(y, x) });
  });
  series.on_event("tap", ({ x }) => {
    const lead = Math.round((x - init) / DAY);
    if (leads.includes(lead)) change({ row: leads.indexOf(lead) });
  });

  function move(north, east) {
    // Move to the next ocean cell in this direction, across land if necessary.
    let row = Math.floor(cells[view.cell] / lon.length), column = cells[view.cell] % lon.length;
    const inside = () => row >= 0 && row < lat.length && column >= 0 && column < lon.length;
    do [row, column] = [row + north, column + east];
    while (inside() && cellAt[row * lon.length + column] < 0);
    if (inside()) change({ cell: cellAt[row * lon.length + column] });
  }

  byId("map").addEventListener("keydown", (event) => {
    const steps = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (steps) for (let n = event.shiftKey ? 5 : 1; n; n--) move(...steps);
    else if (event.key === "PageUp" || event.key === "PageDown") day(view.row + (event.key === "PageUp" ? -1 : 1));
    else if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1 : -1);
    else return;
    event.preventDefault();
  });
  for (const id of ["lat", "lon"]) byId(id).addEventListener("change", () => {
    const [y, x] = ["lat", "lon"].map((name) => byId(name).valueAsNumber);
    if (Number.isFinite(y) && Number.isFinite(x)) change({ cell: nearest(y, x) });
    showPlace();
  });
  byId("copy").addEventListener("click", async () => {
    const link = byId("link");
    try {
      await navigator.clipboard.writeText(location.href);
      byId("said").textContent = "Copied.";
    } catch { // the clipboard is not allowed, or the page is not served over https
      link.value = location.href;
      link.hidden = false;
      link.select();
      byId("said").textContent = "Copy this link:";
    }
  });
  byId("csv").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    link.download = `${facts.name}_${latOf(view.cell).toFixed(3)}_${lonOf(view.cell).toFixed(3)}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
  byId("find")?.addEventListener("input", (event) => {
    const rows = [...document.querySelectorAll(".places tbody tr")], wanted = event.target.value.trim().toLowerCase();
    for (const row of rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    byId("found").textContent = wanted && `${rows.filter((row) => !row.hidden).length} of ${rows.length} places`;
  });
  addEventListener("resize", fit);
  DARK.addEventListener("change", paint);
  byId("coast").textContent = `Squares are cells of the data, ${+((box.north - box.south) / lat.length).toFixed(3)}° high. A cell at the coast is either all sea or all land, so colours may cross the coastline or end before it.`;

  addEventListener("hashchange", () => change(inAddress()));
  return () => {
    paint();
    fit();
    change(inAddress());
    document.documentElement.dataset.ready = "";
  };
}

main().then((draw) => draw(), (error) => {
  // In an old browser, or without a canvas, show the text for readers without JavaScript.
  byId("app").hidden = true;
  byId("app").insertAdjacentHTML("afterend", document.querySelector("noscript").textContent);
  throw error;
});
