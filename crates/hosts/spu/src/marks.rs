//! Marks in a program's code, which record the function that runs, so that a fault can be located.
//!
//! The runtime has no call stack that a host could inspect. So when a module is loaded, each of its functions gets instructions
//! that store its number: at its beginning, and after each call that it makes. The number is in a separate memory, which the
//! module's instructions cannot name.
//!
//! Invariants: marks consist of instructions that programs may not use (floating point), and these cost nothing, so that marks do
//! not change a program's virtual time. They take no instruction or data memory of the processor.

use std::ops::Range;

use wasmi::OperatorCost;
use wasmparser::{BinaryReaderError, ExportSectionReader, FunctionBody, Operator, Parser, Payload, TypeRef};

/// The export of the memory that holds the function's number. A program cannot export this name or the next: the module would
/// have two exports of that name, and be refused.
pub(crate) const MARK: &str = "\u{1}tantalum function";
/// The module's own memory, exported for the system whether or not the module exports it.
pub(crate) const MEMORY: &str = "\u{1}tantalum memory";
/// Bytes of the mark's memory.
pub(crate) const MARK_BYTES: usize = 4;
/// Its value before any function was entered.
pub(crate) const NOWHERE: u32 = u32::MAX;

const CUSTOM: u8 = 0;
const TABLE: u8 = 4;
const MEMORIES: u8 = 5;
const EXPORT: u8 = 7;
const CODE: u8 = 10;

/// The cost of instructions: nothing for marks, the runtime's own for all others.
pub(crate) fn operator_cost() -> OperatorCost {
    OperatorCost { f32_const: 0, i32_reinterpret_f32: 0, f32_store: 0, ..OperatorCost::default() }
}

/// Adds marks to a valid module. Its own memory, if it has one, is redeclared with this many pages of one byte, and cannot grow.
pub(crate) fn marked(bytes: &[u8], own_memory: Option<u64>) -> Result<Vec<u8>, BinaryReaderError> {
    let mut module = Marking {
        bytes,
        own_memory,
        has_memories: false,
        functions: 0,
        bodies: Vec::new(),
        bodies_left: 0,
        out: bytes[..8].to_vec(),
    };
    for payload in Parser::new(0).parse_all(bytes) {
        module.take(payload?)?;
    }
    Ok(module.out)
}

struct Marking<'a> {
    bytes: &'a [u8],
    own_memory: Option<u64>,
    has_memories: bool,
    /// The number of functions that were imported or have been marked.
    functions: u32,
    bodies: Vec<u8>,
    bodies_left: u32,
    out: Vec<u8>,
}

