//! A program that faults at any instruction leaves nothing of a request by half (hazard 22). The program is Append, whose record
//! and head belong together; a trap is put before each of its instructions in turn.

use crate::common;

use common::{KERNEL, OPEN, ask, rest, ssd};
use tantalum_spu::{
    EndpointId, Event, InstallError, InstallOptions, ProgramId, STRIPE_BYTES, Ssd, answer, shipped,
};
use wasmparser::{Parser, Payload};

/// A module with `unreachable` before an instruction of a function. `None` if there is no such function, `Some(None)` if it has no
/// such instruction.
fn with_trap(module: &[u8], function: usize, instruction: usize) -> Option<Option<Vec<u8>>> {
    let (mut bodies, mut section) = (Vec::new(), 0..0);
    for payload in Parser::new(0).parse_all(module) {
        match payload.unwrap() {
            Payload::CodeSectionStart { range, .. } => section = range,
            Payload::CodeSectionEntry(body) => bodies.push(body),
            _ => {}
        }
    }
    let mut operators = bodies.get(function)?.get_operators_reader().unwrap();
    for _ in 0..instruction {
        operators.read().unwrap();
        if operators.eof() {
            return Some(None);
        }
    }
    let mut code = leb(bodies.len());
    for (index, body) in bodies.iter().enumerate() {
        let (range, at) = (body.range(), operators.original_position());
        let body = match index == function {
            true => [&module[range.start..at], &[0], &module[at..range.end]].concat(),
            false => module[range].to_vec(),
        };
        code.extend(leb(body.len()));
        code.extend(body);
    }
    // the section's number and length stand before its contents
    let head = section.start - 1 - leb(section.len()).len();
    assert_eq!(module[head], 10);
    Some(Some([&module[..head], &[10], &leb(code.len())[..], &code, &module[section.end..]].concat()))
}

fn leb(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn append(ssd: &mut Ssd, endpoint: EndpointId, program: ProgramId, sequence: u32, data: &[u8]) -> i32 {
    let body = [&sequence.to_le_bytes()[..], &(data.len() as u32).to_le_bytes(), data].concat();
    ask(ssd, endpoint, 2, (program, 0), &body).0
}

/// The record at an offset, or the answer if there is none.
fn read(ssd: &mut Ssd, endpoint: EndpointId, program: ProgramId, offset: i32) -> Result<Vec<u8>, i32> {
    let (status, events) = ask(ssd, endpoint, 2, (program, 1), &offset.to_le_bytes());
    let events = [events, rest(ssd)].concat();
    match (status, events.into_iter().find(|event| matches!(event, Event::Request { .. }))) {
        (answer::OK, Some(Event::Request { body, .. })) => Ok(body[16..].to_vec()),
        (status, _) => Err(status),
    }
}

/// Has records appended by programs that fault, and asks for the same again of the program as it should be: it answers a request
/// that was done with its place, and does one that was not. Returns how many faulted and how many did not, or what was left by half.
fn at_every_instruction(module: &[u8]) -> Result<(u32, u32), String> {
    let (mut faulted, mut answered) = (0, 0);
    let row = STRIPE_BYTES * 8;
    let options = InstallOptions { region: Some(32 * row..96 * row), ..OPEN };
    let mut ssd = ssd();
    let process = ssd.process();
    let endpoint = ssd.endpoint(process).unwrap();
    let (mut sequence, mut function, mut instruction) = (0, 0, 0);
    loop {
        let faulty = match with_trap(module, function, instruction) {
            None => return Ok((faulted, answered)),
            Some(None) => {
                (function, instruction) = (function + 1, 0);
                continue;
            }
            Some(Some(faulty)) => faulty,
        };
        sequence += 1;
        let data = u32::to_le_bytes(sequence).repeat(20);
        match ssd.install(KERNEL, &faulty, options.clone()) {
            Ok(program) => {
                match append(&mut ssd, endpoint, program, sequence, &data) {
                    answer::ENDED => faulted += 1,
                    _ => answered += 1,
                }
                rest(&mut ssd);
                // it is gone if it faulted
                let _ = ssd.uninstall(program);
            }
            // the trap is in what tells where stacks are
            Err(InstallError::Start(_)) => {}
            Err(error) => panic!("{error}"),
        }
        let program = ssd.install(KERNEL, shipped::APPEND, options.clone()).unwrap();
        let offset = append(&mut ssd, endpoint, program, sequence, &data);
        let found = read(&mut ssd, endpoint, program, offset);
        if found.as_ref() != Ok(&data) {
            return Err(format!(
                "a trap before instruction {instruction} of function {function}: the log names offset {offset} for a record, \
                 and there is {found:?}"
            ));
        }
        ssd.uninstall(program).unwrap();
        instruction += 1;
    }
}

#[test]
fn a_fault_at_any_instruction_of_a_request_leaves_all_of_it_or_nothing() {
    let (faulted, answered) = at_every_instruction(shipped::APPEND).unwrap();
    println!("{faulted} programs faulted, {answered} did not come to the trap");
    assert!(faulted > 100 && answered > 50);
}

/// Append that makes its head valid before the record.
#[test]
fn a_program_that_commits_a_half_is_noticed() {
    let noticed = at_every_instruction(include_bytes!("../canaries/append_commits_early.wasm"));
    println!("{}", noticed.expect_err("a half was left"));
}
