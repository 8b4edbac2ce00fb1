//! The C header and the Python module for programs on a host encode each command as the server reads it: the 64 bytes and
//! the data of both are compared with what the server's own types say. Their examples work as described, on a server to
//! which a relay passes their commands in place of the kernel.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;

use crate::common::{NQN, attach, names, serve, small, subsystem_on};
use tantalum::{Device, Generation, Hint, Lpn, METADATA_BYTES, NamespaceAttributes, NamespaceId, UNIT_BYTES};
use tantalum_drive::Pacing;
use tantalum_nvme::authentication::Hosts;
use tantalum_nvme::blocks::BlockSpace;
use tantalum_nvme::client::{Client, Options, block_command, command};
use tantalum_nvme::io::key_value::PutRecord;
use tantalum_nvme::io::vendor::{HintedPage, Range};
use tantalum_nvme::io::{IoCommand, Transfer};
use tantalum_nvme::namespaces::View;
use tantalum_nvme::wire::command::Submission;
use tantalum_nvme::wire::opcode::{key_value, nvm, vendor};
use zerocopy::{FromBytes, IntoBytes};

const TRANSACTION: u64 = 0x0123_4567_89ab_cdef;
const VALUE: &[u8] = b"a value";

/// A command, the bytes that it moves, and the data that go to the drive.
struct Encoded {
    entry: Submission,
    bytes: u32,
    data: Vec<u8>,
}

fn unit() -> Vec<u8> {
    (0..UNIT_BYTES).map(|index| (index * 7 + index / 256) as u8).collect()
}

fn without_data(entry: Submission) -> Encoded {
    Encoded { entry, bytes: 0, data: Vec::new() }
}

fn sends(entry: Submission, data: Vec<u8>) -> Encoded {
    Encoded { entry, bytes: data.len() as u32, data }
}

fn reads(entry: Submission, bytes: u32) -> Encoded {
    Encoded { entry, bytes, data: Vec::new() }
}

fn in_transaction(opcode: u8, unit: u32) -> Submission {
    command(opcode, 1, [unit, 0, 0, 0, TRANSACTION as u32, (TRANSACTION >> 32) as u32])
}

fn on_key(opcode: u8, namespace: u32, key: &[u8], bytes: u32, options: u32) -> Submission {
    let mut field = [0; 16];
    field[..key.len()].copy_from_slice(key);
    let mut entry = command(opcode, namespace, [bytes, key.len() as u32 | options << 8, 0, 0, 0, 0]);
    entry.dword2.as_mut_bytes().copy_from_slice(&field[..8]);
    entry.dword10[4..].as_mut_bytes().copy_from_slice(&field[8..]);
    entry
}

/// Two units with their numbers.
fn units() -> Vec<u8> {
    let mut data = [5_u32, 900].map(u32::to_le_bytes).concat();
    data.resize(UNIT_BYTES, 0);
    data.extend(unit());
    data.extend(unit());
    data
}

/// A namespace, a key, and its value; `None` deletes it.
type Record<'a> = (u32, &'a [u8], Option<&'a [u8]>);

