//! The files of the dashboard, which `build.rs` embeds from the directory that `HOLM_PAGE` names. Without that variable the list
//! is empty, and `holm ui` says how to get the page.

use holm_server::Asset;

include!(concat!(env!("OUT_DIR"), "/page.rs"));
