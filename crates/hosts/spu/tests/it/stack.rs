//! However many instructions a program executes, the stack of the process that simulates the drive does not grow: a program must not
//! be able to end that process. wasmi can rely on the compiler to turn its calls into jumps, and gets that or not by the profile: with
//! `lto = "off"`, which CI has, these tests fail if it does.

use crate::common;

use common::{ask, rest, wat, with_program};
use tantalum_spu::answer;

/// Bodies of endless loops with instructions of many kinds.
const BODIES: &[&str] = &[
    "(nop)",
    "(call $nothing)",
    "(drop (call $sum (i32.const 1) (i32.const 2)))",
    "(call $nested)",
    "(call_indirect (type $none) (i32.const 0))",
    "(drop (call_indirect (type $two) (i32.const 1) (i32.const 2) (i32.const 1)))",
    "(drop (call $processor))",
    "(drop (call $processors)) (call $nothing) (drop (call $remaining))",
    "(if (local.get $left) (then (call $nothing)) (else (nop)))",
    "(block (br_if 0 (local.get $left)))",
    "(block (block (br_table 0 1 (local.get $left))))",
    "(local.set $left (i32.add (local.get $left) (i32.const 3)))",
    "(local.set $left (i32.rotl (i32.mul (local.get $left) (i32.const 7)) (i32.const 3)))",
    "(local.set $wide (i64.div_s (local.get $wide) (i64.const 3)))",
    "(local.set $wide (i64.extend_i32_s (i32.wrap_i64 (i64.popcnt (local.get $wide)))))",
    "(local.set $left (select (i32.const 1) (i32.const 2) (i64.lt_u (local.get $wide) (i64.const 9))))",
    "(global.set $counted (i32.add (global.get $counted) (i32.const 1)))",
    "(i32.store (i32.const 64) (i32.load (i32.const 128)))",
    "(i64.store32 (i32.const 64) (i64.load16_s (i32.const 128)))",
    "(i32.store8 (local.get $left) (i32.load8_u (local.get $left)))",
    "(drop (memory.grow (i32.const 0))) (drop (memory.size))",
    "(memory.fill (i32.const 0) (i32.const 1) (i32.const 8))",
    "(memory.copy (i32.const 0) (i32.const 16) (i32.const 8))",
    "(memory.init 0 (i32.const 0) (i32.const 0) (i32.const 1))",
    "(table.init 0 (i32.const 0) (i32.const 0) (i32.const 1))",
    "(table.copy (i32.const 0) (i32.const 1) (i32.const 1))",
];

#[test]
fn no_loop_of_a_program_uses_up_the_stack_of_the_process() {
    for body in BODIES {
        println!("{body}");
        let module = format!(
            r#"(module
                (import "tantalum" "processor" (func $processor (result i32)))
                (import "tantalum" "processors" (func $processors (result i32)))
                (import "tantalum" "remaining" (func $remaining (result i32)))
                (memory (export "memory") 1 1)
                (global (export "__heap_base") i32 (i32.const 1024))
                (global $counted (mut i32) (i32.const 0))
                (data "passive")
                (type $none (func))
                (type $two (func (param i32 i32) (result i32)))
                (table 2 funcref)
                (elem func $nothing $sum)
                (elem (i32.const 0) $nothing $sum)
                (func $nothing)
                (func $nested (call $nothing) (drop (call $sum (i32.const 1) (i32.const 1))))
                (func $sum (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
                (func (export "rpc_0") (param $sender i32) (param $bytes i32) (local $left i32) (local $wide i64)
                    (loop {body} (br 0))))"#
        );
        let (mut ssd, endpoint, program) = with_program(&wat(&module));
        let (status, events) = ask(&mut ssd, endpoint, 0, (program, 0), &[]);
        assert_eq!(status, answer::ENDED, "{events:?}");
        let events = [events, rest(&mut ssd)].concat();
        let why = events.iter().find_map(|event| event.why_ended());
        assert!(why.is_some_and(|why| why.contains("instructions")), "{body}: {events:?}");
    }
}
