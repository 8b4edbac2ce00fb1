//! A program's module: checked, measured, and limited to the memory it needs.
//!
//! WebAssembly's memory comes in pages of 64 KiB, twice what a processor has. A module that exports `__heap_base`, as the linker
//! writes it, states where its static variables and stacks end. Its memory is redeclared as that many pages of one byte, and
//! cannot grow: an access beyond them faults, as it would beyond a segment.
//!
//! Programs compute with integers only, as the processors do, so results do not depend on a machine's rounding.

use wasmi::{CompilationMode, Config, CustomFuelCosts, Engine, Module};
use wasmparser::{
    BinaryReaderError, DataKind, DataSectionReader, ExportSectionReader, ExternalKind, GlobalSectionReader,
    ImportSectionReader, MemorySectionReader, Operator, Parser, Payload, TypeRef,
};

use crate::abi;
use crate::functions::FunctionNames;
use crate::marks;

/// The largest module that is accepted, in bytes.
const MOST_MODULE_BYTES: usize = 1 << 20;
/// The deepest nesting of calls.
const CALL_DEPTH: usize = 128;
/// Bytes of operands that the runtime keeps for one handler's nested calls. A processor would have registers for this.
const OPERAND_STACK_BYTES: usize = 64 << 10;
/// Data memory for one entry of a table of functions.
const TABLE_ENTRY_BYTES: u64 = 4;
/// Data memory for one global variable.
const GLOBAL_BYTES: u64 = 8;
/// Globals that the linker adds: the stack pointer and the end of the data. They count as registers.
const LINKER_GLOBALS: u64 = 2;

/// Why a module cannot be a program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// It is larger than any that could fit.
    #[error("the module has {bytes} bytes; the limit is {MOST_MODULE_BYTES}")]
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// It is something else, such as C.
    #[error(
        "not a valid module: WebAssembly begins with the bytes \"\\0asm\"; compile it as docs/programs.md says"
    )]
    NotWebAssembly,
    /// It is not a valid module of integer WebAssembly.
    #[error("not a valid module: {0}")]
    Malformed(String),
    /// It imports something that the drive does not offer.
    #[error("the module imports {module}.{name}, which is not in tantalum_spu.h")]
    UnknownImport {
        /// The module imported from.
        module: String,
        /// The name.
        name: String,
    },
    /// It has no handler.
    #[error("the module exports no handler: define one with TL_HANDLER(number, name), number 0 to 63")]
    NoHandler,
    /// Its memory is outside the module, or there is more than one.
    #[error("the module must define its own memory, and at most one")]
    Memory,
    /// `__heap_base` is beyond the module's memory.
    #[error("__heap_base is {bytes}, beyond the module's memory")]
    HeapBase {
        /// Its value.
        bytes: u64,
    },
}

/// A module that can be installed.
#[derive(Clone)]
pub(crate) struct Program {
    pub module: Module,
    /// Instruction memory that it needs.
    pub code_bytes: u64,
    /// Data memory that it needs.
    pub data_bytes: u64,
    pub names: FunctionNames,
}

/// What a module begins with.
const MAGIC: &[u8] = b"\0asm";

/// An empty module.
const EMPTY: &[u8] = b"\0asm\x01\0\0\0";

/// What a module's sections need.
#[derive(Default)]
struct Shape {
    code_bytes: u64,
    memories: Vec<u64>,
    has_memory_section: bool,
    table_entries: u64,
    globals: Vec<Option<u64>>,
    heap_base: Option<usize>,
}

/// The runtime of programs. It allows more of WebAssembly than programs may use, for the [marks](marks).
pub(crate) fn engine() -> Engine {
    let mut config = config();
    config.floats(true).wasm_multi_memory(true).operator_cost(marks::operator_cost());
    Engine::new(&config)
}

/// The features of WebAssembly that programs may use.
fn config() -> Config {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        .fuel_cost(CustomFuelCosts {
            bytes_copied_per_fuel: 4,
            fuel_per_bytes_translated: 0,
            fuel_per_bytes_validated: 0,
        })
        .compilation_mode(CompilationMode::Eager)
        .ignore_custom_sections(true)
        .allow_start_fn(false)
        .floats(false)
        .wasm_multi_memory(false)
        .wasm_reference_types(false)
        .wasm_tail_call(false)
        .wasm_custom_page_sizes(true)
        .set_max_recursion_depth(CALL_DEPTH)
        .set_min_stack_height(1 << 10)
        .set_max_stack_height(OPERAND_STACK_BYTES);
    config
}

