//! Each protection of section 5.1.6 with an attack that fails.

use crate::common;

use common::{KERNEL, OPEN, ask, rest, ssd, wat, with_program};
use tantalum_spu::atomic_writes::{AtomicWrites, last_region};
use tantalum_spu::{
    BlockClient, EndpointId, Event, Fault, InstallOptions, IoError, ProcessId, ProgramId, Rights, SpuError,
    SpuId, Ssd, answer, shipped,
};

const IMPORTS: &str = r#"
    (import "tantalum" "origin" (func $origin (result i32)))
    (import "tantalum" "respond" (func $respond (param i32) (result i32)))
    (import "tantalum" "request_start" (func $start (param i32 i32 i32) (result i32)))
    (import "tantalum" "request_append" (func $append (param i32 i32) (result i32)))
    (import "tantalum" "request_finish" (func $finish (result i32)))
    (import "tantalum" "wait" (func $wait (param i32) (result i32)))
    (import "tantalum" "call" (func $call (param i32 i32 i32 i32 i32 i32 i32) (result i32)))
    (import "tantalum" "nvm_write" (func $write (param i64 i32 i32) (result i32)))
    (import "tantalum" "nvm_read" (func $read (param i32 i64 i32) (result i32)))
    (import "tantalum" "nvm_commit" (func $commit (param i32) (result i32)))
    (import "tantalum" "receive" (func $receive (param i32 i32) (result i32)))
    (import "tantalum" "print" (func $print (param i32 i32)))
    (memory (export "memory") 1 1)
    (table 1 funcref) (elem (i32.const 0) $wait)
    (global (export "__heap_base") i32 (i32.const 1024))"#;

/// A program with these handlers' bodies, numbered from 0. `(local 0)` is the source.
fn program(handlers: &[&str]) -> Vec<u8> {
    let functions: String = handlers
        .iter()
        .enumerate()
        .map(|(number, body)| format!("(func (export \"rpc_{number}\") (param i32 i32) {body})\n"))
        .collect();
    wat(&format!("(module {IMPORTS} {functions})"))
}

/// The drive with Base-IO, a victim's program and data, and a process that attacks.
struct Scene {
    ssd: Ssd,
    io: BlockClient,
    victim: EndpointId,
    direct: ProgramId,
    mallory: ProcessId,
    endpoint: EndpointId,
}

const VICTIM_BYTES: u64 = 256 << 10;

impl Scene {
    fn new() -> Scene {
        let mut ssd = ssd();
        let kernel = ssd.endpoint(KERNEL).unwrap();
        let base = ssd.install(KERNEL, shipped::BASE_IO, OPEN).unwrap();
        let direct = ssd.install(KERNEL, shipped::DIRECT_IO, OPEN).unwrap();
        let io = BlockClient::new(kernel, base);
        let (owner, mallory) = (ssd.process(), ssd.process());
        let victim = ssd.endpoint(owner).unwrap();
        let endpoint = ssd.endpoint(mallory).unwrap();
        ssd.grant(owner, 0..VICTIM_BYTES, Rights::READ | Rights::WRITE).unwrap();
        io.write(&mut ssd, 0, &vec![0x5A; VICTIM_BYTES as usize]).unwrap();
        rest(&mut ssd);
        Scene { ssd, io, victim, direct, mallory, endpoint }
    }

    fn install(&mut self, handlers: &[&str]) -> ProgramId {
        self.ssd.install(self.mallory, &program(handlers), InstallOptions::default()).unwrap()
    }

    fn ask(&mut self, program: ProgramId, handler: u32) -> (i32, Vec<Event>) {
        ask(&mut self.ssd, self.endpoint, 0, (program, handler), &[1; 16])
    }

    /// The victim's data are as they were, and its program answers.
    fn assert_untouched(&mut self) {
        let mut data = vec![0; VICTIM_BYTES as usize];
        BlockClient::new(self.victim, self.direct).read(&mut self.ssd, 0, &mut data).unwrap();
        assert!(data.iter().all(|&byte| byte == 0x5A));
        self.io.read(&mut self.ssd, 0, &mut data).unwrap();
        assert!(data.iter().all(|&byte| byte == 0x5A));
    }

