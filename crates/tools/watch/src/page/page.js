// Shows what the server tells, and asks it to cut power.
"use strict";

(() => {
  const by = id => document.getElementById(id);
  const number = (value, digits = 0) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const bytes = value => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (value >= 1024 && at < units.length - 1) { value /= 1024; at++; }
    return `${at && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
  };
  const put = (id, text) => { if (by(id).textContent !== text) by(id).textContent = text; };
  const list = (place, texts) => {
    if (place.dataset.said === texts.join("\n")) return;
    place.dataset.said = texts.join("\n");
    place.replaceChildren(...texts.map(text => {
      const item = document.createElement("li");
      item.textContent = text;
      return item;
    }));
  };

  const STATES = { on: "power on", off: "no power", tried: "no power", ended: "not in use", gone: "not connected" };
  let about = null, state = null;

  function showAbout(message) {
    about = message.about;
    const name = about.image.split("/").pop();
    document.title = `${name} – Tantalum`;
    put("image", name);
    const use = about.mounted_on ? `mounted on ${about.mounted_on}` : about.time ? "served over NVMe/TCP" : "in an experiment";
    put("about", `${about.profile}, ${bytes(about.capacity_bytes)}, ${use}`);
    put("capacity", `of ${bytes(about.capacity_bytes)}`);
    put("written-in", about.time ? "by hosts" : "by hosts, in the drive's time");
    by("cut").hidden = !message.control;
  }

  function showNow(now, point) {
    state = now.state;
    by("state").dataset.state = state;
    put("state", STATES[state]);
    by("cut").disabled = state !== "on";
    const rate = value => value === null || value === undefined ? "–" : `${bytes(value)}/s`;
    if (point) {
      put("written", rate(point.written));
      put("read", rate(point.read));
      put("amplification", point.amplification ? number(point.amplification.all, 2) : "–");
    }
    put("amplification-all", now.amplification ? `${number(now.amplification.all, 2)} since it was created` : "");
    put("mapped", bytes(now.mapped_bytes));
    put("free", number(now.free_blocks));
    put("bad", now.bad_blocks === 1 ? "1 block is retired" : `${number(now.bad_blocks)} are retired`);
    put("wear", number(now.wear.mean, 1));
    put("wear-range", `${number(now.wear.least)} to ${number(now.wear.most)}, rated for ${number(about.endurance_cycles)}`);
    if (now.collection.length) list(by("collection"), now.collection);
    list(by("recovery"), now.recovery);
    showAlert(now);
    showZones(now.zones);
    showHandles(now.handles);
    showFiles(now.files);
  }

  function showAlert(now) {
    let text = "";
    const folder = about.mounted_on;
    if (state === "off" && folder) text = `The drive has no power: every request fails. To go on: tantalum unmount ${folder}, then mount ${about.image} again.`;
    if (state === "off" && !folder) text = "The drive has no power.";
    if (state === "tried") text = `The drive has no power: every request fails. What recovery finds is shown below and on the map, from a trial in memory. To go on: tantalum unmount ${folder}, then mount ${about.image} again.`;
    if (state === "on" && now.stopped) text = `The drive stopped: ${now.stopped}.`;
    const isExperiment = about.time === null && !folder;
    if (state === "ended" && isExperiment) text = "The experiment is over, or is about to make its next drive. This page goes on with that.";
    if (state === "ended" && !isExperiment) text = "The image is not in use. This page goes on when it is mounted or served again.";
    if (state === "gone") text = "tantalum watch does not answer. If it was ended, start it again: it has a new address then.";
    by("alert").hidden = !text;
    put("alert", text);
  }

  function showZones(zones) {
    by("zones").hidden = !zones;
    if (!zones) return;
    const units = value => bytes(value * 4096);
    put("zones-shape", `${number(zones.count)} of ${units(zones.size_units)}; at most ${number(zones.max_open)} open and ${number(zones.max_active)} active`);
    const states = [zones.empty, zones.implicitly_open, zones.explicitly_open, zones.closed, zones.full, zones.read_only];
    const amplification = zones.host_units_written ? number(zones.flash_units / zones.host_units_written, 2) : "–";
    const texts = [...states.map(state => number(state)), units(zones.written_units), amplification];
    by("zones-row").replaceChildren(...texts.map(text => { const cell = document.createElement("td"); cell.textContent = text; return cell; }));
  }

  function showHandles(handles) {
    by("handles").hidden = !handles.length;
    const units = value => bytes(value * 4096);
    const ratio = value => value === null || value === undefined ? "–" : number(value, 2);
    by("handles-rows").replaceChildren(...handles.map(handle => {
      const row = document.createElement("tr");
      const written = handle.written === null ? "–" : `${bytes(handle.written)}/s`;
      const texts = [number(handle.handle), written, ratio(handle.amplification), units(handle.host_units_written),
        units(handle.flash_copies), ratio(handle.write_amplification)];
      row.append(...texts.map(text => { const cell = document.createElement("td"); cell.textContent = text; return cell; }));
      return row;
    }));
  }

  function showFiles(files) {
    by("files").hidden = !files;
    if (!files) return;
    put("files-all", `since this program watches: ${bytes(files.all.bytes)} to ${number(files.written_to)} ${files.written_to === 1 ? "file" : "files"}`);
    const rows = files.most.map(file => {
      const row = document.createElement("tr");
      const cell = text => { const cell = document.createElement("td"); cell.textContent = text; return cell; };
      const name = cell(file.name ?? `inode ${file.inode}, without a name`);
      name.title = name.textContent;
      const share = document.createElement("td"), meter = document.createElement("meter");
      meter.max = Math.max(1, files.all.bytes);
      meter.value = file.bytes;
      const percent = number(100 * file.bytes / Math.max(1, files.all.bytes), 1);
      meter.title = meter.textContent = `${percent} %`;
      share.append(meter);
      row.append(name, cell(bytes(file.bytes)), cell(number(file.writes)), cell(number(file.syncs)), share);
      return row;
    });
    if (!rows.length) {
      const row = document.createElement("tr"), cell = document.createElement("td");
      cell.colSpan = 5;
      cell.textContent = "Nothing was written yet.";
      row.append(cell);
      rows.push(row);
    }
    by("files-rows").replaceChildren(...rows);
  }

  function addEvent(event, first) {
    const item = document.createElement("li"), time = document.createElement("time");
    const at = new Date(event.at_ms);
    time.dateTime = at.toISOString();
    time.textContent = at.toLocaleTimeString([], { hourCycle: 'h23' });
    item.append(time, event.text);
    by("events").prepend(item);
    while (by("events").children.length > 50) by("events").lastChild.remove();
  }

  const take = {
    all(message) {
      showAbout(message);
      const points = message.points;
      showNow(message.now, points[points.length - 1]);
      BlockMap.begin(about.shape, message.blocks);
      Plots.begin(points);
      by("events").replaceChildren();
      message.events.forEach(addEvent);
    },
    look(message) {
      showNow(message.now, message.point);
      BlockMap.change(message.blocks);
      Plots.add(message.point);
    },
    event: addEvent,
  };

  function listen() {
    const source = new EventSource("events");
    source.onmessage = message => {
      const told = JSON.parse(message.data);
      if (told.kind) take[told.kind](told);
    };
    source.onerror = () => {
      if (!about) return;
      state = "gone";
      by("state").dataset.state = state;
      put("state", STATES[state]);
      by("cut").disabled = true;
      showAlert({});
      // it tries again by itself, unless the server refused
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
    };
  }

  async function cut() {
    const text = by("ask-text"), yes = by("ask-yes");
    yes.hidden = true;
    put("ask-title", "Power is cut …");
    text.replaceChildren();
    let said;
    try {
      const answer = await fetch("cut", { method: "POST", headers: { "X-Tantalum-Action": "cut" } });
      said = answer.ok ? await answer.json() : { failed: `the server answered ${answer.status}` };
    } catch (error) {
      said = { failed: error.message };
    }
    put("ask-title", said.recovered ? "What recovery found" : "The power could not be cut, or recovery failed");
    const found = document.createElement("ul");
    found.id = "found";
    list(found, said.recovered ?? [said.failed]);
    text.replaceChildren(found);
    put("ask-no", "Close");
    by("ask-no").focus();
  }

  by("cut").addEventListener("click", () => {
    const text = document.createElement("p");
    text.textContent = "The drive loses power at once. What was flushed is kept; anything else may be lost." +
      (about.mounted_on ? " Programs on the mount get errors from then on." : " Hosts are disconnected, the drive recovers, and they attach again.");
    by("ask-text").replaceChildren(text);
    put("ask-title", "Cut the power?");
    put("ask-no", "Leave it on");
    by("ask-yes").hidden = false;
    by("ask").showModal();
    by("ask-no").focus();
  });
  by("ask-yes").addEventListener("click", cut);
  by("map-choice").addEventListener("change", event => BlockMap.colourBy(event.target.value));
  by("latency-choice").addEventListener("change", event => Plots.choose(event.target.value));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { BlockMap.recolour(); Plots.remake(); });
  let resized = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(resized);
    resized = requestAnimationFrame(() => { BlockMap.resize(); Plots.resize(); });
  });
  listen();
})();
