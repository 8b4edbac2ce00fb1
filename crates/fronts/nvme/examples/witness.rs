//! A host that knows what a served drive must have: `witness SEED` obeys lines on standard input and answers each with one.
//! It ends with an error if a promise is broken. `cargo xtask e2e` attaches it to a server whose image fails.
//!
//! - `attach ADDRESS:PORT NQN`: attaches to a drive with blocks of 4096 bytes.
//! - `work ROUNDS`: writes and flushes; the answer is `done`, or `failed` if a command did.
//! - `read`: reads all its blocks from a drive that takes no more changes; the answer is how many are not refused, and whether
//!   the namespace is write protected.
//! - `look`: checks all its blocks after a break: what is there is durable.

#[path = "../tests/common/witness.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod witness;

use std::error::Error;
use std::io::BufRead;
use std::sync::atomic::AtomicU64;

use tantalum_nvme::client::{Client, Names, Options, command};
use tantalum_nvme::wire::opcode;

use witness::Witness;

const UNIT: usize = 4096;

/// Where `NSATTR` is, with bit 0 for a namespace that is write protected.
const ATTRIBUTES: usize = 99;

/// Internal Error.
const INTERNAL: u16 = 0x006;

fn attach(address: &str, subsystem: &str) -> Result<[Client; 2], Box<dyn Error>> {
    let host = "nqn.2014-08.org.nvmexpress:witness".to_owned();
    let names = Names { subsystem: subsystem.to_owned(), host, host_id: [7; 16] };
    let (address, options) = (address.parse()?, Options::default());
    let (admin, controller) = Client::admin(address, options, &names, 0)?;
    let io = Client::io(address, options, &names, controller, 1)?;
    Ok([admin, io])
}

fn main() -> Result<(), Box<dyn Error>> {
    let seed = std::env::args().nth(1).ok_or("usage: witness SEED")?.parse()?;
    let mut witness = Witness::new(0, seed);
    let mut attached = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["attach", address, subsystem] = words[..] {
            attached = Some(attach(address, subsystem)?);
            println!("attached");
            continue;
        }
        let Some([admin, io]) = &mut attached else { return Err("attach first".into()) };
        match words[..] {
            ["work", rounds] => {
                witness.most_rounds = rounds.parse()?;
                let is_done = witness.work(io, &AtomicU64::new(0)).is_ok();
                println!("{}", if is_done { "done" } else { "failed" });
            }
            ["read"] => {
                let identify =
                    admin.read_command(command(opcode::admin::IDENTIFY, 1, [0; 6]), UNIT as u32)?;
                println!("{} {}", witness.read(io, INTERNAL), identify.data[ATTRIBUTES]);
            }
            ["look"] => {
                witness.look(io)?;
                println!("looked");
            }
            _ => return Err(format!("{line:?} is nothing that it can do").into()),
        }
    }
    Ok(())
}