    /// Sends a request that ends the program, and checks that nothing else ended. Returns the fault.
    fn assert_ends(&mut self, handlers: &[&str]) -> Fault {
        let free = self.ssd.free_memory();
        let id = self.install(handlers);
        let (status, others) = self.ask(id, 0);
        let events = [others, rest(&mut self.ssd)].concat();
        let ended: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::Ended { program, owner, fault, .. } => Some((*program, *owner, fault.clone())),
                _ => None,
            })
            .collect();
        let [(program, owner, fault)] = &ended[..] else { panic!("{events:?}") };
        assert_eq!((*program, *owner), (id, self.mallory));
        assert_eq!(status, answer::ENDED);
        assert_eq!(self.ask(id, 0).0, answer::NO_PROGRAM);
        assert_eq!(self.ssd.free_memory(), free, "its memory is free again");
        self.assert_untouched();
        fault.clone()
    }
}

// -- tracking responsibility --------------------------------------------------------------------------------------

/// Sends a request on to a processor, and answers with its answer.
fn relay(spu: u32, handler: u32) -> String {
    format!(
        "(drop (call $start (i32.const {}) (i32.const 0) (i32.const {handler})))
         (drop (call $respond (call $wait (call $finish))))",
        0x4000_0000 + spu
    )
}

#[test]
fn the_originating_endpoint_follows_every_message_and_nothing_else_sets_it() {
    let mut scene = Scene::new();
    let tell = "(drop (call $respond (call $origin)))";
    let module = program(&[&relay(1, 1), &relay(2, 2), &relay(3, 3), tell]);
    let id = scene.ssd.install(scene.mallory, &module, OPEN).unwrap();
    for endpoint in [scene.victim, scene.endpoint] {
        // the body names another endpoint, which nobody believes
        let (status, _) = ask(&mut scene.ssd, endpoint, 0, (id, 0), &0_u32.to_le_bytes());
        assert_eq!(status as u32, endpoint.number());
    }
}

#[test]
fn a_program_has_the_rights_of_who_sent_the_request_and_not_of_its_owner() {
    let mut scene = Scene::new();
    let touch = "(drop (call $respond (call $write (i64.const 0) (i32.const 0) (i32.const 8))))";
    let module = program(&[touch, &relay(0, 0)]);
    let id = scene.ssd.install(scene.victim.process(), &module, OPEN).unwrap();
    // the victim's own program, asked by somebody else, also by way of another processor
    for (spu, handler) in [(0, 0), (1, 1)] {
        let (status, _) = ask(&mut scene.ssd, scene.endpoint, spu, (id, handler), &[]);
        assert_eq!(status, answer::NO_PERMISSION);
    }
    rest(&mut scene.ssd);
    scene.assert_untouched();
}

#[test]
fn a_program_reaches_the_endpoints_of_its_caller_and_its_owner_and_no_others() {
    let mut scene = Scene::new();
    let send = |to: EndpointId| {
        format!(
            "(drop (call $start (i32.const {}) (i32.const 0) (i32.const 7)))
             (drop (call $respond (call $finish)))",
            to.number() as i32
        )
    };
    let kernel = scene.ssd.endpoint(KERNEL).unwrap();
    let module = program(&[&send(scene.victim), &send(kernel), &send(scene.endpoint)]);
    let id = scene.ssd.install(scene.mallory, &module, OPEN).unwrap();
    assert_eq!(scene.ask(id, 0).0, answer::NOT_ALLOWED);
    assert_eq!(scene.ask(id, 1).0, answer::NOT_ALLOWED);
    assert_eq!(scene.ask(id, 2).0, 0);
    let (status, _) = ask(&mut scene.ssd, scene.victim, 0, (id, 0), &[]);
    assert_eq!(status, 0, "the victim asked for it");
}

