//! The tables, and loading them (4.3).

use mysql::Conn;
use mysql::prelude::Queryable;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_report::Monitor;

use super::draw::last_name_of;
use super::{DATABASE, DISTRICTS, Tables};
use crate::database::{count_rows, create_database};
use crate::distributions::text;
use crate::error::WorkloadError;
use crate::inserts::Inserts;

/// Of ten orders of a district the last three were not delivered yet.
const DELIVERED_OF_TEN: u64 = 7;

/// A prime above the number of customers: its multiples name each of them once.
const STRIDE: u64 = 4099;

const TABLES: [&str; 9] = [
    "warehouse (w_id INT PRIMARY KEY, w_tax DECIMAL(4,4), w_ytd DECIMAL(12,2), w_address VARCHAR(80))",
    "district (d_w_id INT, d_id INT, d_tax DECIMAL(4,4), d_ytd DECIMAL(12,2), d_next_o_id INT, d_address VARCHAR(80), \
     PRIMARY KEY (d_w_id, d_id))",
    "customer (c_w_id INT, c_d_id INT, c_id INT, c_first VARCHAR(16), c_last VARCHAR(16), c_credit CHAR(2), \
     c_discount DECIMAL(4,4), c_balance DECIMAL(12,2), c_ytd_payment DECIMAL(12,2), c_payment_cnt INT, \
     c_delivery_cnt INT, c_address VARCHAR(130), c_data VARCHAR(500), PRIMARY KEY (c_w_id, c_d_id, c_id), \
     KEY by_name (c_w_id, c_d_id, c_last, c_first))",
    "history (h_c_id INT, h_c_d_id INT, h_c_w_id INT, h_d_id INT, h_w_id INT, h_date TIMESTAMP, \
     h_amount DECIMAL(6,2), h_data VARCHAR(24))",
    "new_order (no_w_id INT, no_d_id INT, no_o_id INT, PRIMARY KEY (no_w_id, no_d_id, no_o_id))",
    "orders (o_w_id INT, o_d_id INT, o_id INT, o_c_id INT, o_entry_d TIMESTAMP, o_carrier_id INT NULL, o_ol_cnt INT, \
     PRIMARY KEY (o_w_id, o_d_id, o_id), KEY by_customer (o_w_id, o_d_id, o_c_id, o_id))",
    "order_line (ol_w_id INT, ol_d_id INT, ol_o_id INT, ol_number INT, ol_i_id INT, ol_supply_w_id INT, \
     ol_delivery_d TIMESTAMP NULL, ol_quantity INT, ol_amount DECIMAL(6,2), ol_dist_info CHAR(24), \
     PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))",
    "item (i_id INT PRIMARY KEY, i_name VARCHAR(24), i_price DECIMAL(5,2), i_data VARCHAR(50))",
    "stock (s_w_id INT, s_i_id INT, s_quantity INT, s_dist CHAR(240), s_ytd INT, s_order_cnt INT, s_remote_cnt INT, \
     s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id))",
];

/// Creates the database and fills it.
pub fn load(
    connection: &mut Conn,
    tables: Tables,
    seed: u64,
    monitor: &Monitor,
) -> Result<(), WorkloadError> {
    let run = |connection: &mut Conn, text: &str| connection.query_drop(text).map_err(WorkloadError::from);
    create_database(connection, DATABASE, TABLES)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    items(connection, tables, &mut random)?;
    let bar = monitor.bar("loading", tables.warehouses * (1 + DISTRICTS));
    for warehouse in 1..=tables.warehouses {
        let address = text(&mut random, 70);
        run(connection, &format!("INSERT INTO warehouse VALUES ({warehouse}, 0.1, 300000, '{address}')"))?;
        stock(connection, tables, warehouse, &mut random)?;
        bar.advance(1)?;
        for district in 1..=DISTRICTS {
            customers(connection, tables, (warehouse, district), &mut random)?;
            orders(connection, tables, (warehouse, district), &mut random)?;
            bar.advance(1)?;
        }
    }
    count_rows(connection)
}

fn items(
    connection: &mut Conn,
    tables: Tables,
    random: &mut Xoshiro256PlusPlus,
) -> Result<(), WorkloadError> {
    let mut rows = Inserts::new("INSERT INTO item VALUES ");
    for item in 1..=tables.items {
        let (name, data) = (text(random, 19), text(random, 38));
        let cents = random.random_range(100..=10_000);
        rows.row(connection, format_args!("({item},'{name}',{cents}/100,'{data}')"))?;
    }
    rows.end(connection)
}