impl Marking<'_> {
    fn take(&mut self, payload: Payload<'_>) -> Result<(), BinaryReaderError> {
        if let Some((number, _)) = payload.as_section()
            && number > TABLE
            && !self.has_memories
        {
            self.declare_memories();
        }
        match payload {
            Payload::ImportSection(ref imports) => {
                for import in imports.clone() {
                    self.functions += u32::from(matches!(import?.ty, TypeRef::Func(_)));
                }
                self.copy(&payload);
            }
            Payload::MemorySection(_) => {}
            Payload::ExportSection(exports) => self.export_memories(&exports),
            Payload::CodeSectionStart { count, .. } => {
                push_leb(&mut self.bodies, count.into());
                self.bodies_left = count;
            }
            Payload::CodeSectionEntry(body) => {
                self.mark(&body)?;
                self.bodies_left -= 1;
                if self.bodies_left == 0 {
                    push_section(&mut self.out, CODE, &self.bodies);
                }
            }
            payload => self.copy(&payload),
        }
        Ok(())
    }

    fn copy(&mut self, payload: &Payload<'_>) {
        if let Some((number, range)) = payload.as_section()
            && number != CUSTOM
        {
            push_section(&mut self.out, number, &self.bytes[range]);
        }
    }

    fn declare_memories(&mut self) {
        self.has_memories = true;
        let sizes = self.own_memory.into_iter().chain([MARK_BYTES as u64]);
        let mut body = vec![1 + self.mark_index()];
        for bytes in sizes {
            // flags: a maximum, and a page size, which is 2 to the power of 0
            body.push(0x09);
            push_leb(&mut body, bytes);
            push_leb(&mut body, bytes);
            body.push(0);
        }
        push_section(&mut self.out, MEMORIES, &body);
    }

    fn mark_index(&self) -> u8 {
        u8::from(self.own_memory.is_some())
    }

    fn export_memories(&mut self, exports: &ExportSectionReader<'_>) {
        let own = self.own_memory.map(|_| MEMORY);
        let memories = own.into_iter().chain([MARK]);
        let mut body = Vec::new();
        push_leb(&mut body, u64::from(exports.count()) + u64::from(self.mark_index()) + 1);
        body.extend(&self.bytes[exports.original_position()..exports.range().end]);
        for (index, name) in (0..).zip(memories) {
            push_leb(&mut body, name.len() as u64);
            body.extend(name.as_bytes());
            body.extend([2, index]);
        }
        push_section(&mut self.out, EXPORT, &body);
    }

    /// Adds a function's body with its marks.
    fn mark(&mut self, body: &FunctionBody<'_>) -> Result<(), BinaryReaderError> {
        let mark = self.instructions();
        self.functions += 1;
        let Range { start, end } = body.range();
        let mut operators = body.get_operators_reader()?;
        let mut marked = self.bytes[start..operators.original_position()].to_vec();
        marked.extend(mark);
        let mut at = operators.original_position();
        while !operators.eof() {
            if let Operator::Call { .. } | Operator::CallIndirect { .. } = operators.read()? {
                marked.extend(&self.bytes[at..operators.original_position()]);
                marked.extend(mark);
                at = operators.original_position();
            }
        }
        marked.extend(&self.bytes[at..end]);
        push_leb(&mut self.bodies, marked.len() as u64);
        self.bodies.extend(marked);
        Ok(())
    }

    /// `i32.reinterpret_f32 (f32.const 0)`, `f32.const` with the bits of the number, `f32.store` to the mark's memory.
    fn instructions(&self) -> [u8; 15] {
        let [a, b, c, d] = self.functions.to_le_bytes();
        [0x43, 0, 0, 0, 0, 0xBC, 0x43, a, b, c, d, 0x38, 0x42, self.mark_index(), 0]
    }
}

fn push_section(to: &mut Vec<u8>, number: u8, body: &[u8]) {
    to.push(number);
    push_leb(to, body.len() as u64);
    to.extend(body);
}

fn push_leb(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::engine;
    use wasmi::{Linker, Module, Store};

    const TEXT: &str = r#"(module (memory 1) (table 1 funcref) (elem (i32.const 0) $add)
        (type $two (func (param i32 i32) (result i32)))
        (func $add (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
        (func (export "sum") (param i32) (result i32) (local $sum i32)
            (loop
                (local.set $sum (call $add (local.get 0) (local.get $sum)))
                (i32.store (i32.const 8) (local.get $sum))
                (if (i32.and (local.get 0) (i32.const 1))
                    (then (local.set $sum (call_indirect (type $two) (i32.const 1) (local.get $sum) (i32.const 0)))))
                (br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
            (local.get $sum)))"#;

    /// The sum, and the instructions that it took.
    fn run(module: &[u8]) -> (i32, u64) {
        let engine = engine();
        let module = Module::new(&engine, module).unwrap();
        let mut store = Store::new(&engine, ());
        store.set_fuel(1_000_000).unwrap();
        let instance = Linker::new(&engine).instantiate_and_start(&mut store, &module).unwrap();
        let sum = instance.get_typed_func::<i32, i32>(&store, "sum").unwrap().call(&mut store, 100).unwrap();
        (sum, 1_000_000 - store.get_fuel().unwrap())
    }

    #[test]
    fn marks_take_no_instructions() {
        let plain = wat::parse_str(TEXT).unwrap();
        let marked = marked(&plain, Some(65_536)).unwrap();
        assert!(marked.len() > plain.len());
        let (sum, instructions) = run(&plain);
        assert_eq!((sum, run(&marked)), (5100, (sum, instructions)));
        assert!(instructions > 2000);
    }
}
