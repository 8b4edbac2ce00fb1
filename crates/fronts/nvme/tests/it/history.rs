//! What a drive remembers of itself: self-tests, the persistent event log, telemetry.

use std::time::Duration;

use tantalum::{Device, Faults, Lpn, Profile};
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, Completed, Options, command, group_log};
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::opcode::{admin, nvm};

use crate::common::{
    Host, UNIT, attach, cut_and_attach, names, opened_again, pattern, serve, small, subsystem, subsystem_on,
    wait_until,
};
use crate::namespaces::{change, create, delete, format, identify, on, sanitize, sanitize_status};

const ALL: u32 = u32::MAX;

/// Get Log Page with the action of the page, and with its event retained.
fn log(client: &mut Client, page: u8, action: u8, bytes: u32) -> Completed {
    let dword = u32::from(page) | u32::from(action) << 8 | 1 << 15 | (bytes / 4 - 1) << 16;
    client.read_command(command(admin::GET_LOG_PAGE, ALL, [dword, 0, 0, 0, 0, 0]), bytes).unwrap()
}

fn begin(client: &mut Client, namespace: u32, code: u32) -> u16 {
    client.command(command(admin::SELF_TEST, namespace, [code, 0, 0, 0, 0, 0])).unwrap().code
}

/// A result: test and outcome, segment, valid fields, namespace and block.
type TestResult = (u8, u8, u8, u32, u64);

/// What is under way, how much of it is done, and the results.
fn tests(client: &mut Client) -> (u8, u8, Vec<TestResult>) {
    let log = log(client, 0x06, 0, 564).data;
    let result = |result: &[u8]| {
        let word = u32::from_le_bytes(result[12..16].try_into().unwrap());
        let block = u64::from_le_bytes(result[16..24].try_into().unwrap());
        (result[0], result[1], result[2], word, block)
    };
    let results = log[4..].chunks_exact(28).map(result).filter(|result| result.0 & 0xf != 0xf);
    (log[0], log[1], results.collect())
}

fn wait_for(client: &mut Client, results: usize) -> TestResult {
    wait_until("the test ends", || {
        let (under_way, _, there) = tests(client);
        under_way == 0 && there.len() == results
    });
    tests(client).2[0]
}

#[test]
fn a_self_test_reads_what_is_on_flash() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let told = identify(&mut host.admin, 1, 0).data;
    assert_eq!((told[256] >> 4 & 1, told[318]), (1, 1), "OACS, DSTO");
    assert_eq!(tests(&mut host.admin), (0, 0, vec![]));
    for block in 0..600 {
        host.write(block, UNIT, &pattern(block, UNIT));
    }
    assert_eq!(host.io.command(on(nvm::FLUSH, 1, 0)).unwrap().code, 0);
    assert_eq!(begin(&mut host.admin, 1, 2), 0);
    assert_eq!(wait_for(&mut host.admin, 1), (0x20, 0, 1, 1, 0), "an extended one has passed");
    assert_eq!(begin(&mut host.admin, ALL, 1), 0);
    assert_eq!(wait_for(&mut host.admin, 2), (0x10, 0, 1, ALL, 0));
    assert_eq!(begin(&mut host.admin, 0, 1), 0, "the controller alone");
    assert_eq!(wait_for(&mut host.admin, 3), (0x10, 0, 0, 0, 0));
    // a page that has become uncorrectable
    let drive = server.subsystem().queue.drive();
    drive.lock().set_faults(Faults { read_failure_ppm: 1_000_000, ..Faults::default() }).unwrap();
    assert_eq!(host.io.read_command(on(nvm::READ, 1, 300), 4096).unwrap().code, 0x281);
    drive.lock().set_faults(Faults::default()).unwrap();
    assert_eq!(begin(&mut host.admin, ALL, 2), 0);
    let (status, segment, valid, namespace, block) = wait_for(&mut host.admin, 4);
    assert_eq!((status, segment, valid, namespace), (0x27, 2, 0xf, 1), "units");
    assert!(block.abs_diff(300) < 8, "a block of the page of block 300: {block}");
    // the drive has kept its state
    let kept = log(&mut host.admin, 0x08, 0, 4096).data;
    assert_eq!((kept[0], kept[382], kept[383]), (8, 1, 1));
    assert!(kept[384..].starts_with(b"self-test: unit "));
}

