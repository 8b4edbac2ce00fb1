//! Describes a module without a drive: its handlers and what it needs.

use wasmparser::{BinaryReaderError, ExternalKind, Parser, Payload};

use crate::abi;
use crate::activation::Location;
use crate::install::InstallError;
use crate::instance::Instance;
use crate::module::{self, ModuleError, Program, handler_number};
use crate::names::SpuId;

/// A handler of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handler {
    /// Its number in requests.
    pub number: u32,
    /// The name of its function, if the module has names.
    pub name: Option<String>,
}

/// A description of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// Its handlers, by number.
    pub handlers: Vec<Handler>,
    /// How many requests may be in progress at once on a processor.
    pub threads: usize,
    /// Bytes of instruction memory that it takes.
    pub code_bytes: u64,
    /// Bytes of data memory that it takes.
    pub data_bytes: u64,
    /// The functions of `tantalum_spu.h` that it uses.
    pub functions: Vec<String>,
}

impl Description {
    /// The name of a handler's function, if it is known.
    pub fn handler_name(&self, number: u32) -> Option<&str> {
        self.handlers.iter().find(|handler| handler.number == number)?.name.as_deref()
    }
}

/// Checks a module as [`Ssd::install`](crate::Ssd::install) does, and describes it.
pub fn describe(bytes: &[u8]) -> Result<Description, InstallError> {
    let engine = module::engine();
    let program = Program::load(&engine, bytes)?;
    let place = Location { spu: SpuId(0), processors: 1, region: None, bytes_per_instruction: 1 };
    let copy = Instance::new(&program, &abi::linker(&engine), place, 0).map_err(InstallError::Start)?;
    let handlers = handlers(bytes).map_err(|error| ModuleError::Malformed(error.to_string()))?;
    let name = |index: u32| program.names.name(index).map(str::to_owned);
    let handlers =
        handlers.into_iter().map(|(number, index)| Handler { number, name: name(index) }).collect();
    let functions = program.module.imports().map(|import| import.name().to_owned()).collect();
    let (code_bytes, data_bytes) = (program.code_bytes, program.data_bytes);
    Ok(Description { handlers, threads: copy.threads(), code_bytes, data_bytes, functions })
}

/// The numbers of a module's handlers, each with the number of its function.
fn handlers(bytes: &[u8]) -> Result<Vec<(u32, u32)>, BinaryReaderError> {
    let mut handlers = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        if let Payload::ExportSection(exports) = payload? {
            for export in exports {
                let export = export?;
                if let (ExternalKind::Func, Some(number)) = (export.kind, handler_number(export.name)) {
                    handlers.push((number, export.index));
                }
            }
        }
    }
    handlers.sort_unstable();
    Ok(handlers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped;

    #[test]
    fn handlers_are_listed_with_the_names_of_their_functions() {
        let hits = describe(shipped::HITS).unwrap();
        assert_eq!(hits.handlers, [Handler { number: 0, name: Some("hit".to_owned()) }]);
        assert_eq!((hits.threads, hits.handler_name(0), hits.handler_name(1)), (1, Some("hit"), None));
        assert_eq!(hits.functions, ["receive", "respond"]);
        let atomic = describe(shipped::ATOMIC_WRITES).unwrap();
        assert_eq!(atomic.handler_name(1), Some("commit"));
        assert_eq!(atomic.threads, 4);
        assert!(atomic.code_bytes > 1000 && atomic.data_bytes > 1000, "{atomic:?}");
    }

    #[test]
    fn what_cannot_be_installed_is_not_described() {
        assert!(matches!(describe(b"\0asm"), Err(InstallError::Module(ModuleError::Malformed(_)))));
        let endless = wat::parse_str(
            r#"(module (func (export "rpc_0") (param i32 i32))
                (func (export "tl_stack") (param i32) (result i32) (loop (br 0)) (i32.const 0)))"#,
        );
        assert!(matches!(describe(&endless.unwrap()), Err(InstallError::Start(_))));
    }
}
