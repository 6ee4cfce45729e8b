//! The tables as data: names, columns and rows, whatever they mean.
//!
//! Copies, backups and the rows that PostgreSQL gets all work on this, so that a new table or column needs no code here.
//! Every table has a rowid in SQLite, which is the key of a row everywhere: rows keep their order and their identity.

use rusqlite::types::Value;
use rusqlite::{Connection, Row as SqliteRow, params_from_iter};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The values of a row, in the order of the table's columns.
pub(crate) type Row = Vec<Value>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: String,
    /// The first one is the key: the rowid, or the column that is another name for it.
    pub(crate) columns: Vec<Column>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Text,
    Bytes,
}

/// How many rows a table has, and the digest of all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Content {
    pub table: String,
    pub rows: u64,
    pub digest: String,
}

/// SQLite's own table of the last number of each AUTOINCREMENT column: a number is never used twice.
pub(crate) const NUMBERS: &str = "sqlite_sequence";

/// Rows of this table say nothing about whether a store is used: every daemon writes the clock.
const CLOCK: &str = "clock";

/// Every table of a database, also [`NUMBERS`].
pub(crate) fn all(connection: &Connection) -> Result<Vec<Table>, rusqlite::Error> {
    let mut names = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
         ORDER BY name",
    )?;
    let names = names.query_map([], |row| row.get::<_, String>(0))?;
    let mut tables = names
        .map(|name| described(connection, name?))
        .collect::<Result<Vec<_>, _>>()?;
    let column = |name: &str, kind| Column {
        name: name.to_owned(),
        kind,
    };
    tables.push(Table {
        name: NUMBERS.to_owned(),
        columns: vec![
            column("rowid", Kind::Integer),
            column("name", Kind::Text),
            column("seq", Kind::Integer),
        ],
    });
    Ok(tables)
}

fn described(connection: &Connection, name: String) -> Result<Table, rusqlite::Error> {
    let mut statement =
        connection.prepare("SELECT name, type, pk FROM pragma_table_info(?1) ORDER BY cid")?;
    let found = statement.query_map([&name], |row| {
        let kind = match row.get::<_, String>(1)?.as_str() {
            "INTEGER" => Kind::Integer,
            "BLOB" => Kind::Bytes,
            _ => Kind::Text,
        };
        let column = Column {
            name: row.get(0)?,
            kind,
        };
        Ok((column, row.get::<_, i64>(2)? > 0))
    })?;
    let found = found.collect::<Result<Vec<_>, rusqlite::Error>>()?;
    let mut keys = found.iter().filter(|(_, is_key)| *is_key);
    let own = match (keys.next(), keys.next()) {
        (Some((column, _)), None) if column.kind == Kind::Integer => column.clone(),
        _ => Column {
            name: "rowid".to_owned(),
            kind: Kind::Integer,
        },
    };
    let others = found.into_iter().map(|(column, _)| column);
    let others = others.filter(|column| column.name != own.name);
    let columns = std::iter::once(own.clone()).chain(others).collect();
    Ok(Table { name, columns })
}

// === impl Table ===

impl Table {
    /// The names of the columns for a statement.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        names.join(", ")
    }

    pub(crate) fn key(&self) -> &str {
        &self.columns[0].name
    }

    /// The row with this key, if there is one.
    pub(crate) fn row(
        &self,
        connection: &Connection,
        key: i64,
    ) -> Result<Option<Row>, rusqlite::Error> {
        let (names, name, own) = (self.names(), &self.name, self.key());
        let query = format!("SELECT {names} FROM {name} WHERE {own} = ?1");
        let mut statement = connection.prepare_cached(&query)?;
        let mut found = statement.query([key])?;
        found.next()?.map(|row| self.read(row)).transpose()
    }

    /// Passes every row to `visit`, in the order of their keys.
    pub(crate) fn each<E: From<rusqlite::Error>>(
        &self,
        connection: &Connection,
        mut visit: impl FnMut(Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let (names, name, own) = (self.names(), &self.name, self.key());
        let query = format!("SELECT {names} FROM {name} ORDER BY {own}");
        let mut statement = connection.prepare(&query)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            visit(self.read(row)?)?;
        }
        Ok(())
    }

    pub(crate) fn insert(&self, connection: &Connection, row: Row) -> Result<(), rusqlite::Error> {
        let marks = vec!["?"; self.columns.len()].join(", ");
        let insert = format!(
            "INSERT INTO {} ({}) VALUES ({marks})",
            self.name,
            self.names()
        );
        let mut statement = connection.prepare_cached(&insert)?;
        statement.execute(params_from_iter(row))?;
        Ok(())
    }

    fn read(&self, row: &SqliteRow<'_>) -> Result<Row, rusqlite::Error> {
        (0..self.columns.len())
            .map(|index| row.get(index))
            .collect()
    }

    fn content(&self, connection: &Connection) -> Result<Content, rusqlite::Error> {
        let mut sum = Sum::default();
        self.each(connection, |row| {
            sum.add(&row);
            Ok::<_, rusqlite::Error>(())
        })?;
        Ok(sum.of(self))
    }
}

/// The content of every table.
pub(crate) fn contents(connection: &Connection) -> Result<Vec<Content>, rusqlite::Error> {
    let tables = all(connection)?;
    tables
        .iter()
        .map(|table| table.content(connection))
        .collect()
}

/// Whether nobody has used a store with this content.
pub(crate) fn are_unused(contents: &[Content]) -> bool {
    let mut used = contents
        .iter()
        .filter(|content| content.table != CLOCK && content.table != NUMBERS);
    used.all(|content| content.rows == 0)
}

/// Adds up rows.
#[derive(Default)]
struct Sum {
    rows: u64,
    digest: Sha256,
}

// === impl Sum ===

impl Sum {
    fn add(&mut self, row: &Row) {
        self.rows += 1;
        for value in row {
            // A letter and a length before each value: no two rows have the same bytes.
            let (letter, bytes): (u8, &[u8]) = match value {
                Value::Null => (b'n', &[]),
                Value::Integer(number) => (b'i', &number.to_be_bytes()),
                Value::Real(number) => (b'r', &number.to_be_bytes()),
                Value::Text(text) => (b't', text.as_bytes()),
                Value::Blob(bytes) => (b'b', bytes),
            };
            self.digest.update([letter]);
            self.digest.update((bytes.len() as u64).to_be_bytes());
            self.digest.update(bytes);
        }
    }

    fn of(self, table: &Table) -> Content {
        let digest = self.digest.finalize();
        Content {
            table: table.name.clone(),
            rows: self.rows,
            digest: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}
