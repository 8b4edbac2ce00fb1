//! Direct-IO on the files of a volume: the volume says where they are, the driver grants access, and revokes it before the
//! place becomes another file's.

use crate::common;

use std::sync::{Arc, Mutex};

use common::{KERNEL, OPEN, ask, profile, rest, wat};
use tantalum::Device;
use tantalum_drive::Drive;
use tantalum_spu::{
    BlockClient, EndpointId, Event, IoError, ProcessId, ProgramId, Rights, SpuId, Ssd, answer, shipped,
};
use tantalum_volume::{FileId, Volume};

const STRIPE: usize = 8192;

/// A volume and processors on one drive, and a process that reaches files by Direct-IO.
struct Host {
    volume: Volume,
    ssd: Arc<Mutex<Ssd>>,
    process: ProcessId,
    endpoint: EndpointId,
    direct: ProgramId,
}

impl Host {
    fn new() -> Host {
        let drive = Drive::new(Device::in_memory(&profile("tlc-nvme")).unwrap());
        let mut volume = Volume::format(drive.client(), 4 << 20).unwrap();
        let mut ssd = Ssd::new(drive);
        let direct = ssd.install(KERNEL, shipped::DIRECT_IO, OPEN).unwrap();
        let process = ssd.process();
        let endpoint = ssd.endpoint(process).unwrap();
        let ssd = Arc::new(Mutex::new(ssd));
        let driver = Arc::clone(&ssd);
        volume.before_reuse(move |place| driver.lock().unwrap().revoke(&place));
        Host { volume, ssd, process, endpoint, direct }
    }

    fn create(&mut self, name: &str, byte: u8, bytes: usize) -> FileId {
        let file = self.volume.create(name).unwrap();
        self.volume.write(file, 0, &vec![byte; bytes]).unwrap();
        self.volume.sync(file).unwrap();
        file
    }

    /// Lets the process access a file; returns where it begins on the drive.
    fn grant(&mut self, file: FileId) -> u64 {
        let lent = self.volume.lend(file).unwrap();
        let mut ssd = self.ssd.lock().unwrap();
        for extent in &lent {
            ssd.grant(self.process, extent.place.clone(), Rights::READ | Rights::WRITE).unwrap();
        }
        rest(&mut ssd);
        lent[0].place.start
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<(), IoError> {
        BlockClient::new(self.endpoint, self.direct).write(&mut self.ssd.lock().unwrap(), address, data)
    }

    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), IoError> {
        BlockClient::new(self.endpoint, self.direct).read(&mut self.ssd.lock().unwrap(), address, data)
    }

    fn contents(&mut self, file: FileId) -> Vec<u8> {
        let mut data = vec![0; self.volume.size(file).unwrap() as usize];
        self.volume.read(file, 0, &mut data).unwrap();
        data
    }
}

#[test]
fn a_process_reads_and_writes_its_file_and_no_other() {
    let mut host = Host::new();
    let (mine, other) = (host.create("mine", 1, 5 * STRIPE), host.create("other", 2, STRIPE));
    let at = host.grant(mine);
    let others = host.volume.lend(other).unwrap()[0].place.start;
    let mut data = vec![0; 5 * STRIPE];
    host.read(at, &mut data).unwrap();
    assert!(data.iter().all(|&byte| byte == 1));
    host.write(at + 4096, &vec![3; STRIPE]).unwrap();
    assert!(matches!(host.write(others, &[4; 100]), Err(IoError::NoPermission { .. })));
    let contents = host.contents(mine);
    assert!(contents[4096..4096 + STRIPE].iter().all(|&byte| byte == 3) && contents[4095] == 1);
    assert!(host.contents(other).iter().all(|&byte| byte == 2));
}