#[test]
fn a_self_test_ends_with_what_it_tests_and_only_one_is_under_way() {
    let profile = Profile { capacity_bytes: 1 << 30, ..small() };
    let server = serve(subsystem_on(Device::in_memory(&profile).unwrap(), 4096, Pacing::None));
    let mut host = attach(&server, Options::default());
    assert_eq!(delete(&mut host.admin, 1), 0);
    for _ in 0..2 {
        let number = create(&mut host.admin, 100_000, 0);
        assert_eq!(change(&mut host.admin, 0, number, &[host.controller]), 0);
        let data = pattern(1, 128 * UNIT);
        for first in (0..100_000).step_by(128).take(700) {
            let write = command(nvm::WRITE, number, [first, 0, 127, 0, 0, 0]);
            assert_eq!(host.io.write_command(write, &data).unwrap().code, 0);
        }
    }
    assert_eq!((begin(&mut host.admin, 9, 1), begin(&mut host.admin, 1, 7)), (0x00b, 0x002));
    assert_eq!(begin(&mut host.admin, 1, 0xf), 0, "none is under way");
    let is_under_way = || server.subsystem().history.tests.is_under_way();
    let mut results = 0;
    let mut end = |host: &mut Host, namespace, outcome: u8, end: &mut dyn FnMut(&mut Host)| {
        // it may have ended by itself before
        for _ in 0..20 {
            assert_eq!(begin(&mut host.admin, namespace, 2), 0);
            let again = begin(&mut host.admin, namespace, 1);
            if again == 0 {
                wait_until("the short one has ended", || !is_under_way());
                results += 2;
                continue;
            }
            assert_eq!(again, 0x11d, "Device Self-test in Progress");
            let (code, percent, _) = tests(&mut host.admin);
            assert!(code == 2 && percent < 100 || code == 0, "{code} {percent}");
            end(host);
            wait_until("it has ended", || !is_under_way());
            results += 1;
            let found = tests(&mut host.admin).2[0].0;
            if found == 0x20 | outcome {
                return;
            }
            assert_eq!(found, 0x20, "it had passed before");
        }
        panic!("a test was never ended in time ({outcome})");
    };
    end(&mut host, ALL, 1, &mut |host| assert_eq!(begin(&mut host.admin, 0, 0xf), 0));
    end(&mut host, 2, 4, &mut |host| assert_eq!(format(&mut host.admin, ALL, 1), 0));
    let data = pattern(2, 128 * UNIT);
    let fill = |host: &mut Host, number| {
        for first in (0..700_000).step_by(1024).take(600) {
            let write = command(nvm::WRITE, number, [first, 0, 1023, 0, 0, 0]);
            assert_eq!(host.io.write_command(write, &data).unwrap().code, 0);
        }
    };
    (1..3).for_each(|number| fill(&mut host, number));
    end(&mut host, 1, 4, &mut |host| assert_eq!(format(&mut host.admin, 1, 1), 0));
    end(&mut host, 2, 3, &mut |host| assert_eq!(delete(&mut host.admin, 2), 0));
    fill(&mut host, 1);
    end(&mut host, ALL, 9, &mut |host| {
        assert_eq!(sanitize(&mut host.admin, 2), 0);
        let begun = begin(&mut host.admin, 0, 1);
        assert!(begun == 0x01d || begun == 0, "{begun:x}");
        wait_until("it is over", || sanitize_status(&mut host.admin).1 == 1);
    });
}

/// An extended test goes on when power is back, a short one has been aborted. Of both the drive knows when it is served again.
#[test]
fn an_extended_self_test_goes_on_after_a_power_loss() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    // the drive has a namespace of its own from now on
    assert_eq!(format(&mut host.admin, 1, 0), 0);
    for block in 0..4000 {
        host.write(block, UNIT, &pattern(block, UNIT));
    }
    assert_eq!(host.io.command(on(nvm::FLUSH, 1, 0)).unwrap().code, 0);
    let (mut resumed, mut aborted) = (0, 0);
    for round in 0..60 {
        let code = 1 + round % 2;
        let before = tests(&mut host.admin).2.len();
        assert_eq!(begin(&mut host.admin, ALL, code), 0);
        host = cut_and_attach(&server);
        wait_until("it has ended", || !server.subsystem().history.tests.is_under_way());
        let results = tests(&mut host.admin).2;
        assert!(results.len() == (before + 1).min(20), "{results:?}");
        match (code, results[0].0) {
            (1, 0x12) => aborted += 1,
            (2, 0x20) => resumed += 1,
            (1, 0x10) => {}
            other => panic!("round {round}: {other:x?}"),
        }
    }
    println!("{resumed} resumed or passed before, {aborted} aborted");
    assert!(aborted > 0);
}

