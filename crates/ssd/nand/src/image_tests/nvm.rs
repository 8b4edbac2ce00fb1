//! Memory beside the flash in an image file.

use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::nand::Nand;
use crate::test_support::{GEOMETRY, TIMING};
use tantalum_image::NvmShape;
use tantalum_image::layout::{Layout, NVM_HEADER_AT};
use tantalum_image::{Access, ImageFinding};
use tantalum_image::{MediumError, NandError};

const SHAPE: NvmShape = NvmShape { bytes: 10_000, latency_ns: 100, bytes_per_second: 1_000_000_000 };

fn create(path: &Path) -> Nand {
    Nand::create_with(path, GEOMETRY, TIMING, "a drive", 0, Some(SHAPE), None).unwrap()
}

fn load(nand: &Nand, at: u64, bytes: usize) -> Result<Vec<u8>, NandError> {
    let mut data = vec![0xee; bytes];
    nand.nvm_load(at, &mut data, 0).map(|_| data)
}

/// Flips a bit of the file.
fn flip(path: &Path, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

#[test]
fn what_was_stored_is_there_when_the_process_ends_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let data: Vec<u8> = (0..4000_u32).map(|byte| (byte * 7 % 251) as u8).collect();
    let mut nand = create(&path);
    nand.nvm_store(&[(496, &data), (9992, &[9; 8])], 0).unwrap();
    drop(nand);
    for access in [Access::Write, Access::Ordered, Access::Overlay, Access::Write] {
        let mut nand = Nand::open_as(&path, access).unwrap();
        assert_eq!(nand.nvm(), Some(&SHAPE));
        assert_eq!(load(&nand, 496, 4000).unwrap(), data);
        assert_eq!(load(&nand, 9992, 8).unwrap(), [9; 8]);
        assert_eq!(load(&nand, 0, 496).unwrap(), [0; 496]);
        // changes under an overlay vanish
        let word = if access == Access::Overlay { 1 } else { 0 };
        nand.nvm_store(&[(0, &[word; 8])], 0).unwrap();
    }
}

#[test]
fn a_medium_without_it_keeps_the_older_version() {
    let folder = tempfile::tempdir().unwrap();
    let (with, without) = (folder.path().join("with"), folder.path().join("without"));
    create(&with);
    Nand::create(&without, GEOMETRY, TIMING, "a drive", 0).unwrap();
    assert_eq!(std::fs::read(&with).unwrap()[8], 4);
    assert_eq!(std::fs::read(&without).unwrap()[8], 3);
    assert_eq!(Nand::open(&without).unwrap().nvm(), None);
    flip(&with, NVM_HEADER_AT + 9);
    assert!(matches!(Nand::open(&with), Err(MediumError::HeaderChecksum { .. })));
}

#[test]
fn a_damaged_line_is_told_and_holds_zeros_only_after_a_repair() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    create(&path).nvm_store(&[(0, &[7; 2000])], 0).unwrap();
    let layout = Layout::new(&GEOMETRY, 0, SHAPE.bytes, tantalum_image::REDO_LOG_BYTES);
    flip(&path, layout.nvm_at + 512 + 100);
    let nand = Nand::open(&path).unwrap();
    assert_eq!(load(&nand, 0, 504).unwrap(), [7; 504]);
    assert!(matches!(load(&nand, 504, 8), Err(NandError::NvmChecksum { line: 1, .. })));
    drop(nand);
    let (nand, examination) = Nand::examine(&path, Access::Overlay).unwrap();
    assert_eq!(examination.findings, [ImageFinding::NvmLine { line: 1 }]);
    assert_eq!(examination.nvm_lines, 20);
    assert!(load(&nand, 504, 8).is_err());
    drop(nand);
    drop(Nand::examine(&path, Access::Write).unwrap());
    let (nand, examination) = Nand::examine(&path, Access::Overlay).unwrap();
    assert!(examination.findings.is_empty());
    assert_eq!(load(&nand, 504, 8).unwrap(), [0; 8]);
    assert_eq!(load(&nand, 1008, 8).unwrap(), [7; 8]);
}
