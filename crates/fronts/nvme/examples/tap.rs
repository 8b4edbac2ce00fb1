//! A tap between hosts and a served drive: `tap ADDRESS:PORT NQN` prints where it listens. For each line on standard input it
//! checks what the drive has kept of what it acknowledged, and prints one line. Write that line after a power cut, while no
//! host is attached.

use std::error::Error;
use std::io::BufRead;

use tantalum_nvme::tap::{Checked, Tap};

const BLOCK_BYTES: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [drive, subsystem] = &arguments[..] else {
        return Err("usage: tap ADDRESS:PORT NQN, of a drive with blocks of 4096 bytes".into());
    };
    let tap = Tap::start(drive.parse()?, subsystem, BLOCK_BYTES)?;
    println!("{}", tap.address());
    for line in std::io::stdin().lock().lines() {
        line?;
        match tap.check() {
            Ok(checked) if checked.broken.is_empty() && checked.unjudged == 0 => {
                println!("kept: {} blocks after {} flushes", checked.spots, checked.flushes);
            }
            Ok(checked) => {
                let Checked { spots, flushes, unjudged, broken, .. } = checked;
                let first = &broken[..broken.len().min(20)];
                println!(
                    "LOST: {} of {spots} blocks after {flushes} flushes, {unjudged} unjudged: {first:?}",
                    broken.len()
                );
            }
            Err(error) => println!("cannot tell: {error}"),
        }
    }
    Ok(())
}
