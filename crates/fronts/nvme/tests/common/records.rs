//! Records, as hosts name and send them, and a drive that has namespaces for them.

use tantalum::{Device, NamespaceAttributes, NamespaceId};
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Completed, command};
use tantalum_nvme::io::key_value::PutRecord;
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::command::Submission;
use tantalum_nvme::wire::opcode::key_value;
use zerocopy::IntoBytes;

use super::{Host, serve, small, subsystem_on};

/// A namespace, a key, and a value or none.
pub type Record<'a> = (u32, &'a [u8], Option<&'a [u8]>);

/// A drive with two namespaces for records.
pub fn server() -> Server {
    let mut device = Device::in_memory(&small()).unwrap();
    for _ in 0..2 {
        let attributes = NamespaceAttributes::default();
        let at_ns = device.time_ns();
        let namespace = &mut NamespaceId::default();
        device.submit(tantalum::Command::CreateNamespace { attributes, namespace }, at_ns).unwrap();
    }
    serve(subsystem_on(device, 4096, Pacing::None))
}

pub fn record_command(opcode: u8, namespace: u32, key: &[u8], bytes: u32, options: u32) -> Submission {
    let mut field = [0; 16];
    field[..key.len().min(16)].copy_from_slice(&key[..key.len().min(16)]);
    let mut submission = command(opcode, namespace, [bytes, key.len() as u32 | options << 8, 0, 0, 0, 0]);
    submission.dword2.as_mut_bytes().copy_from_slice(&field[..8]);
    submission.dword10[4..].as_mut_bytes().copy_from_slice(&field[8..]);
    submission
}

pub fn retrieve(host: &mut Host, namespace: u32, key: &[u8], bytes: u32) -> Completed {
    host.io.read_command(record_command(key_value::RETRIEVE, namespace, key, bytes, 0), bytes).unwrap()
}

/// Records as Put and Write Batch carry them.
pub fn add_records(data: &mut Vec<u8>, records: &[Record<'_>]) {
    for (namespace, key, value) in records {
        data.extend(PutRecord::new(*namespace, key, value.map(|value| value.len() as u32)).as_bytes());
        data.extend(value.unwrap_or_default());
        data.resize(data.len().next_multiple_of(4), 0);
    }
}
