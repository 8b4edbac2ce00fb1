//! The tables, and loading them.

use mysql::Conn;
use mysql::prelude::Queryable;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_report::Monitor;

use super::DATABASE;
use super::graph::{Graph, LINK_TYPES, link_data, node_data};
use crate::database::{count_rows, create_database};
use crate::error::WorkloadError;
use crate::inserts::Inserts;

const TABLES: [&str; 3] = [
    "nodetable (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, type INT UNSIGNED NOT NULL, \
     version BIGINT UNSIGNED NOT NULL, time INT UNSIGNED NOT NULL, data MEDIUMTEXT NOT NULL, \
     PRIMARY KEY (id))",
    "linktable (id1 BIGINT UNSIGNED NOT NULL, id2 BIGINT UNSIGNED NOT NULL, \
     link_type BIGINT UNSIGNED NOT NULL, visibility TINYINT NOT NULL, data VARCHAR(255) NOT NULL, \
     time BIGINT UNSIGNED NOT NULL, version INT UNSIGNED NOT NULL, PRIMARY KEY (link_type, id1, id2), \
     KEY id1_type (id1, link_type, visibility, time, id2, version, data))",
    "counttable (id BIGINT UNSIGNED NOT NULL, link_type BIGINT UNSIGNED NOT NULL, \
     count INT UNSIGNED NOT NULL, time BIGINT UNSIGNED NOT NULL, version BIGINT UNSIGNED NOT NULL, \
     PRIMARY KEY (id, link_type))",
];

/// The partitioning of the tables.
const PARTITION_KEYS: [(&str, &str); 3] = [("nodetable", "id"), ("linktable", "id1"), ("counttable", "id")];

/// The type of nodes (LinkBench's default).
pub(super) const NODE_TYPE: u32 = 2048;

/// Creates the database and its tables with this many partitions, and fills it.
pub fn load(
    connection: &mut Conn,
    graph: Graph,
    partitions: u32,
    seed: u64,
    monitor: &Monitor,
) -> Result<(), WorkloadError> {
    create_database(connection, DATABASE, TABLES)?;
    for (table, key) in PARTITION_KEYS {
        let text = format!("ALTER TABLE {table} PARTITION BY KEY ({key}) PARTITIONS {partitions}");
        connection.query_drop(text).map_err(WorkloadError::from)?;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let bar = monitor.bar("loading", 3 * graph.nodes);
    let mut nodes = Inserts::new("INSERT INTO nodetable (id, type, version, time, data) VALUES ");
    for id in 1..=graph.nodes {
        let data = node_data(&mut random);
        nodes.row(connection, format_args!("({id},{NODE_TYPE},0,{id},'{data}')"))?;
        bar.advance(1)?;
    }
    nodes.end(connection)?;
    for (place, link_type) in LINK_TYPES.into_iter().enumerate() {
        let mut links = Inserts::new(
            "INSERT IGNORE INTO linktable (id1, id2, link_type, visibility, data, time, version) VALUES ",
        );
        for id in 1..=graph.nodes {
            for number in (place as u64..graph.links(id)).step_by(LINK_TYPES.len()) {
                let (target, data) = (graph.target(id, number), link_data(&mut random));
                links.row(connection, format_args!("({id},{target},{link_type},1,'{data}',{number},0)"))?;
            }
            bar.advance(1)?;
        }
        links.end(connection)?;
    }
    connection.query_drop("INSERT INTO counttable SELECT id1, link_type, COUNT(*), 0, 0 FROM linktable GROUP BY id1, link_type").map_err(WorkloadError::from)?;
    count_rows(connection)
}