#[test]
fn nobody_sends_by_an_endpoint_that_is_not_open() {
    let mut scene = Scene::new();
    let id = scene.ssd.install(KERNEL, shipped::ECHO, OPEN).unwrap();
    let now_ns = scene.ssd.now_ns();
    let victim = scene.victim;
    scene.ssd.close(victim);
    for forged in [victim.number(), 0x8000_0BFF, u32::MAX, 0x4000_0001, 77] {
        let forged = EndpointId::from_number(forged);
        let refused = scene.ssd.send(forged, SpuId(0), (id, 0), Vec::new(), now_ns);
        assert_eq!(refused, Err(SpuError::NoEndpoint(forged.number())));
    }
    // an endpoint that a process gets again has nothing of the one before
    let again = scene.ssd.endpoint(scene.mallory).unwrap();
    assert_ne!(again.process(), victim.process());
}

#[test]
fn requests_of_the_kernel_s_alone_are_not_to_be_had_by_way_of_a_program() {
    let mut scene = Scene::new();
    let base = scene.ssd.install(KERNEL, shipped::BASE_IO, OPEN).unwrap();
    // the attacker's own program asks Base-IO, as the intercall table lets it
    let io = "(i64.store (i32.const 0) (i64.const 0x100000)) (i64.store (i32.const 8) (i64.const 16))";
    let call = |handler: u32| {
        format!(
            "{io} (drop (call $respond (call $call (i32.const {}) (i32.const {handler}) (i32.const 0) (i32.const 32) (i32.const 64) (i32.const 32) (i32.const 0))))",
            base.0
        )
    };
    let id = scene.install(&[&call(0), &call(1), &call(2)]);
    scene.ssd.allow_calls(id, base, &[0, 1, 2]).unwrap();
    for handler in 0..3 {
        assert_eq!(scene.ask(id, handler).0, answer::NOT_ALLOWED, "handler {handler}");
        let (status, _) = ask(&mut scene.ssd, scene.endpoint, 0, (base, handler), &[0; 32]);
        assert_eq!(status, answer::NOT_ALLOWED, "handler {handler}, asked by a process");
        // the kernel itself may, by way of the same program
        let kernel = scene.ssd.endpoint(KERNEL).unwrap();
        let (status, _) = ask(&mut scene.ssd, kernel, 0, (id, handler), &[]);
        assert!(status >= 0, "handler {handler} answered the kernel with {status}");
    }
    scene.assert_untouched();
}

// -- non-volatile memory ------------------------------------------------------------------------------------------

#[test]
fn no_address_length_or_processor_gets_a_program_past_the_permissions() {
    let mut scene = Scene::new();
    let accesses: Vec<String> =
        [(0_u64, 8_u32), (8192, 8), (u64::MAX - 3, 8), (u64::MAX - 8, 4), (1 << 40, 1), (0, 0), (0, 8193)]
            .iter()
            .map(|(address, length)| {
                format!(
                    "(drop (call $respond (call $write (i64.const {}) (i32.const 0) (i32.const {}))))",
                    *address as i64,
                    length.min(&1000)
                )
            })
            .collect();
    let handlers: Vec<&str> = accesses.iter().map(String::as_str).collect();
    let id = scene.install(&handlers);
    for handler in 0..handlers.len() as u32 {
        for spu in 0..8 {
            let (status, _) = ask(&mut scene.ssd, scene.endpoint, spu, (id, handler), &[]);
            assert!(status < 0, "handler {handler} at processor {spu} answered {status}");
        }
    }
    rest(&mut scene.ssd);
    scene.assert_untouched();
}

/// A process fills the table with its own extents. The victim's entry is evicted, which takes no right away, and gives none.
#[test]
fn a_flood_of_extents_evicts_entries_and_changes_no_rights() {
    let mut scene = Scene::new();
    let row = scene.ssd.stripes().row_bytes();
    let (first, entries) = (VICTIM_BYTES.div_ceil(row), 768);
    for index in 0..entries + 50 {
        let at = (first + index / 64) * row + index % 64 * 128;
        scene.ssd.grant(scene.mallory, at..at + 64, Rights::READ).unwrap();
    }
    rest(&mut scene.ssd);
    let (installed, evicted) = scene.ssd.permissions(SpuId(0));
    assert!(installed == 768 && evicted >= 50, "{installed} entries, {evicted} evicted");
    let touch = "(drop (call $respond (call $write (i64.const 0) (i32.const 0) (i32.const 8))))";
    let id = scene.install(&[touch]);
    assert_eq!(scene.ask(id, 0).0, answer::NO_PERMISSION);
    rest(&mut scene.ssd);
    scene.assert_untouched();
}