/// What a file gave up is another's: by truncation, by removal, and by an exchange of ranges.
#[test]
fn rights_end_before_the_place_is_another_file_s() {
    for how in ["truncate", "remove", "exchange"] {
        let mut host = Host::new();
        let file = host.create("old", 1, 4 * STRIPE);
        let at = host.grant(file);
        host.write(at, &[5; STRIPE]).unwrap();
        match how {
            "truncate" => {
                host.volume.set_size(file, 0).unwrap();
                host.volume.sync(file).unwrap();
            }
            "remove" => {
                host.volume.remove("old").unwrap();
                host.volume.sync_names().unwrap();
            }
            _ => {
                let other = host.create("other", 2, 4 * STRIPE);
                host.volume.exchange_ranges(file, 0, other, 0, 4 * STRIPE as u64).unwrap();
            }
        }
        // a file that takes all that is free has the place
        let new = host.create("new", 9, 24 << 20);
        let refused = host.write(at, &[7; STRIPE]);
        assert!(matches!(refused, Err(IoError::NoPermission { .. })), "{how}: {refused:?}");
        let mut data = [0; 100];
        assert!(matches!(host.read(at, &mut data), Err(IoError::NoPermission { .. })), "{how}");
        assert!(host.contents(new).iter().all(|&byte| byte == 9), "{how}");
    }
}

/// A handler that was allowed to store and has not committed when the right is revoked stores nothing, and learns of
/// it.
#[test]
fn a_store_that_was_checked_before_the_right_went_does_not_happen() {
    let stores = wat(r#"(module
        (import "tantalum" "respond" (func $respond (param i32) (result i32)))
        (import "tantalum" "request_start" (func $start (param i32 i32 i32) (result i32)))
        (import "tantalum" "request_finish" (func $finish (result i32)))
        (import "tantalum" "wait" (func $wait (param i32) (result i32)))
        (import "tantalum" "nvm_write" (func $write (param i64 i32 i32) (result i32)))
        (import "tantalum" "receive" (func $receive (param i32 i32) (result i32)))
        (memory (export "memory") 1 1)
        (global (export "__heap_base") i32 (i32.const 1024))
        ;; works for a while
        (func (export "rpc_1") (param i32 i32) (local $left i32)
            (local.set $left (i32.const 100000))
            (loop (br_if 0 (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
            (drop (call $respond (i32.const 0))))
        ;; stores, and works for longer before it commits
        (func (export "rpc_0") (param i32 i32) (local $left i32)
            (drop (call $receive (i32.const 0) (i32.const 8)))
            (drop (call $write (i64.load (i32.const 0)) (i32.const 64) (i32.const 8)))
            (local.set $left (i32.const 200000))
            (loop (br_if 0 (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
            (drop (call $respond (i32.const 0)))))"#);
    let mut host = Host::new();
    let file = host.create("old", 1, 4 * STRIPE);
    let at = host.grant(file);
    let mut ssd = host.ssd.lock().unwrap();
    let program = ssd.install(KERNEL, &stores, OPEN).unwrap();
    let spu = ssd.stripes().owner(at);
    // undisturbed, it stores
    let (status, _) = ask(&mut ssd, host.endpoint, spu.0, (program, 0), &at.to_le_bytes());
    assert_eq!(status, answer::OK);
    let now_ns = ssd.now_ns();
    let sent = ssd.send(host.endpoint, spu, (program, 0), at.to_le_bytes().to_vec(), now_ns).unwrap();
    // a request at another processor is answered while the handler works on, after its store
    let other = SpuId((spu.0 + 1) % 8);
    let nothing = ssd.send(host.endpoint, other, (program, 1), Vec::new(), now_ns).unwrap();
    let first = ssd.next_event_of(host.endpoint);
    assert!(matches!(first, Some(Event::Answer { request, .. }) if request == nothing), "{first:?}");
    drop(ssd);
    // written by the volume, which the handler would write over
    host.volume.write(file, 0, &[2; STRIPE]).unwrap();
    host.volume.sync(file).unwrap();
    host.volume.set_size(file, 0).unwrap();
    host.volume.sync(file).unwrap();
    let new = host.create("new", 9, 24 << 20);
    let mut ssd = host.ssd.lock().unwrap();
    let told = rest(&mut ssd);
    let is_refused = |event: &Event| matches!(event, Event::Answer { request, status: answer::NO_PERMISSION, .. } if *request == sent);
    assert!(told.iter().any(is_refused), "{told:?}");
    drop(ssd);
    assert!(host.contents(new).iter().all(|&byte| byte == 9));
}
