//! A process that works on an image is killed, and everything it had flushed is there.
//!
//! The process is this test program again: [`a_process_at_work`] does nothing unless the environment names an image.
//! It writes on its standard output which rounds are flushed; whoever started it kills it at a random moment, opens
//! the image, and compares. A failure names its seed; `SEED=n` runs another.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use tantalum::check::check;
use tantalum::{Command, Device, Lpn, Plp, Profile, UNIT_BYTES};
use tantalum_image::mix;

const IMAGE: &str = "TANTALUM_KILLED_IMAGE";
const FIRST_ROUND: &str = "TANTALUM_KILLED_ROUND";
/// The beginning of the line that says that a round is flushed.
const FLUSHED: &str = "flushed ";

const KILLS: u32 = 20;
const UNITS: u32 = 2048;
/// Units that every round replaces in one atomic batch.
const BATCH: std::ops::Range<u32> = 2048..2060;
const WRITES: u32 = 24;

/// The units that a round writes, in order. A round's units hold its number.
fn written_by(round: u64) -> impl Iterator<Item = u32> {
    (0..WRITES).map(move |index| (mix(round << 8 | u64::from(index)) % u64::from(UNITS)) as u32)
}

/// The units that a round trims, before it writes.
fn trimmed_by(round: u64) -> std::ops::Range<u32> {
    let first = (mix(!round) % u64::from(UNITS - 4)) as u32;
    first..first + 4
}

fn unit_of(round: u64) -> Vec<u8> {
    round.to_le_bytes().repeat(UNIT_BYTES / 8)
}

// -- the process ------------------------------------------------------------------------------------------------

/// A drive, and the time of its host.
struct Host {
    device: Device,
    now_ns: u64,
}

impl Host {
    fn submit(&mut self, command: Command<'_>) {
        let done = self.device.submit(command, self.now_ns).expect("the drive is whole");
        self.now_ns = self.now_ns.max(done.done_ns);
    }

    fn round(&mut self, round: u64) {
        let data = unit_of(round);
        let trimmed = trimmed_by(round);
        self.submit(Command::Trim { lpn: Lpn(trimmed.start), units: trimmed.len() as u32 });
        for lpn in written_by(round) {
            self.submit(Command::Write { lpn: Lpn(lpn), data: &data, fua: false, handle: None });
        }
        let writes: Vec<(Lpn, &[u8])> = BATCH.map(|lpn| (Lpn(lpn), &data[..])).collect();
        self.submit(Command::WriteAtomic { writes: &writes });
        // with power-loss protection, everything acknowledged is there
        if self.device.profile().power.plp == Plp::None {
            self.submit(Command::Flush);
        }
    }
}

#[test]
fn a_process_at_work() {
    let Ok(image) = std::env::var(IMAGE) else { return };
    let first: u64 = std::env::var(FIRST_ROUND).unwrap().parse().unwrap();
    let mut host = Host { device: Device::open(Path::new(&image)).unwrap(), now_ns: 0 };
    for round in first.. {
        host.round(round);
        let mut output = std::io::stdout().lock();
        writeln!(output, "{FLUSHED}{round}").and_then(|()| output.flush()).unwrap();
    }
}

// -- who kills it -----------------------------------------------------------------------------------------------

