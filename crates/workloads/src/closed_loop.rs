//! Clients in virtual time, each with one request in flight: the next begins when the last one is done.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tantalum::Nanoseconds;
use tantalum_report::{Bar, Interrupted};

/// Requests between two looks at the wish to stop.
const REQUESTS_PER_STEP: u64 = 256;

/// What clients have had.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Served {
    /// Requests in a second.
    pub per_second: f64,
    /// What a request takes, on average.
    pub mean_us: f64,
}

/// Does `requests` requests of `clients` clients from `start_ns` on. `request` does the one of a client at a time, and
/// says when it is done.
pub fn serve<E: From<Interrupted>>(
    clients: u32,
    requests: u64,
    start_ns: Nanoseconds,
    bar: &Bar,
    mut request: impl FnMut(usize, Nanoseconds) -> Result<Nanoseconds, E>,
) -> Result<Served, E> {
    let mut queue: BinaryHeap<_> = (0..clients as usize).map(|client| Reverse((start_ns, client))).collect();
    let (mut end_ns, mut waited_ns) = (start_ns, 0);
    for number in 0..requests {
        let Reverse((at_ns, client)) = queue.pop().expect("there is at least one client");
        let done_ns = request(client, at_ns)?;
        queue.push(Reverse((done_ns, client)));
        end_ns = end_ns.max(done_ns);
        waited_ns += done_ns - at_ns;
        if number % REQUESTS_PER_STEP == 0 {
            bar.advance(REQUESTS_PER_STEP.min(requests - number))?;
        }
    }
    Ok(Served {
        per_second: requests as f64 * 1e9 / (end_ns - start_ns) as f64,
        mean_us: waited_ns as f64 / requests as f64 / 1e3,
    })
}

#[cfg(test)]
mod tests {
    use tantalum_report::Monitor;

    use super::*;

    #[test]
    fn clients_wait_for_what_they_share_and_for_nothing_else() {
        let bar = Monitor::silent().bar("", 1);
        let alone = serve(4, 1000, 7, &bar, |_, at_ns| Ok::<_, Interrupted>(at_ns + 1000)).unwrap();
        assert_eq!(alone, Served { per_second: 4e6, mean_us: 1.0 });
        let mut free_ns = 7;
        let shared = serve(4, 1000, 7, &bar, |_, at_ns| {
            free_ns = at_ns.max(free_ns) + 1000;
            Ok::<_, Interrupted>(free_ns)
        });
        assert_eq!(shared.unwrap().per_second, 1e6);
    }
}
