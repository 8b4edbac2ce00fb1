//! Clients in virtual time, each with one request in flight: the next begins when the last one is done.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tantalum::Nanoseconds;
use tantalum_report::{Bar, Interrupted};

/// Requests between two checks for an interruption.
const REQUESTS_PER_STEP: u64 = 256;

/// The results of clients.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Served {
    /// Requests per second.
    pub per_second: f64,
    /// The mean duration of a request.
    pub mean_us: f64,
}

/// The result of a client's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Its request needs another turn, at this time.
    Next(Nanoseconds),
    /// Its request is done at this time.
    Done(Nanoseconds),
}

/// Executes `requests` requests of `clients` clients, starting at `start_ns`. `turn` executes a client's request, or the
/// part up to the next command that depends on an earlier answer. Turns are in the order of time.
pub fn serve<E: From<Interrupted>>(
    clients: u32,
    requests: u64,
    start_ns: Nanoseconds,
    bar: &Bar,
    mut turn: impl FnMut(usize, Nanoseconds) -> Result<Turn, E>,
) -> Result<Served, E> {
    let mut queue: BinaryHeap<_> = (0..clients as usize).map(|client| Reverse((start_ns, client))).collect();
    let mut begun_ns = vec![None; clients as usize];
    let (mut begun, mut end_ns, mut waited_ns) = (0, start_ns, 0);
    while let Some(Reverse((at_ns, client))) = queue.pop() {
        if begun_ns[client].is_none() {
            if begun == requests {
                continue;
            }
            if begun % REQUESTS_PER_STEP == 0 {
                bar.advance(REQUESTS_PER_STEP.min(requests - begun))?;
            }
            begun += 1;
        }
        let since_ns = *begun_ns[client].get_or_insert(at_ns);
        let next_ns = match turn(client, at_ns)? {
            Turn::Next(next_ns) => next_ns,
            Turn::Done(done_ns) => {
                begun_ns[client] = None;
                end_ns = end_ns.max(done_ns);
                waited_ns += done_ns - since_ns;
                done_ns
            }
        };
        queue.push(Reverse((next_ns, client)));
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
        let alone =
            serve(4, 1000, 7, &bar, |_, at_ns| Ok::<_, Interrupted>(Turn::Done(at_ns + 1000))).unwrap();
        assert_eq!(alone, Served { per_second: 4e6, mean_us: 1.0 });
        let mut free_ns = 7;
        let shared = serve(4, 1000, 7, &bar, |_, at_ns| {
            free_ns = at_ns.max(free_ns) + 1000;
            Ok::<_, Interrupted>(Turn::Done(free_ns))
        });
        assert_eq!(shared.unwrap().per_second, 1e6);
    }

    #[test]
    fn turns_are_in_the_order_of_time_and_a_request_lasts_over_all_of_its_turns() {
        let bar = Monitor::silent().bar("", 1);
        let (mut last_ns, mut turns) = (0, [0_u64; 3]);
        let served = serve(3, 10, 7, &bar, |client, at_ns| {
            assert!(at_ns >= last_ns, "{at_ns} {last_ns}");
            last_ns = at_ns;
            turns[client] += 1;
            let lasts_ns = [100, 70, 30][client];
            let is_first = turns[client] % 2 == 1;
            Ok::<_, Interrupted>(if is_first {
                Turn::Next(at_ns + 1000)
            } else {
                Turn::Done(at_ns + lasts_ns)
            })
        });
        let served = served.unwrap();
        assert_eq!(turns, [6, 6, 8]);
        assert_eq!(served.mean_us, (3.0 * 1100.0 + 3.0 * 1070.0 + 4.0 * 1030.0) / 10.0 / 1e3);
        assert_eq!(served.per_second, 10.0 * 1e9 / (4.0 * 1030.0));
    }
}