#[test]
fn nobody_reaches_the_region_of_another_program_not_even_the_kernel() {
    let mut scene = Scene::new();
    let kernel = scene.ssd.endpoint(KERNEL).unwrap();
    let region = last_region(scene.ssd.stripes());
    AtomicWrites::install(&mut scene.ssd, kernel, region).unwrap();
    let refused = scene.io.read(&mut scene.ssd, region, &mut [0; 8]);
    assert!(matches!(refused, Err(IoError::NoPermission { .. })), "{refused:?}");
    assert!(scene.ssd.grant(scene.mallory, region..region + 8, Rights::READ).is_err());
    let stolen = InstallOptions { is_open: false, region: Some(0..65_536) };
    assert!(scene.ssd.install(scene.mallory, shipped::ECHO, stolen.clone()).is_err());
    assert!(scene.ssd.install(KERNEL, shipped::ECHO, stolen).is_err(), "the victim has rights there");
}

// -- code and data --------------------------------------------------------------------------------------------------

#[test]
fn accesses_beyond_the_program_s_memory_end_it_alone() {
    let mut scene = Scene::new();
    for attack in [
        "(drop (i32.load (i32.const 1021)))",
        "(i32.store8 (i32.const -1) (i32.const 0))",
        "(drop (call $receive (i32.const 1020) (i32.const 8)))",
        "(drop (call $receive (i32.const -4) (i32.const 8)))",
        "(drop (call $append (i32.const 0) (i32.const -1)))",
        "(call $print (i32.const 1000) (i32.const 100))",
        "(drop (call $read (i32.const 1020) (i64.const 0) (i32.const 8)))",
        "(memory.fill (i32.const 0) (i32.const 1) (i32.const 65536))",
        "(drop (call $call (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1023)))",
    ] {
        assert!(matches!(scene.assert_ends(&[attack]), Fault::Trap(_)), "{attack}");
    }
    let grow = "(drop (call $respond (memory.grow (i32.const 1))))";
    let id = scene.install(&[grow]);
    assert_eq!(scene.ask(id, 0).0, -1, "memory is given when a program is installed, and never later");
}

#[test]
fn faults_loops_and_full_stacks_end_a_program_alone() {
    let mut scene = Scene::new();
    for attack in [
        "(unreachable)",
        "(drop (i32.div_u (i32.const 1) (i32.const 0)))",
        "(call 12 (i32.const 0) (i32.const 0))",
        // code: no such entry of the table, and one of another type
        "(drop (call_indirect (param i32) (result i32) (i32.const 0) (i32.const 7)))",
        "(call_indirect (param i32 i32) (i32.const 0) (i32.const 0) (i32.const 0))",
    ] {
        assert!(matches!(scene.assert_ends(&[attack]), Fault::Trap(_)), "{attack}");
    }
    for attack in [
        "(loop (br 0))",
        "(loop (drop (call $origin)) (br 0))",
        "(loop (call $print (i32.const 0) (i32.const 1000)) (br 0))",
        "(loop (drop (call $start (i32.const 0) (i32.const 0) (i32.const 0))) (br 0))",
        "(loop (drop (call $finish)) (br 0))",
        "(loop (drop (call $write (i64.const 0) (i32.const 0) (i32.const 8))) (br 0))",
        "(loop (memory.fill (i32.const 0) (i32.const 1) (i32.const 1000)) (br 0))",
    ] {
        assert_eq!(scene.assert_ends(&[attack]), Fault::Endless { limit: 1_250_000 }, "{attack}");
    }
}