impl Program {
    /// Checks a module, and measures what it needs.
    pub fn load(engine: &Engine, bytes: &[u8]) -> Result<Program, ModuleError> {
        if bytes.len() > MOST_MODULE_BYTES {
            return Err(ModuleError::TooLong { bytes: bytes.len() });
        }
        let malformed = |error: wasmi::Error| ModuleError::Malformed(error.to_string());
        if !bytes.starts_with(MAGIC) {
            return Err(ModuleError::NotWebAssembly);
        }
        // the runtime's own validation comes first: everything below relies on a valid module
        Module::validate(&Engine::new(&config()), bytes).map_err(malformed)?;
        let unreadable = |error: BinaryReaderError| ModuleError::Malformed(error.to_string());
        let shape = Shape::of(bytes).map_err(unreadable)?;
        let own_memory = shape.own_memory()?;
        let marked = marks::marked(bytes, own_memory).map_err(unreadable)?;
        let module = Module::new(engine, &marked).map_err(malformed)?;
        for import in module.imports() {
            if !abi::is_known(import.module(), import.name()) {
                let (module, name) = (import.module().to_owned(), import.name().to_owned());
                return Err(ModuleError::UnknownImport { module, name });
            }
        }
        if !module.exports().any(|export| handler_number(export.name()).is_some()) {
            return Err(ModuleError::NoHandler);
        }
        let globals = (shape.globals.len() as u64).saturating_sub(LINKER_GLOBALS);
        let data_bytes = own_memory
            .unwrap_or(0)
            .saturating_add(shape.table_entries.saturating_mul(TABLE_ENTRY_BYTES))
            .saturating_add(globals * GLOBAL_BYTES);
        Ok(Program { module, code_bytes: shape.code_bytes, data_bytes, names: FunctionNames::of(bytes) })
    }

    /// A program without handlers and memory.
    pub fn empty(engine: &Engine) -> Program {
        let module = Module::new(engine, EMPTY).expect("the empty module is valid");
        Program { module, code_bytes: 0, data_bytes: 0, names: FunctionNames::of(EMPTY) }
    }
}

/// The number of the handler that an export is, if it is one.
pub(crate) fn handler_number(export: &str) -> Option<u32> {
    let digits = export.strip_prefix("rpc_")?;
    let number: u32 = digits.parse().ok()?;
    (number < HANDLERS && digits == number.to_string()).then_some(number)
}

/// The maximum number of handlers of a program.
pub(crate) const HANDLERS: u32 = 64;

