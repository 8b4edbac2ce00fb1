//! Linux sees the atomic writes that a served drive promises, and uses them: limits, single writes on the device and in files, and
//! records that are overwritten while power is cut. A record is torn only on drives that do not promise its size.

use std::path::Path;

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::guest::Guest;
use super::named;
use super::served::Served;

/// The newest kernel of Debian's archives; `TANTALUM_ATOMIC_KERNEL` names another suite.
pub const SUITE: &str = "trixie-backports";

/// What the guest does; `TANTALUM_ATOMIC_SCRIPTS` names fewer.
const SCRIPTS: &str = "atomic_limits atomic_cuts";

/// Power cuts of each drive; `TANTALUM_ATOMIC_CUTS` asks for more, or fewer.
const CUTS: u64 = 10;

/// The drives that are cut: the image, its profile, the size that it promises in KiB, whether acknowledged or flushed writes are
/// durable.
const DRIVES: [(&str, &str, u64, &str); 5] = [
    ("none.tant", "tlc-nvme", 4, "flushed"),
    ("16.tant", "tlc-nvme", 16, "flushed"),
    ("64.tant", "tlc-nvme", 64, "flushed"),
    ("protected-none.tant", "tlc-nvme-plp", 4, "acknowledged"),
    ("protected-64.tant", "tlc-nvme-plp", 64, "acknowledged"),
];

/// Those whose limits are looked at: one with each promise.
const LIMITS_OF: usize = 3;

/// A power cut comes after at most so many flash operations.
const MOST_OPERATIONS: u64 = 600;

/// Checks of `atomic_limits.sh` on each drive.
const LIMITS_CHECKS: usize = 37;

/// A drive, and what the guest found on it.
struct Cut<'a> {
    drive: Served<'a>,
    about: String,
    promised_bytes: u64,
    durable: &'static str,
    cuts: u64,
    inside: Records,
    outside: Records,
}

/// Records that were overwritten before a power cut.
#[derive(Default)]
struct Records {
    written: u64,
    torn: u64,
}

impl Cut<'_> {
    fn create<'a>(
        context: &'a Context,
        folder: &'a Path,
        (image, profile, promised_kib, durable): (&'static str, &str, u64, &'static str),
    ) -> Result<Cut<'a>, Failure> {
        let size = format!("{promised_kib}KiB");
        let creation = ["--profile", profile, "--atomic-write", &size];
        Ok(Cut {
            drive: Served::create_as(context, folder, image, &creation, &[])?,
            about: format!("{profile}, {size}"),
            promised_bytes: promised_kib << 10,
            durable,
            cuts: 0,
            inside: Records::default(),
            outside: Records::default(),
        })
    }

    fn cut(&mut self, seed: u64) -> Result<(), Failure> {
        self.cuts += 1;
        let random = (seed * 1000 + self.cuts).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.drive.cut(1 + (random >> 33) % MOST_OPERATIONS, random)
    }

    /// Counts one size's records: BYTES:WRITTEN:TORN.
    fn found(&mut self, text: &str) -> Result<(), Failure> {
        let numbers: Vec<u64> = text.split(':').filter_map(|number| number.parse().ok()).collect();
        let [bytes, written, torn] = numbers[..] else {
            return Err(Failure::Wrong(format!("the guest says {text:?}")));
        };
        let records = if bytes <= self.promised_bytes { &mut self.inside } else { &mut self.outside };
        records.written += written;
        records.torn += torn;
        Ok(())
    }

    /// Nothing that was promised was torn; and something else was, or cuts would show nothing.
    fn judge(&self) -> Result<String, Failure> {
        let Cut { inside, outside, about, .. } = self;
        let is_shown = outside.torn > 0 || outside.written == 0;
        ensure(inside.torn == 0, || format!("{about}: {} records are torn within the promise", inside.torn))?;
        ensure(is_shown, || {
            format!("{about}: no record is torn of {}: the cuts show nothing", outside.written)
        })?;
        Ok(format!(
            "{about}: {} cuts; within the promise {} records were written and {} torn, outside {} and {}",
            self.cuts, inside.written, inside.torn, outside.written, outside.torn
        ))
    }
}

/// Answers the guest.
fn asked(drives: &mut [Cut<'_>], seed: u64, question: &str) -> Result<(), Failure> {
    let words: Vec<&str> = question.split_whitespace().collect();
    let port = words.get(1).copied().unwrap_or_default();
    let drive = drives.iter_mut().find(|drive| drive.drive.port == port);
    match (words.first(), drive) {
        (Some(&"cut"), Some(drive)) => drive.cut(seed),
        (Some(&"found"), Some(drive)) => words[2..].iter().try_for_each(|text| drive.found(text)),
        _ => Err(Failure::Wrong(format!("the guest asks for {question:?}"))),
    }
}

/// Boots one guest, which attaches one drive after the other.
pub fn run(context: &Context, folder: &Path) -> Outcome {
    let guest = Guest::build(context, Some(&named("TANTALUM_ATOMIC_KERNEL", SUITE)))?;
    let (scripts, seed) = (named("TANTALUM_ATOMIC_SCRIPTS", SCRIPTS), number("SEED", 1)?);
    let cuts = number("TANTALUM_ATOMIC_CUTS", CUTS)?;
    let drives = DRIVES.into_iter().map(|drive| Cut::create(context, folder, drive));
    let mut drives = drives.collect::<Result<Vec<_>, _>>()?;
    let parameters = parameters(&drives, cuts);
    let results = guest.run(folder, &scripts, &parameters, |question| asked(&mut drives, seed, question))?;
    let runs = |script: &str| scripts.split_whitespace().any(|name| name == script);
    let mut expected = 0;
    let mut said = vec![format!("Linux {}: {} checks", guest.kernel()?, results.passed)];
    if runs("atomic_limits") {
        expected += LIMITS_OF * LIMITS_CHECKS;
    }
    if runs("atomic_cuts") {
        expected += drives.len() * (1 + cuts as usize);
    }
    results.expect(expected)?;
    if runs("atomic_cuts") {
        for drive in &drives {
            ensure(drive.cuts == cuts, || format!("{} cuts, not {cuts}", drive.cuts))?;
            said.push(drive.judge()?);
        }
    }
    drives.iter().try_for_each(|drive| drive.drive.close())?;
    Ok(Done::Said(said.join("\n")))
}

fn parameters(drives: &[Cut<'_>], cuts: u64) -> String {
    let listed =
        |drive: &Cut<'_>| format!("{},{},{}", drive.drive.port, drive.drive.name, drive.promised_bytes);
    let limits: Vec<String> = drives[..LIMITS_OF].iter().map(listed).collect();
    let cut: Vec<String> =
        drives.iter().map(|drive| format!("{},{}", listed(drive), drive.durable)).collect();
    format!("DRIVES='{}'\nCUT_DRIVES='{}'\nCUTS={cuts}\n", limits.join(" "), cut.join(" "))
}

/// A number from an environment variable, or its default.
pub fn number(variable: &str, default: u64) -> Result<u64, Failure> {
    let text = named(variable, &default.to_string());
    text.parse().map_err(|_| Failure::Wrong(format!("{variable}={text} is not a number")))
}
