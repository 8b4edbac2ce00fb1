//! The installer of a program that was ended learns in which function it happened, by name if the module has names.

use crate::common;

use common::{KERNEL, OPEN, ask, profile, rest, ssd, ssd_of, wat, with_program};
use tantalum_spu::{Event, Fault, ProgramId, Ssd, shipped};

/// Sends a request that ends the program, and returns what its owner learns.
fn end(ssd: &mut Ssd, program: ProgramId, handler: u32, body: &[u8]) -> Event {
    let endpoint = ssd.endpoint(KERNEL).unwrap();
    let (_, events) = ask(ssd, endpoint, 0, (program, handler), body);
    let events = [events, rest(ssd)].concat();
    let ended = events.into_iter().find(|event| matches!(event, Event::Ended { .. }));
    ended.expect("the program is ended")
}

/// A module without its custom sections, as `wasm-strip` leaves it.
fn stripped(module: &[u8]) -> Vec<u8> {
    let mut kept = module[..8].to_vec();
    for payload in wasmparser::Parser::new(0).parse_all(module) {
        if let Some((number, range)) = payload.unwrap().as_section()
            && number != 0
        {
            let (mut bytes, mut length) = (vec![number], range.len());
            while length >= 0x80 {
                bytes.push(length as u8 | 0x80);
                length >>= 7;
            }
            bytes.push(length as u8);
            kept.extend([&bytes, &module[range]].concat());
        }
    }
    kept
}

/// A shipped program does not trap by itself. It runs out of instructions if it may execute only a few.
#[test]
fn a_shipped_program_is_ended_in_a_function_with_a_name_and_a_stripped_one_in_one_with_a_number() {
    // the first limit at which its function has begun
    let ended = |limit: u64| {
        let mut profile = profile("tlc-nvme");
        profile.spu.handler_instructions = limit;
        let mut ssd = ssd_of(&profile);
        let hits = ssd.install(KERNEL, shipped::HITS, OPEN).unwrap();
        let event = end(&mut ssd, hits, 0, &7_u32.to_le_bytes());
        assert!(matches!(event, Event::Ended { fault: Fault::Endless { limit: told }, .. } if told == limit));
        matches!(event, Event::Ended { function: Some(_), .. }).then_some((ssd, event))
    };
    let (mut ssd, event) = (1..100).find_map(ended).unwrap();
    let Event::Ended { function: Some(function), .. } = &event else { panic!("{event:?}") };
    assert_eq!(function.name.as_deref(), Some("hit"));
    let number = function.number;
    let text = event.to_string();
    assert!(text.starts_with("program 1 of the kernel was ended at processor 0, handler 0: "), "{text}");
    assert!(text.ends_with(", in `hit`"), "{text}");

    let small = stripped(shipped::HITS);
    assert!(small.len() < shipped::HITS.len());
    let hits = ssd.install(KERNEL, &small, OPEN).unwrap();
    let event = end(&mut ssd, hits, 0, &7_u32.to_le_bytes());
    let why = event.why_ended().unwrap();
    assert!(why.ends_with(&format!(", in function {number}, which has no name in the module")), "{why}");
}

