//! MariaDB without its doublewrite buffer and PostgreSQL without full-page writes, in a guest on served drives whose power is cut. On a
//! drive that promises atomic writes of their pages they keep every acknowledged transaction; on one that does not, a page may be
//! torn.

use std::path::Path;

use super::atomic_writes::{SUITE, number};
use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::guest::Guest;
use super::named;
use super::served::Served;

/// Databases; `TANTALUM_ATOMIC_DATABASES` names fewer.
const DATABASES: &str = "mariadb postgresql";

/// Power cuts of each database on the drive that promises atomic writes; `TANTALUM_ATOMIC_CUTS` asks for more, or fewer.
const CUTS: u64 = 2;

/// On the drive that does not, power is cut until a database is damaged, at most so often, unless
/// `TANTALUM_ATOMIC_MOST_CUTS` says otherwise.
const MOST_CUTS: u64 = 20;

/// Both kinds of drive: what the name of its image ends with, and the size that it promises.
const DRIVES: [(&str, &str); 2] = [("promising", "16KiB"), ("plain", "4KiB")];

/// A power cut comes after at least and at most so many flash operations.
const OPERATIONS: (u64, u64) = (20, 300);

/// A database on a drive.
struct Case<'a> {
    drive: Served<'a>,
    about: String,
    database: String,
    is_promised: bool,
    most_cuts: u64,
    cuts: u64,
    recovered: u64,
    /// Acknowledged after the beginning of the rounds from which the database recovered.
    transactions: u64,
    /// What is wrong after the last cut.
    damage: Option<String>,
}

impl Case<'_> {
    fn cut(&mut self, seed: u64) -> Result<(), Failure> {
        self.cuts += 1;
        let random = (seed * 1000 + self.cuts).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (least, most) = OPERATIONS;
        self.drive.cut(least + (random >> 33) % (most - least), random)
    }

    /// A database on a drive that promises atomic writes has recovered after every cut. On the other drive it is told what
    /// happened: whether a cut tears a page is a matter of chance.
    fn judge(&self) -> Result<String, Failure> {
        let Case { about, cuts, damage, .. } = self;
        let told = format!(
            "{about}: {cuts} cuts, recovered after {} with {} acknowledged transactions{}",
            self.recovered,
            self.transactions,
            damage.as_ref().map_or(String::new(), |damage| format!("; then {damage}"))
        );
        let is_well = damage.is_none() && self.recovered == self.most_cuts && self.transactions > 0;
        ensure(is_well || !self.is_promised, || told.clone())?;
        Ok(told)
    }
}

/// Answers the guest.
fn asked(cases: &mut [Case<'_>], seed: u64, question: &str) -> Result<(), Failure> {
    let (what, rest) = question.split_once(' ').unwrap_or((question, ""));
    let (port, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let case = cases.iter_mut().find(|case| case.drive.port == port);
    match (what, case) {
        ("cut", Some(case)) => case.cut(seed)?,
        ("recovered", Some(case)) => {
            case.recovered += 1;
            case.transactions += rest.parse::<u64>().unwrap_or_default();
        }
        ("corrupt", Some(case)) => case.damage = Some(rest.to_owned()),
        _ => return Err(Failure::Wrong(format!("the guest asks for {question:?}"))),
    }
    Ok(())
}

/// Boots one guest, which has one database after the other on both kinds of drive.
pub fn run(context: &Context, folder: &Path) -> Outcome {
    let guest = Guest::build(context, Some(&named("TANTALUM_ATOMIC_KERNEL", SUITE)))?;
    guest.add_databases()?;
    let seed = number("SEED", 1)?;
    let mut cases = cases(context, folder)?;
    let listed = |case: &Case<'_>| {
        let Case { drive, database, most_cuts, .. } = case;
        format!("{},{},{database},{most_cuts}", drive.port, drive.name)
    };
    let listed: Vec<String> = cases.iter().map(listed).collect();
    let parameters = format!("DATABASES='{}'\n", listed.join(" "));
    let results =
        guest.run(folder, "atomic_databases", &parameters, |question| asked(&mut cases, seed, question))?;
    results.expect(cases.len())?;
    let mut said = vec![format!("Linux {}", guest.kernel()?)];
    for case in &cases {
        said.push(case.judge()?);
    }
    cases.iter().try_for_each(|case| case.drive.close())?;
    Ok(Done::Said(said.join("\n")))
}

fn cases<'a>(context: &'a Context, folder: &'a Path) -> Result<Vec<Case<'a>>, Failure> {
    let (cuts, most_cuts) =
        (number("TANTALUM_ATOMIC_CUTS", CUTS)?, number("TANTALUM_ATOMIC_MOST_CUTS", MOST_CUTS)?);
    let mut cases = Vec::new();
    for database in named("TANTALUM_ATOMIC_DATABASES", DATABASES).split_whitespace() {
        for (kind, size) in DRIVES {
            let is_promised = kind == "promising";
            let image = format!("{database}-{kind}.tant");
            let creation = ["--profile", "tlc-nvme", "--atomic-write", size];
            cases.push(Case {
                drive: Served::create_as(context, folder, &image, &creation, &[])?,
                about: format!("{database}, {size}"),
                database: database.to_owned(),
                is_promised,
                most_cuts: if is_promised { cuts } else { most_cuts },
                cuts: 0,
                recovered: 0,
                transactions: 0,
                damage: None,
            });
        }
    }
    Ok(cases)
}
