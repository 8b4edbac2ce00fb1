//! Prints what two tenants of a drive cost, without placement and with it: `cargo run --release -p tantalum-workloads --example
//! two_tenants [PROFILE [MiB]]`.

use std::error::Error;

use tantalum::Profile;
use tantalum_workloads::two_tenants::{Cost, Placed, TwoTenants};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "tlc-nvme".to_owned());
    let mib: u64 = arguments.next().map_or(Ok(1024), |mib| mib.parse())?;
    let profile = Profile { capacity_bytes: mib << 20, ..Profile::load(&name)? };
    println!("placed        writes  cache    log  units of a reclaim unit");
    for placed in [Placed::Together, Placed::Initially, Placed::Persistently] {
        let Cost { write_amplification, cache, log, reclaim_unit_units, .. } =
            TwoTenants::default().run(&profile, placed)?;
        let figure =
            |amplification: Option<f64>| amplification.map_or("-".to_owned(), |it| format!("{it:.2}"));
        let name = format!("{placed:?}").to_lowercase();
        println!(
            "{name:<12}  {write_amplification:>6.2}  {:>5}  {:>5}  {reclaim_unit_units:>6}",
            figure(cache),
            figure(log)
        );
    }
    Ok(())
}
