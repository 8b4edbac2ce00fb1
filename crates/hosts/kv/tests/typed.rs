//! Records as values of Rust types, with the feature `serde`.

use std::collections::BTreeMap;

use serde::ser::{SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use tantalum_kv::{Error, Namespace, Store};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Event {
    Nothing,
    Paid { from: String, cents: i64, notes: Option<Vec<String>> },
    Many(BTreeMap<u32, f64>),
}

fn events() -> Vec<Event> {
    vec![
        Event::Nothing,
        Event::Paid { from: String::new(), cents: i64::MIN, notes: None },
        Event::Paid { from: "Zoë".into(), cents: -1, notes: Some(vec!["a".into(); 300]) },
        Event::Many((0..50).map(|n| (n, f64::from(n) / 3.0)).collect()),
    ]
}

/// A store in a folder that is removed when it is dropped.
fn with_store(test: impl FnOnce(&Store, Namespace)) {
    let folder = tempfile::tempdir().unwrap();
    let options = Store::options().capacity_bytes(64 << 20);
    let store = options.open(folder.path().join("app.tant")).unwrap();
    let namespace = store.hashed_namespace("events").unwrap();
    test(&store, namespace);
}

#[test]
fn what_is_put_as_a_type_is_read_as_it() {
    with_store(|store, namespace| {
        for (number, event) in events().into_iter().enumerate() {
            let key = [number as u8 + 1];
            store.transact(|tx| tx.put_as(namespace, key, &event)).unwrap();
            let mut tx = store.begin().unwrap();
            assert_eq!(tx.read_as(namespace, key).unwrap(), Some(event.clone()));
            assert_eq!(tx.read_for_update_as(namespace, key).unwrap(), Some(event));
            assert_eq!(tx.read_as::<Event>(namespace, b"other").unwrap(), None);
        }
    });
}

#[test]
fn bytes_that_are_no_such_type_stay_and_the_transaction_goes_on() {
    with_store(|store, namespace| {
        let paid = postcard::to_stdvec(&events()[2]).unwrap();
        let longer = [&paid[..], &[0]].concat();
        for bytes in [&b""[..], &[200, 1], &paid[..paid.len() - 1], &longer] {
            let mut tx = store.begin().unwrap();
            tx.put(namespace, b"key", bytes).unwrap();
            let error = tx.read_as::<Event>(namespace, b"key").unwrap_err();
            let Error::NotOfType { key, bytes: length, type_name, .. } = &error else { panic!("{error}") };
            assert_eq!((&key[..], *length), (&b"key"[..], bytes.len() as u64));
            assert!(type_name.ends_with("Event") && error.to_string().contains("Event"), "{error}");
            assert!(matches!(
                tx.read_for_update_as::<Event>(namespace, b"key"),
                Err(Error::NotOfType { .. })
            ));
            assert_eq!(tx.read(namespace, b"key").unwrap().as_deref(), Some(bytes));
            tx.commit().unwrap();
            let kept = store.transact(|tx| tx.read(namespace, b"key")).unwrap();
            assert_eq!(kept.as_deref(), Some(bytes), "the record is as it was put");
        }
    });
}

#[test]
fn what_has_no_form_is_refused_and_nothing_is_put() {
    /// A sequence of unknown length.
    struct Endless;

    impl Serialize for Endless {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_seq(None)?.end()
        }
    }

    with_store(|store, namespace| {
        let mut tx = store.begin().unwrap();
        tx.put_as(namespace, b"key", "before").unwrap();
        let error = tx.put_as(namespace, b"key", &Endless).unwrap_err();
        assert!(matches!(&error, Error::NotEncodable { type_name, .. } if type_name.ends_with("Endless")));
        assert_eq!(tx.read_as::<String>(namespace, b"key").unwrap().as_deref(), Some("before"));
    });
}