fn records(of: &[Record<'_>]) -> Vec<u8> {
    let mut data = Vec::new();
    for (namespace, key, value) in of {
        data.extend(PutRecord::new(*namespace, key, value.map(|value| value.len() as u32)).as_bytes());
        data.extend(value.unwrap_or_default());
        data.resize(data.len().next_multiple_of(4), 0);
    }
    data
}

fn page(slot_home: Option<u32>, end: bool) -> Vec<u8> {
    let hint = Hint {
        generation: Generation(1 << 40),
        attempt: 2,
        start: 3,
        first: 4,
        slot: 5,
        end,
        home: slot_home.map(Lpn),
    };
    let mut data = HintedPage::new(&hint, [9; METADATA_BYTES]).as_bytes().to_vec();
    data.extend(unit());
    data
}

fn expected() -> BTreeMap<&'static str, Encoded> {
    let mut forced = block_command(nvm::WRITE, 1 << 33 | 5, 1);
    forced.dword10[2] = (1 << 30).into();
    let mut blocks = vec![0, 0, 0, 0, 2, 0, 0, 0];
    blocks.extend(3000_u64.to_le_bytes());
    blocks.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    blocks.extend((1_u64 << 33).to_le_bytes());
    let ranges = [Range::new(100, 0, 2), Range::new(200, 4, 1)].as_bytes().to_vec();
    let mut batch = units();
    batch.extend(records(&[(2, b"key", Some(VALUE)), (3, b"a key of 16 byte", None)]));
    let put = records(&[(2, b"key", Some(VALUE)), (3, b"gone", None), (3, b"empty", Some(b""))]);
    let new = on_key(key_value::STORE, 3, b"a key of 16 byte", 7, 2);
    BTreeMap::from([
        ("flush", without_data(command(nvm::FLUSH, 1, [0; 6]))),
        ("write", sends(forced, unit())),
        ("read", reads(block_command(nvm::READ, 7, 2), 8192)),
        ("deallocate", sends(command(nvm::DATASET_MANAGEMENT, 1, [1, 4, 0, 0, 0, 0]), blocks)),
        ("remap", without_data(command(vendor::REMAP, 1, [100, 200, 4, 0, 0, 0]))),
        ("share", sends(command(vendor::SHARE, 1, [0, 0, 1, 0, 0, 0]), ranges.clone())),
        ("share-deferred", sends(command(vendor::SHARE, 1, [0, 0, 1 | 1 << 31, 0, 0, 0]), ranges)),
        ("write-atomic", sends(command(vendor::WRITE_ATOMIC, 1, [0, 0, 1, 0, 0, 0]), units())),
        ("write-batch", sends(command(vendor::WRITE_BATCH, 1, [batch.len() as u32, 0, 1, 0, 0, 0]), batch)),
        ("put", sends(command(vendor::PUT, 2, [put.len() as u32, 0, 0, 0, 0, 0]), put)),
        ("begin", without_data(command(vendor::BEGIN, 1, [0; 6]))),
        ("tx-write", sends(in_transaction(vendor::TX_WRITE, 7), unit())),
        ("tx-read", reads(in_transaction(vendor::TX_READ, 7), UNIT_BYTES as u32)),
        ("commit", without_data(in_transaction(vendor::COMMIT, 0))),
        ("abort", without_data(in_transaction(vendor::ABORT, 0))),
        ("begin-log", without_data(command(vendor::BEGIN_LOG, 1, [0; 6]))),
        ("write-hinted", sends(command(vendor::WRITE_HINTED, 1, [3000, 0, 0, 0, 0, 0]), page(Some(6), true))),
        (
            "write-hinted-homeless",
            sends(command(vendor::WRITE_HINTED, 1, [3001, 0, 0, 0, 0, 0]), page(None, false)),
        ),
        ("store", sends(on_key(key_value::STORE, 2, b"key", 7, 0), VALUE.to_vec())),
        ("store-new", sends(new, VALUE.to_vec())),
        ("retrieve", reads(on_key(key_value::RETRIEVE, 2, b"nine byte", 4096, 0), 4096)),
        ("list", reads(on_key(key_value::LIST, 2, b"", 4096, 0), 4096)),
        ("list-from", reads(on_key(key_value::LIST, 2, b"key", 512, 0), 512)),
        ("delete", without_data(on_key(key_value::DELETE, 2, b"key", 0, 0))),
        ("exist", without_data(on_key(key_value::EXIST, 2, b"key", 0, 0))),
    ])
}

/// Every vendor command of the server, so that none is missing in the clients.
const VENDOR: [u8; 12] = [
    vendor::REMAP,
    vendor::SHARE,
    vendor::BEGIN,
    vendor::WRITE_ATOMIC,
    vendor::COMMIT,
    vendor::TX_WRITE,
    vendor::TX_READ,
    vendor::ABORT,
    vendor::BEGIN_LOG,
    vendor::WRITE_HINTED,
    vendor::PUT,
    vendor::WRITE_BATCH,
];