fn start(image: &Path, first_round: u64) -> Child {
    Process::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed_process::a_process_at_work", "--nocapture"])
        .env(IMAGE, image)
        .env(FIRST_ROUND, first_round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets a process work until some rounds are flushed and a random time beyond, and kills it. Returns the last round
/// that it said was flushed.
fn work_and_kill(image: &Path, first_round: u64, rounds: u64, beyond: Duration) -> u64 {
    let mut child = start(image, first_round);
    let mut flushed = None;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut note = |line: String| {
        let round = line.strip_prefix(FLUSHED).and_then(|round| round.parse().ok());
        flushed = round.or(flushed);
        flushed
    };
    while note(lines.next().expect("the process goes on until it is killed").unwrap())
        .is_none_or(|round| round < first_round + rounds)
    {}
    std::thread::sleep(beyond);
    child.kill().unwrap();
    for line in lines.map_while(Result::ok) {
        note(line);
    }
    assert!(!child.wait().unwrap().success());
    flushed.unwrap()
}

/// What each unit holds: the round that wrote it, or 0 if it is empty.
struct Model(Vec<u64>);

impl Model {
    fn apply(&mut self, round: u64) {
        trimmed_by(round).for_each(|lpn| self.0[lpn as usize] = 0);
        written_by(round).chain(BATCH).for_each(|lpn| self.0[lpn as usize] = round);
    }

    /// Everything flushed is there, whole; of the round after it each unit may be or not be, the batch as one. The
    /// model then is what was found.
    fn compare(&mut self, device: Device, flushed: u64, what: &str) {
        let mut host = Host { device, now_ns: 0 };
        let next = flushed + 1;
        for lpn in 0..BATCH.end {
            let mut data = vec![0; UNIT_BYTES];
            host.submit(Command::Read { lpn: Lpn(lpn), data: &mut data });
            let found = u64::from_le_bytes(data[..8].try_into().unwrap());
            assert_eq!(data, unit_of(found), "{what}: unit {lpn} is torn");
            let trimmed = trimmed_by(next).contains(&lpn) && found == 0;
            let written =
                (BATCH.contains(&lpn) || written_by(next).any(|other| other == lpn)) && found == next;
            let expected = self.0[lpn as usize];
            assert!(
                found == expected || trimmed || written,
                "{what}: unit {lpn} holds {found}, and {expected} was flushed"
            );
            self.0[lpn as usize] = found;
        }
        let batch = &self.0[BATCH.start as usize..];
        assert!(batch.iter().all(|round| *round == batch[0]), "{what}: half of a batch: {batch:?}");
    }
}

#[test]
fn what_was_flushed_survives_a_killed_process() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tantalum");
    kill_again_and_again(&image, "femu-2021", 16 << 20);
    tells_what_happened(&image);
}

#[test]
fn with_a_capacitor_what_was_acknowledged_survives_a_killed_process() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(&folder.path().join("drive.tantalum"), "durassd", 256 << 20);
}

fn kill_again_and_again(image: &Path, profile: &str, capacity_bytes: u64) {
    let seed: u64 = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut profile = Profile::load(profile).unwrap();
    profile.capacity_bytes = capacity_bytes;
    Device::create(image, &profile).unwrap().shutdown(0).unwrap();
    let (mut model, mut next, started) = (Model(vec![0; BATCH.end as usize]), 1, Instant::now());
    for kill in 0..KILLS {
        let what = format!("seed {seed}, kill {kill}");
        let draw = mix(seed << 32 | u64::from(kill));
        let beyond = Duration::from_micros(draw % 5_000);
        let flushed = work_and_kill(image, next, draw >> 32 & 31, beyond);
        (next..=flushed).for_each(|round| model.apply(round));
        let found = check(image, &mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
        assert_eq!(found.findings, [], "{what}");
        let device = Device::open(image).unwrap();
        device.audit();
        assert!(!device.recovery().clean, "{what}: the process was killed");
        // the process found the drive as this one had left it, also without a clean shutdown
        assert_eq!(device.smart().counters.unsafe_shutdowns, 2 * u64::from(kill) + 1, "{what}");
        model.compare(device, flushed, &what);
        next = flushed + 2;
    }
    println!("{next} rounds and {KILLS} kills in {:?}", started.elapsed());
}

/// `tantalum info` after a kill.
fn tells_what_happened(image: &Path) {
    let info = || {
        let output = Process::new(env!("CARGO_BIN_EXE_tantalum"))
            .args(["info", "--json"])
            .arg(image)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let killed = |rounds| {
        work_and_kill(image, 1, rounds, Duration::ZERO);
        let killed = info();
        assert_eq!(killed["last_shutdown"], "power was lost");
        killed["recovery"].clone()
    };
    let told = |recovery: &serde_json::Value| {
        ["pages_scanned", "assertions", "batches_completed"]
            .iter()
            .all(|figure| recovery[figure].as_u64().unwrap() > 0)
    };
    // a kill right after a checkpoint leaves nothing to fold
    let recovery = (20..30).map(killed).find(told).expect("not every kill comes right behind a checkpoint");
    for figure in ["device_seconds", "wall_seconds"] {
        assert!(recovery[figure].as_f64().unwrap() > 0.0, "{figure}: {recovery}");
    }
    assert_eq!(info()["last_shutdown"], "clean");
}
