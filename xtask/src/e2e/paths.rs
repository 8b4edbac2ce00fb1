//! Linux with native multipath uses a drive through two ports: nvme-cli discovers and connects both, and files are written while the access
//! through a port changes, and while the connections through one break.

use std::path::Path;

use super::atomic_writes::SUITE;
use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::guest::Guest;
use super::named;
use super::proxy::Proxy;
use super::served::Served;

/// Checks of `paths.sh`.
const CHECKS: usize = 29;

/// The drive, and what is between the guest and its second port.
struct Host<'a> {
    drive: Served<'a>,
    second: Option<Proxy>,
    changes: u64,
}

impl Host<'_> {
    /// `access PORT ACCESS`, and `break`: the connections through the second port.
    fn asked(&mut self, question: &str) -> Result<(), Failure> {
        match question.split_whitespace().collect::<Vec<_>>()[..] {
            ["access", port, access] => {
                self.changes += 1;
                self.drive.set_access(port, access)
            }
            ["break"] => {
                self.second = None;
                Ok(())
            }
            _ => Err(Failure::Wrong(format!("the guest asks for {question:?}"))),
        }
    }
}

/// Boots one guest; `TANTALUM_PATHS_KERNEL` names another suite than that of the newest kernel.
pub fn run(context: &Context, folder: &Path) -> Outcome {
    let guest = Guest::build(context, Some(&named("TANTALUM_PATHS_KERNEL", SUITE)))?;
    let (listen, options) = ("127.0.0.1:0,127.0.0.1:0", &["--advertise", "10.0.2.2"]);
    let drive =
        Served::create_at(context, folder, "paths.tant", listen, &["--profile", "tlc-nvme-plp"], options)?;
    let report = drive.stat()?;
    let port = |at: usize| {
        let address = report["served"]["ports"][at]["address"].as_str().unwrap_or_default();
        address.rsplit(':').next().unwrap_or_default().to_owned()
    };
    let second = Proxy::start(&port(1))?;
    let parameters = format!(
        "MULTIPATH=Y\nPORT={}\nOTHER_PORT={}\nBREAKING_PORT={}\nNQN={}\n",
        port(0),
        port(1),
        second.port,
        drive.name
    );
    let mut host = Host { drive, second: Some(second), changes: 0 };
    let results = guest.run(folder, "paths", &parameters, |question| host.asked(question))?;
    results.expect(CHECKS)?;
    ensure(host.second.is_none() && host.changes > 0, || "the guest broke no path".to_owned())?;
    host.drive.close()?;
    let (kernel, changes) = (guest.kernel()?, host.changes);
    Ok(Done::Said(format!("Linux {kernel}: {} checks, {changes} changes of access", results.passed)))
}
