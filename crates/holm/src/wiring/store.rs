//! Where the state of this user's daemon is: the file, or the database that the settings name.

use holm_config::daemon_user::DaemonUser;
use holm_config::paths::Paths;
use holm_config::user;
use holm_core::Fault;
use holm_core::store_place::{PostgresUrl, StorePlace};
use holm_engine::Store;
use holm_server::{COPY, STORE};
use holm_store::{Place, PostgresStore, Server, SqliteStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the store of a daemon, which then is its only user.
pub fn open(paths: &Paths) -> Result<Arc<dyn Store>, Fault> {
    let home = home();
    Ok(match place(paths, &home)? {
        Place::File(file) => Arc::new(SqliteStore::open(&file)?),
        Place::Server(server) => {
            Arc::new(PostgresStore::open(*server, &paths.data_dir.join(COPY))?)
        }
    })
}

/// The store of the settings.
pub fn own() -> Result<Place, Fault> {
    let user = DaemonUser::current()?;
    place(&user.paths()?, &user.home()?)
}

/// A store that a person named.
pub fn named(place: StorePlace) -> Result<Place, Fault> {
    match place {
        StorePlace::File(path) => Ok(Place::File(PathBuf::from(path))),
        StorePlace::Postgres(url) => {
            let user = DaemonUser::current()?;
            let settings = user.settings()?;
            // The password of the settings is only for the database of the settings.
            let is_own = settings.store.as_ref() == Some(&url);
            let file = settings.store_password_file.filter(|_| is_own);
            Ok(Place::Server(Box::new(server(url, file, &user.home()?))))
        }
    }
}

fn place(paths: &Paths, home: &Path) -> Result<Place, Fault> {
    let settings = user::load(&paths.config_file, home)?;
    Ok(match settings.store {
        None => Place::File(paths.data_dir.join(STORE)),
        Some(url) => Place::Server(Box::new(server(url, settings.store_password_file, home))),
    })
}

fn server(url: PostgresUrl, password_file: Option<PathBuf>, home: &Path) -> Server {
    let list = std::env::var_os("PGPASSFILE").filter(|list| !list.is_empty());
    Server {
        url,
        password_file,
        password_list: Some(list.map_or_else(|| home.join(".pgpass"), PathBuf::from)),
        authorities: holm_keeper::roots::certificates,
    }
}

fn home() -> PathBuf {
    std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from)
}
