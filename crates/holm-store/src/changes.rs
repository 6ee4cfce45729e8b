//! Which rows a transaction changed, for PostgreSQL to get the same rows.
//!
//! SQLite reports each row that it inserts, updates or deletes, also by a foreign key. It does not report a row that
//! `INSERT OR REPLACE` removes, nor a `DELETE` without a condition, so the SQL of this crate has neither.

use crate::tables::{self, NUMBERS, Row, Table};
use rusqlite::Connection;
use rusqlite::types::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One row after a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The place of its table in the list of tables.
    pub(crate) table: usize,
    pub(crate) key: i64,
    /// `None`: it was deleted.
    pub(crate) row: Option<Row>,
}

/// Whether a transaction must be on disk when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// As light. It records what has happened already, so it is accepted while PostgreSQL does not answer.
    Fact,
    /// It survives a crash of this process, and reaches the disk with the next durable one.
    Light,
    /// It survives a loss of power.
    Durable,
}

pub(crate) struct Changes {
    tables: Arc<Vec<Table>>,
    places: HashMap<String, usize>,
    touched: Arc<Mutex<BTreeSet<(String, i64)>>>,
    /// The rows of [`NUMBERS`] that were last seen. SQLite does not report them.
    numbers: Mutex<Vec<Row>>,
}

// === impl Changes ===

impl Changes {
    /// Notes the changes of this connection from now on.
    pub(crate) fn of(connection: &mut Connection) -> Result<Self, rusqlite::Error> {
        let tables = tables::all(connection)?;
        let places = tables.iter().enumerate();
        let places = places.map(|(place, table)| (table.name.clone(), place));
        let changes = Self {
            places: places.collect(),
            tables: Arc::new(tables),
            touched: Arc::default(),
            numbers: Mutex::default(),
        };
        let numbers = changes.numbers_now(connection)?;
        *locked(&changes.numbers) = numbers;
        let touched = Arc::clone(&changes.touched);
        connection.update_hook(Some(move |_, _: &str, table: &str, key| {
            locked(&touched).insert((table.to_owned(), key));
        }))?;
        Ok(changes)
    }

    pub(crate) fn tables(&self) -> Arc<Vec<Table>> {
        Arc::clone(&self.tables)
    }

    /// Forgets what a transaction changed that was rolled back.
    pub(crate) fn clear(&self) {
        locked(&self.touched).clear();
    }

    /// The changed rows as they are now, inside of the transaction.
    pub(crate) fn take(&self, connection: &Connection) -> Result<Vec<Change>, rusqlite::Error> {
        let touched = std::mem::take(&mut *locked(&self.touched));
        let mut changes = Vec::with_capacity(touched.len());
        for (name, key) in touched {
            // Tables that are not part of the schema, such as one that is only there to reserve space.
            let Some(place) = self.places.get(&name) else {
                continue;
            };
            changes.push(Change {
                table: *place,
                key,
                row: self.tables[*place].row(connection, key)?,
            });
        }
        if !changes.is_empty() {
            let now = self.numbers_now(connection)?;
            let earlier = locked(&self.numbers);
            for row in now.into_iter().filter(|row| !earlier.contains(row)) {
                let Some(Value::Integer(key)) = row.first() else {
                    continue;
                };
                changes.push(Change {
                    table: self.places[NUMBERS],
                    key: *key,
                    row: Some(row),
                });
            }
        }
        Ok(changes)
    }

    /// The changes are committed.
    pub(crate) fn commit(&self, changes: &[Change]) {
        let place = self.places[NUMBERS];
        let mut numbers = locked(&self.numbers);
        for change in changes.iter().filter(|change| change.table == place) {
            numbers.retain(|row| row.first() != Some(&Value::Integer(change.key)));
            numbers.extend(change.row.clone());
        }
    }

    fn numbers_now(&self, connection: &Connection) -> Result<Vec<Row>, rusqlite::Error> {
        let mut rows = Vec::new();
        let table = &self.tables[self.places[NUMBERS]];
        table.each(connection, |row| {
            rows.push(row);
            Ok::<_, rusqlite::Error>(())
        })?;
        Ok(rows)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
