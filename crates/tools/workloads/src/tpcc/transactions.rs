//! The five transactions (2.4 to 2.8).

use mysql::prelude::Queryable;
use mysql::{Conn, Row, Transaction, TxOpts};
use rand::{Rng, RngExt};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::draw::{asked_last_name, customer, item};
use super::{DISTRICTS, Tables};
use crate::distributions::text;

/// A terminal of one warehouse.
pub(super) struct Terminal {
    pub connection: Conn,
    pub random: Xoshiro256PlusPlus,
    pub warehouse: u64,
    pub tables: Tables,
}

type Done = Result<(), mysql::Error>;

/// One line of a new order.
struct Line {
    item: u64,
    supplier: u64,
    quantity: u64,
}

impl Terminal {
    /// 2.4: a new order of 5 to 15 items; one in a hundred is rolled back because an item does not exist.
    pub(super) fn new_order(&mut self) -> Done {
        let (warehouse, tables, random) = (self.warehouse, self.tables, &mut self.random);
        let district = random.random_range(1..=DISTRICTS);
        let customer = customer(random, &tables);
        let lines = order_lines(random, warehouse, &tables);
        let info = text(random, 24);

        let mut tx = self.connection.start_transaction(TxOpts::default())?;
        let order = insert_order(&mut tx, (warehouse, district, customer), lines.len())?;
        for (number, line) in (1u64..).zip(&lines) {
            let price: Option<f64> =
                tx.exec_first("SELECT i_price FROM item WHERE i_id = ?", (line.item,))?;
            let Some(price) = price else { return tx.rollback() };
            take_from_stock(&mut tx, line, warehouse)?;
            tx.exec_drop(
                "INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)",
                (
                    warehouse,
                    district,
                    order,
                    number,
                    line.item,
                    line.supplier,
                    line.quantity,
                    price * line.quantity as f64,
                    &info,
                ),
            )?;
        }
        tx.commit()
    }

    /// 2.5: a customer pays; one in seven at another warehouse.
    pub(super) fn payment(&mut self) -> Done {
        let (warehouse, tables, random) = (self.warehouse, self.tables, &mut self.random);
        let district = random.random_range(1..=DISTRICTS);
        let cents: u64 = random.random_range(100..=500_000);
        let amount = cents as f64 / 100.0;
        let home = if random.random_range(0..100) < 85 {
            (warehouse, district)
        } else {
            (another(random, warehouse, tables.warehouses), random.random_range(1..=DISTRICTS))
        };
        let asked = Asked::draw(random, &tables);
        let data = text(random, 20);

        let mut tx = self.connection.start_transaction(TxOpts::default())?;
        tx.exec_drop("UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", (amount, warehouse))?;
        tx.exec_drop(
            "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?",
            (amount, warehouse, district),
        )?;
        let customer = asked.find(&mut tx, home)?;
        tx.exec_drop(
            "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, \
             c_payment_cnt = c_payment_cnt + 1, \
             c_data = IF(c_credit = 'BC', LEFT(CONCAT(?, c_data), 500), c_data) \
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            (amount, amount, &data, home.0, home.1, customer),
        )?;
        tx.exec_drop(
            "INSERT INTO history VALUES (?, ?, ?, ?, ?, NOW(), ?, ?)",
            (customer, home.1, home.0, district, warehouse, amount, &data),
        )?;
        tx.commit()
    }

    /// 2.6: the status of a customer's last order.
    pub(super) fn order_status(&mut self) -> Done {
        let district = self.random.random_range(1..=DISTRICTS);
        let asked = Asked::draw(&mut self.random, &self.tables);
        let at = (self.warehouse, district);
        let mut tx = self.connection.start_transaction(TxOpts::default())?;
        let customer = asked.find(&mut tx, at)?;
        let order: Option<u64> = tx.exec_first(
            "SELECT o_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1",
            (at.0, at.1, customer),
        )?;
        if let Some(order) = order {
            tx.exec::<Row, _, _>(
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
                 WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
                (at.0, at.1, order),
            )?;
        }
        tx.commit()
    }

    /// 2.7: the oldest open order of each district is delivered.
    pub(super) fn delivery(&mut self) -> Done {
        let carrier: u64 = self.random.random_range(1..=10);
        let mut tx = self.connection.start_transaction(TxOpts::default())?;
        for district in 1..=DISTRICTS {
            let at = (self.warehouse, district);
            let oldest: Option<u64> = tx.exec_first(
                "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id LIMIT 1 FOR UPDATE",
                at,
            )?;
            if let Some(order) = oldest {
                deliver(&mut tx, at, order, carrier)?;
            }
        }
        tx.commit()
    }