// -- floods ---------------------------------------------------------------------------------------------------------

#[test]
fn requests_that_beget_requests_end_the_program() {
    let mut scene = Scene::new();
    let send_on =
        "(drop (call $start (i32.const 0x40000001) (i32.const 0) (i32.const 1))) (drop (call $finish))";
    let back =
        "(drop (call $start (i32.const 0x40000000) (i32.const 0) (i32.const 1))) (drop (call $finish))";
    let doubled = format!("{send_on} {back}");
    for handlers in [[send_on, back], [&doubled, &doubled]] {
        let waits = format!("{} (drop (call $wait (i32.const 0)))", handlers[0]);
        let id = scene.install(&[&waits, handlers[1]]);
        let (_, others) = scene.ask(id, 0);
        let events = [others, rest(&mut scene.ssd)].concat();
        let floods =
            events.iter().filter(|event| matches!(event, Event::Ended { fault: Fault::Flood, .. })).count();
        assert_eq!(floods, 1);
        assert_eq!(scene.ask(id, 0).0, answer::NO_PROGRAM);
        scene.assert_untouched();
    }
}

#[test]
fn a_flooded_program_takes_no_room_and_little_time_from_others() {
    let mut scene = Scene::new();
    let busy = "(local i32) (loop (br_if 0 (i32.lt_u (local.tee 2 (i32.add (local.get 2) (i32.const 1))) (i32.const 100000)))) (drop (call $respond (i32.const 0)))";
    let id = scene.install(&[busy]);
    let now_ns = scene.ssd.now_ns();
    for _ in 0..300 {
        scene.ssd.send(scene.endpoint, SpuId(0), (id, 0), vec![0; 4000], now_ns).unwrap();
    }
    let mut data = [0; 100];
    let direct = BlockClient::new(scene.victim, scene.direct);
    for _ in 0..3 {
        let before_ns = scene.ssd.now_ns();
        direct.read(&mut scene.ssd, 0, &mut data).unwrap();
        // one run of the flooded program (about 4 ms) may be ahead of each of its turns
        let waited_ns = scene.ssd.now_ns() - before_ns;
        assert!(waited_ns < 20_000_000, "{waited_ns}");
    }
    let statuses: Vec<i32> = rest(&mut scene.ssd)
        .iter()
        .filter_map(|event| if let Event::Answer { status, .. } = event { Some(*status) } else { None })
        .collect();
    assert_eq!(statuses.len(), 300, "each is answered");
    assert!(statuses.contains(&answer::OK) && statuses.contains(&answer::NOT_DELIVERED));
    scene.assert_untouched();
}

#[test]
fn a_program_cannot_flood_the_driver_with_permissions_that_it_has_not() {
    let mut scene = Scene::new();
    let id = scene.install(&["(loop (drop (call $read (i32.const 0) (i64.const 0) (i32.const 8))) (br 0))"]);
    let (status, others) = scene.ask(id, 0);
    assert_eq!(status, answer::ENDED);
    let events = [others, rest(&mut scene.ssd)].concat();
    let asked =
        events.iter().filter(|event| matches!(event, Event::Permission { granted: false, .. })).count();
    assert_eq!(asked, 4096);
}

// -- calls between programs -----------------------------------------------------------------------------------------

#[test]
fn only_the_intercall_table_lets_programs_use_each_other() {
    let mut scene = Scene::new();
    let callee = program(&["(drop (call $respond (i32.const 70)))", "(drop (call $respond (i32.const 71)))"]);
    let callee = scene.ssd.install(KERNEL, &callee, InstallOptions::default()).unwrap();
    let call = |handler: u32| {
        format!(
            "(drop (call $respond (call $call (i32.const {}) (i32.const {handler}) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))))",
            callee.0
        )
    };
    let send = |handler: u32| {
        format!(
            "(drop (call $start (i32.const 0x40000005) (i32.const {}) (i32.const {handler})))
             (drop (call $respond (call $finish)))",
            callee.0
        )
    };
    let caller = scene.install(&[&call(0), &call(1), &send(0), &send(1)]);
    for handler in 0..4 {
        assert_eq!(scene.ask(caller, handler).0, answer::NOT_ALLOWED);
    }
    scene.ssd.allow_calls(caller, callee, &[1]).unwrap();
    let statuses: Vec<i32> = (0..4).map(|handler| scene.ask(caller, handler).0).collect();
    assert_eq!(statuses, [answer::NOT_ALLOWED, 71, answer::NOT_ALLOWED, 0]);
    // the program that was called is not open to the process itself
    assert_eq!(scene.ask(callee, 1).0, answer::NOT_ALLOWED);
}

