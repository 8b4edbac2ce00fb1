//! Records as values of Rust types (feature `serde`), in [postcard](https://postcard.jamesmunns.com/wire-format)'s format.
//!
//! The format has no names: numbers take as many bytes as they need, and fields follow each other. Reading a value as
//! another type than it was written is an error if the bytes do not fit that type, and gives a wrong value if they do;
//! a type that will change goes into an `enum` with a variant for each version.

use std::any::type_name;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::record::Namespace;
use crate::transaction::Transaction;

impl Transaction {
    /// Reads a record as a `T`; none if it does not exist. [`Error::NotOfType`] if its bytes are not exactly one `T`.
    ///
    /// ```
    /// # fn main() -> Result<(), tantalum_kv::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.tant");
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Account {
    ///     owner: String,
    ///     cents: i64,
    /// }
    ///
    /// let store = tantalum_kv::Store::open(&path)?;
    /// let accounts = store.namespace("accounts")?;
    /// store.transact(|tx| tx.put_as(accounts, b"1", &Account { owner: "Alice".into(), cents: 100 }))?;
    /// let cents = store.transact(|tx| {
    ///     let found = tx.read_for_update_as::<Account>(accounts, b"1")?;
    ///     let mut account = found.expect("it was just put");
    ///     account.cents += 50;
    ///     tx.put_as(accounts, b"1", &account)?;
    ///     Ok::<_, tantalum_kv::Error>(account.cents)
    /// })?;
    /// assert_eq!(cents, 150);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_as<T: DeserializeOwned>(
        &mut self,
        namespace: Namespace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<T>, Error> {
        let value = self.read(namespace, key.as_ref())?;
        value.map(|value| decode(key.as_ref(), &value)).transpose()
    }

    /// The same for a record that is about to be changed ([`Transaction::read_for_update`]).
    pub fn read_for_update_as<T: DeserializeOwned>(
        &mut self,
        namespace: Namespace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<T>, Error> {
        let value = self.read_for_update(namespace, key.as_ref())?;
        value.map(|value| decode(key.as_ref(), &value)).transpose()
    }

    /// Changes or creates a record with the value of a `T`. [`Error::NotEncodable`] if the format cannot represent it.
    pub fn put_as<T: Serialize + ?Sized>(
        &mut self,
        namespace: Namespace,
        key: impl AsRef<[u8]>,
        value: &T,
    ) -> Result<(), Error> {
        let bytes = postcard::to_stdvec(value).map_err(|error| Error::NotEncodable {
            type_name: type_name::<T>(),
            reason: error.to_string(),
        })?;
        self.put(namespace, key, bytes)
    }
}

fn decode<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T, Error> {
    let not_a = |reason| Error::NotOfType {
        key: key.into(),
        bytes: bytes.len() as u64,
        type_name: type_name::<T>(),
        reason,
    };
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(not_a(format!("{} bytes are left over", rest.len()))),
        Err(error) => Err(not_a(error.to_string())),
    }
}
