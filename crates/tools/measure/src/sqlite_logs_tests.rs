use tantalum_filesystem::FileKind;
use tantalum_record::operation::Made;

use super::*;

const FOLDER: FileNumber = 1;
const DATABASE: FileNumber = 2;
const LOG: FileNumber = 3;
const INDEX: FileNumber = 4;
const PAGE: usize = 4096;

fn entry(name: &str) -> FolderName {
    FolderName { folder: FOLDER, name: name.as_bytes().to_vec() }
}

fn page(seed: u8) -> Vec<u8> {
    (0..PAGE).map(|at| (at as u8).wrapping_mul(seed) ^ seed).collect()
}

fn header(salt: u8) -> Vec<u8> {
    let mut header = vec![0; WAL_HEADER];
    header[..4].copy_from_slice(&WAL[1].to_be_bytes());
    header[8..12].copy_from_slice(&(PAGE as u32).to_be_bytes());
    header[16..24].fill(salt);
    header
}

fn frame(page_number: u32, salt: u8, page: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; FRAME_HEADER];
    frame[..4].copy_from_slice(&page_number.to_be_bytes());
    frame[8..16].fill(salt);
    frame.extend_from_slice(page);
    frame
}

fn wrote(file: FileNumber, offset: usize, data: &[u8]) -> Event<'_> {
    Event::Wrote { file, offset: offset as u64, data, kind: WriteKind::Cached }
}

fn with_wal() -> SqliteLogs {
    let mut logs = SqliteLogs::default();
    logs.note(LOG, "a.db-wal", 0, &header(1));
    logs.note(INDEX, "a.db-shm", 0, &[1; 100]);
    logs.find_databases(
        [(DATABASE, "a.db"), (LOG, "a.db-wal"), (INDEX, "a.db-shm"), (0, "a.db")].into_iter(),
    );
    logs
}

fn homes(without: &mut WithoutLogs<'_>) -> Vec<(FileNumber, u64, Vec<u8>)> {
    without.pages().into_iter().map(|home| (home.database, home.offset, home.data)).collect()
}

fn is_left_out(instead: &Instead) -> bool {
    matches!(instead, Instead::Nothing(_))
}

#[test]
fn pages_of_a_write_ahead_log_go_home_and_a_checkpoint_has_nothing_to_write() {
    let logs = with_wal();
    let mut without = WithoutLogs::new(&logs);
    let (first, second) = (frame(3, 1, &page(5)), frame(9, 1, &page(7)));
    // a header of a frame and its page are two writes
    let writes =
        [(0, &header(1)[..]), (32, &first[..24]), (56, &first[24..]), (32 + first.len(), &second[..])];
    for (offset, data) in writes {
        assert!(without.goes_on(&wrote(LOG, offset, data)));
        assert!(matches!(without.instead(&wrote(LOG, offset, data)), Instead::Gathered(DATABASE)));
    }
    assert_eq!(homes(&mut without), [(DATABASE, 2 * 4096, page(5)), (DATABASE, 8 * 4096, page(7))]);
    assert!(homes(&mut without).is_empty());
    let synced = without.instead(&Event::Done(Operation::SyncData(LOG)));
    assert!(matches!(synced, Instead::Moved(Event::Done(Operation::SyncData(DATABASE)))), "{synced:?}");
    // the checkpoint
    assert!(is_left_out(&without.instead(&wrote(DATABASE, 2 * 4096, &page(5)))));
    assert!(is_left_out(&without.instead(&wrote(DATABASE, 8 * 4096, &page(7)))));
    // other bytes, and then the same as before
    assert!(matches!(without.instead(&wrote(DATABASE, 8 * 4096, &page(8))), Instead::Same));
    assert!(matches!(without.instead(&wrote(DATABASE, 8 * 4096, &page(7))), Instead::Same));
    assert!(matches!(without.instead(&wrote(DATABASE, 8 * 4096 + 10, &page(7))), Instead::Same));
    assert!(is_left_out(&without.instead(&wrote(INDEX, 0, &[1; 100]))));
}