#[test]
fn a_short_self_test_ends_with_its_controller() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    for block in 0..4000 {
        host.write(block, UNIT, &pattern(block, UNIT));
    }
    let mut aborted = 0;
    for _ in 0..50 {
        let (mut other, _) = Client::admin(server.address(), Options::default(), &names(), 0).unwrap();
        assert_eq!(begin(&mut other, ALL, 1), 0);
        drop(other);
        wait_until("it has ended", || !server.subsystem().history.tests.is_under_way());
        aborted += u32::from(tests(&mut host.admin).2[0].0 == 0x12);
    }
    assert!(aborted > 0);
}

// -- the persistent event log -----------------------------------------------------------------------------------

/// The events of a new context, the latest first: type, controller and data.
fn events(client: &mut Client) -> Vec<(u8, u16, Vec<u8>)> {
    let header = log(client, 0x0d, 1, 512);
    assert_eq!(header.code, 0);
    let count = u32::from_le_bytes(header.data[4..8].try_into().unwrap());
    let bytes = u64::from_le_bytes(header.data[8..16].try_into().unwrap()) as u32;
    assert_eq!((header.data[0], header.data[16]), (0x0d, 3));
    let all = log(client, 0x0d, 0, bytes.next_multiple_of(4)).data;
    assert_eq!(all[..512], header.data[..]);
    assert_eq!(log(client, 0x0d, 2, 4).code, 0);
    let (mut events, mut rest) = (Vec::new(), &all[512..bytes as usize]);
    while !rest.is_empty() {
        let word = |at: usize| u16::from_le_bytes([rest[at], rest[at + 1]]);
        assert_eq!((rest[1], rest[2]), (1, 21));
        let end = 24 + usize::from(word(22));
        events.push((rest[0], word(4), rest[24..end].to_vec()));
        rest = &rest[end..];
    }
    assert_eq!(events.len(), count as usize);
    events
}

fn kinds(events: &[(u8, u16, Vec<u8>)]) -> Vec<u8> {
    events.iter().map(|event| event.0).collect()
}

#[test]
fn the_event_log_has_what_has_happened_the_latest_first() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let told = identify(&mut host.admin, 1, 0).data;
    assert_eq!((told[261] >> 3 & 3, told[352]), (3, 1), "LPA, PELS");
    assert_eq!(kinds(&events(&mut host.admin)), [0x01, 0x04], "its health, and power");
    let set = command(admin::SET_FEATURES, 0, [0x0e, 0, 0, 0, 0, 0]);
    let now = 0x0123_4567_89ab_u64;
    assert_eq!(host.admin.write_command(set, &now.to_le_bytes()).unwrap().code, 0);
    assert_eq!(delete(&mut host.admin, 1), 0);
    assert_eq!(create(&mut host.admin, 100, 0), 1);
    assert_eq!(change(&mut host.admin, 0, 1, &[host.controller]), 0);
    assert_eq!(format(&mut host.admin, 1, 1), 0);
    assert_eq!(format(&mut host.admin, 1, 9), 0x10a, "refused before it began");
    assert_eq!(sanitize(&mut host.admin, 2), 0);
    wait_until("it is over", || sanitize_status(&mut host.admin).1 == 1);
    let all = events(&mut host.admin);
    assert_eq!(kinds(&all), [0x0a, 0x09, 0x08, 0x07, 0x06, 0x06, 0x03, 0x01, 0x04]);
    assert_eq!((all[0].1, all[1].1, all[4].1), (0xffff, host.controller, host.controller));
    assert_eq!((all[0].2.len(), u16::from_le_bytes([all[0].2[2], all[0].2[3]])), (8, 1), "complete");
    assert_eq!(all[1].2[4..8], 2_u32.to_le_bytes());
    assert_eq!((all[2].2.len(), all[2].2[0], all[2].2[8]), (12, 1, 0), "without an error");
    assert_eq!(all[3].2[8..12], 1_u32.to_le_bytes());
    assert_eq!((all[4].2[0], all[4].2[8], all[4].2[44]), (0, 100, 1), "created, its blocks, its number");
    assert_eq!((all[5].2[0], all[5].2[44]), (1, 1), "deleted");
    assert_eq!(all[7].2.len(), 512);
}

