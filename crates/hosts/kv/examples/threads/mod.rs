//! What several threads do at once.

use std::sync::Barrier;

/// Calls `work` in so many threads, which begin together, each with its number. Returns what each did.
pub fn together<T: Send>(threads: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let begin = Barrier::new(threads as usize);
    let (begin, work) = (&begin, &work);
    std::thread::scope(|scope| {
        let begun = |number| {
            scope.spawn(move || {
                begin.wait();
                work(number)
            })
        };
        let all: Vec<_> = (0..threads).map(begun).collect();
        all.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}
