// Lines over the last minutes, drawn by uPlot in the colours of the page.
"use strict";

const Plots = (() => {
  const SECONDS = 300;
  const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // What each plot shows: a label, a colour, and the value of a point; null where there is nothing to say.
  const mib = value => value === null ? null : value / 1048576;
  const cause = name => point => point.amplification ? point.amplification[name] : null;
  const KINDS = {
    throughput: {
      lines: [
        ["written", "--blue", point => mib(point.written)],
        ["read", "--green", point => mib(point.read)],
      ],
      show: value => value.toFixed(1),
      least: 1,
    },
    causes: {
      lines: [
        ["all", "--ink", cause("all")],
        ["hosts' data", "--blue", cause("host")],
        ["collection", "--red", cause("collection")],
        ["journal", "--pink", cause("journal")],
        ["checkpoints", "--amber", cause("checkpoint")],
        ["padding", "--faint", cause("padding")],
      ],
      show: value => value.toFixed(2),
      least: 1.5,
    },
    latency: {
      lines: [
        ["p50", "--green", point => percentile(point, "p50")],
        ["p99", "--amber", point => percentile(point, "p99")],
        ["p99.9", "--red", point => percentile(point, "p999")],
      ],
      show: value => value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en"),
      logarithmic: true,
    },
  };

  let commands = "writes";
  const percentile = (point, name) => point[commands] ? Math.max(point[commands][name], 100) / 1000 : null;

  let points = [];
  const plots = {};

  function data(kind) {
    return [points.map(point => point.at_ms / 1000), ...kind.lines.map(line => points.map(line[2]))];
  }

  function timeRange() {
    const last = points.length ? points[points.length - 1].at_ms / 1000 : Date.now() / 1000;
    const first = points.length ? points[0].at_ms / 1000 : last;
    return [Math.max(last - SECONDS, Math.min(first, last - 60)), last];
  }

  function clock(seconds) {
    const at = new Date(seconds * 1000);
    const digits = value => String(value).padStart(2, "0");
    return `${at.getHours()}:${digits(at.getMinutes())}` + (seconds % 60 ? `:${digits(at.getSeconds())}` : "");
  }

  function make(name) {
    const kind = KINDS[name];
    const place = document.getElementById(name);
    if (plots[name]) plots[name].destroy();
    const axis = { stroke: style("--faint"), grid: { stroke: style("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const linear = (_, least, most) => [0, Math.max(most * 1.1 || 0, kind.least)];
    const logarithmic = (_, least, most) =>
      least > 0 ? [10 ** Math.floor(Math.log10(least)), 10 ** Math.ceil(Math.log10(most * 1.01))] : [1, 1000];
    const options = {
      width: Math.max(place.clientWidth, 100), height: place.clientHeight,
      legend: { show: false }, cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
      padding: [8, 8, 0, 0],
      scales: { x: { range: timeRange }, y: kind.logarithmic ? { distr: 3, range: logarithmic } : { range: linear } },
      axes: [
        { ...axis, size: 28, space: 70, values: (_, ticks) => ticks.map(clock) },
        { ...axis, size: 52, values: (_, ticks) => ticks.map(tick => tick === null ? "" : tick.toLocaleString("en")) },
      ],
      series: [{}, ...kind.lines.map(([label, colour], at) => ({
        label, stroke: style(colour), width: name === "causes" && at === 0 ? 2.5 : 1.75, points: { show: false }, spanGaps: false,
      }))],
      hooks: { setCursor: [() => legend(name)] },
    };
    plots[name] = new uPlot(options, data(kind), place);
    legend(name);
  }

  // The values under the cursor, or the last ones: as text, for everybody.
  function legend(name) {
    const kind = KINDS[name];
    const plot = plots[name];
    const at = plot && plot.cursor.idx !== null && plot.cursor.idx !== undefined ? plot.cursor.idx : points.length - 1;
    const list = document.getElementById(name + "-legend");
    const items = kind.lines.map(([label, colour, of]) => {
      const item = document.createElement("li");
      const mark = document.createElement("i");
      mark.style.background = style(colour);
      const value = document.createElement("b");
      const number = at >= 0 && points[at] ? of(points[at]) : null;
      value.textContent = number === null ? "–" : kind.show(number);
      item.append(mark, label + " ", value);
      return item;
    });
    list.replaceChildren(...items);
  }

  function update() {
    for (const name of Object.keys(KINDS)) {
      if (!plots[name]) make(name);
      plots[name].setData(data(KINDS[name]));
      legend(name);
    }
  }

  function remake() {
    for (const name of Object.keys(KINDS)) make(name);
  }

  return {
    begin(all) { points = all; update(); },
    add(point) {
      points.push(point);
      while (points.length && points[0].at_ms < point.at_ms - 1000 * SECONDS) points.shift();
      update();
    },
    choose(kind) { commands = kind; update(); },
    resize() {
      for (const name of Object.keys(plots)) {
        const place = document.getElementById(name);
        plots[name].setSize({ width: Math.max(place.clientWidth, 100), height: place.clientHeight });
      }
    },
    remake,
  };
})();
