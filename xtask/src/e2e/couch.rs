//! A document store in a folder of the mount shares its updates by ioctl.

use std::ffi::OsStr;
use std::path::Path;

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::mounted::Mounted;
use super::shell::Shell;

/// Documents of the example `updates`.
const DOCUMENTS: u64 = 2000;

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let program = context.target.join("release/examples/updates");
    let mut mounted = Mounted::create(context, folder, "256M", &["--time", "none"])?;
    let round = |mounted: &Mounted<'_>, number: &str| {
        Shell::new(&program).args([mounted.folder.as_os_str(), OsStr::new(number)]).run()
    };
    let said = round(&mounted, "0")?;
    ensure(said == "2000 documents, 2000 changed, 0 shared, 2000 appended\n", || said.clone())?;
    let before = written(&mounted)?;
    let said = round(&mounted, "1")?;
    ensure(said == "2000 documents, 2000 changed, 2000 shared, 0 appended\n", || said.clone())?;
    let units = written(&mounted)? - before;
    ensure(units < DOCUMENTS * 11 / 10, || format!("{DOCUMENTS} updates wrote {units} units"))?;
    mounted.remount(&["--time", "none"])?;
    round(&mounted, "2")?;
    mounted.unmount()?;
    Ok(Done::Said(format!("               {DOCUMENTS} shared updates wrote {units} units")))
}

fn written(mounted: &Mounted<'_>) -> Result<u64, Failure> {
    let statistics = mounted.stat()?;
    let units = statistics["smart"]["host_units_written"].as_u64();
    units.ok_or_else(|| Failure::Wrong(format!("no host_units_written in {statistics}")))
}