    /// 2.8: how many items of the last 20 orders are low in stock.
    pub(super) fn stock_level(&mut self) -> Done {
        let district = self.random.random_range(1..=DISTRICTS);
        let threshold: u64 = self.random.random_range(10..=20);
        let mut tx = self.connection.start_transaction(TxOpts::default())?;
        let next: u64 = first(
            &mut tx,
            "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?",
            (self.warehouse, district),
        )?;
        tx.exec_first::<u64, _, _>(
            "SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id \
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id >= ? AND ol_o_id < ? AND s_quantity < ?",
            (self.warehouse, district, next.saturating_sub(20), next, threshold),
        )?;
        tx.commit()
    }
}

/// A customer as a transaction selects one: 60 of 100 by name (2.5.1.2).
enum Asked {
    ByName(String),
    ByNumber(u64),
}

impl Asked {
    fn draw(random: &mut impl Rng, tables: &Tables) -> Asked {
        if random.random_range(0..100) < 60 {
            Asked::ByName(asked_last_name(random, tables))
        } else {
            Asked::ByNumber(customer(random, tables))
        }
    }

    /// The middle one of several customers with that name.
    fn find(&self, tx: &mut Transaction<'_>, (warehouse, district): (u64, u64)) -> Result<u64, mysql::Error> {
        match self {
            Asked::ByNumber(customer) => Ok(*customer),
            Asked::ByName(name) => {
                let named: Vec<u64> = tx.exec(
                    "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first",
                    (warehouse, district, name),
                )?;
                // the first customers have all names
                Ok(named.get(named.len() / 2).copied().unwrap_or(1))
            }
        }
    }
}

/// The lines of a new order: mostly from the home warehouse, and in one order of a hundred with an item that does not exist.
fn order_lines(random: &mut Xoshiro256PlusPlus, warehouse: u64, tables: &Tables) -> Vec<Line> {
    let mut lines = Vec::new();
    for _ in 0..random.random_range(5..=15) {
        let supplier = if random.random_range(0..100) == 0 {
            another(random, warehouse, tables.warehouses)
        } else {
            warehouse
        };
        lines.push(Line { item: item(random, tables), supplier, quantity: random.random_range(1..=10) });
    }
    if random.random_range(0..100) == 0 {
        lines.last_mut().expect("there are lines").item = tables.items + 1;
    }
    // in one order, so that two orders do not wait for each other's stock
    lines.sort_by_key(|line| (line.supplier, line.item));
    lines
}

/// Gives an order of a customer its number and inserts it, without its lines. Returns the number.
fn insert_order(
    tx: &mut Transaction<'_>,
    (warehouse, district, customer): (u64, u64, u64),
    lines: usize,
) -> Result<u64, mysql::Error> {
    tx.exec_drop("SELECT w_tax FROM warehouse WHERE w_id = ?", (warehouse,))?;
    let order: u64 = first(
        tx,
        "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ? FOR UPDATE",
        (warehouse, district),
    )?;
    tx.exec_drop(
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?",
        (warehouse, district),
    )?;
    tx.exec_drop(
        "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        (warehouse, district, customer),
    )?;
    tx.exec_drop(
        "INSERT INTO orders VALUES (?, ?, ?, ?, NOW(), NULL, ?)",
        (warehouse, district, order, customer, lines),
    )?;
    tx.exec_drop("INSERT INTO new_order VALUES (?, ?, ?)", (warehouse, district, order))?;
    Ok(order)
}

fn take_from_stock(tx: &mut Transaction<'_>, line: &Line, warehouse: u64) -> Done {
    let remote = u64::from(line.supplier != warehouse);
    tx.exec_drop(
        "UPDATE stock SET s_quantity = IF(s_quantity >= ? + 10, s_quantity - ?, s_quantity - ? + 91), \
         s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + ? \
         WHERE s_w_id = ? AND s_i_id = ?",
        (line.quantity, line.quantity, line.quantity, line.quantity, remote, line.supplier, line.item),
    )
}

fn deliver(tx: &mut Transaction<'_>, (warehouse, district): (u64, u64), order: u64, carrier: u64) -> Done {
    let at = (warehouse, district, order);
    tx.exec_drop("DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?", at)?;
    let customer: u64 =
        first(tx, "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?", at)?;
    tx.exec_drop(
        "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
        (carrier, warehouse, district, order),
    )?;
    tx.exec_drop(
        "UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
        at,
    )?;
    tx.exec_drop(
        "UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1, c_balance = c_balance + \
         (SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?) \
         WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        (warehouse, district, order, warehouse, district, customer),
    )
}

/// A different warehouse, or the same one if there is no other.
fn another(random: &mut impl Rng, warehouse: u64, warehouses: u64) -> u64 {
    if warehouses == 1 {
        return warehouse;
    }
    let other = random.random_range(1..warehouses);
    if other >= warehouse { other + 1 } else { other }
}

/// The only column of a row that must exist.
fn first<T: mysql::prelude::FromValue>(
    tx: &mut Transaction<'_>,
    query: &str,
    parameters: impl Into<mysql::Params>,
) -> Result<T, mysql::Error> {
    let row: Option<T> = tx.exec_first(query, parameters)?;
    row.ok_or_else(|| std::io::Error::new(std::io::ErrorKind::NotFound, format!("no row for {query}")).into())
}
