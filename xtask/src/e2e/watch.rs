//! The page of `tantalum watch`, in a headless Chromium: it loads without errors, its figures change while files are
//! written, it can be used by keyboard, its button cuts power and shows what recovery found, and nobody else can reach
//! it. The same for the drives of an experiment.
//!
//! With `TANTALUM_PICTURES=FOLDER` it saves pictures of the page there, as PNG files.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::browser::{Browser, Process, http};
use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::mounted::Mounted;

/// How long the cost of watching is measured.
const MEASURED: Duration = Duration::from_secs(10);

/// Keys as WebDriver names them.
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const RIGHT: &str = "\u{e014}";

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let mut mounted = Mounted::create(context, folder, "256M", &["--time", "none"])?;
    let watch = |options: &[&str]| {
        let mut command = Command::new(&context.tantalum);
        Process::start(command.arg("watch").arg(&mounted.folder).args(options))
    };
    let mut only_looks = watch(&[])?;
    refuses_others(&only_looks.word("http://")?, 403)?;
    drop(only_looks);
    let mut watching = watch(&["--control"])?;
    let url = watching.word("http://")?;
    let browser = Browser::start(folder)?;
    browser.screen(1280, 900, "light")?;
    browser.open(&url)?;
    browser.wait_for("state", |state| state == "power on")?;
    let writes = AtomicBool::new(true);
    let files = mounted.folder.clone();
    let seen = thread::scope(|scope| {
        scope.spawn(|| write_files(&files, &writes));
        let seen = see(&browser, &mounted.process, &watching.number());
        writes.store(false, Ordering::Relaxed);
        seen
    });
    let cost = seen?;
    mounted.unmount()?;
    browser.wait_for("state", |state| state == "not in use")?;
    mounted.mount(&["--time", "none"])?;
    browser.wait_for("state", |state| state == "power on")?;
    browser.wait_for("recovery", |said| said.starts_with("Power was lost"))?;
    let complaints = browser.complaints()?;
    ensure(complaints.is_empty(), || format!("the page's console: {complaints:?}"))?;
    refuses_others(&url, 200)?;
    mounted.unmount()?;
    let of_experiment = experiment(context, folder, &browser)?;
    Ok(Done::Said(format!("{cost}\n{of_experiment}")))
}

/// A drive in the command's own process. Returns the cost of watching, in words.
fn experiment(context: &Context, folder: &Path, browser: &Browser) -> Result<String, Failure> {
    let name = folder.join("run");
    let mut bench = Command::new(&context.tantalum);
    let endless = ["bench", "--pattern", "randwrite", "--capacity", "256M", "--operations", "100000000000"];
    let bench = Process::start(bench.args(endless).arg("--watch").arg(&name))?;
    let socket = folder.join("run.sock");
    for _ in 0..600 {
        if socket.exists() {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    let mut watching = Process::start(Command::new(&context.tantalum).arg("watch").arg(&name))?;
    browser.open(&watching.word("http://")?)?;
    browser.wait_for("state", |state| state == "power on")?;
    lines_change(browser)?;
    cost("bench", &bench.number(), &watching.number())
}

/// While files are written. Returns the cost of watching, in words.
fn see(browser: &Browser, mount: &str, watch: &str) -> Result<String, Failure> {
    figures_change(browser)?;
    let cost = cost("the mount", mount, watch)?;
    keyboard(browser)?;
    pictures(browser)?;
    cut(browser)?;
    Ok(cost)
}

/// What watching costs the machine in processor time, as the kernel accounts for it: of the thread that answers on the
/// control socket, in the process that uses the drive, and of the process that serves the page.
fn cost(what: &str, user: &str, watch: &str) -> Result<String, Failure> {
    let spent = || -> Result<[u64; 3], Failure> {
        let answers = processor_ns(user, |thread| thread == "control")?;
        Ok([answers, processor_ns(watch, |_| true)?, processor_ns(user, |_| true)?])
    };
    let before = spent()?;
    thread::sleep(MEASURED);
    let after = spent()?;
    let [answers, page, all] = std::array::from_fn(|at| after[at].saturating_sub(before[at]) as f64 / 1e6);
    let looking = answers + page;
    let seconds = MEASURED.as_secs();
    let said = format!(
        "               in {seconds} s {what} took {all:.0} ms of processor time, {answers:.1} ms of that to be looked at, and the page {page:.1} ms"
    );
    ensure(looking < 0.02 * MEASURED.as_secs_f64() * 1000.0, || format!("looking is too dear: {said}"))?;
    Ok(said)
}

/// Of the threads of a process with such names.
fn processor_ns(process: &str, is_meant: impl Fn(&str) -> bool) -> Result<u64, Failure> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let thread = thread?.path();
        if is_meant(fs::read_to_string(thread.join("comm"))?.trim()) {
            let spent = fs::read_to_string(thread.join("schedstat"))?;
            let spent = spent.split(' ').next().and_then(|spent| spent.parse::<u64>().ok());
            sum += spent.ok_or_else(|| Failure::Wrong("schedstat has no number".to_owned()))?;
        }
    }
    Ok(sum)
}