#[test]
fn a_context_is_that_of_a_controller_and_established_once() {
    let server = serve(subsystem(4096));
    let (mut host, mut other) = (attach(&server, Options::default()), attach(&server, Options::default()));
    let sequence = 0x00c;
    assert_eq!(log(&mut host.admin, 0x0d, 0, 512).code, sequence, "there is none");
    assert_eq!(log(&mut host.admin, 0x0d, 2, 4).code, 0);
    assert_eq!(log(&mut host.admin, 0x0d, 3, 512).code, 0);
    assert_eq!(log(&mut host.admin, 0x0d, 3, 512).code, sequence);
    assert_eq!(log(&mut host.admin, 0x0d, 1, 512).code, sequence);
    assert_eq!(log(&mut other.admin, 0x0d, 0, 512).code, sequence, "it is another controller's");
    let before = log(&mut host.admin, 0x0d, 0, 4096).data;
    assert_eq!(format(&mut host.admin, 1, 0), 0);
    assert_eq!(log(&mut host.admin, 0x0d, 0, 4096).data, before, "it stays as it was");
    assert_eq!(events(&mut other.admin).len(), 4);
    let dwords = [0x0d | 1 << 15, 0, 4096 * 4, 0, 0, 0];
    assert_eq!(host.admin.read_command(command(admin::GET_LOG_PAGE, ALL, dwords), 4).unwrap().code, 0x002);
    // it ends with a reset
    let reset = host.admin.set_property(0x14, 0).unwrap();
    assert_eq!(reset.code, 0);
    assert_eq!(host.admin.set_property(0x14, u64::from(tantalum_nvme::controller::ENABLED)).unwrap().code, 0);
    assert_eq!(log(&mut host.admin, 0x0d, 0, 512).code, sequence);
}

/// What an answered command has added is there after power cuts at random flash operations and in the image, and nothing else is.
#[test]
fn the_event_log_outlives_power_cuts_and_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    let mut expected: Vec<Vec<u8>> = Vec::new();
    let mut device = Device::create(&image, &small()).unwrap();
    for round in 0..6 {
        let server = serve(subsystem_on(device, 4096, Pacing::None));
        let mut host = attach(&server, Options::default());
        if round == 0 {
            assert_eq!(format(&mut host.admin, 1, 0), 0);
        }
        for cut in 0..4 {
            let before = events(&mut host.admin).len();
            let operations = 1 + (round * 4 + cut) % 9;
            server.subsystem().queue.drive().lock().cut_after(Some(operations));
            let mut answered = 0;
            while host.admin.command(command(admin::FORMAT, 1, [0; 6])).is_ok_and(|done| done.code == 0) {
                answered += 1;
            }
            host = cut_and_attach(&server);
            let now = kinds(&events(&mut host.admin));
            assert_eq!(now[..2], [0x01, 0x04], "power came back");
            let pairs = now[2..].chunks(2).take_while(|pair| *pair == [0x08, 0x07]).count();
            assert!(now.len() > before || now.len() > 20, "{now:x?}");
            // the last one may have begun, or ended without an answer
            let begun = now[2..].iter().take_while(|kind| [0x07, 0x08].contains(*kind)).count();
            assert!(begun >= 2 * answered.min(5), "{answered} answered, {pairs} pairs: {now:x?}");
        }
        expected.push(kinds(&events(&mut host.admin)));
        drop(host);
        device = opened_again(server, &image);
        if let [.., last] = &expected[..] {
            let server = serve(subsystem_on(device, 4096, Pacing::None));
            let mut host = attach(&server, Options::default());
            let now = kinds(&events(&mut host.admin));
            assert_eq!(now[..2], [0x01, 0x04]);
            let kept = now.len() - 2;
            assert_eq!(now[2..], last[..kept], "as it was, but for the oldest");
            drop(host);
            device = opened_again(server, &image);
        }
    }
}

/// A drive that was never divided stays as it was: the log alone gives it no namespace of its own.
#[test]
fn the_event_log_alone_changes_no_drive() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let set = command(admin::SET_FEATURES, 0, [0x0e, 0, 0, 0, 0, 0]);
    assert_eq!(host.admin.write_command(set, &[1; 8]).unwrap().code, 0);
    assert_eq!(begin(&mut host.admin, ALL, 2), 0);
    wait_for(&mut host.admin, 1);
    assert_eq!(events(&mut host.admin).len(), 3);
    assert!(server.subsystem().queue.drive().lock().private_namespaces().is_empty());
}

// -- telemetry --------------------------------------------------------------------------------------------------

