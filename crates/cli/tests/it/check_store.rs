//! `tantalum check` of a key-value store: it names what is lost as its users do, and drops it on request.

use std::process::{Command, Output};

use tantalum_kv::Store;
use tempfile::TempDir;

#[test]
fn what_a_store_has_lost_is_named_and_dropped_on_request() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("app.tant");
    let store = Store::options().capacity_bytes(16 << 20).open(&image).unwrap();
    let events = store.namespace("events").unwrap();
    let value = |number: u32| format!("contents {number:03} ").repeat(400);
    store
        .transact(|tx| (0..100).try_for_each(|n| tx.put(events, format!("event {n:03}"), value(n))))
        .unwrap();
    store.close().unwrap();
    let check = |options: &[&str]| -> (Option<i32>, String) {
        let command =
            Command::new(env!("CARGO_BIN_EXE_tantalum")).arg("check").arg(&image).args(options).output();
        let Output { status, stdout, .. } = command.unwrap();
        (status.code(), String::from_utf8(stdout).unwrap())
    };
    let (code, text) = check(&[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("namespaces of the key-value store"), "{text}");
    let mut bytes = std::fs::read(&image).unwrap();
    let pattern = value(50).into_bytes();
    let places: Vec<usize> =
        bytes.windows(1000).enumerate().filter(|(_, at)| **at == pattern[..1000]).map(|(at, _)| at).collect();
    places.iter().for_each(|at| bytes[at + 3] ^= 0x40);
    std::fs::write(&image, &bytes).unwrap();
    let (code, text) = check(&[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("key \"event 050\" in namespace \"events\" is lost"), "{text}");
    assert!(std::fs::read(&image).unwrap() == bytes, "a check changed the image");
    let (code, text) = check(&["--repair"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("repaired: dropped key \"event 050\" of namespace \"events\""), "{text}");
    let (code, text) = check(&[]);
    assert_eq!(code, Some(0), "{text}");
    let store = Store::open(&image).unwrap();
    let left = store.begin().unwrap().all(events).unwrap().map(Result::unwrap).count();
    assert!((90..100).contains(&left), "{left}");
}
