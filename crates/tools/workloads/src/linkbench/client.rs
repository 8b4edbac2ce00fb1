//! A client: draws operations and executes them.

use mysql::prelude::Queryable;
use mysql::{Conn, Row, TxOpts, params};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::graph::{Graph, link_data, node_data};
use super::operation::{Operation, Operations};
use super::schema::NODE_TYPE;
use crate::clients::Client;
use crate::error::WorkloadError;
use crate::mariadb_retry::until_no_deadlock;

/// The maximum number of links in a list (LinkBench's `rangeLimit`).
const LIST_LIMIT: u32 = 10_000;

/// A client with its connection.
pub struct LinkBenchClient {
    connection: Conn,
    graph: Graph,
    operations: Operations,
    random: Xoshiro256PlusPlus,
    /// Grows with each operation: the time and version of what is written.
    clock: u64,
}

impl LinkBenchClient {
    /// A client of a database that was loaded with this graph.
    pub fn new(connection: Conn, graph: Graph, seed: u64) -> LinkBenchClient {
        LinkBenchClient {
            connection,
            graph,
            operations: Operations::new(graph),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            clock: graph.nodes,
        }
    }

    fn perform(&mut self, operation: &Operation) -> Result<(), mysql::Error> {
        let clock = self.clock;
        match operation {
            Operation::GetNode { node } => {
                let query = "SELECT id, type, version, time, data FROM nodetable WHERE id = :node";
                self.connection.exec_first::<Row, _, _>(query, params! { node }).map(drop)
            }
            Operation::CountLink { node, link } => {
                let kind = Graph::link_type(*link);
                let query = "SELECT count FROM counttable WHERE id = :node AND link_type = :kind";
                self.connection.exec_first::<Row, _, _>(query, params! { node, kind }).map(drop)
            }
            Operation::MultigetLink { node, links } => self.multiget(*node, links),
            Operation::GetLinkList { node, link } => self.list_links(*node, *link),
            Operation::AddNode => {
                let data = node_data(&mut self.random);
                let text =
                    "INSERT INTO nodetable (type, version, time, data) VALUES (:kind, 0, :clock, :data)";
                self.connection.exec_drop(text, params! { "kind" => NODE_TYPE, clock, data })
            }
            Operation::UpdateNode { node } => {
                let data = node_data(&mut self.random);
                let text = "UPDATE nodetable SET version = version + 1, time = :clock, data = :data \
                    WHERE id = :node AND type = :kind";
                self.connection.exec_drop(text, params! { "kind" => NODE_TYPE, clock, data, node })
            }
            Operation::DeleteNode { node } => {
                let text = "DELETE FROM nodetable WHERE id = :node AND type = :kind";
                self.connection.exec_drop(text, params! { "kind" => NODE_TYPE, node })
            }
            Operation::AddLink { node, link } | Operation::UpdateLink { node, link } => {
                self.put_link(*node, *link)
            }
            Operation::DeleteLink { node, link } => self.delete_link(*node, *link),
        }
    }

    fn list_links(&mut self, node: u64, link: u64) -> Result<(), mysql::Error> {
        let kind = Graph::link_type(link);
        let query = "SELECT id1, id2, link_type, visibility, data, time, version FROM linktable \
            FORCE INDEX (id1_type) WHERE id1 = :node AND link_type = :kind AND visibility = 1 \
            AND time >= 0 ORDER BY time DESC LIMIT :limit";
        let parameters = params! { node, kind, "limit" => LIST_LIMIT };
        self.connection.exec::<Row, _, _>(query, parameters).map(drop)
    }

    fn multiget(&mut self, node: u64, links: &[u64]) -> Result<(), mysql::Error> {
        let kind = Graph::link_type(links[0]);
        let targets: Vec<String> =
            links.iter().map(|link| self.graph.target(node, *link).to_string()).collect();
        let query = format!(
            "SELECT id1, id2, link_type, visibility, data, time, version FROM linktable \
             WHERE id1 = {node} AND link_type = {kind} AND id2 IN ({})",
            targets.join(",")
        );
        self.connection.query::<Row, _>(query).map(drop)
    }

    /// Adds the link or makes it visible again, and counts it if it was not visible; otherwise updates its data.
    fn put_link(&mut self, node: u64, link: u64) -> Result<(), mysql::Error> {
        let (kind, target, clock) = (Graph::link_type(link), self.graph.target(node, link), self.clock);
        let data = link_data(&mut self.random);
        let mut transaction = self.connection.start_transaction(TxOpts::default())?;
        transaction.exec_drop(
            "INSERT INTO linktable (id1, id2, link_type, visibility, data, time, version) \
             VALUES (:node, :target, :kind, 1, '', 0, 0) ON DUPLICATE KEY UPDATE visibility = 1",
            params! { node, target, kind },
        )?;
        // 0: it existed; 1: it is new; 2: it was hidden
        if transaction.affected_rows() > 0 {
            transaction.exec_drop(
                "INSERT INTO counttable (id, link_type, count, time, version) VALUES (:node, :kind, 1, :clock, 0) \
                 ON DUPLICATE KEY UPDATE count = count + 1, version = version + 1, time = :clock",
                params! { node, kind, clock },
            )?;
        }
        transaction.exec_drop(
            "UPDATE linktable SET data = :data, time = :clock, version = version + 1 \
             WHERE id1 = :node AND id2 = :target AND link_type = :kind",
            params! { data, clock, node, target, kind },
        )?;
        transaction.commit()
    }

    /// Hides the link if it is visible, and updates the count.
    fn delete_link(&mut self, node: u64, link: u64) -> Result<(), mysql::Error> {
        let (kind, target, clock) = (Graph::link_type(link), self.graph.target(node, link), self.clock);
        let mut transaction = self.connection.start_transaction(TxOpts::default())?;
        transaction.exec_drop(
            "UPDATE linktable SET visibility = 0 \
             WHERE id1 = :node AND id2 = :target AND link_type = :kind AND visibility = 1",
            params! { node, target, kind },
        )?;
        if transaction.affected_rows() > 0 {
            transaction.exec_drop(
                "UPDATE counttable SET count = GREATEST(count, 1) - 1, version = version + 1, time = :clock \
                 WHERE id = :node AND link_type = :kind",
                params! { node, kind, clock },
            )?;
        }
        transaction.commit()
    }
}

impl Client for LinkBenchClient {
    type Error = WorkloadError;

    fn step(&mut self) -> Result<usize, WorkloadError> {
        let operation = self.operations.draw(&mut self.random);
        self.clock += 1;
        until_no_deadlock(|| self.perform(&operation))?;
        Ok(operation.kind())
    }
}
