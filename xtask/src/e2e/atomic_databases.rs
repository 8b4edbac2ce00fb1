//! MariaDB without its doublewrite buffer and PostgreSQL without full-page writes, in a guest whose drive is recorded, and then cut at
//! many places: with the promise that writes of their pages are all or nothing, and without it.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use super::atomic_writes::{SUITE, number};
use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::guest::Guest;
use super::named;
use super::served::Served;
use super::shell::Shell;

/// Databases; `TANTALUM_ATOMIC_DATABASES` names fewer.
const DATABASES: &str = "mariadb postgresql";

/// Transactions of each of four clients; `TANTALUM_ATOMIC_TRANSACTIONS` asks for more, or fewer.
const TRANSACTIONS: u64 = 150;

/// Power cuts of each database on each kind of drive; `TANTALUM_ATOMIC_CUTS` asks for more, or fewer.
const CUTS: u64 = 100;

/// The promise of the drive that is recorded, and of one that makes none.
const PROMISES: [&str; 2] = ["16KiB", "4KiB"];

/// A database on a drive that is recorded.
struct Case<'a> {
    drive: Served<'a>,
    database: String,
    recording: PathBuf,
    /// Where its clients' acknowledgements come.
    acks: u16,
}

/// Takes connections, and passes what comes on each to `tantalum ack`.
fn listen(context: &Context, image: PathBuf) -> Result<u16, Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    let tantalum = context.tantalum.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let acks = Stdio::from(OwnedFd::from(stream));
            // a guest that is not heard is noticed: nothing is acknowledged
            let Ok(mut child) = Command::new(&tantalum).arg("ack").arg(&image).stdin(acks).spawn() else {
                return;
            };
            thread::spawn(move || child.wait());
        }
    });
    Ok(port)
}

/// Boots one guest, which has one database after the other, and cuts the power of what was recorded.
pub fn run(context: &Context, folder: &Path) -> Outcome {
    let guest = Guest::build(context, Some(&named("TANTALUM_ATOMIC_KERNEL", SUITE)))?;
    guest.add_databases()?;
    let cases = cases(context, folder)?;
    let listed: Vec<String> = cases
        .iter()
        .map(|Case { drive, database, acks, .. }| format!("{},{},{database},{acks}", drive.port, drive.name))
        .collect();
    let transactions = number("TANTALUM_ATOMIC_TRANSACTIONS", TRANSACTIONS)?;
    let parameters =
        format!("DATABASES='{}'\nTRANSACTIONS={transactions}\nPROTECTED=OFF\n", listed.join(" "));
    guest.run(folder, "atomic_databases", &parameters, |_| Ok(()))?.expect(2 * cases.len())?;
    let mut said = vec![format!("Linux {}", guest.kernel()?)];
    for case in &cases {
        case.drive.close()?;
        for promise in PROMISES {
            said.push(case.cut(context, folder, promise)?);
        }
    }
    Ok(Done::Said(said.join("\n")))
}

fn cases<'a>(context: &'a Context, folder: &'a Path) -> Result<Vec<Case<'a>>, Failure> {
    let mut cases = Vec::new();
    for database in named("TANTALUM_ATOMIC_DATABASES", DATABASES).split_whitespace() {
        let image = format!("{database}.tant");
        let recording = folder.join(format!("{database}.blocks"));
        let record = recording.to_string_lossy();
        let creation = ["--profile", "tlc-nvme", "--atomic-write", PROMISES[0], "--record", &record];
        cases.push(Case {
            drive: Served::create_as(context, folder, &image, &creation, &[])?,
            acks: listen(context, folder.join(&image))?,
            database: database.to_owned(),
            recording,
        });
    }
    Ok(cases)
}

impl Case<'_> {
    /// A database on a drive that promises atomic writes of its pages recovers after every cut. On the other drive it is told what
    /// happened.
    fn cut(&self, context: &Context, folder: &Path, promise: &str) -> Result<String, Failure> {
        let check = context.root.join("xtask/guest/check_database.sh");
        let check = format!("sh {} {}", check.display(), self.database);
        let cuts = number("TANTALUM_ATOMIC_CUTS", CUTS)?.to_string();
        let seed = number("SEED", 1)?.to_string();
        let output = Shell::new(&context.tantalum)
            .args(["crash", "blocks", "--json", "--check", &check, "--cuts", &cuts, "--seed", &seed])
            .args(["--atomic-write", promise])
            .args([&self.recording])
            .folder(folder)
            .output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let outcome: Value = serde_json::from_str(&printed).map_err(|error| {
            let complaints = String::from_utf8_lossy(&output.stderr);
            Failure::Wrong(format!("{}: crash blocks: {error}: {printed}{complaints}", self.database))
        })?;
        let count = |name: &str| outcome[name].as_u64().unwrap_or_default();
        let first = &outcome["findings"][0];
        let finding = match count("failed") {
            0 => String::new(),
            _ => format!("; the first {}: {}", first["check_ended"], first["check_said"]),
        };
        let told = format!(
            "{}, {promise}: {} acknowledged, {} cuts, {} damaged{finding}",
            self.database,
            count("acknowledged"),
            count("checked"),
            count("failed")
        );
        let is_well = count("checked") > 0 && count("acknowledged") > 0;
        let is_kept = promise != PROMISES[0] || count("failed") == 0;
        ensure(is_well && is_kept, || told.clone())?;
        Ok(told)
    }
}
