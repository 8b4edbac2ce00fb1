//! A handler in Rust takes the way of a module's, and the time that it states.

use crate::common;

use common::{KERNEL, OPEN, ask, rest, ssd};
use tantalum_spu::{NativeHandler, ProgramId, SpuId, Ssd, shipped};

/// What `hits.c` does.
fn hits(_: SpuId) -> NativeHandler {
    let mut hits = [0_i32; 64];
    Box::new(move |body| {
        let page = body.first_chunk().map_or(u32::MAX, |word| u32::from_le_bytes(*word));
        let Some(count) = hits.get_mut(page as usize) else { return tantalum_spu::answer::BAD_ARGUMENT };
        *count += 1;
        *count
    })
}

/// The answers to a few requests, the time of the last, and how long processor 3 was occupied.
fn run(install: impl FnOnce(&mut Ssd) -> ProgramId) -> (Vec<i32>, u64, u64) {
    let mut ssd = ssd();
    let endpoint = ssd.endpoint(KERNEL).unwrap();
    let program = install(&mut ssd);
    rest(&mut ssd);
    let begun_ns = ssd.now_ns();
    let pages = [7_u32, 7, 8, 64, 7];
    let answers = pages.map(|page| ask(&mut ssd, endpoint, 3, (program, 0), &page.to_le_bytes()).0).to_vec();
    let took_ns = ssd.now_ns() - begun_ns;
    rest(&mut ssd);
    (answers, took_ns, ssd.busy_ns(SpuId(3)))
}

#[test]
fn a_handler_in_rust_answers_as_the_module_does_and_in_its_time() {
    let native =
        |instructions: u64| run(move |ssd| ssd.install_native(KERNEL, OPEN, instructions, hits).unwrap());
    let (answers, _, busy_ns) = run(|ssd| ssd.install(KERNEL, shipped::HITS, OPEN).unwrap());
    assert_eq!(answers, [1, 2, 1, -10, 3]);
    let (same, fast_ns, overhead_ns) = native(0);
    assert_eq!(same, answers);
    assert!(overhead_ns > 0 && overhead_ns < busy_ns, "{overhead_ns} of {busy_ns}");
    let (_, slow_ns, slow_busy_ns) = native(1000);
    assert_eq!((slow_ns - fast_ns, slow_busy_ns - overhead_ns), (5 * 8000, 5 * 8000), "8 ns an instruction");
}

#[test]
fn a_program_in_rust_has_one_handler_and_is_removed_as_others() {
    let mut ssd = ssd();
    let endpoint = ssd.endpoint(KERNEL).unwrap();
    let program = ssd.install_native(KERNEL, OPEN, 0, hits).unwrap();
    assert_eq!(ask(&mut ssd, endpoint, 0, (program, 1), &[]).0, tantalum_spu::answer::NO_HANDLER);
    ssd.uninstall(program).unwrap();
    assert_eq!(ask(&mut ssd, endpoint, 0, (program, 0), &[]).0, tantalum_spu::answer::NO_PROGRAM);
}
