// Helpers of a forecast page: unpack fields, format numbers, and set the ticks of plots.
"use strict";

const byId = (id) => document.getElementById(id);
const DAY = 86400000;
const STEPS = [0.25, 0.5, 1, 2, 3, 5, 10, 15, 30, 60]; // degrees between ticks

async function unpack({ rows, columns, step, text }) {
  // The inverse of pack in page_contents.py: differences between rows, low bytes before high bytes.
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const count = rows * columns, sum = new Uint16Array(columns), values = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    const cell = i % columns;
    sum[cell] += bytes[i] | (bytes[count + i] << 8);
    const whole = (sum[cell] << 16) >> 16;
    values[i] = whole === -32768 ? NaN : whole * step;
  }
  return values;
}

function removeTabStops(element) {
  // Bokeh's plots can take the keyboard focus, but the page handles keys only on the map as a whole.
  for (const inner of (element.shadowRoot ?? element).querySelectorAll("*")) {
    inner.removeAttribute("tabindex");
    if (inner.shadowRoot) removeTabStops(inner);
  }
}

const round = (number, digits) => (+number.toFixed(digits)).toFixed(digits).replace("-", "−"); // 0 has no sign
const compass = (number, [plus, minus]) => `${+Math.abs(number).toFixed(3)}° ${number < 0 ? minus : plus}`;
const east = (x) => ((x + 180) % 360 + 360) % 360 - 180;
const share = (number) => {
  const percent = +(100 * number).toFixed(2); // a page holds 0.01 as a little less, in single precision
  return percent < 1 ? "< 1 %" : percent > 99 ? "> 99 %" : `${Math.round(percent)} %`;
};

function ticks(axis, low, high, most, text) {
  const step = STEPS.find((s) => (high - low) / s <= most) ?? 90, found = [];
  for (let k = Math.ceil(low / step - 1e-6); k * step <= high + 1e-6; k++) found.push(k * step);
  axis.ticker.ticks = found;
  axis.major_label_overrides = new Map(found.map((tick) => [tick, text(tick)]));
}
