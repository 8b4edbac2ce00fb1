pub(crate) mod records;
pub(crate) mod units;

use records::KeyValue;

#[derive(Clone, Debug, Default)]
pub(crate) struct Tenants {
    pub records: KeyValue,
}