fn stock(
    connection: &mut Conn,
    tables: Tables,
    warehouse: u64,
    random: &mut Xoshiro256PlusPlus,
) -> Result<(), WorkloadError> {
    let mut rows = Inserts::new("INSERT INTO stock VALUES ");
    for item in 1..=tables.items {
        let (quantity, dist, data) = (random.random_range(10..=100), text(random, 240), text(random, 38));
        rows.row(connection, format_args!("({warehouse},{item},{quantity},'{dist}',0,0,0,'{data}')"))?;
    }
    rows.end(connection)
}

fn customers(
    connection: &mut Conn,
    tables: Tables,
    (warehouse, district): (u64, u64),
    random: &mut Xoshiro256PlusPlus,
) -> Result<(), WorkloadError> {
    let address = text(random, 70);
    connection.query_drop(format!(
        "INSERT INTO district VALUES ({warehouse}, {district}, 0.1, 30000, {}, '{address}')",
        tables.customers + 1
    ))?;
    let mut rows = Inserts::new("INSERT INTO customer VALUES ");
    for customer in 1..=tables.customers {
        let (first, last) = (text(random, 12), last_name_of(customer, random, &tables));
        let credit = if random.random_range(0..10) == 0 { "BC" } else { "GC" };
        let (address, data) = (text(random, 120), text(random, 400));
        rows.row(
            connection,
            format_args!(
                "({warehouse},{district},{customer},'{first}','{last}','{credit}',0.1,-10,10,1,0,'{address}','{data}')"
            ),
        )?;
    }
    rows.end(connection)
}

fn orders(
    connection: &mut Conn,
    tables: Tables,
    (warehouse, district): (u64, u64),
    random: &mut Xoshiro256PlusPlus,
) -> Result<(), WorkloadError> {
    let last_delivered = tables.customers * DELIVERED_OF_TEN / 10;
    let mut orders = Inserts::new("INSERT INTO orders VALUES ");
    let mut counts = Vec::new();
    for order in 1..=tables.customers {
        // a fixed permutation: each customer has one order
        let customer = order * STRIDE % tables.customers + 1;
        let lines: u64 = random.random_range(5..=15);
        let carrier = if order <= last_delivered { "1" } else { "NULL" };
        orders.row(
            connection,
            format_args!("({warehouse},{district},{order},{customer},NOW(),{carrier},{lines})"),
        )?;
        counts.push(lines);
    }
    orders.end(connection)?;
    let mut lines = Inserts::new("INSERT INTO order_line VALUES ");
    for (order, count) in (1..).zip(counts) {
        for line in 1..=count {
            let (item, info) = (random.random_range(1..=tables.items), text(random, 24));
            let (delivered, amount) = if order <= last_delivered { ("NOW()", 0) } else { ("NULL", 100) };
            lines.row(
                connection,
                format_args!("({warehouse},{district},{order},{line},{item},{warehouse},{delivered},5,{amount},'{info}')"),
            )?;
        }
    }
    lines.end(connection)?;
    let mut open = Inserts::new("INSERT INTO new_order VALUES ");
    for order in last_delivered + 1..=tables.customers {
        open.row(connection, format_args!("({warehouse},{district},{order})"))?;
    }
    open.end(connection)
}

/// The standard's consistency conditions 1 to 4 (3.3.2).
pub fn is_consistent(connection: &mut Conn) -> Result<bool, WorkloadError> {
    const WRONG: [&str; 4] = [
        "SELECT COUNT(*) FROM warehouse WHERE w_ytd <> (SELECT SUM(d_ytd) FROM district WHERE d_w_id = w_id)",
        "SELECT COUNT(*) FROM district WHERE d_next_o_id - 1 <> \
         (SELECT MAX(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)",
        "SELECT COUNT(*) FROM (SELECT MAX(no_o_id) - MIN(no_o_id) + 1 - COUNT(*) AS gap FROM new_order \
         GROUP BY no_w_id, no_d_id) AS gaps WHERE gap <> 0",
        "SELECT COUNT(*) FROM (SELECT SUM(o_ol_cnt) AS expected, o_w_id, o_d_id FROM orders GROUP BY o_w_id, o_d_id) AS o \
         WHERE expected <> (SELECT COUNT(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id)",
    ];
    for query in WRONG {
        let wrong: Option<u64> = connection.query_first(query)?;
        if wrong != Some(0) {
            return Ok(false);
        }
    }
    Ok(true)
}