fn bytes_of(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "{hex}");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Compares the lines that a program printed with the table.
fn compare(printed: &str) {
    let space = BlockSpace::new(4096, 1 << 40);
    let view = View::undivided(space, vec![NamespaceId(1), NamespaceId(2)]);
    let (mut expected, mut opcodes) = (expected(), Vec::new());
    for line in printed.lines() {
        let mut words = line.split(' ');
        let (name, entry, bytes) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let Encoded { entry: wanted, bytes: wanted_bytes, data } =
            expected.remove(name).unwrap_or_else(|| panic!("{name} is not in the table"));
        let entry = bytes_of(entry);
        assert_eq!(entry, wanted.as_bytes(), "the 64 bytes of {name}");
        assert_eq!(bytes.parse(), Ok(wanted_bytes), "how much {name} moves");
        assert!(bytes_of(words.next().unwrap_or_default()) == data, "the data of {name}");
        let entry = Submission::read_from_bytes(&entry).unwrap();
        opcodes.push(entry.opcode);
        let (_, read) = IoCommand::decode(&entry, &view).unwrap_or_else(|_| panic!("{name} is refused"));
        let transfer = match read.transfer(&space) {
            Transfer::None => 0,
            Transfer::FromHost(bytes) | Transfer::ToHost(bytes) => bytes,
        };
        assert_eq!(transfer, wanted_bytes, "how much the server moves for {name}");
    }
    assert!(expected.is_empty(), "not printed: {:?}", expected.keys());
    for opcode in VENDOR {
        assert!(opcodes.contains(&opcode), "no client sends {opcode:#x}");
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn output_of(command: &mut Command) -> String {
    let ended = command.output();
    printed(command, ended)
}

/// The output of a program, which must have succeeded.
fn printed(command: &Command, ended: io::Result<Output>) -> String {
    let output = ended.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Compiles programs with the header, with all warnings.
fn compiled(sources: &[&str], program: &Path, options: &[impl AsRef<OsStr>]) {
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-std=c11", "-I"]).arg(folder("clients")).args(options);
    output_of(cc.args(sources.iter().map(|source| folder(source))).arg("-o").arg(program));
}

#[test]
fn the_c_header_encodes_commands_as_the_server_reads_them() {
    let made = tempfile::tempdir().unwrap();
    let program = made.path().join("encodings");
    compiled(&["tests/it/clients/encodings.c"], &program, &["-O2"]);
    compare(&output_of(&mut Command::new(program)));
}

fn python(script: &str) -> Command {
    let mut python = Command::new("python3");
    let path = [folder("clients"), folder("clients/examples")].map(|folder| folder.display().to_string());
    python.env("PYTHONPATH", path.join(":")).env("PYTHONDONTWRITEBYTECODE", "1").arg(folder(script));
    python
}

#[test]
fn the_python_module_encodes_commands_as_the_server_reads_them() {
    compare(&output_of(&mut python("tests/it/clients/encodings.py")));
}

/// A command as programs give it to Linux (`struct nvme_passthru_cmd64`), with the data that it sends.
fn next_command(program: &mut UnixStream) -> io::Result<(Submission, u32, Vec<u8>)> {
    let mut bytes = [0; 80];
    program.read_exact(&mut bytes)?;
    let dword = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let mut entry = command(bytes[0], dword(4), [40, 44, 48, 52, 56, 60].map(dword));
    entry.dword2 = [dword(8).into(), dword(12).into()];
    let data_bytes = dword(36);
    let mut data = vec![0; if entry.opcode & 1 == 1 { data_bytes as usize } else { 0 }];
    program.read_exact(&mut data)?;
    Ok((entry, data_bytes, data))
}

/// Gives the commands of a program to a server until it has ended.
fn relay(mut program: UnixStream, io: &mut Client) {
    while let Ok((entry, bytes, data)) = next_command(&mut program) {
        let done = match entry.opcode & 3 {
            0 => io.command(entry),
            1 => io.write_command(entry, &data),
            _ => io.read_command(entry, bytes),
        };
        let mut done = done.unwrap();
        let mut answer = u32::from(done.code).to_le_bytes().to_vec();
        answer.extend(done.result.to_le_bytes());
        if done.code == 0 && entry.opcode & 2 != 0 {
            done.data.resize(bytes as usize, 0);
            answer.extend(done.data);
        }
        program.write_all(&answer).unwrap();
    }
}

/// Devices as Linux lists them, in a folder. Since 6.12 the numbers in their names are not those of namespaces, and here none
/// is. The first device is that of another subsystem.
fn devices() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let other = "nqn.2014-08.org.example:other";
    std::fs::create_dir(folder.path().join("dev")).unwrap();
    // a namespace of another subsystem has 100 added to its number, so that the relay knows it
    for (device, subsystem, namespace) in [("ng0n1", other, 101), ("ng1n1", NQN, 2), ("ng1n2", NQN, 1)] {
        let listed = folder.path().join("nvme-generic").join(device).join("device");
        std::fs::create_dir_all(&listed).unwrap();
        std::fs::write(listed.join("subsysnqn"), format!("{subsystem}\n")).unwrap();
        std::fs::write(folder.path().join("dev").join(device), namespace.to_string()).unwrap();
    }
    folder
}

/// Options that make a program in C look for devices there, and go to the relay.
fn relayed(devices: &Path) -> [String; 4] {
    let devices = devices.display();
    [
        "-Dopen=relay_open".to_owned(),
        "-Dioctl=relay_ioctl".to_owned(),
        format!("-DTANTALUM_GENERIC=\"{devices}/nvme-generic\""),
        format!("-DTANTALUM_DEV=\"{devices}/dev\""),
    ]
}

/// Runs a program whose commands go to a server with blocks of this many bytes and a namespace with records.
fn output_over_relay(program: &mut Command, block_bytes: u32) -> String {
    let mut device = Device::in_memory(&small()).unwrap();
    let (attributes, namespace) = (NamespaceAttributes::default(), &mut NamespaceId::default());
    let at_ns = device.time_ns();
    device.submit(tantalum::Command::CreateNamespace { attributes, namespace }, at_ns).unwrap();
    let hosts = Hosts::default().with_kernels(&[names().host]).unwrap();
    let subsystem = Arc::into_inner(subsystem_on(device, block_bytes, Pacing::None)).unwrap();
    let server = serve(subsystem.for_hosts(hosts).into());
    let mut host = attach(&server, Options::default());
    let made = tempfile::tempdir().unwrap();
    let socket = made.path().join("relay");
    let listener = UnixListener::bind(&socket).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| relay(listener.accept().unwrap().0, &mut host.io));
        let ended = program.env("RELAY", &socket).output();
        // a program that never got that far leaves nobody waiting
        drop(UnixStream::connect(&socket));
        printed(program, ended)
    })
}

