//! The output of a program: its serial ports and counters.

use crate::abi;
use crate::program::Installed;

/// The output of a program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// What its copies wrote to their serial ports, processor by processor: the last 4 KiB of each.
    pub serial: Vec<Vec<u8>>,
    /// Its counters, summed over all processors.
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
