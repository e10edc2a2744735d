// One curve over time, by Chart.js (page.html loads it): with gaps where nothing was heard, and what is under the pointer.

import { make, put, timeText } from "./text.js";

const SPAN_S = 60; // at least
const GAP_S = 6;
// Of the numbers at the left, so that curves below each other begin at one place.
const LABELS_PX = 78;

const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function optionsOf(curve) {
  const font = () => ({ family: getComputedStyle(document.body).fontFamily, size: 12 });
  return {
    animation: false,
    parsing: false,
    normalized: true,
    maintainAspectRatio: false,
    events: [],
    plugins: { legend: { display: false }, tooltip: { enabled: false } },
    scales: {
      x: {
        type: "linear",
        grid: { display: false, borderColor: colour("--line") },
        afterBuildTicks: (axis) => (axis.ticks = [{ value: axis.min }, { value: axis.max }]),
        ticks: { align: "inner", color: colour("--soft"), font, maxRotation: 0, callback: (at) => timeText(at) },
      },
      y: {
        min: 0,
        suggestedMax: 1e-3,
        grid: { color: colour("--line"), borderColor: colour("--line"), drawTicks: false },
        afterFit: (axis) => (axis.width = LABELS_PX),
        ticks: { color: colour("--soft"), font, maxTicksLimit: 4, callback: (n) => (n ? curve.text(n) : "0") },
      },
    },
  };
}

export class Curve {
  // `value` takes a number, or null, from a sample; `text` gives it a unit; `note` says more about one sample.
  constructor(parent, { title, value, text, note = () => "" }) {
    Object.assign(this, { title, value, text, note, samples: [], pointed: null });
    const figure = make("figure");
    const caption = make("figcaption", "", `${title} `);
    this.reading = make("output");
    caption.append(this.reading);
    const plot = make("div", "plot");
    this.canvas = make("canvas");
    this.canvas.setAttribute("role", "img");
    plot.append(this.canvas);
    figure.append(caption, plot);
    parent.append(figure);
    const line = {
      data: [],
      borderColor: colour("--curve"),
      backgroundColor: colour("--curve"),
      borderWidth: 1.5,
      clip: false,
      spanGaps: GAP_S,
      pointRadius: (context) => (this.samples[context.dataIndex] === this.marked ? 3 : 0),
    };
    this.chart = new window.Chart(this.canvas, { type: "line", data: { datasets: [line] }, options: optionsOf(this) });
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
  }

  point(event) {
    this.pointed = event && event.offsetX;
    this.read();
    this.chart.update("none");
  }

  // `now` is where the time axis ends, in seconds like the samples' first numbers.
  draw(samples, now) {
    this.samples = samples.filter((sample) => this.value(sample) !== null);
    const { data, options } = this.chart;
    data.datasets[0].data = this.samples.map((sample) => ({ x: sample[0], y: this.value(sample) }));
    options.scales.x.min = Math.min(this.samples.length ? this.samples[0][0] : now, now - SPAN_S);
    options.scales.x.max = now;
    this.read();
    this.chart.update("none");
  }

  // The newest sample, or the one nearest to the pointer, as text and as a dot.
  read() {
    this.marked = this.samples.at(-1);
    if (this.marked === undefined) {
      put(this.reading, "nothing yet");
      return this.canvas.setAttribute("aria-label", `${this.title}: nothing yet`);
    }
    this.canvas.setAttribute("aria-label", `${this.title}: now ${this.text(this.value(this.marked))}`);
    if (this.pointed !== null) {
      const distance = (sample) => Math.abs(this.chart.scales.x.getPixelForValue(sample[0]) - this.pointed);
      this.marked = this.samples.reduce((best, one) => (distance(one) < distance(best) ? one : best));
    }
    const when = this.pointed === null ? "" : ` at ${timeText(this.marked[0])}`;
    put(this.reading, this.text(this.value(this.marked)) + this.note(this.marked) + when);
  }
}
