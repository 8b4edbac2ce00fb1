// The map: a panel for each die, in it its blocks, a small square each. A block is five characters: its use, the share in
// use as a digit of base 64, and its erases as three.
"use strict";

const BlockMap = (() => {
  const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
  const USES = { f: "free", o: "open: being written", c: "closed", j: "journal", p: "checkpoint", d: "kept for a capacitor's dump", b: "retired" };
  const LABEL = 16, GAP = 12;
  const canvas = document.getElementById("map");
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  let shape = null, blocks = "", by = "valid", chosen = -1, flashed = [], places = null, colours = null;

  const digit = character => DIGITS.indexOf(character);
  const count = () => shape.dies * shape.planes_per_die * shape.blocks_per_plane;

  function block(number) {
    const text = blocks.substr(5 * number, 5);
    return { use: text[0], share: digit(text[1]) / 63, erases: digit(text[2]) * 4096 + digit(text[3]) * 64 + digit(text[4]) };
  }

  // Blocks are numbered plane by plane, and planes go round the dies.
  function dieOf(number) {
    const plane = Math.floor(number / shape.blocks_per_plane);
    return { die: plane % shape.dies, at: Math.floor(plane / shape.dies) * shape.blocks_per_plane + number % shape.blocks_per_plane };
  }

  function numberOf(die, at) {
    const plane = Math.floor(at / shape.blocks_per_plane) * shape.dies + die;
    return plane * shape.blocks_per_plane + at % shape.blocks_per_plane;
  }

  function layOut() {
    const width = canvas.clientWidth, ratio = devicePixelRatio || 1;
    const most = Math.max(1, Math.min(shape.dies, Math.floor(width / 120), 16));
    let columns = most;
    while (shape.dies % columns) columns--;
    if (columns * 2 <= most && shape.dies > most) columns = most;
    const panel = Math.floor((width - GAP * (columns - 1)) / columns);
    const perDie = shape.planes_per_die * shape.blocks_per_plane;
    const area = panel * columns * Math.min(420, innerHeight * 0.6);
    let size = Math.max(2, Math.min(18, Math.floor(Math.sqrt(area / count()))));
    const across = Math.max(1, Math.floor(panel / size));
    const high = LABEL + Math.ceil(perDie / across) * size;
    const rows = Math.ceil(shape.dies / columns);
    const height = rows * high + GAP * (rows - 1);
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    places = { columns, panel, size, across, high, perDie, ratio };
  }

  function corner(number) {
    const { die, at } = dieOf(number);
    const x = die % places.columns * (places.panel + GAP) + at % places.across * places.size;
    const y = Math.floor(die / places.columns) * (places.high + GAP) + LABEL + Math.floor(at / places.across) * places.size;
    return [x, y];
  }

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const of = name => style.getPropertyValue(name).trim();
    const mix = (low, high) => {
      const part = (text, at) => parseInt(text.substr(1 + 2 * at, 2), 16);
      return share => "rgb(" + [0, 1, 2].map(at => Math.round(part(low, at) + (part(high, at) - part(low, at)) * share)).join(" ") + ")";
    };
    const steps = (low, high) => Array.from({ length: 64 }, (_, at) => mix(of(low), of(high))(at / 63));
    colours = {
      valid: steps("--low", "--high"), wear: steps("--worn-low", "--worn-high"),
      free: of("--free"), line: of("--free-line"), ink: of("--ink"), faint: of("--faint"), card: of("--card"), mark: of("--mark"),
      o: of("--green"), j: of("--pink"), p: of("--amber"), d: of("--faint"), b: of("--bad"),
    };
  }

  function paint(context, number, mostErases) {
    const [x, y] = corner(number), gap = places.size > 4 ? 1 : 0, size = places.size - gap;
    const { use, share, erases } = block(number);
    context.fillStyle = colours.card;
    context.fillRect(x - 0.5, y - 0.5, places.size, places.size);
    if (use === "b") {
      context.fillStyle = colours.b;
      context.fillRect(x, y, size, size);
      return;
    }
    if (by === "wear") {
      context.fillStyle = colours.wear[Math.round(63 * erases / Math.max(1, mostErases))];
    } else if (use === "f") {
      context.fillStyle = colours.free;
    } else {
      context.fillStyle = use === "c" || use === "z" ? colours.valid[Math.round(63 * share)] : colours[use];
    }
    context.fillRect(x, y, size, size);
    if (by === "valid" && use === "f" && size > 3) {
      context.strokeStyle = colours.line;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    }
  }

  function ring(context, number, colour) {
    const [x, y] = corner(number), size = places.size - (places.size > 4 ? 1 : 0);
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.strokeRect(x + 0.25, y + 0.25, size - 0.5, size - 0.5);
  }

  function mostErases() {
    let most = 0;
    if (by === "wear") for (let number = 0; number < count(); number++) most = Math.max(most, block(number).erases);
    return most;
  }

  // All blocks, or these.
  function draw(numbers) {
    if (!shape || blocks.length < 5 * count()) return;
    if (!colours) readColours();
    if (!places) { layOut(); numbers = null; }
    const context = canvas.getContext("2d");
    context.setTransform(places.ratio, 0, 0, places.ratio, 0, 0);
    const most = mostErases();
    if (numbers === null || by === "wear") {
      context.clearRect(0, 0, canvas.width, canvas.height);
      context.fillStyle = colours.faint;
      context.font = "11px system-ui, sans-serif";
      for (let die = 0; die < shape.dies; die++) {
        const x = die % places.columns * (places.panel + GAP), y = Math.floor(die / places.columns) * (places.high + GAP);
        const name = places.panel > 110 ? `die ${die} · channel ${die % shape.channels}` : `die ${die}`;
        context.fillText(name, x, y + 11, places.panel);
      }
      for (let number = 0; number < count(); number++) paint(context, number, most);
    } else {
      for (const number of numbers) paint(context, number, most);
    }
    for (const number of flashed) ring(context, number, colours.mark);
    if (chosen >= 0) ring(context, chosen, colours.ink);
  }

  function say() {
    const place = document.getElementById("block");
    if (chosen < 0 || !shape || chosen >= count()) return;
    const { use, share, erases } = block(chosen), { die } = dieOf(chosen);
    const data = use === "c" || use === "o" ? `, ${Math.round(100 * share)} % of its units in use` : "";
    place.textContent = `Block ${chosen.toLocaleString("en")} of die ${die}: ${USES[use]}${data}, erased ${erases.toLocaleString("en")} times`;
  }

  function choose(number) {
    if (number === chosen || number < 0 || number >= count()) return;
    const before = chosen;
    chosen = number;
    draw(before >= 0 ? [before, ...around(before)] : []);
    say();
  }

  // A ring covers a little of the neighbours.
  function around(number) {
    const { die, at } = dieOf(number);
    return [at - 1, at + 1, at - places.across, at + places.across]
      .filter(other => other >= 0 && other < places.perDie).map(other => numberOf(die, other));
  }

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const column = Math.floor(x / (places.panel + GAP)), row = Math.floor(y / (places.high + GAP));
    const across = Math.floor((x - column * (places.panel + GAP)) / places.size);
    const down = Math.floor((y - row * (places.high + GAP) - LABEL) / places.size);
    const die = row * places.columns + column, at = down * places.across + across;
    const isThere = across >= 0 && across < places.across && down >= 0 && at < places.perDie && die < shape.dies;
    return isThere ? numberOf(die, at) : -1;
  }

  canvas.addEventListener("pointermove", event => { if (places) choose(under(event)); });
  canvas.addEventListener("pointerdown", event => { if (places) choose(under(event)); });
  canvas.addEventListener("keydown", event => {
    if (!places) return;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -places.across, ArrowDown: places.across }[event.key];
    const page = { PageUp: -1, PageDown: 1 }[event.key];
    if (step === undefined && page === undefined && event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    const { die, at } = dieOf(Math.max(chosen, 0));
    if (event.key === "Home") choose(numberOf(0, 0));
    else if (event.key === "End") choose(numberOf(shape.dies - 1, places.perDie - 1));
    else if (page) choose(numberOf((die + page + shape.dies) % shape.dies, at));
    else if (chosen < 0) choose(0);
    else if (at + step >= 0 && at + step < places.perDie) choose(numberOf(die, at + step));
    else choose(numberOf((die + Math.sign(step) + shape.dies) % shape.dies, step > 0 ? 0 : places.perDie - 1));
  });
  canvas.addEventListener("focus", () => { if (chosen < 0 && places) choose(0); });

  function legend() {
    if (!colours) readColours();
    const scale = steps => `linear-gradient(to right, ${steps[0]}, ${steps[63]})`;
    const items = by === "valid"
      ? [["little in use … all of it", scale(colours.valid), "scale"], ["free", colours.free, "free"], ["open", colours.o], ["journal", colours.j], ["checkpoint", colours.p], ["for the dump", colours.d], ["retired", colours.b]]
      : [["never erased … most often", scale(colours.wear), "scale"], ["retired", colours.b]];
    document.getElementById("map-legend").replaceChildren(...items.map(([label, background, kind]) => {
      const item = document.createElement("li"), mark = document.createElement("i");
      mark.style.background = background;
      if (kind === "scale") mark.className = "scale";
      if (kind === "free") mark.style.border = "1px solid " + colours.line;
      item.append(mark, label);
      return item;
    }));
  }

  return {
    begin(newShape, all) { shape = newShape; blocks = all; flashed = []; places = null; chosen = Math.min(chosen, count() - 1); legend(); draw(null); say(); },
    change(change) {
      const before = flashed;
      if (change.all !== undefined) {
        blocks = change.all;
        flashed = [];
        draw(null);
      } else {
        const [numbers, text] = change.changed;
        if (numbers.length) {
          const parts = [];
          let from = 0;
          numbers.forEach((number, at) => {
            parts.push(blocks.slice(from, 5 * number), text.substr(5 * at, 5));
            from = 5 * number + 5;
          });
          parts.push(blocks.slice(from));
          blocks = parts.join("");
        }
        flashed = still.matches || numbers.length > 400 ? [] : numbers;
        if (places && (numbers.length || before.length)) draw([...before.flatMap(number => [number, ...around(number)]), ...numbers]);
      }
      say();
    },
    colourBy(what) { by = what; legend(); draw(null); },
    resize() { places = null; draw(null); },
    recolour() { colours = null; legend(); draw(null); },
  };
})();