/// Two threads, and functions that trap before, in and after calls of others and of the system.
const NESTED: &str = r#"(module
    (import "tantalum" "respond" (func $respond (param i32) (result i32)))
    (import "tantalum" "receive" (func $receive (param i32 i32) (result i32)))
    (import "tantalum" "request_start" (func $start (param i32 i32 i32) (result i32)))
    (import "tantalum" "request_finish" (func $finish (result i32)))
    (import "tantalum" "wait" (func $wait (param i32) (result i32)))
    (memory (export "memory") 1 1)
    (table 3 funcref)
    (elem (i32.const 0) $divide $harmless)
    (type $of_one (func (param i32) (result i32)))
    (global (export "__heap_base") i32 (i32.const 1024))
    (global $stack (export "__stack_pointer") (mut i32) (i32.const 1024))
    (func (export "tl_stack") (param i32) (result i32)
        (select (i32.const 0) (i32.add (i32.const 256) (i32.mul (i32.const 256) (local.get 0)))
            (i32.ge_u (local.get 0) (i32.const 3))))
    (func $divide (param i32) (result i32) (i32.div_u (i32.const 100) (local.get 0)))
    (func $harmless (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
    (func $middle (param i32) (result i32) (call $harmless (call $divide (local.get 0))))
    (func $deep (param i32) (result i32) (call $deep (i32.add (local.get 0) (i32.const 1))))
    (func $by_table (param i32) (result i32)
        (call_indirect (type $of_one) (i32.const 0) (local.get 0)))
    (func $far (drop (call $receive (i32.const 2000) (i32.const 8))))
    (func $pauses
        (drop (call $start (i32.const 0x40000001) (i32.const 0) (i32.const 7)))
        (drop (call $wait (call $finish)))
        (unreachable))
    (func $in_inner (export "rpc_0") (param i32 i32) (drop (call $middle (i32.const 0))))
    (func $in_outer (export "rpc_1") (param i32 i32)
        (drop (call $middle (i32.const 1))) (drop (call $harmless (i32.const 1))) (unreachable))
    (func $in_system (export "rpc_2") (param i32 i32) (drop (call $harmless (i32.const 1))) (call $far))
    (func $full (export "rpc_3") (param i32 i32) (drop (call $deep (i32.const 0))))
    (func $by_table_0 (export "rpc_4") (param i32 i32) (drop (call $by_table (i32.const 0))))
    (func $by_table_2 (export "rpc_5") (param i32 i32) (drop (call $by_table (i32.const 2))))
    (func $after_others (export "rpc_6") (param i32 i32) (call $pauses))
    (func $works (export "rpc_7") (param i32 i32) (local $left i32)
        (local.set $left (i32.const 1000))
        (loop (br_if 0 (local.tee $left (i32.sub (call $harmless (local.get $left)) (i32.const 2)))))
        (drop (call $respond (i32.const 0)))))"#;

#[test]
fn the_innermost_function_is_told_whatever_was_called_before() {
    for (handler, function, what) in [
        (0, "divide", "divide by zero"),
        (1, "in_outer", "unreachable"),
        (2, "far", "out of bounds memory access"),
        (3, "deep", "call stack exhausted"),
        (4, "divide", "divide by zero"),
        (5, "by_table", "uninitialized element"),
    ] {
        let mut ssd = ssd();
        let program = ssd.install(KERNEL, &wat(NESTED), OPEN).unwrap();
        let event = end(&mut ssd, program, handler, &[]);
        let why = event.why_ended().unwrap();
        assert!(
            why.contains(what) && why.ends_with(&format!(", in `{function}`")),
            "handler {handler}: {why}"
        );
    }
}

/// A thread that waited is told apart from those that ran meanwhile.
#[test]
fn a_thread_that_goes_on_is_where_it_stopped_and_not_where_another_was_meanwhile() {
    let mut ssd = ssd();
    let endpoint = ssd.endpoint(KERNEL).unwrap();
    let program = ssd.install(KERNEL, &wat(NESTED), OPEN).unwrap();
    let now_ns = ssd.now_ns();
    ssd.send(endpoint, tantalum_spu::SpuId(0), (program, 6), Vec::new(), now_ns).unwrap();
    ssd.send(endpoint, tantalum_spu::SpuId(0), (program, 7), Vec::new(), now_ns).unwrap();
    let events = rest(&mut ssd);
    let answered = events.iter().position(|event| matches!(event, Event::Answer { status: 0, .. }));
    let ended = events.iter().position(|event| matches!(event, Event::Ended { .. }));
    let (Some(_), Some(ended)) = (answered, ended) else { panic!("{events:?}") };
    let why = events[ended].why_ended().unwrap();
    assert!(why.ends_with(", in `pauses`"), "{why}");
}

#[test]
fn a_program_without_memory_and_one_that_takes_the_marks_names() {
    let mut ssd = ssd();
    let bare = wat(r#"(module (func $bare (export "rpc_0") (param i32 i32) (unreachable)))"#);
    let program = ssd.install(KERNEL, &bare, OPEN).unwrap();
    assert!(end(&mut ssd, program, 0, &[]).why_ended().unwrap().ends_with(", in `bare`"));
    for name in ["function", "memory"] {
        let taken = format!(
            r#"(module (memory (export "\01tantalum {name}") 1) (func (export "rpc_0") (param i32 i32)))"#
        );
        let refused = ssd.install(KERNEL, &wat(&taken), OPEN).unwrap_err();
        assert!(refused.to_string().contains("not a valid module"), "{refused}");
    }
}

const PRINTS: &str = r#"
    (func $prints (export "rpc_0") (param i32 i32)
        (call $print (i32.const 16) (i32.const 5)) (drop (call $respond (i32.const 0))))"#;
const PRINT: &str = r#"
    (import "tantalum" "print" (func $print (param i32 i32)))
    (import "tantalum" "respond" (func $respond (param i32) (result i32)))"#;

/// The system once found no memory that was not exported, and each pointer to it was out of bounds.
#[test]
fn a_module_need_not_export_its_memory() {
    let memory =
        r#"(memory 1) (data (i32.const 16) "hello") (global (export "__heap_base") i32 (i32.const 64))"#;
    let (mut ssd, endpoint, program) = with_program(&wat(&format!("(module {PRINT} {memory} {PRINTS})")));
    assert_eq!(ask(&mut ssd, endpoint, 0, (program, 0), &[]).0, 0);
    assert_eq!(ssd.output(program).unwrap().serial[0], b"hello");
}

#[test]
fn a_module_without_memory_that_passes_a_pointer_is_told_what_is_missing() {
    let (mut ssd, _, program) = with_program(&wat(&format!("(module {PRINT} {PRINTS})")));
    assert_eq!(
        end(&mut ssd, program, 0, &[]).why_ended().unwrap(),
        "a function of tantalum_spu.h got a pointer, and the module declares no memory, in `prints`"
    );
}
