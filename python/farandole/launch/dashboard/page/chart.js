// One curve over time on a canvas: axis, gaps where nothing was heard, and what is under the pointer.

import { make, put, timeText } from "./text.js";

const SPAN_S = 60; // at least
const GAP_S = 6;
const HEIGHT = 130;
const MARGIN = { top: 8, right: 8, bottom: 20, left: 78 };

// 1, 2 or 5 times a power of ten, so that `count` of them reach `most`.
function stepOf(most, count) {
  const power = 10 ** Math.floor(Math.log10(most / count));
  return power * [1, 2, 5, 10].find((step) => step * power * count >= most);
}

export class Chart {
  // `value` takes a number, or null, from a sample; `text` gives it a unit; `note` says more about one sample.
  constructor(parent, { title, value, text, note = () => "" }) {
    Object.assign(this, { title, value, text, note, samples: [], now: 0, pointer: null });
    const figure = make("figure");
    const caption = make("figcaption", "", `${title} `);
    this.reading = make("output");
    caption.append(this.reading);
    this.canvas = make("canvas");
    this.canvas.setAttribute("role", "img");
    figure.append(caption, this.canvas);
    parent.append(figure);
    this.canvas.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }

  point(x) {
    this.pointer = x;
    this.paint();
  }

  // `now` is where the time axis ends, in seconds like the samples' first numbers.
  draw(samples, now) {
    Object.assign(this, { samples: samples.filter((sample) => this.value(sample) !== null), now });
    this.paint();
  }

  paint() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = HEIGHT * scale;
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(this.canvas);
    const colour = (name) => style.getPropertyValue(name);
    pen.font = `12px ${style.fontFamily}`;
    const last = this.samples.length ? this.samples[0][0] : this.now;
    const from = Math.min(last, this.now - SPAN_S);
    const x = (at) => MARGIN.left + ((at - from) / (this.now - from)) * (width - MARGIN.left - MARGIN.right);
    const step = stepOf(Math.max(...this.samples.map(this.value), 1e-3), 3);
    const y = (value) => HEIGHT - MARGIN.bottom - (value / (3 * step)) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    this.axes(pen, colour, { from, x, y, step, width });
    this.curve(pen, colour("--curve"), x, y);
    this.read(pen, colour("--text"), x, y);
  }

  axes(pen, colour, { from, x, y, step, width }) {
    pen.strokeStyle = colour("--line");
    pen.fillStyle = colour("--soft");
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (let index = 0; index <= 3; ++index) {
      const height = Math.round(y(index * step)) + 0.5;
      pen.beginPath();
      pen.moveTo(MARGIN.left, height);
      pen.lineTo(width - MARGIN.right, height);
      pen.stroke();
      pen.fillText(index ? this.text(index * step) : "0", MARGIN.left - 6, height);
    }
    pen.textBaseline = "bottom";
    pen.textAlign = "left";
    pen.fillText(timeText(from), x(from), HEIGHT);
    pen.textAlign = "right";
    pen.fillText(timeText(this.now), x(this.now), HEIGHT);
  }

  curve(pen, colour, x, y) {
    pen.strokeStyle = pen.fillStyle = colour;
    pen.lineWidth = 1.5;
    pen.lineJoin = "round";
    pen.beginPath();
    let before = -Infinity;
    for (const sample of this.samples) {
      const joined = sample[0] - before <= GAP_S;
      pen[joined ? "lineTo" : "moveTo"](x(sample[0]), y(this.value(sample)));
      before = sample[0];
    }
    pen.stroke();
  }

  // The newest sample, or the one nearest to the pointer, as text and as a dot.
  read(pen, colour, x, y) {
    let sample = this.samples.at(-1);
    if (sample === undefined) {
      put(this.reading, "nothing yet");
      return this.canvas.setAttribute("aria-label", `${this.title}: nothing yet`);
    }
    this.canvas.setAttribute("aria-label", `${this.title}: now ${this.text(this.value(sample))}`);
    if (this.pointer !== null) {
      const distance = (one) => Math.abs(x(one[0]) - this.pointer);
      sample = this.samples.reduce((best, one) => (distance(one) < distance(best) ? one : best));
    }
    const when = this.pointer === null ? "" : ` at ${timeText(sample[0])}`;
    put(this.reading, this.text(this.value(sample)) + this.note(sample) + when);
    pen.fillStyle = colour;
    pen.beginPath();
    pen.arc(x(sample[0]), y(this.value(sample)), 3, 0, 2 * Math.PI);
    pen.fill();
  }
}