#[test]
fn the_c_example_finds_what_it_wrote() {
    let made = tempfile::tempdir().unwrap();
    let (program, devices) = (made.path().join("batch"), devices());
    compiled(&["clients/examples/batch.c"], &program, &["-static"]);
    let sources = ["clients/examples/batch.c", "tests/it/clients/relay.c"];
    compiled(&sources, &program, &relayed(devices.path()));
    for block_bytes in [4096, 512] {
        let mut run = Command::new(&program);
        let printed = output_over_relay(run.args([NQN, &block_bytes.to_string()]), block_bytes);
        assert!(printed.ends_with("all of it is right\n"), "{printed}");
    }
}

/// What is not there is not found: another name, a namespace that no device leads to, or any device at all.
#[test]
fn the_c_example_says_which_namespace_is_not_attached() {
    let made = tempfile::tempdir().unwrap();
    let (program, devices) = (made.path().join("batch"), devices());
    let sources = ["clients/examples/batch.c", "tests/it/clients/relay.c"];
    compiled(&sources, &program, &relayed(devices.path()));
    let _listener = UnixListener::bind(made.path().join("relay")).unwrap();
    let refusal = |subsystem: &str| {
        let mut run = Command::new(&program);
        let ended = run.arg(subsystem).env("RELAY", made.path().join("relay")).output().unwrap();
        assert_eq!(ended.status.code(), Some(1));
        String::from_utf8(ended.stderr).unwrap()
    };
    let unknown = "nqn.2014-08.org.example:unknown";
    assert_eq!(refusal(unknown), format!("namespace 1 of {unknown}: No such file or directory\n"));
    std::fs::write(devices.path().join("dev/ng1n1"), "3").unwrap();
    assert_eq!(refusal(NQN), format!("namespace 2 of {NQN}: No such file or directory\n"));
    std::fs::remove_dir_all(devices.path().join("nvme-generic")).unwrap();
    assert_eq!(refusal(NQN), format!("namespace 1 of {NQN}: No such file or directory\n"));
}

#[test]
fn the_python_example_finds_what_it_wrote() {
    let (mut run, devices) = (python("tests/it/clients/relay.py"), devices());
    let printed = output_over_relay(run.arg(devices.path()).args(["batch", NQN]), 4096);
    assert!(printed.ends_with("all of it is right\n"), "{printed}");
}

#[test]
fn the_c_example_uses_programs_in_the_drive() {
    let made = tempfile::tempdir().unwrap();
    let (program, devices) = (made.path().join("programs"), devices());
    let sources = ["clients/examples/programs.c", "tests/it/clients/relay.c"];
    compiled(&sources, &program, &relayed(devices.path()));
    let mut run = Command::new(&program);
    let printed = output_over_relay(run.arg(NQN).arg(folder("../../hosts/spu/modules")), 4096);
    assert!(printed.ends_with("all of it is right\n"), "{printed}");
}

#[test]
fn the_python_example_uses_programs_in_the_drive() {
    let (mut run, devices) = (python("tests/it/clients/relay.py"), devices());
    run.arg(devices.path()).args(["programs", NQN]).arg(folder("../../hosts/spu/modules"));
    let printed = output_over_relay(&mut run, 512);
    assert!(printed.ends_with("all of it is right\n"), "{printed}");
}
