//! What a program has told its host: serial ports and counters.

use crate::abi;
use crate::program::Installed;

/// What a program has told its host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// The serial ports of its copies, processor by processor: the last 4 KiB of each.
    pub serial: Vec<Vec<u8>>,
    /// Its counters, over all processors.
    pub counters: [u64; abi::COUNTERS],
}

impl Output {
    pub(crate) fn of(installed: &Installed) -> Output {
        let mut output = Output::default();
        for copy in &installed.parts {
            let context = copy.instance.context();
            output.serial.push(context.serial.clone());
            for (sum, count) in output.counters.iter_mut().zip(context.counters) {
                *sum += count;
            }
        }
        output
    }
}