/// Until it is told to stop, or power is lost.
fn write_files(folder: &Path, goes_on: &AtomicBool) {
    let data = vec![7; 1 << 16];
    for round in 0.. {
        let name = ["busy", "calm"][usize::from(round % 4 == 0)];
        let written = File::create(folder.join(name)).and_then(|mut file| {
            for _ in 0..64 {
                file.write_all(&data)?;
            }
            file.sync_all()
        });
        if written.is_err() || !goes_on.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn figures_change(browser: &Browser) -> Result<(), Failure> {
    lines_change(browser)?;
    browser.wait_for("files-rows", |said| said.contains("busy") && said.contains("calm"))?;
    Ok(())
}

/// The lines and the map.
fn lines_change(browser: &Browser) -> Result<(), Failure> {
    let is_rate = |text: &str| text.ends_with("/s") && !text.starts_with("0 ");
    let first = browser.wait_for("written", is_rate)?;
    browser.wait_for("written", |now| is_rate(now) && now != first)?;
    browser.wait_for("latency-legend", |said| said.contains("p99.9") && !said.contains('–'))?;
    browser.wait_for("causes-legend", |said| said.contains("all") && !said.contains("all –"))?;
    browser.wait_for("collection", |said| said.contains("blocks are free"))?;
    let map = "return document.getElementById('map').toDataURL()";
    let before = browser.run(map)?;
    for _ in 0..100 {
        if browser.run(map)? != before {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err(Failure::Wrong("the map does not change".to_owned()))
}

/// From the top of the page by Tab: the link past the map, the button, the choice of colours, the map.
fn keyboard(browser: &Browser) -> Result<(), Failure> {
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")?;
    browser.press(&[TAB, TAB, TAB, RIGHT])?;
    browser.wait_for("map-legend", |said| said.contains("never erased"))?;
    browser.press(&[TAB, RIGHT])?;
    browser.wait_for("block", |said| said.starts_with("Block 1 of die 0: "))?;
    Ok(())
}

/// Cuts power by keyboard. In the dialog, the safe choice has the focus.
fn cut(browser: &Browser) -> Result<(), Failure> {
    browser.run("document.getElementById('cut').focus()")?;
    browser.press(&[ENTER])?;
    let focus = browser.run("return document.activeElement.id")?;
    ensure(focus == "ask-no", || format!("the dialog's focus is on {focus}"))?;
    browser.press(&[TAB, ENTER])?;
    browser.wait_for("found", |said| said.contains("Power was lost. Recovery read"))?;
    browser.wait_for("state", |state| state == "no power")?;
    browser.wait_for("alert", |said| said.contains("tantalum unmount"))?;
    picture(browser, "cut")?;
    browser.press(&[ENTER])?;
    browser.wait_for("events", |said| said.contains("Power was cut from this page"))?;
    Ok(())
}

/// In each size and scheme nothing is wider than the screen.
fn pictures(browser: &Browser) -> Result<(), Failure> {
    for (name, width, height, scheme) in
        [("light", 1280, 900, "light"), ("dark", 1280, 900, "dark"), ("phone", 390, 844, "dark")]
    {
        browser.screen(width, height, scheme)?;
        thread::sleep(Duration::from_millis(1500));
        let wide = browser.run("return document.documentElement.scrollWidth")?;
        ensure(wide.as_u64() <= Some(width.into()), || format!("{name}: the page is {wide} wide"))?;
        picture(browser, name)?;
    }
    browser.screen(1280, 900, "light")
}

fn picture(browser: &Browser, name: &str) -> Result<(), Failure> {
    let Some(folder) = std::env::var_os("TANTALUM_PICTURES") else { return Ok(()) };
    fs::create_dir_all(&folder)?;
    let to = File::create(Path::new(&folder).join(name).with_extension("png"))?;
    let mut decode = Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(to).spawn()?;
    decode.stdin.take().expect("it is piped").write_all(browser.picture()?.as_bytes())?;
    let ended = decode.wait()?;
    ensure(ended.success(), || format!("base64 ended with {ended}"))
}

/// Headers of a request: names and values.
type Headers<'a> = &'a [(&'a str, &'a str)];

/// Requests that a foreign page, or another machine's name, could lead to. `cut` is the status of a proper request to
/// cut power.
fn refuses_others(url: &str, cut: u16) -> Result<(), Failure> {
    let place = url.trim_start_matches("http://");
    let (host, path) =
        place.split_once('/').ok_or_else(|| Failure::Wrong(format!("the address is {url}")))?;
    let (_, port) = host.rsplit_once(':').ok_or_else(|| Failure::Wrong(format!("the address is {url}")))?;
    let port = port.parse().map_err(|_| Failure::Wrong(format!("the port is {port:?}")))?;
    let (page, cuts) = (format!("/{path}"), format!("/{path}cut"));
    let (evil, ours) = (format!("evil.example:{port}"), format!("http://{host}"));
    let action = ("X-Tantalum-Action", "cut");
    let right = [("Host", host), action, ("Origin", &ours)];
    let cases: [(&str, &str, Headers<'_>, u16); 8] = [
        ("GET", &page, &[("Host", host)], 200),
        ("GET", &page, &[("Host", &evil)], 421),
        ("GET", "/", &[("Host", host)], 404),
        ("GET", "/00000000000000000000000000000000/", &[("Host", host)], 404),
        ("POST", &page, &[("Host", host)], 405),
        ("POST", &cuts, &[("Host", host)], 403),
        ("POST", &cuts, &[("Host", host), action, ("Origin", "http://evil.example")], 403),
        ("POST", &cuts, &right, cut),
    ];
    for (method, path, headers, expected) in cases {
        let status = http(port, method, path, headers, "")?.status;
        ensure(status == expected, || format!("{method} {path} {headers:?} got {status}, not {expected}"))?;
    }
    Ok(())
}