#[test]
fn a_call_into_a_program_that_faults_comes_back() {
    let mut scene = Scene::new();
    let callee = scene.ssd.install(KERNEL, &program(&["(unreachable)"]), InstallOptions::default()).unwrap();
    let call = format!(
        "(drop (call $respond (call $call (i32.const {}) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))))",
        callee.0
    );
    let caller = scene.install(&[&call]);
    scene.ssd.allow_calls(caller, callee, &[0]).unwrap();
    assert_eq!(scene.ask(caller, 0).0, answer::ENDED);
    assert_eq!(scene.ask(caller, 0).0, answer::NOT_ALLOWED, "its row of the table is gone with it");
    scene.assert_untouched();
}

#[test]
fn handlers_that_wait_for_each_other_do_not_wait_for_ever() {
    let mut scene = Scene::new();
    let id = scene.install(&[&relay(1, 1), &relay(0, 2), "(drop (call $respond (i32.const 5)))"]);
    let before_ns = scene.ssd.now_ns();
    assert_eq!(scene.ask(id, 0).0, answer::TIMEOUT);
    assert!(scene.ssd.now_ns() - before_ns >= 50_000_000);
    rest(&mut scene.ssd);
    assert_eq!(scene.ask(id, 2).0, 5);
}

// -- half of a request (hazard 22) ----------------------------------------------------------------------------------

#[test]
fn a_fault_leaves_nothing_of_the_stores_of_its_request() {
    let mut scene = Scene::new();
    scene.ssd.grant(scene.mallory, 1 << 20..2 << 20, Rights::READ | Rights::WRITE).unwrap();
    let store =
        |address: u64| format!("(drop (call $write (i64.const {address}) (i32.const 0) (i32.const 8)))");
    let (first, second) = (1_u64 << 20, (1 << 20) + 4096);
    let fill = "(memory.fill (i32.const 0) (i32.const 7) (i32.const 8))";
    let attack = format!("{fill} {} {} (unreachable)", store(first), store(second));
    scene.assert_ends(&[&attack]);
    let mut data = [0; 8192];
    scene.io.read(&mut scene.ssd, first, &mut data).unwrap();
    assert_eq!(data, [0; 8192], "neither store is there");
    // what was committed before the fault stays
    let partly = format!(
        "{fill} {} (drop (call $commit (i32.const 0))) {} (unreachable)",
        store(first),
        store(second)
    );
    scene.assert_ends(&[&partly]);
    scene.io.read(&mut scene.ssd, first, &mut data).unwrap();
    assert_eq!((data[0], data[4096]), (7, 0));
}

#[test]
fn an_end_is_told_once_and_to_the_owner() {
    let (mut ssd, endpoint, _) = with_program(shipped::ECHO);
    let process = ssd.process();
    let id = ssd.install(process, &program(&["(unreachable)"]), OPEN).unwrap();
    let now_ns = ssd.now_ns();
    for spu in 0..8 {
        ssd.send(endpoint, SpuId(spu), (id, 0), Vec::new(), now_ns).unwrap();
    }
    let events = rest(&mut ssd);
    let answers =
        events.iter().filter(|event| matches!(event, Event::Answer { status, .. } if *status < 0)).count();
    let ends: Vec<_> = events.iter().filter(|event| matches!(event, Event::Ended { .. })).collect();
    assert_eq!((answers, ends.len()), (8, 1));
    assert!(matches!(ends[0], Event::Ended { owner, handler: 0, .. } if *owner == process));
}