#[test]
fn frames_of_an_earlier_life_of_a_log_stay_where_they_are() {
    let logs = with_wal();
    let mut without = WithoutLogs::new(&logs);
    let old = [header(1), frame(1, 1, &page(1)), frame(2, 1, &page(2))].concat();
    without.instead(&wrote(LOG, 0, &old));
    assert_eq!(homes(&mut without).len(), 2);
    without.instead(&wrote(LOG, 0, &header(2)));
    without.instead(&wrote(LOG, 32, &frame(2, 2, &page(3))));
    assert_eq!(homes(&mut without), [(DATABASE, 4096, page(3))]);
    // a frame that is not whole, and one of the earlier life
    without.instead(&wrote(LOG, 32 + 24 + PAGE, &frame(7, 1, &page(4))));
    without.instead(&wrote(LOG, 32 + 2 * (24 + PAGE), &frame(7, 2, &page(4))[..2000]));
    assert!(homes(&mut without).is_empty());
    // the page of a frame is replaced, as when a transaction changes it again
    without.instead(&wrote(LOG, 32 + 24, &page(6)));
    assert_eq!(homes(&mut without), [(DATABASE, 4096, page(6))]);
}

#[test]
fn a_rollback_journal_is_not_made_and_its_folder_not_synced_for_it() {
    let mut logs = SqliteLogs::default();
    logs.note(LOG, "a.db-journal", 0, &[&JOURNAL[..], &[0; 504]].concat());
    logs.note(INDEX, "b-journal", 0, b"another program's");
    logs.find_databases([(DATABASE, "a.db")].into_iter());
    let mut without = WithoutLogs::new(&logs);
    let done =
        |without: &mut WithoutLogs<'_>, operation| is_left_out(&without.instead(&Event::Done(operation)));
    let made = || Made { kind: FileKind::File, permissions: 0o644, owner: 0, group: 0, target: Vec::new() };
    for _ in 0..2 {
        assert!(done(&mut without, Operation::Create(entry("a.db-journal"), LOG, made())));
        assert!(is_left_out(&without.instead(&wrote(LOG, 0, &[1; 512]))));
        assert!(done(&mut without, Operation::SyncData(LOG)));
        assert!(done(&mut without, Operation::SyncFolder(FOLDER)));
        assert!(!done(&mut without, Operation::SyncFolder(FOLDER)), "somebody else wants that");
        assert!(done(&mut without, Operation::Unlink(entry("a.db-journal"))));
        assert!(is_left_out(&without.instead(&Event::Closed(LOG))));
    }
    assert!(!done(&mut without, Operation::Create(entry("other"), 9, made())));
    assert!(!done(&mut without, Operation::SyncFolder(FOLDER)));
    assert!(!done(&mut without, Operation::SyncData(INDEX)));
    assert!(matches!(without.instead(&wrote(INDEX, 0, &[1; 512])), Instead::Same));
    assert!(matches!(without.instead(&wrote(DATABASE, 0, &page(1))), Instead::Same));
}

#[test]
fn a_transaction_that_leaves_the_first_page_as_it_is_writes_it_nevertheless() {
    let logs = with_wal();
    let mut without = WithoutLogs::new(&logs);
    let ends = |mut frame: Vec<u8>| {
        frame[4..8].copy_from_slice(&9_u32.to_be_bytes());
        frame
    };
    let counted = |more: u32| {
        let mut page = page(5);
        let before = u32::from_be_bytes(page[COUNTER].try_into().unwrap());
        page[COUNTER].copy_from_slice(&(before + more).to_be_bytes());
        page
    };
    without.instead(&wrote(LOG, 0, &header(1)));
    let frames = [
        ends(frame(1, 1, &page(5))),
        frame(3, 1, &page(6)),
        ends(frame(4, 1, &page(7))),
        ends(frame(3, 1, &page(8))),
    ];
    let mut moved = Vec::new();
    for (number, frame) in frames.iter().enumerate() {
        without.instead(&wrote(LOG, 32 + number * (24 + PAGE), frame));
        // whatever comes in between
        moved.extend(homes(&mut without).into_iter().map(|(_, offset, data)| (offset / 4096, data)));
    }
    let expected = [(0, page(5)), (2, page(6)), (3, page(7)), (0, counted(1)), (2, page(8)), (0, counted(2))];
    assert!(moved == expected, "{:?}", moved.iter().map(|(at, _)| at).collect::<Vec<_>>());
    // as a checkpoint writes it
    assert!(is_left_out(&without.instead(&wrote(DATABASE, 0, &page(5)))));
}
