//! Batches of the random host: units and records in one command.

use rand::RngExt;
use tantalum::{Command, Lpn, Status};

use crate::device::draw::{Generator, distinct};
use crate::device::host::unit_of;
use crate::device::record_host::records_of;
use crate::device::records::Thing;
use crate::device::run::Run;
use crate::device::stop::Stop;

impl Run {
    /// Writes some units, and puts and deletes some records, in one step.
    pub(super) fn batch(&mut self, rng: &mut Generator) -> Result<(), Stop> {
        let Some(records) = self.records.draw(&mut self.host, rng)? else { return Ok(()) };
        let count = rng.random_range(1..10);
        let units = self.stamped(distinct(rng, count));
        let data: Vec<(Lpn, Vec<u8>)> = units.iter().map(|(lpn, stamp)| (*lpn, unit_of(*stamp))).collect();
        let writes: Vec<(Lpn, &[u8])> = data.iter().map(|(lpn, data)| (*lpn, &data[..])).collect();
        let values = self.records.values_of(&records);
        let (order, put) = (self.oracle.issue(&units, true), self.records.issue(&records));
        let things = records.keys().map(|place| Thing::Record(*place));
        self.batches.issue((order, units.keys().copied()), (put, things));
        let batch = Command::WriteBatch { writes: &writes, records: &records_of(&values) };
        let answer = self.host.submit(batch);
        match &answer {
            Ok(done) => {
                self.batches.acknowledge(order, done.done_ns);
                self.records.answered(&mut self.host, put, &records, Ok(done.done_ns))?;
            }
            Err(Status::PowerLost) => return Err(Stop::PowerLost),
            Err(_) => {
                self.batches.refuse(order);
                self.records.refuse(&mut self.host, put, &records)?;
            }
        }
        self.answered(order, &units, answer, true).map(drop)
    }
}