/// The data of a telemetry log, and its generation.
fn telemetry(client: &mut Client, page: u8, action: u8) -> (Vec<u8>, u8) {
    let header = log(client, page, action, 512).data;
    let blocks = u32::from(u16::from_le_bytes([header[8], header[9]]));
    assert_eq!((header[0], &header[8..10], &header[8..10]), (page, &header[10..12], &header[12..14]));
    let whole = log(client, page, 0, 512 * (blocks + 1)).data;
    (whole[512..].to_vec(), if page == 7 { header[381] } else { header[383] })
}

#[test]
fn a_host_gets_the_state_of_the_drive_as_it_was_when_it_asked() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    assert_eq!(telemetry(&mut host.admin, 7, 0), (vec![], 0), "nobody has asked");
    let (first, generation) = telemetry(&mut host.admin, 7, 1);
    assert_eq!(generation, 1);
    let parsed = |data: &[u8]| serde_json_value(data);
    assert!(parsed(&first).contains("\"host_units_written\": 0"), "{}", parsed(&first));
    host.write(0, UNIT, &pattern(1, 3 * UNIT));
    assert_eq!(telemetry(&mut host.admin, 7, 0), (first, 1), "it is that of then");
    let (second, generation) = telemetry(&mut host.admin, 7, 1);
    assert_eq!(generation, 2);
    assert!(parsed(&second).contains("\"host_units_written\": 3"), "{}", parsed(&second));
    assert_eq!(telemetry(&mut host.admin, 8, 0), (vec![], 0), "the drive has kept none");
}

fn serde_json_value(data: &[u8]) -> String {
    std::str::from_utf8(data).unwrap().trim_end().to_owned()
}

#[test]
fn hosts_are_told_that_the_drive_has_kept_its_state_until_one_has_read_it() {
    let server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let told = identify(&mut host.admin, 1, 0).data;
    assert_eq!(told[93] >> 2 & 1, 1, "OAES");
    let enable = command(admin::SET_FEATURES, 0, [0x0b, 1 << 10, 0, 0, 0, 0]);
    assert_eq!(host.admin.command(enable).unwrap().code, 0);
    let waits = host.admin.submit(command(admin::ASYNC_EVENT, 0, [0; 6]), Vec::new(), 0).unwrap();
    host.write(0, UNIT, &pattern(1, 8 * UNIT));
    assert_eq!(host.io.command(on(nvm::FLUSH, 1, 0)).unwrap().code, 0);
    let drive = server.subsystem().queue.drive();
    drive.lock().set_faults(Faults { read_failure_ppm: 1_000_000, ..Faults::default() }).unwrap();
    assert_eq!(host.io.read_command(on(nvm::READ, 1, 1), 4096).unwrap().code, 0x281);
    drive.lock().set_faults(Faults::default()).unwrap();
    assert!(drive.lock().is_mapped(Lpn(1)));
    let mut other = attach(&server, Options::default());
    assert_eq!(begin(&mut other.admin, ALL, 1), 0);
    let event = host.admin.reap().unwrap();
    assert_eq!((event.id, event.result), (waits, 0x08_0202));
    let (kept, generation) = telemetry(&mut host.admin, 8, 0);
    assert!(!kept.is_empty() && generation == 1);
    // another finding does not replace it
    wait_for(&mut other.admin, 1);
    assert_eq!(begin(&mut other.admin, ALL, 1), 0);
    wait_for(&mut other.admin, 2);
    assert_eq!(telemetry(&mut host.admin, 8, 0), (kept, 1));
    let release = command(admin::GET_LOG_PAGE, ALL, [8 | 127 << 16, 0, 0, 0, 0, 0]);
    assert_eq!(host.admin.read_command(release, 512).unwrap().data[382], 1);
    assert_eq!(telemetry(&mut host.admin, 8, 0), (vec![], 1), "it was read");
    std::thread::sleep(Duration::from_millis(1));
}

/// All pages that exist are told, and can be read.
#[test]
fn each_page_that_is_told_can_be_read() {
    let server: Server = serve(subsystem(4096));
    let mut host = attach(&server, Options::default());
    let supported = log(&mut host.admin, 0x00, 0, 1024).data;
    for page in 0..=255_u8 {
        let is_told = supported[usize::from(page) * 4] & 1 == 1;
        let action = u8::from(page == 0x0d);
        let code = match page {
            0x09 => host.admin.read_command(group_log(page, 1, 0, 512), 512).unwrap().code,
            page => log(&mut host.admin, page, action, 512).code,
        };
        assert_eq!(code, if is_told { 0 } else { 0x109 }, "page {page:#x}");
    }
}