impl Shape {
    fn of(bytes: &[u8]) -> Result<Shape, BinaryReaderError> {
        let mut shape = Shape::default();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::ImportSection(imports) => shape.count_imports(imports)?,
                Payload::MemorySection(memories) => shape.count_memories(memories)?,
                Payload::TableSection(tables) => {
                    for table in tables {
                        shape.table_entries = shape.table_entries.saturating_add(table?.ty.initial);
                    }
                }
                Payload::GlobalSection(globals) => shape.note_globals(globals)?,
                Payload::ExportSection(exports) => shape.find_heap_base(exports)?,
                Payload::CodeSectionStart { size, .. } => shape.code_bytes += u64::from(size),
                // active segments are copied to memory when the program starts and then take no room; passive ones stay
                Payload::ElementSection(elements) => shape.code_bytes += elements.range().len() as u64,
                Payload::DataSection(segments) => shape.count_data(segments)?,
                _ => {}
            }
        }
        Ok(shape)
    }

    fn count_imports(&mut self, imports: ImportSectionReader<'_>) -> Result<(), BinaryReaderError> {
        for import in imports {
            match import?.ty {
                TypeRef::Global(_) => self.globals.push(None),
                // counted, so that it is refused
                TypeRef::Memory(_) => self.memories.push(0),
                _ => {}
            }
        }
        Ok(())
    }

    fn count_memories(&mut self, memories: MemorySectionReader<'_>) -> Result<(), BinaryReaderError> {
        self.has_memory_section = true;
        for memory in memories {
            let memory = memory?;
            let page = 1_u64 << memory.page_size_log2.unwrap_or(16);
            self.memories.push(memory.initial.saturating_mul(page));
        }
        Ok(())
    }

    fn note_globals(&mut self, globals: GlobalSectionReader<'_>) -> Result<(), BinaryReaderError> {
        for global in globals {
            let mut value = global?.init_expr.get_operators_reader();
            self.globals.push(match value.read()? {
                Operator::I32Const { value } => Some(u64::from(value as u32)),
                _ => None,
            });
        }
        Ok(())
    }

    fn find_heap_base(&mut self, exports: ExportSectionReader<'_>) -> Result<(), BinaryReaderError> {
        for export in exports {
            let export = export?;
            if export.kind == ExternalKind::Global && export.name == "__heap_base" {
                self.heap_base = Some(export.index as usize);
            }
        }
        Ok(())
    }

    fn count_data(&mut self, segments: DataSectionReader<'_>) -> Result<(), BinaryReaderError> {
        for segment in segments {
            let segment = segment?;
            if let DataKind::Passive = segment.kind {
                self.code_bytes += segment.data.len() as u64;
            }
        }
        Ok(())
    }

    /// Bytes of memory that the module needs; none if it declares no memory.
    fn own_memory(&self) -> Result<Option<u64>, ModuleError> {
        if !self.has_memory_section {
            let is_without = self.memories.is_empty();
            return if is_without { Ok(None) } else { Err(ModuleError::Memory) };
        }
        let [declared] = self.memories[..] else { return Err(ModuleError::Memory) };
        let value = self.heap_base.and_then(|index| *self.globals.get(index)?);
        let bytes = value.unwrap_or(declared);
        if bytes > declared {
            return Err(ModuleError::HeapBase { bytes });
        }
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Program, ModuleError> {
        let bytes = wat::parse_str(text).unwrap();
        Program::load(&engine(), &bytes)
    }

    #[test]
    fn a_module_takes_what_its_statics_take_and_not_whole_pages() {
        let text = r#"(module (memory (export "memory") 1)
            (global (export "__heap_base") i32 (i32.const 1500))
            (func (export "rpc_0") (param i32 i32)))"#;
        let program = load(text).unwrap();
        assert_eq!((program.data_bytes, program.code_bytes), (1500, 3));
        let whole = load(r#"(module (memory 1) (func (export "rpc_63") (param i32 i32)))"#).unwrap();
        assert_eq!(whole.data_bytes, 65_536);
        let none = load(r#"(module (table 10 funcref) (func (export "rpc_1") (param i32 i32)))"#).unwrap();
        assert_eq!(none.data_bytes, 40);
    }

    #[test]
    fn constants_that_stay_beside_memory_take_room_as_well() {
        let with = |data: &str| {
            let text = format!(r#"(module (memory 1) {data} (func (export "rpc_0") (param i32 i32)))"#);
            load(&text).unwrap().code_bytes
        };
        let plain = with("");
        assert_eq!(with(r#"(data "0123456789")"#), plain + 10);
        assert_eq!(with(r#"(data (i32.const 0) "0123456789")"#), plain);
    }

    #[test]
    fn what_cannot_be_a_program_is_refused_with_the_reason() {
        let refusal = |text: &str| load(text).err().unwrap();
        assert_eq!(refusal(r#"(module (func (export "rpc_64")))"#), ModuleError::NoHandler);
        assert_eq!(refusal(r#"(module (func (export "rpc_007")))"#), ModuleError::NoHandler);
        let import = refusal(r#"(module (import "wasi" "exit" (func)) (func (export "rpc_0")))"#);
        assert!(matches!(import, ModuleError::UnknownImport { name, .. } if name == "exit"));
        let imported = refusal(r#"(module (import "a" "m" (memory 1)) (func (export "rpc_0")))"#);
        assert_eq!(imported, ModuleError::Memory);
        let floats = refusal(r#"(module (func (export "rpc_0") (drop (f32.const 1))))"#);
        assert!(matches!(floats, ModuleError::Malformed(_)));
        // it was refused with a dump of both magic numbers
        for other in [&b"int main() {}"[..], b"\x7fELF", b"\0as", b"(module)", b""] {
            let refused = Program::load(&engine(), other).map(drop);
            assert_eq!(refused, Err(ModuleError::NotWebAssembly), "{other:?}");
        }
        let start = r#"(module (func $s) (start $s) (func (export "rpc_0")))"#;
        assert!(matches!(refusal(start), ModuleError::Malformed(_)));
        let beyond = r#"(module (memory 1) (global (export "__heap_base") i32 (i32.const -1))
            (func (export "rpc_0")))"#;
        assert_eq!(refusal(beyond), ModuleError::HeapBase { bytes: u64::from(u32::MAX) });
    }
}
